"""Every method with states, by the name of its command; each is loaded when it is used."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from calibkit.bins.run import Binned
    from calibkit.evaluation.findings import Evaluated
    from calibkit.maps.calibrator import CalibratorModel
    from calibkit.methods.boundary.result.model import BoundaryModel
    from calibkit.methods.hetcal.model import HetcalModel
    from calibkit.methods.raters.model import AlphaModel
    from calibkit.methods.vad.model import VadModel
    from calibkit.options.alpha_cal import AlphaOptions
    from calibkit.options.bin import BinOptions
    from calibkit.options.boundary import BoundaryOptions
    from calibkit.options.calibrate import CalibrateOptions
    from calibkit.options.evaluate import EvaluateOptions
    from calibkit.options.hetcal import HetcalOptions
    from calibkit.options.vad import VadOptions
    from calibkit.summaries.runs import Fit, Run


def alpha_cal() -> Fit[AlphaOptions, AlphaModel]:
    """Return how ``alpha-cal`` is fitted."""
    from calibkit.methods.raters import run

    return run


def bin_() -> Run[BinOptions, Binned]:
    """Return how ``bin`` makes a table, which is no model."""
    from calibkit.bins import run

    return run


def boundary() -> Fit[BoundaryOptions, BoundaryModel]:
    """Return how ``boundary`` is fitted."""
    from calibkit.methods.boundary import run

    return run


def calibrate() -> Fit[CalibrateOptions, CalibratorModel]:
    """Return how ``calibrate`` is fitted, to scores and to class probabilities."""
    from calibkit.methods.calibrators import run

    return run


def evaluate() -> Run[EvaluateOptions, Evaluated]:
    """Return how ``evaluate`` makes metrics, which are no model."""
    from calibkit.evaluation import run

    return run


def hetcal() -> Fit[HetcalOptions, HetcalModel]:
    """Return how ``hetcal`` is fitted."""
    from calibkit.methods.hetcal import run

    return run


def vad() -> Fit[VadOptions, VadModel]:
    """Return how ``vad`` is fitted."""
    from calibkit.methods.vad import run

    return run


#: What a state of each kind is finished by.
FITS: Final[Mapping[str, Callable[[], Run[Any, Any]]]] = {
    "alpha-cal": alpha_cal,
    "bin": bin_,
    "boundary": boundary,
    "calibrate": calibrate,
    "calibrate --probs": calibrate,
    "evaluate": evaluate,
    "hetcal": hetcal,
    "vad": vad,
}
