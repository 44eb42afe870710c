"""Goals with a bound: recall or precision, while another figure stays within limits.

With the bound fixed, a choice of M rows with T positives meets it iff ``m M + t T >= least``, for
coefficients of the goal.  What is maximised is linear as well, ``a M + b T``, or it is the precision:
then only choices better than r = T / M at hand count, for which ``T' - r M' >= 0``.  Either way what
the relaxation maximises splits into the two, ``T - c M = w (a M + b T) + v (m M + t T)`` with weights w
and v of at least 0; from that follow the loss of any better choice, its window, and the ceiling.
"""

from __future__ import annotations

from abc import abstractmethod
from fractions import Fraction
from math import ceil, floor

import numpy as np

from calibkit.arrays import Bools, Floats, Int64s
from calibkit.methods.boundary.problem.goals import CountGoal, Totals
from calibkit.numerics.bounds import Bound
from calibkit.numerics.knapsack import Window
from calibkit_kernels.rates import largest_ratio, ratio_at_least

#: How much rounded weights must over-fulfil a bound: their error counts against the user's wish.
SLACK = Fraction(1, 10**12)


class BoundedGoal(CountGoal):
    """Maximise one figure subject to a bound on another.

    With `of_value` the recall is a share of value, of which the relaxations here know nothing.
    """

    #: What is maximised, as coefficients a and b of rows and positives; None: the precision.
    aim: tuple[float, float] | None = (0.0, 1.0)
    #: What the bound is on, as coefficients m and t, and the least that it must be.
    constraint: tuple[float, float]
    least: int

    def __init__(self, bound: Bound, totals: Totals, *, of_value: bool = False) -> None:
        self.bound, self.totals, self.uses_gain = bound, totals, of_value
        self.prepare()

    def recall(self, true_positives: float, gain: float = 0) -> float | None:
        """Return the recall of totals; None without positives, or without value."""
        if not self.uses_gain:
            return super().recall(true_positives)
        return gain / self.totals.gain if self.totals.gain else None

    def _weights(self, slope: float, aim: tuple[float, float]) -> tuple[float, float]:
        """Return w and v, the weights of what is maximised and of what is bounded."""
        (a, b), (m, t) = aim, self.constraint
        area = a * t - b * m
        if area == 0.0:  # a precision of 0 binds nothing
            return (0.0 if slope else 1.0), 0.0
        return (-slope * t - m) / area, (a + slope * b) / area

    def budget(self, best: float, slope: float, selected: int, true_positives: int) -> float:
        """See `Goal.budget`: a better choice has at least the objective at hand and the bound."""
        a, b = self.aim or (-true_positives / selected, 1.0)
        w, v = self._weights(slope, (a, b))
        if self.aim is not None:
            return max(0.0, best - w * (a * selected + b * true_positives) - v * self.least)
        most = self.totals.rows if self.constraint[0] else self.totals.positives
        return max(0.0, best - v * (self.least if v >= 0.0 else most))

    def window(self, best: float, slope: float, budget: float) -> Window:
        """See `Goal.window`: by how much a bound is over-fulfilled is limited by the loss."""
        if self.aim is not None:
            v = self._weights(slope, self.aim)[1]
            most = self.least + budget / v if v > 0.0 else np.inf
        else:  # all of the objective is in the bound, with the least precision of this budget
            most = best * self.least / (best - budget) if best > budget else np.inf
        return Window(*self.constraint, float(self.least), most)

    def exchange(self, slope: float, selected: float, true_positives: float) -> float:
        """Return by how much the objective grows with ``(T - slope * M) / positives`` at the bound.

        That is where rows of the rate `slope` are taken or left until the bound holds again.
        """
        a, b = self.aim or (-true_positives / selected, 1.0)
        weight = self._weights(slope, (a, b))[0]
        scale = 1.0 if self.aim is not None else self.totals.positives / selected
        return scale / weight if weight > 0.0 else scale

    def ceiling(self, best: float, slope: float) -> float:
        """Return an upper bound over all choices of what is maximised, where that is linear."""
        assert self.aim is not None
        w, v = self._weights(slope, self.aim)
        return (best - v * self.least) / w if w > 0.0 else np.inf

    def value(self, selected: float, hits: float, gain: float = 0, *more: float) -> float | None:
        """Return the recall, the precision or the rows."""
        if self.maximised == "recall":
            return self.recall(hits, gain)
        if self.maximised == "precision":
            return hits / selected if selected else None
        return float(selected)


