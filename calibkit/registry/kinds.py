"""The structure of each kind of model, loaded when it is used."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from calibkit.bundles.model import BundleModel
    from calibkit.maps.calibrator import CalibratorModel
    from calibkit.methods.boundary.result.model import BoundaryModel
    from calibkit.methods.hetcal.model import HetcalModel
    from calibkit.methods.raters.model import AlphaModel
    from calibkit.methods.vad.model import VadModel
    from calibkit.models.model import Model


def alpha() -> type[AlphaModel]:
    """Return the structure of this kind."""
    from calibkit.methods.raters.model import AlphaModel

    return AlphaModel


def boundary() -> type[BoundaryModel]:
    """Return the structure of this kind."""
    from calibkit.methods.boundary.result.model import BoundaryModel

    return BoundaryModel


def bundle() -> type[BundleModel]:
    """Return the structure of this kind."""
    from calibkit.bundles.model import BundleModel

    return BundleModel


def calibrator() -> type[CalibratorModel]:
    """Return the structure of this kind."""
    from calibkit.maps.calibrator import CalibratorModel

    return CalibratorModel


def hetcal() -> type[HetcalModel]:
    """Return the structure of this kind."""
    from calibkit.methods.hetcal.model import HetcalModel

    return HetcalModel


def vad() -> type[VadModel]:
    """Return the structure of this kind."""
    from calibkit.methods.vad.model import VadModel

    return VadModel


#: By kind.
KINDS: Final[Mapping[str, Callable[[], type[Model]]]] = {
    "alpha": alpha,
    "boundary": boundary,
    "bundle": bundle,
    "calibrator": calibrator,
    "hetcal": hetcal,
    "vad": vad,
}
