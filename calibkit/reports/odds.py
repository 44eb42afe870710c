"""An axis of probabilities by their log-odds, where most of them are near 0 or near 1."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from calibkit.reports.style import Sheet

#: Log-odds beyond which nothing is told apart: those of probabilities of a millionth.
FARTHEST = 13.8

#: Probabilities that are named, those first that have to be.
_NAMED = (0.5, 0.1, 0.9, 0.01, 0.99, 0.001, 0.999, 0.0001, 0.9999, 1e-05, 0.99999, 1e-06)


def log_odds(probability: ArrayLike) -> NDArray[np.float64]:
    """Return log-odds: -inf for 0 and less, inf for 1 and more."""
    inside = np.clip(np.asarray(probability, np.float64), 0.0, 1.0)
    with np.errstate(divide="ignore"):
        found: NDArray[np.float64] = np.log(inside) - np.log1p(-inside)
    return found


def name_odds(panel: Axes, sheet: Sheet, left: float, right: float) -> None:
    """Write probabilities at their log-odds, as many as there is room for."""
    room = 5.0 * sheet.letters / (sheet.size[0] * 72 * 0.75) * (right - left)
    kept: list[tuple[float, Any]] = []
    for probability in _NAMED:
        place = float(log_odds(probability))
        if left <= place <= right and all(abs(place - other) >= room for other, _ in kept):
            kept.append((place, probability))
    panel.set_xticks([place for place, _ in kept], [f"{named:g}" for _, named in kept])
