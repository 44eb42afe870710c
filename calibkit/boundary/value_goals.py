"""Goals that look at what rows are worth, beside how many they are.

With values the recall is the share of the positive rows' values that is caught, while a bound on
precision, false positive rate or capacity still counts rows.  With costs of single rows what is
caught is the cost saved: that of a missed positive for each true positive, less that of a false
alarm for each false positive.  Worths are integers in units of their own.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil

import numpy as np
from numpy.typing import NDArray

from calibkit.boundary.goals import (
    GOALS,
    SLACK,
    Bools,
    Goal,
    RecallAtPrecision,
    RecallWithin,
    Totals,
)
from calibkit.maths.bounds import Bound
from calibkit_kernels.exact import largest_ratio

Int64s = NDArray[np.int64]


@dataclass(frozen=True)
class Room:
    """A linear bound on totals: ``rows * selected + hits * true_positives <= limit``."""

    rows: int
    hits: int
    limit: int


class WorthGoal(Goal):
    """A goal over totals of which the third counts; `calibkit.boundary.worth` searches for it."""

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

    @property
    def room(self) -> Room:
        """The bound as a linear one."""
        if isinstance(self.base, RecallAtPrecision):
            return Room(self.base.numerator, -self.base.denominator, 0)
        return Room(1, -self.base.spared, self.base.limit)

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
