"""A boundary as a method finds it on a tally, and the surface that it may be a cut of."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calibkit.summaries.tally import Points, Tally

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


@dataclass(frozen=True)
class Found:
    """A boundary on a tally.

    Attributes
    ----------
    thresholds
        The lowest selected score of each level: NaN where nothing is selected, -inf for always.
    selected, true_positives
        What it selects, in units; expected numbers for a randomised boundary.
    wide, probability
        Of a randomised boundary: the lowest scores that may be selected, which differ from
        `thresholds` in one level at most, and how probably those below `thresholds` are.
    surface, cut
        Of a logistic surface: the surface, and the log-odds from which on rows are selected; NaN
        where none is.
    gain
        What the selected rows are worth, in units, where that counts.
    review, reviewed, reviewed_positives
        Of three-way decisions: the lowest reviewed score of each level, and the rows and positive
        rows from there up to `thresholds`.
    """

    thresholds: Floats
    selected: float
    true_positives: float
    wide: Floats | None = None
    probability: float = 0.0
    surface: Surface | None = None
    cut: float = math.nan
    gain: int = 0
    review: Floats | None = None
    reviewed: int = 0
    reviewed_positives: int = 0

    @property
    def counts(self) -> tuple[float, float, int, int, int]:
        """Selected rows, true positives, gain, and rows and positive rows that are reviewed."""
        more = self.reviewed, self.reviewed_positives
        return self.selected, self.true_positives, self.gain, *more


def lowest_scores(tally: Tally, points: Points, choice: NDArray[np.int64]) -> Floats:
    """Return the score at chosen points of a tally; NaN where the choice is -1 for none."""
    lowest = np.full(choice.shape, np.nan)
    taken = choice >= 0
    lowest[taken] = tally.score[points.entry[choice[taken]]]
    return lowest
