"""Every method with states, by the name of its command; each is loaded when it is used."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from calibkit.bins.run import Binned
    from calibkit.boundary.model import BoundaryModel
    from calibkit.calibrators.model import CalibratorModel
    from calibkit.fitted import Fit, Run
    from calibkit.hetcal.model import HetcalModel
    from calibkit.metrics.findings import Evaluated
    from calibkit.options.alpha_cal import AlphaOptions
    from calibkit.options.bin import BinOptions
    from calibkit.options.boundary import BoundaryOptions
    from calibkit.options.calibrate import CalibrateOptions
    from calibkit.options.evaluate import EvaluateOptions
    from calibkit.options.hetcal import HetcalOptions
    from calibkit.options.vad import VadOptions
    from calibkit.raters.model import AlphaModel
    from calibkit.vad.model import VadModel


def alpha_cal() -> Fit[AlphaOptions, AlphaModel]:
    """Return how ``alpha-cal`` is fitted."""
    from calibkit.raters import run

    return run


def bin_() -> Run[BinOptions, Binned]:
    """Return how ``bin`` makes a table, which is no model."""
    from calibkit.bins import run

    return run


def boundary() -> Fit[BoundaryOptions, BoundaryModel]:
    """Return how ``boundary`` is fitted."""
    from calibkit.boundary import run

    return run


def calibrate() -> Fit[CalibrateOptions, CalibratorModel]:
    """Return how ``calibrate`` is fitted, to scores and to class probabilities."""
    from calibkit.calibrators import run

    return run


def evaluate() -> Run[EvaluateOptions, Evaluated]:
    """Return how ``evaluate`` makes metrics, which are no model."""
    from calibkit.metrics import run

    return run


def hetcal() -> Fit[HetcalOptions, HetcalModel]:
    """Return how ``hetcal`` is fitted."""
    from calibkit.hetcal import run

    return run


def vad() -> Fit[VadOptions, VadModel]:
    """Return how ``vad`` is fitted."""
    from calibkit.vad import run

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