class RecallGoal(BoundedGoal):
    """Maximise recall subject to a bound: most positives, then fewest rows."""

    maximised = "recall"
    #: The coefficients of `constraint` and the least that it must be, before any is rounded.
    exactly: tuple[Fraction, int, Fraction]

    @abstractmethod
    def feasible(self, selected: Int64s, true_positives: Int64s) -> Bools:
        """Return which totals meet the bound."""

    def met(self, selected: int, true_positives: int, gain: int = 0, *reviewed: float) -> bool:
        """Return whether totals meet the bound."""
        return bool(self.feasible(np.array([selected]), np.array([true_positives]))[0])

    def pick(self, selected: Int64s, true_positives: Int64s, gain: Int64s | None = None) -> int:
        """Return the feasible totals with most positives, or most value, then fewest rows."""
        caught = gain if self.uses_gain and gain is not None else true_positives
        caught = np.where(self.feasible(selected, true_positives), caught, -1)
        most = caught.max(initial=-1)
        if most < 0:
            return -1
        best = np.flatnonzero(caught == most)
        return int(best[np.argmin(selected[best])])

    def whole_blocks(self, selected: Int64s, true_positives: Int64s) -> tuple[int, int | None]:
        """Take blocks while the bound holds: what is left of it only falls from block to block."""
        missed = np.flatnonzero(~self.feasible(selected, true_positives))
        return (int(missed[0]), int(missed[0])) if missed.size else (selected.size, None)

    def mix(self, rows: Int64s, hits: Int64s) -> tuple[int, Fraction]:
        """Take a share of a group where that meets the bound with equality."""
        met, (m, t, least) = self.feasible(rows, hits), self.exactly
        slack = float(m) * rows + float(t) * hits - float(least)
        drop = slack[:-1] - slack[1:]
        share = np.divide(slack[:-1], drop, out=np.zeros(drop.size), where=drop > 0.0)
        share = np.where(met[1:], 1.0, np.where(met[:-1], np.minimum(share, 1.0), -1.0))
        taken = most_expected(rows, hits, share)
        if taken < 0 or met[taken + 1]:
            return max(taken, 0), Fraction(int(taken >= 0))
        before, after = (m * int(rows[k]) + t * int(hits[k]) - least for k in (taken, taken + 1))
        return taken, before / (before - after)

    def ceiling(self, best: float, slope: float) -> float:
        """Return the recall of the linear relaxation, rounded down to whole units if exact."""
        positives = self.totals.positives
        hits = min(super().ceiling(best, slope), float(positives))
        if self.totals.exact:
            hits = float(np.floor(hits * (1 + 1e-12) + 1e-9))
        return min(hits / positives, 1.0)


class RecallAtPrecision(RecallGoal):
    """Maximise recall subject to ``precision >= bound``."""

    bounded, least = "precision", 0

    def prepare(self) -> None:
        """Work out what depends on the totals."""
        self.numerator, self.denominator = self.bound.numerator, self.bound.denominator
        raised = self.bound.fraction * (1 + SLACK)
        if not self.totals.exact and raised < 1:  # a precision of 1 is one whatever was rounded
            self.numerator, self.denominator = ceil(raised * 2**60), 2**60
        self.constraint = -self.numerator / self.denominator, 1.0
        self.exactly = -Fraction(self.numerator, self.denominator), 1, Fraction(0)

    def feasible(self, selected: Int64s, true_positives: Int64s) -> Bools:
        """Return which totals meet the bound."""
        return ratio_at_least(true_positives, selected, self.numerator, self.denominator)


