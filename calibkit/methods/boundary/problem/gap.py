"""Goals that keep segments alike: one measure of theirs may differ by so much at most."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from calibkit.methods.boundary.problem.goals import CountGoal, Goal
from calibkit.options.objective import Gap

Int64s = NDArray[np.int64]


class WithinGap(Goal):
    """A goal whose boundary must also treat segments alike.

    The largest difference between segments of `asked.measure`, their recall or their false positive
    rate, is at most `asked.most`.  A segment without rows of the class in question has no such rate
    and is free.  Levels are those of the first segment, `within` of them, then those of the next.

    Totals say nothing of single segments: `met` and `value` are those of `goal`, the same without the
    gap.
    """

    def __init__(self, goal: CountGoal, asked: Gap, within: int) -> None:
        self.goal, self.asked, self.within = goal, asked, within
        self.maximised, self.bounded, self.totals = goal.maximised, goal.bounded, goal.totals
        #: The largest gap.
        self.most = Fraction(asked.most.numerator, asked.most.denominator)

    @property
    def alone(self) -> CountGoal:
        """The same without the gap."""
        return self.goal

    def prepare(self) -> None:
        """Work out what depends on the totals."""
        self.goal = self.goal.of(self.totals)

    def value(self, selected: float, hits: float, gain: float = 0, *more: float) -> float | None:
        """Return the objective."""
        return self.goal.value(selected, hits)

    def met(self, selected: int, true_positives: int, gain: int = 0, *reviewed: float) -> bool:
        """Return whether the bound on all rows together is met."""
        return self.goal.met(selected, true_positives)

    def counted(self, selected: Int64s, true_positives: Int64s) -> Int64s:
        """Return the rows of which the measure counts a share: true or false positives."""
        return true_positives if self.asked.measure == "recall" else selected - true_positives

    def gap(self, rows: Int64s, positives: Int64s, selected: Int64s, hits: Int64s) -> float | None:
        """Return the gap between segments from their counts; None where none has the measure."""
        whole, taken = self.counted(rows, positives), self.counted(selected, hits)
        held = whole > 0
        return float(np.ptp(taken[held] / whole[held])) if held.any() else None
