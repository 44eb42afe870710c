"""A logistic surface of score and uncertainty; see `calibkit.boundary.logistic`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Surface:
    """A logistic surface: ``intercept + score s + uncertainty u + product s u``.

    `ranks` has the u of each level.
    """

    intercept: float
    score: float
    uncertainty: float
    product: float
    ranks: Floats

    @property
    def flat(self) -> bool:
        """Whether the uncertainty plays no part."""
        return self.uncertainty == 0.0 and self.product == 0.0

    def lines(self) -> Floats:
        """Return intercept and slope in s of each level, and a last row of no scaling."""
        lines = np.empty((self.ranks.size + 1, 2))
        lines[:-1, 0] = self.intercept + self.uncertainty * self.ranks
        lines[:-1, 1] = self.score + self.product * self.ranks
        lines[-1] = 0.0, 1.0
        return lines