class PrecisionAtRecall(BoundedGoal):
    """Maximise precision subject to ``recall >= bound``, with at least one row selected.

    Of equal precision the boundary with more true positives is chosen.
    """

    maximised, bounded = "precision", "recall"
    aim: tuple[float, float] | None = None
    constraint = 0.0, 1.0

    def prepare(self) -> None:
        """Work out what depends on the totals."""
        totals, of_value = self.totals, self.uses_gain
        whole, exact = totals.positives, totals.exact
        if of_value:
            whole, exact = totals.gain, totals.gain_unit.exact
        wanted = self.bound.fraction * whole
        if not exact:
            wanted = min(wanted * (1 + SLACK), Fraction(whole))
        #: The true positives (or the value) wanted, and rounded up to whole ones; a row may have no
        #: value, and still be the most precise.
        self.wanted, self.least = wanted, max(int(not of_value), ceil(wanted))

    def whole_blocks(self, selected: Int64s, true_positives: Int64s) -> tuple[int, int | None]:
        """Take blocks until the bound is reached."""
        bounded = selected if self.constraint[0] else true_positives
        reached = int(np.searchsorted(bounded, self.least))
        return reached + 1, reached

    def pick(self, selected: Int64s, true_positives: Int64s, gain: Int64s | None = None) -> int:
        """Return the totals with the largest precision, then most positives."""
        bounded = gain if self.uses_gain and gain is not None else selected
        if bounded is selected and not self.constraint[0]:
            return int(largest_ratio(true_positives, selected, self.least))
        enough = np.flatnonzero(bounded >= self.least)
        best = int(largest_ratio(true_positives[enough], selected[enough], 0))
        return int(enough[best]) if best >= 0 else -1

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

    def ceiling(self, best: float, slope: float) -> float:
        """Return the precision of the linear relaxation."""
        if best < 0.0:  # each choice has ``T < c M``
            return min(1.0, slope)
        return min(1.0, slope * self.least / (self.least - best)) if best < self.least else 1.0

    def met(self, selected: int, true_positives: int, gain: int = 0, *reviewed: float) -> bool:
        """Return whether the recall is at least the bound."""
        return (gain if self.uses_gain else true_positives) >= self.least


class RecallWithin(RecallGoal):
    """Maximise recall while an amount ``x = M - k T`` of selected rows stays within a limit.

    k = 0: all selected rows; k = 1: the false positives among them.  The limit is in whole units.
    """

    #: k
    spared: int

    def _allow(self, whole: int, share: Fraction = Fraction(1)) -> None:
        """Allow a share of the whole amount; all of it is whole whatever was rounded."""
        binds = share < 1 and not self.totals.exact
        allowed = min(share, Fraction(1)) * whole * (1 - SLACK if binds else 1)
        self.limit = floor(allowed)
        self.constraint, self.least = (-1.0, float(self.spared)), -self.limit
        self.exactly = Fraction(-1), self.spared, -allowed

    def feasible(self, selected: Int64s, true_positives: Int64s) -> Bools:
        """Return which totals are within the limit."""
        return selected - self.spared * true_positives <= self.limit

    def room(self, selected: Int64s, positive: Int64s) -> Int64s:
        """Return how many more rows, all of them positive, may be selected beside some."""
        return positive if self.spared else np.clip(self.limit - selected, 0, positive)


class RecallAtFalsePositiveRate(RecallWithin):
    """Maximise recall subject to a false positive rate of at most the bound (Neyman-Pearson)."""

    bounded, spared = "fpr", 1

    def prepare(self) -> None:
        """Work out what depends on the totals."""
        self._allow(self.totals.rows - self.totals.positives, self.bound.fraction)


class RecallAtCapacity(RecallWithin):
    """Maximise recall with at most so many rows selected; below 1 a share of the rows.

    A number of rows is one of the fitting rows: for other rows it counts as the share it was there.
    """

    bounded, spared = "capacity", 0
    share: Fraction | None = None

    def prepare(self) -> None:
        """Work out what depends on the totals, of the first ones the share too."""
        if self.share is None:
            self.share = self.totals.share_of(self.bound)
        self._allow(self.totals.rows, self.share)


class RecallWithinUnits(RecallWithin):
    """Maximise recall, or any other sum, within so many units of rows, or of any other use."""

    bounded, spared = "use", 0

    def __init__(self, limit: int, totals: Totals) -> None:
        self.totals = totals
        self._allow(limit)


def most_expected(rows: Int64s, hits: Int64s, share: Floats) -> int:
    """Return after how many groups to stop for most expected positives, then fewest rows.

    `share` is what may be taken of each group, negative where it cannot be reached; -1 is returned
    where no positive can be.
    """
    usable = np.flatnonzero(share >= 0.0)
    if usable.size == 0:
        return -1
    expected = hits[usable] + share[usable] * np.diff(hits)[usable]
    if not expected.max():
        return -1  # nothing has as many
    best = usable[expected >= expected.max() * (1 - 1e-12)]
    taken = rows[best] + share[best] * np.diff(rows)[best]
    return int(best[np.argmin(taken)])


GOALS: dict[str, type[BoundedGoal]] = {
    goal.bounded: goal
    for goal in (RecallAtPrecision, PrecisionAtRecall, RecallAtFalsePositiveRate, RecallAtCapacity)
}
