"""Goals that look at what rows are worth, and the boundary that is best for them, with proof.

With values the recall is the share of the positive rows' values that is caught, while a bound on
precision, false positive rate or capacity still counts rows.  With costs of single rows what is
caught is the cost saved: that of a missed positive for each true positive, less that of a false
alarm for each false positive.  Worths are integers in units of their own.

To maximise a worth under one linear bound on numbers of rows, only two sums of each prefix count:
its worth, and how much of the bound it uses.  In each level the prefixes that another one beats in
both are left out; what remains rises in both.  Measured from the one that uses least, each level is
then like any other level of positives (the worth) and rows (the use), and the search of
`calibkit.methods.boundary.solvers.exact` for most positives among so many rows at most finds the
optimum.

To maximise precision among boundaries that catch enough value, the same search is repeated for
``true positives - c * selected``, c being the precision reached so far, until nothing is better
(Dinkelbach, On nonlinear fractional programming, 1967).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil

import numpy as np
from numpy.typing import NDArray

from calibkit.methods.boundary.problem.goals import (
    GOALS,
    SLACK,
    Bools,
    Goal,
    RecallAtPrecision,
    RecallWithin,
    Totals,
)
from calibkit.methods.boundary.solvers import exact
from calibkit.numerics.bounds import Bound
from calibkit.summaries.tally import Points
from calibkit_kernels import knapsack
from calibkit_kernels.exact import largest_ratio

Int64s = NDArray[np.int64]

#: Sums of integers stay below this.
_MOST = 2**61


class WorthGoal(Goal):
    """A goal over totals of which the third counts; `solve` searches for it."""

    uses_gain = True


class ValueGoal(WorthGoal):
    """A goal in which the recall is a share of value."""

    def recall(self, true_positives: float, gain: float = 0) -> float | None:
        """Return the share of the value."""
        return gain / self.totals.gain if self.totals.gain else None


class ValueAtBound(ValueGoal):
    """Maximise the value caught subject to a bound on numbers of rows."""

    maximised = "recall"

    def __init__(self, base: RecallAtPrecision | RecallWithin) -> None:
        self.base, self.totals, self.bounded = base, base.totals, base.bounded

    def of(self, totals: Totals) -> Goal:
        """Return the same goal for other rows."""
        base = self.base.of(totals)
        assert isinstance(base, RecallAtPrecision | RecallWithin)
        return ValueAtBound(base)

    def pick(self, selected: Int64s, true_positives: Int64s, gain: Int64s | None = None) -> int:
        """Return the feasible totals of largest value, then of fewest rows."""
        assert gain is not None
        return _largest(gain, selected, self.base.feasible(selected, true_positives))

    def value(self, selected: float, true_positives: float, gain: float = 0) -> float | None:
        """Return the share of the value."""
        return self.recall(true_positives, gain)

    def met(self, selected: int, true_positives: int, gain: int = 0) -> bool:
        """Return whether the bound on rows is met."""
        return self.base.met(selected, true_positives)


class PrecisionAtValue(ValueGoal):
    """Maximise precision subject to a share of the value, with at least one row selected."""

    maximised, bounded = "precision", "recall"

    def __init__(self, bound: Bound, totals: Totals) -> None:
        self.bound, self.totals = bound, totals
        wanted = Fraction(bound.numerator, bound.denominator) * totals.gain
        if not totals.gain_unit.exact:
            wanted = min(wanted * (1 + SLACK), Fraction(totals.gain))
        #: The least value that is enough.
        self.least = max(1, ceil(wanted))

    def of(self, totals: Totals) -> Goal:
        """Return the same goal for other rows."""
        return PrecisionAtValue(self.bound, totals)

    def pick(self, selected: Int64s, true_positives: Int64s, gain: Int64s | None = None) -> int:
        """Return the totals of largest precision, then most positives, that hold enough value."""
        assert gain is not None
        enough = np.flatnonzero(gain >= self.least)
        if not enough.size:
            return -1
        best = int(largest_ratio(true_positives[enough], selected[enough], 0))
        return int(enough[best]) if best >= 0 else -1

    def value(self, selected: float, true_positives: float, gain: float = 0) -> float | None:
        """Return the precision."""
        return true_positives / selected if selected else None

    def met(self, selected: int, true_positives: int, gain: int = 0) -> bool:
        """Return whether enough value is caught."""
        return gain >= self.least


class LeastCost(WorthGoal):
    """Minimise the costs of single rows: a positive that is missed, a negative that is selected.

    `totals.gain` is what all positives cost if none is selected; the gain of a selection is what it
    saves of that.
    """

    bounded = ""

    def __init__(self, name: str, totals: Totals) -> None:
        self.maximised, self.totals = name, totals

    def of(self, totals: Totals) -> Goal:
        """Return the same goal for other rows."""
        return LeastCost(self.maximised, totals)

    def pick(self, selected: Int64s, true_positives: Int64s, gain: Int64s | None = None) -> int:
        """Return the totals that save most, of equal ones those with fewest rows."""
        assert gain is not None
        return _largest(gain, selected, np.ones(gain.size, np.bool_))

    def value(self, selected: float, true_positives: float, gain: float = 0) -> float | None:
        """Return the cost a row."""
        cost = (self.totals.gain - gain) * self.totals.gain_unit.size
        rows = self.totals.rows / float(self.totals.row_units)
        return cost / rows if rows else None

    def met(self, selected: int, true_positives: int, gain: int = 0) -> bool:
        """Return True: there is no bound."""
        return True


def value_goal(option: str, bound: Bound, totals: Totals) -> ValueGoal:
    """Return the goal of a bounded figure in which the recall is a share of value."""
    if option == "recall":
        return PrecisionAtValue(bound, totals)
    base = GOALS[option](bound, totals)
    assert isinstance(base, RecallAtPrecision | RecallWithin)
    return ValueAtBound(base)


def _largest(gain: Int64s, selected: Int64s, feasible: Bools) -> int:
    kept = np.flatnonzero(feasible)
    if not kept.size:
        return -1
    best = kept[gain[kept] == gain[kept].max()]
    return int(best[np.argmin(selected[best])])


# ---------------------------------------------------------------- search


def solve(points: Points, goal: Goal, cap: int = knapsack.STATE_CAP) -> exact.Solution:
    """Return the best choice of one prefix per level.

    Parameters
    ----------
    points
        The prefixes of each level, with their gains.
    goal
        What is maximised, subject to what; one that looks at gains.
    cap
        See `calibkit.methods.boundary.solvers.exact.solve`.
    """
    if isinstance(goal, LeastCost):
        return _cheapest(points, goal)
    if isinstance(goal, PrecisionAtValue):
        return _most_precise(points, goal, cap)
    assert isinstance(goal, ValueAtBound)
    base = goal.base  # its bound is a linear one: `use` is at most `limit`
    if isinstance(base, RecallAtPrecision):
        use, whole = _combined(points, base.numerator, -base.denominator, up=True)
        limit = 0
    else:
        use, whole = _combined(points, 1, -base.spared, up=True)
        limit = base.limit
    found = _most_worth(points, points.gain, use, limit, cap)
    share = found.ceiling / goal.totals.gain if goal.totals.gain else 0.0
    proven = found.proven and whole
    selected, true_positives = points.totals(found.choice)
    if proven:
        share = goal.value(selected, true_positives, points.total_gain(found.choice)) or 0.0
    return exact.Solution(found.choice, selected, true_positives, proven, min(1.0, share))


def _cheapest(points: Points, goal: LeastCost) -> exact.Solution:
    """Return the choice that saves most, each level by itself; of equal ones fewest rows."""
    choice = np.full(points.levels, -1, np.int64)
    for level in range(points.levels):
        own = points.of_level(level)
        gain = np.append(0, points.gain[own])
        best = int(np.argmax(gain))  # the first of equal ones
        choice[level] = own.start + best - 1 if best else -1
    selected, true_positives = points.totals(choice)
    value = goal.value(selected, true_positives, points.total_gain(choice))
    assert value is not None  # there are rows
    return exact.Solution(choice, selected, true_positives, True, value)


def _most_precise(points: Points, goal: PrecisionAtValue, cap: int) -> exact.Solution:
    """Return the choice of largest precision that catches enough value."""
    last = np.where(points.ends > points.offsets[: points.levels], points.ends - 1, -1)
    choice = np.asarray(last, np.int64)  # everything catches enough
    selected, hits = points.totals(choice)
    while True:
        # Rows and positives of a candidate over those at hand: positive iff it is more precise.
        worth, whole = _combined(points, -hits, selected, up=False)
        found = _most_worth(points, worth, -points.gain, -goal.least, cap)
        rows, positives = points.totals(found.choice)
        # Of equal precision more true positives are preferred.
        better = positives * selected - hits * rows
        if better < 0 or (better == 0 and positives <= hits):
            break
        choice, selected, hits = found.choice, rows, positives
        if better == 0:
            break
    proven = found.proven and whole
    value = hits / selected
    return exact.Solution(choice, selected, hits, proven, value if proven else 1.0)


@dataclass(frozen=True)
class _Most:
    """A choice, whether none has more worth, and an upper bound of the worth."""

    choice: Int64s
    proven: bool
    ceiling: float


class _Within(RecallWithin):
    """Most worth within a use."""

    bounded, spared = "use", 0

    def __init__(self, limit: int, totals: Totals) -> None:
        self.totals, self.limit = totals, limit


def _most_worth(points: Points, worth: Int64s, use: Int64s, limit: int, cap: int) -> _Most:
    """Return the choice of largest worth whose use is at most a limit; one is within it."""
    start = np.full(points.levels, -1, np.int64)
    kept: list[tuple[Int64s, Int64s, Int64s]] = []
    base_worth = base_use = 0
    for level in range(points.levels):
        own = points.of_level(level)
        place = np.append(-1, np.arange(own.start, own.stop))
        level_worth, level_use = np.append(0, worth[own]), np.append(0, use[own])
        order = np.lexsort((place, -level_worth, level_use))
        rising = np.maximum.accumulate(level_worth[order])
        order = order[np.append(True, rising[1:] > rising[:-1])]
        first = order[0]
        start[level] = place[first]
        base_worth += int(level_worth[first])
        base_use += int(level_use[first])
        rest = order[1:]
        kept.append(
            (
                level_use[rest] - level_use[first],
                level_worth[rest] - level_worth[first],
                place[rest],
            )
        )
    sizes = np.cumsum([0, *(len(level[0]) for level in kept)])
    if not sizes[-1]:
        return _Most(start, True, float(base_worth))
    uses, worths, places = (np.concatenate([level[k] for level in kept]) for k in range(3))
    shifted = Points(uses, worths, places, sizes, sizes[1:])
    most = int(sum(level[1][-1] for level in kept if level[1].size))
    goal = _Within(limit - base_use, Totals(int(uses.sum()), most))
    found = exact.solve(shifted, goal, cap)
    taken = found.choice >= 0
    choice = start.copy()
    choice[taken] = places[found.choice[taken]]
    return _Most(choice, found.proven, base_worth + found.ceiling * most)


def _combined(points: Points, rows: int, hits: int, *, up: bool) -> tuple[Int64s, bool]:
    """Return ``rows * selected + hits * true_positives`` of each point, and whether it is exact.

    Where the sums would not stay integers of 63 bits they are in coarser units, rounded up or down
    by more than the error of the floats.
    """
    last = points.ends[points.ends > points.offsets[: points.levels]] - 1
    most = sum(
        abs(factor) * int(total[last].sum())
        for factor, total in ((rows, points.selected), (hits, points.true_positives))
    )
    if most < _MOST or (abs(rows) <= 1 and abs(hits) <= 1):
        return rows * points.selected + hits * points.true_positives, True
    scale = 2.0 ** (58 - most.bit_length())
    found = rows * scale * points.selected.astype(
        np.float64
    ) + hits * scale * points.true_positives.astype(np.float64)
    margin = 2.0**-50 * most * scale
    if up:
        return np.ceil(found + margin).astype(np.int64), False
    return np.floor(found - margin).astype(np.int64), False
