"""What a boundary is to reach: what is maximised, and subject to which bound.

A goal looks at a boundary's totals only: selected rows M and true positives T, both in units of
weight.  With the bound fixed, each goal is linear along the direction ``T - c M``, which is what the
exact search needs of it (see `calibkit.boundary.exact`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from math import ceil

import numpy as np
from numpy.typing import NDArray

from calibkit.bounds import Bound
from calibkit_kernels.exact import largest_ratio, ratio_at_least
from calibkit_kernels.knapsack import Window

Int64s = NDArray[np.int64]

#: How much rounded weights must over-fulfil a bound: their error counts against the user's wish.
SLACK = Fraction(1, 10**12)


@dataclass(frozen=True)
class Totals:
    """What all rows hold, in units of weight."""

    rows: int
    positives: int
    exact: bool = True


class Goal(ABC):
    """Maximise one figure subject to a bound on another."""

    #: The figure that is maximised, and the one that is bounded.
    maximised: str
    bounded: str

    def __init__(self, bound: Bound, totals: Totals) -> None:
        self.bound = bound
        self.totals = totals

    @abstractmethod
    def whole_blocks(self, selected: Int64s, true_positives: Int64s) -> tuple[int, int | None]:
        """Return how many blocks of the relaxation are taken whole, and the one at the margin.

        The arguments are cumulative totals over the blocks of all levels by falling rate.  The
        second value is None where no block is left: then rows cost nothing at the margin.
        """

    @abstractmethod
    def pick(self, selected: Int64s, true_positives: Int64s) -> int:
        """Return the best of some totals by the canonical rule, or -1 where none meets the bound."""

    @abstractmethod
    def budget(self, best: float, slope: float, selected: int, true_positives: int) -> float:
        """Return the loss that any choice at least as good as the given one can have at most.

        `best` is the largest value of ``T - slope * M``.
        """

    @abstractmethod
    def window(self, best: float, slope: float, budget: float) -> Window:
        """Return what holds of every choice that meets the bound and whose `budget` is no larger."""

    @abstractmethod
    def ceiling(self, best: float, slope: float) -> float:
        """Return an upper bound of the objective over all choices."""

    @abstractmethod
    def value(self, selected: int, true_positives: int) -> float | None:
        """Return the objective of totals; None where it is undefined."""

    @abstractmethod
    def met(self, selected: int, true_positives: int) -> bool:
        """Return whether totals meet the bound, in exact arithmetic."""


class RecallAtPrecision(Goal):
    """Maximise recall subject to ``precision >= bound``: most positives, then fewest rows."""

    maximised, bounded = "recall", "precision"

    def __init__(self, bound: Bound, totals: Totals) -> None:
        super().__init__(bound, totals)
        self.ratio = Fraction(bound.numerator, bound.denominator)
        self.numerator, self.denominator = bound.numerator, bound.denominator
        if not totals.exact:
            self.denominator = 2**60
            raised = ceil(self.ratio * (1 + SLACK) * self.denominator)
            self.numerator = min(raised, self.denominator)

    def _meets(self, selected: Int64s, true_positives: Int64s) -> NDArray[np.bool_]:
        return ratio_at_least(true_positives, selected, self.numerator, self.denominator)

    def whole_blocks(self, selected: Int64s, true_positives: Int64s) -> tuple[int, int | None]:
        """Take blocks while the running precision holds; it only falls from block to block."""
        missed = np.flatnonzero(~self._meets(selected, true_positives))
        return (int(missed[0]), int(missed[0])) if missed.size else (selected.size, None)

    def pick(self, selected: Int64s, true_positives: Int64s) -> int:
        """Return the feasible totals with most positives, then fewest rows."""
        hits = np.where(self._meets(selected, true_positives), true_positives, -1)
        most = hits.max(initial=-1)
        if most < 0:
            return -1
        best = np.flatnonzero(hits == most)
        return int(best[np.argmin(selected[best])])

    def budget(self, best: float, slope: float, selected: int, true_positives: int) -> float:
        """See `Goal.budget`: T' - c M' >= T' (1 - c / bound) for every feasible (T', M')."""
        return max(0.0, best - true_positives * self._share(slope))

    def window(self, best: float, slope: float, budget: float) -> Window:
        """See `Goal.window`: the slack ``T - bound * M`` lies between 0 and budget * bound / c."""
        ratio = self.numerator / self.denominator
        return Window(ratio, -1.0, -budget * ratio / slope if slope else -np.inf, 0.0)

    def _share(self, slope: float) -> float:
        return 1.0 - slope * self.denominator / self.numerator if slope else 1.0

    def ceiling(self, best: float, slope: float) -> float:
        """Return the recall of the linear relaxation, rounded down to whole rows."""
        share = self._share(slope)
        hits = min(best / share if share > 0.0 else np.inf, float(self.totals.positives))
        if self.totals.exact:
            hits = float(np.floor(hits * (1 + 1e-12) + 1e-9))
        return min(hits / self.totals.positives, 1.0)

    def value(self, selected: int, true_positives: int) -> float | None:
        """Return the recall."""
        return true_positives / self.totals.positives if self.totals.positives else None

    def met(self, selected: int, true_positives: int) -> bool:
        """Return whether the precision is at least the bound."""
        return true_positives * self.denominator >= self.numerator * selected


class PrecisionAtRecall(Goal):
    """Maximise precision subject to ``recall >= bound``, with at least one row selected.

    Of equal precision the boundary with more true positives is chosen.
    """

    maximised, bounded = "precision", "recall"

    def __init__(self, bound: Bound, totals: Totals) -> None:
        super().__init__(bound, totals)
        wanted = Fraction(bound.numerator, bound.denominator) * totals.positives
        if not totals.exact:
            wanted = min(wanted * (1 + SLACK), Fraction(totals.positives))
        self.least = max(1, ceil(wanted))

    def whole_blocks(self, selected: Int64s, true_positives: Int64s) -> tuple[int, int | None]:
        """Take blocks until the recall is reached."""
        reached = int(np.searchsorted(true_positives, self.least))
        return reached + 1, reached

    def pick(self, selected: Int64s, true_positives: Int64s) -> int:
        """Return the totals with the largest precision, then most positives."""
        return int(largest_ratio(true_positives, selected, self.least))

    def budget(self, best: float, slope: float, selected: int, true_positives: int) -> float:
        """See `Goal.budget`: a better choice has ``M' <= T' M / T`` and ``T' >= least``."""
        return max(0.0, best - self.least * (1.0 - slope * selected / true_positives))

    def window(self, best: float, slope: float, budget: float) -> Window:
        """See `Goal.window`: ``T (1 - c / precision) <= best``, with the least such precision."""
        most = best * self.least / (best - budget) if best > budget else np.inf
        return Window(0.0, 1.0, float(self.least), most)

    def ceiling(self, best: float, slope: float) -> float:
        """Return the precision of the linear relaxation."""
        return min(1.0, slope * self.least / (self.least - best)) if best < self.least else 1.0

    def value(self, selected: int, true_positives: int) -> float | None:
        """Return the precision."""
        return true_positives / selected if selected else None

    def met(self, selected: int, true_positives: int) -> bool:
        """Return whether the recall is at least the bound."""
        return true_positives >= self.least


GOALS: dict[str, type[Goal]] = {
    goal.bounded: goal for goal in (RecallAtPrecision, PrecisionAtRecall)
}
