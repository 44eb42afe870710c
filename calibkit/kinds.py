"""The structure of each kind of model, loaded when it is used."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from calibkit.boundary.model import BoundaryModel
    from calibkit.bundles.model import BundleModel
    from calibkit.calibrators.model import CalibratorModel
    from calibkit.hetcal.model import HetcalModel
    from calibkit.models import Model
    from calibkit.raters.model import AlphaModel
    from calibkit.vad.model import VadModel


def alpha() -> type[AlphaModel]:
    """Return the structure of this kind."""
    from calibkit.raters.model import AlphaModel

    return AlphaModel


def boundary() -> type[BoundaryModel]:
    """Return the structure of this kind."""
    from calibkit.boundary.model import BoundaryModel

    return BoundaryModel


def bundle() -> type[BundleModel]:
    """Return the structure of this kind."""
    from calibkit.bundles.model import BundleModel

    return BundleModel


def calibrator() -> type[CalibratorModel]:
    """Return the structure of this kind."""
    from calibkit.calibrators.model import CalibratorModel

    return CalibratorModel


def hetcal() -> type[HetcalModel]:
    """Return the structure of this kind."""
    from calibkit.hetcal.model import HetcalModel

    return HetcalModel


def vad() -> type[VadModel]:
    """Return the structure of this kind."""
    from calibkit.vad.model import VadModel

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
