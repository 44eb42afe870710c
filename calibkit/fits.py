"""Every method that is fitted, by the name of its command; each is loaded when it is used."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from calibkit.fitted import Fit
    from calibkit.options.vad import VadOptions
    from calibkit.vad.model import VadModel


def evaluate() -> Any:
    """Return how ``evaluate`` makes metrics, which are no model."""
    from calibkit.metrics import run

    return run


def vad() -> Fit[VadOptions, VadModel]:
    """Return how ``vad`` is fitted."""
    from calibkit.vad import run

    return run


#: What a state of each kind is finished by.
FITS: Final[Mapping[str, Callable[[], Fit[Any, Any]]]] = {
    "evaluate": evaluate,
    "vad": vad,
}
