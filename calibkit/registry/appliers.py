"""What applies each kind of model that can stand alone or in a bundle; loaded when it is used."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from calibkit.models.applier import Applier

if TYPE_CHECKING:
    from calibkit.maps.calibrator import CalibratorModel
    from calibkit.methods.boundary.result.model import BoundaryModel
    from calibkit.methods.hetcal.model import HetcalModel
    from calibkit.methods.raters.model import AlphaModel
    from calibkit.methods.vad.model import VadModel


def alpha(model: AlphaModel) -> Applier:
    """Return what a model of ``alpha-cal`` does."""
    from calibkit.methods.raters.application import AlphaApplier

    return AlphaApplier(model)


def boundary(model: BoundaryModel) -> Applier:
    """Return what a boundary does."""
    from calibkit.methods.boundary.application import BoundaryApplier

    return BoundaryApplier(model)


def calibrator(model: CalibratorModel) -> Applier:
    """Return what a calibrator does."""
    from calibkit.maps.application import calibrator_applier

    return calibrator_applier(model)


def hetcal(model: HetcalModel) -> Applier:
    """Return what a model of ``hetcal`` does."""
    from calibkit.methods.hetcal.application import HetcalApplier

    return HetcalApplier(model)


def vad(model: VadModel) -> Applier:
    """Return what a model of ``vad`` does."""
    from calibkit.methods.vad.application import VadApplier

    return VadApplier(model)


#: By kind.
PARTS: Final[Mapping[str, Callable[[Any], Applier]]] = {
    "alpha": alpha,
    "boundary": boundary,
    "calibrator": calibrator,
    "hetcal": hetcal,
    "vad": vad,
}
