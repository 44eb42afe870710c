"""A boundary as a method finds it on a tally, and the surface that it may be a cut of."""

from __future__ import annotations

import math

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from calibkit.arrays import Floats, Int64s, Numbers, UInt16s
from calibkit.summaries.tally import Points, Tally


class Surface(Struct, frozen=True):
    """A logistic surface: ``intercept + score s + uncertainty u + product s u``.

    `ranks` has the u of each level.
    """

    intercept: float
    score: float
    uncertainty: float
    product: float
    ranks: Floats

    def lines(self) -> Floats:
        """Return intercept and slope in s of each level, shape (levels, 2)."""
        intercept = self.intercept + self.uncertainty * self.ranks
        return np.column_stack((intercept, self.score + self.product * self.ranks))


class Found(Struct, frozen=True):
    """A boundary on a tally."""

    #: The lowest selected score of each level: NaN where nothing is selected, -inf for always.
    thresholds: Floats
    #: What it selects, in units; expected numbers for a randomised boundary.
    selected: float
    true_positives: float
    #: Of a randomised boundary: the lowest scores that may be selected, which differ from
    #: `thresholds` in one level at most, and how probably those below `thresholds` are.
    wide: Floats | None = None
    probability: float = 0.0
    #: A logistic surface, and the log-odds from which on rows are selected; NaN where none is.
    surface: Surface | None = None
    cut: float = math.nan
    gain: int = 0  # what the selected rows are worth, in units, where that counts
    #: Of three-way decisions: the lowest reviewed score of each level, and the rows and positive
    #: rows from there up to `thresholds`.
    review: Floats | None = None
    reviewed: int = 0
    reviewed_positives: int = 0
    leaves: UInt16s | None = None  # the leaf of each cell of several uncertainties
    #: What the objective of no boundary over the same levels and scores can exceed, or undercut (NaN:
    #: it was not looked for), and whether one of them is known to reach it.
    ceiling: float = math.nan
    proven: bool = False

    def at(self, levels: Numbers | slice) -> Found:
        """Return the boundary on some of its levels, each as often as it is named."""
        review = None if self.review is None else self.review[levels]
        wide = None if self.wide is None else self.wide[levels]
        return replace(self, thresholds=self.thresholds[levels], review=review, wide=wide)

    def spread(self, leaves: UInt16s) -> Found:
        """Return a boundary over leaves as one over the cells that lie in them."""
        return replace(self.at(leaves), leaves=leaves)

    def counted(self, tally: Tally) -> Found:
        """Return the same boundary with what it selects of a tally."""
        selected, hits, gain, reviewed, more = map(int, held_out(tally, -1, self))
        found = replace(self, selected=selected, true_positives=hits, gain=gain)
        return replace(found, reviewed=reviewed, reviewed_positives=more)

    @property
    def counts(self) -> tuple[float, float, int, int, int]:
        """Selected rows, true positives, gain, and rows and positive rows that are reviewed."""
        more = self.reviewed, self.reviewed_positives
        return self.selected, self.true_positives, self.gain, *more


def lowest_scores(tally: Tally, points: Points, choice: Int64s) -> Floats:
    """Return the score at chosen points of a tally; NaN where the choice is -1 for none.

    One choice for all levels together is the choice of each.
    """
    lowest = np.full(choice.shape, np.nan)
    taken = choice >= 0
    lowest[taken] = tally.score[points.entry[choice[taken]]]
    return np.repeat(lowest, tally.levels) if choice.shape == (1,) else lowest


def found_at(
    tally: Tally, points: Points, choice: Int64s, ceiling: float = math.nan, proven: bool = False
) -> Found:
    """Return the boundary at chosen points of a tally."""
    return Found(
        lowest_scores(tally, points, choice),
        *points.totals(choice),
        gain=points.total_gain(choice),
        ceiling=ceiling,
        proven=proven,
    )


def held_out(dealt: Tally, fold: int, found: Found) -> tuple[float, float, float, float, float]:
    """Return what a boundary selects of a fold, see `Found.counts`; if randomised, what to expect."""
    selected: float
    selected, hits = dealt.selected(found.thresholds, part=fold)
    if found.review is not None:
        reach, caught = dealt.selected(found.review, part=fold)
        return selected, hits, 0, reach - selected, caught - hits
    if found.wide is None or found.probability == 0.0:
        return selected, hits, dealt.gained(found.thresholds, part=fold), 0, 0
    more, more_hits = dealt.selected(found.wide, part=fold)
    selected += found.probability * (more - selected)
    return selected, hits + found.probability * (more_hits - hits), 0, 0, 0
