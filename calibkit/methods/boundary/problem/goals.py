"""What a boundary is to reach: what is maximised, and subject to which bound.

A goal looks at a boundary's totals only: selected rows M and true positives T, both in units of
weight (and, in `calibkit.methods.boundary.problem.worth`, what the rows are worth).  With the bound
fixed, each `CountGoal` is linear along the direction ``T - c M``, which is what the exact search
needs of it (see `calibkit.methods.boundary.solvers.exact`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil, floor

import numpy as np
from numpy.typing import NDArray

from calibkit.columns.weights import AS_THEY_ARE, ROW, ClassWeights, Unit
from calibkit.methods.boundary.problem.picks import most_expected, most_hits, recall_ceiling
from calibkit.numerics.bounds import Bound
from calibkit_kernels.exact import largest_ratio, ratio_at_least
from calibkit_kernels.knapsack import Window

Int64s = NDArray[np.int64]
Bools = NDArray[np.bool_]

#: How much rounded weights must over-fulfil a bound: their error counts against the user's wish.
SLACK = Fraction(1, 10**12)


@dataclass(frozen=True)
class Totals:
    """What all rows hold, in units of weight.

    `row_units` is how many units a weight of 1 has, `classes` what the classes were reweighted by,
    `gain` what all rows are worth, losses apart, in `gain_unit`, where that counts too.
    """

    rows: int
    positives: int
    exact: bool = True
    row_units: Fraction = Fraction(1)
    classes: ClassWeights = AS_THEY_ARE
    gain: int = 0
    gain_unit: Unit = ROW

    def reweighted(self, classes: ClassWeights) -> Totals:
        """Return the totals with rows counted by the weights of their class."""
        rows, positives = classes.weigh(self.rows, self.positives)
        units = self.row_units * Fraction(rows, self.rows or 1)
        exact = self.exact and classes.exact
        return replace(
            self, rows=rows, positives=positives, exact=exact, row_units=units, classes=classes
        )


class Goal(ABC):
    """What a boundary is to reach, for rows with given totals."""

    #: The figure that is maximised, and the one that is bounded ("" where none is).
    maximised: str
    bounded: str
    #: What all rows hold.
    totals: Totals
    #: Whether it looks at what rows are worth, beside their numbers.
    uses_gain = False

    @abstractmethod
    def of(self, totals: Totals) -> Goal:
        """Return the same goal for other rows."""

    @abstractmethod
    def pick(self, selected: Int64s, true_positives: Int64s, gain: Int64s | None = None) -> int:
        """Return the best of some totals by the canonical rule, or -1 where none meets the bound.

        `gain` is what the rows are worth; it is looked at where `uses_gain` is set.
        """

    @abstractmethod
    def value(self, selected: float, true_positives: float, gain: float = 0) -> float | None:
        """Return the objective of totals, which may be expected ones; None where undefined."""

    def recall(self, true_positives: float, gain: float = 0) -> float | None:
        """Return the recall of totals; None without positives."""
        return true_positives / self.totals.positives if self.totals.positives else None

    @abstractmethod
    def met(self, selected: int, true_positives: int, gain: int = 0) -> bool:
        """Return whether totals meet the bound, in exact arithmetic."""


class CountGoal(Goal):
    """A goal that looks at the numbers of rows and positive rows alone: the two sums of `exact`."""

    #: Whether the optimum is always a vertex of the concave hull of all reachable totals.
    at_vertex = False

    def slope(self, selected: int, true_positives: int) -> float:
        """Return the slope at which the relaxation is exact where no block is at the margin."""
        return 0.0

    @abstractmethod
    def whole_blocks(self, selected: Int64s, true_positives: Int64s) -> tuple[int, int | None]:
        """Return how many blocks of the relaxation are taken whole, and the one at the margin.

        The arguments are cumulative totals over the blocks of all levels by falling rate.  The
        second value is None where no block is left: then rows cost nothing at the margin.
        """

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
    def mix(self, rows: Int64s, hits: Int64s) -> tuple[int, Fraction]:
        """Return how many groups of rows to take whole, and what share of the next one.

        The arguments are cumulative totals of the groups, from 0 for none.  The totals of a mixture
        are expected ones; of equal objectives the one with fewest rows is returned, ``(0, 0)``
        where nothing that selects a row is feasible.
        """


def count_goal(goal: Goal) -> CountGoal:
    """Return a goal as one of two sums, for methods that are refused beside worths."""
    if not isinstance(goal, CountGoal):
        raise TypeError(f"{type(goal).__name__} looks at what rows are worth")
    return goal


class BoundedGoal(CountGoal):
    """Maximise one figure subject to a bound on another."""

    def __init__(self, bound: Bound, totals: Totals) -> None:
        self.bound = bound
        self.totals = totals

    def of(self, totals: Totals) -> BoundedGoal:
        """Return the same goal for other rows."""
        return type(self)(self.bound, totals)


class RecallGoal(BoundedGoal):
    """Maximise recall subject to a bound: most positives, then fewest rows."""

    maximised = "recall"

    @abstractmethod
    def feasible(self, selected: Int64s, true_positives: Int64s) -> Bools:
        """Return which totals meet the bound."""

    def pick(self, selected: Int64s, true_positives: Int64s, gain: Int64s | None = None) -> int:
        """Return the feasible totals with most positives, then fewest rows."""
        return most_hits(selected, true_positives, self.feasible(selected, true_positives))

    def value(self, selected: float, true_positives: float, gain: float = 0) -> float | None:
        """Return the recall."""
        return self.recall(true_positives)

    def _ceiling_of(self, hits: float) -> float:
        return recall_ceiling(hits, self.totals.positives, exact=self.totals.exact)


class RecallAtPrecision(RecallGoal):
    """Maximise recall subject to ``precision >= bound``."""

    bounded = "precision"

    def __init__(self, bound: Bound, totals: Totals) -> None:
        super().__init__(bound, totals)
        self.ratio = Fraction(bound.numerator, bound.denominator)
        self.numerator, self.denominator = bound.numerator, bound.denominator
        if not totals.exact:
            self.denominator = 2**60
            raised = ceil(self.ratio * (1 + SLACK) * self.denominator)
            self.numerator = min(raised, self.denominator)

    def feasible(self, selected: Int64s, true_positives: Int64s) -> Bools:
        """Return which totals meet the bound."""
        return ratio_at_least(true_positives, selected, self.numerator, self.denominator)

    def whole_blocks(self, selected: Int64s, true_positives: Int64s) -> tuple[int, int | None]:
        """Take blocks while the running precision holds; it only falls from block to block."""
        missed = np.flatnonzero(~self.feasible(selected, true_positives))
        return (int(missed[0]), int(missed[0])) if missed.size else (selected.size, None)

    def mix(self, rows: Int64s, hits: Int64s) -> tuple[int, Fraction]:
        """Take a share of a group where that meets the bound with equality."""
        met = self.feasible(rows, hits)
        slack = self.denominator * hits.astype(np.float64) - self.numerator * rows.astype(
            np.float64
        )
        drop = slack[:-1] - slack[1:]
        share = np.divide(slack[:-1], drop, out=np.zeros(drop.size), where=drop > 0.0)
        share = np.where(met[1:], 1.0, np.where(met[:-1], share, -1.0))
        taken = most_expected(rows, hits, np.minimum(share, 1.0))
        if taken < 0 or met[taken + 1]:
            return max(taken, 0), Fraction(int(taken >= 0))
        before, after = (
            self.denominator * int(hits[k]) - self.numerator * int(rows[k])
            for k in (taken, taken + 1)
        )
        return taken, Fraction(before, before - after)

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
        return self._ceiling_of(best / share if share > 0.0 else np.inf)

    def met(self, selected: int, true_positives: int, gain: int = 0) -> bool:
        """Return whether the precision is at least the bound."""
        return true_positives * self.denominator >= self.numerator * selected


class PrecisionAtRecall(BoundedGoal):
    """Maximise precision subject to ``recall >= bound``, with at least one row selected.

    Of equal precision the boundary with more true positives is chosen.
    """

    maximised, bounded = "precision", "recall"

    def __init__(self, bound: Bound, totals: Totals) -> None:
        super().__init__(bound, totals)
        wanted = Fraction(bound.numerator, bound.denominator) * totals.positives
        if not totals.exact:
            wanted = min(wanted * (1 + SLACK), Fraction(totals.positives))
        #: The true positives wanted, and rounded up to whole ones.
        self.wanted, self.least = wanted, max(1, ceil(wanted))

    def whole_blocks(self, selected: Int64s, true_positives: Int64s) -> tuple[int, int | None]:
        """Take blocks until the recall is reached."""
        reached = int(np.searchsorted(true_positives, self.least))
        return reached + 1, reached

    def pick(self, selected: Int64s, true_positives: Int64s, gain: Int64s | None = None) -> int:
        """Return the totals with the largest precision, then most positives."""
        return int(largest_ratio(true_positives, selected, self.least))

    def mix(self, rows: Int64s, hits: Int64s) -> tuple[int, Fraction]:
        """Take the least share that reaches the recall, or whole groups from there on."""
        best = int(largest_ratio(hits[1:], rows[1:], self.least))
        taken = int(np.searchsorted(hits, self.least)) - 1
        gain, more = (int(total[taken + 1] - total[taken]) for total in (hits, rows))
        share = (self.wanted - int(hits[taken])) / gain
        selected = int(rows[taken]) + share * more
        if self.wanted * int(rows[best + 1]) > int(hits[best + 1]) * selected:
            return taken, share
        return best, Fraction(1)

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

    def value(self, selected: float, true_positives: float, gain: float = 0) -> float | None:
        """Return the precision."""
        return true_positives / selected if selected else None

    def met(self, selected: int, true_positives: int, gain: int = 0) -> bool:
        """Return whether the recall is at least the bound."""
        return true_positives >= self.least


class RecallWithin(RecallGoal):
    """Maximise recall while an amount ``x = M - k T`` of selected rows stays within a limit.

    k = 0: all selected rows; k = 1: the false positives among them.
    """

    #: k
    spared: int
    #: The largest amount, in units, and before it is rounded down to whole ones.
    limit: int
    allowed: Fraction

    def _allow(self, amount: Fraction) -> None:
        self.allowed = amount if self.totals.exact else amount * (1 - SLACK)
        self.limit = floor(self.allowed)

    def feasible(self, selected: Int64s, true_positives: Int64s) -> Bools:
        """Return which totals are within the limit."""
        return self._amounts(selected, true_positives) <= self.limit

    def _amounts(self, selected: Int64s, true_positives: Int64s) -> Int64s:
        return selected - self.spared * true_positives

    def whole_blocks(self, selected: Int64s, true_positives: Int64s) -> tuple[int, int | None]:
        """Take blocks while they fit; the amount grows from block to block."""
        amounts = self._amounts(selected, true_positives)
        taken = int(np.searchsorted(amounts, self.limit, side="right"))
        return taken, taken if taken < selected.size else None

    def mix(self, rows: Int64s, hits: Int64s) -> tuple[int, Fraction]:
        """Take a share of the group that would exceed the limit."""
        amounts = self._amounts(rows, hits)
        growth, room = np.diff(amounts).astype(np.float64), float(self.allowed) - amounts[:-1]
        share = np.divide(room, growth, out=np.ones(growth.size), where=growth > 0.0)
        share = np.where(room >= 0.0, np.minimum(share, 1.0), -1.0)
        taken = most_expected(rows, hits, share)
        if taken < 0:
            return 0, Fraction(0)
        grows = int(amounts[taken + 1] - amounts[taken])
        left = self.allowed - int(amounts[taken])
        return taken, min(Fraction(1), left / grows) if grows else Fraction(1)

    def budget(self, best: float, slope: float, selected: int, true_positives: int) -> float:
        """See `Goal.budget`: ``T - c M = T (1 - k c) - c x``, and x is within the limit."""
        least = true_positives * (1.0 - self.spared * slope) - slope * self.limit
        return max(0.0, best - least)

    def window(self, best: float, slope: float, budget: float) -> Window:
        """See `Goal.window`: what is left of the limit is at most budget / c."""
        low = self.limit - budget / slope if slope else -np.inf
        return Window(1.0, -float(self.spared), low, float(self.limit))

    def ceiling(self, best: float, slope: float) -> float:
        """Return the recall of the linear relaxation, rounded down to whole rows."""
        share = 1.0 - self.spared * slope
        hits = (best + slope * self.limit) / share if share > 0.0 else np.inf
        return self._ceiling_of(hits)

    def met(self, selected: int, true_positives: int, gain: int = 0) -> bool:
        """Return whether the amount is within the limit."""
        return selected - self.spared * true_positives <= self.limit


class RecallAtFalsePositiveRate(RecallWithin):
    """Maximise recall subject to a false positive rate of at most the bound (Neyman-Pearson)."""

    bounded, spared = "fpr", 1

    def __init__(self, bound: Bound, totals: Totals) -> None:
        super().__init__(bound, totals)
        share = Fraction(bound.numerator, bound.denominator)
        self._allow(share * (totals.rows - totals.positives))


class RecallAtCapacity(RecallWithin):
    """Maximise recall with at most so many rows selected; below 1 a share of the rows.

    A number of rows is one of the fitting rows: for other rows it counts as the share it was there.
    """

    bounded, spared = "capacity", 0

    def __init__(self, bound: Bound, totals: Totals, share: Fraction | None = None) -> None:
        super().__init__(bound, totals)
        number = Fraction(bound.numerator, bound.denominator)
        if share is None:
            weight = totals.row_units
            share = number if number < 1 else number * weight / max(totals.rows, 1)
        self.share = share
        self._allow(min(share, Fraction(1)) * totals.rows)

    def of(self, totals: Totals) -> BoundedGoal:
        """Return the same goal for other rows: the same share of them."""
        return RecallAtCapacity(self.bound, totals, self.share)


GOALS: dict[str, type[BoundedGoal]] = {
    goal.bounded: goal
    for goal in (RecallAtPrecision, PrecisionAtRecall, RecallAtFalsePositiveRate, RecallAtCapacity)
}
