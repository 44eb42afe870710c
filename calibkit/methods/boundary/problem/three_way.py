"""Three-way decisions as a goal: block from one threshold up, review from a lower one, pass the rest.

Precision is that of the rows that are blocked; recall counts positives that are blocked or reviewed.
"""

from __future__ import annotations

from fractions import Fraction
from math import floor

import numpy as np
from numpy.typing import NDArray

from calibkit.methods.boundary.problem.bounded import (
    PrecisionAtRecall,
    RecallAtCapacity,
    RecallAtPrecision,
)
from calibkit.methods.boundary.problem.goals import Goal, Totals
from calibkit.numerics.bounds import decimal_bound
from calibkit.numerics.knapsack import Window
from calibkit.options.objective import Review
from calibkit_kernels.exact import largest_ratio

Int64s = NDArray[np.int64]


class ThreeWay(Goal):
    """Review the least share of rows within bounds on precision and recall, or spend a capacity.

    Of precision, recall and reviewed rows two are bounded, and the third is as good as it can be;
    with costs, their sum over the rows is least.  A capacity in rows is one of the fitting rows: for
    other rows it counts as the share it was there.
    """

    bounded = ""

    def __init__(self, asked: Review, totals: Totals, share: Fraction | None = None) -> None:
        self.asked, self.totals, self.maximised = asked, totals, asked.objective
        self.share = share
        if asked.capacity is not None and share is None:
            number = Fraction(asked.capacity.numerator, asked.capacity.denominator)
            rows = number * totals.row_units / max(totals.rows, 1)
            self.share = number if number < 1 else rows
        #: Units of rows that can be reviewed.
        self.limit = totals.rows if self.share is None else floor(self.share * totals.rows)
        #: True positives that are wanted.
        self.least = 0
        if asked.recall is not None and asked.recall.numerator:
            self.least = PrecisionAtRecall(asked.recall, totals).least

    @property
    def block(self) -> RecallAtPrecision:
        """The bound on what is blocked; at least 0 where there is none."""
        return RecallAtPrecision(self.asked.precision or decimal_bound("0"), self.totals)

    def of(self, totals: Totals) -> ThreeWay:
        """Return the same goal for other rows: the same share of them can be reviewed."""
        return ThreeWay(self.asked, totals, self.share)

    def value(self, selected: float, hits: float, gain: float = 0, *more: float) -> float | None:
        """Return the share that is reviewed, recall, precision or the cost a row."""
        rows, found = more or (0, 0)
        if self.maximised == "recall":
            return self.recall(hits + found)
        if self.maximised == "precision":
            return hits / selected if selected else None
        if not self.totals.rows:
            return None
        if not self.asked.costs:
            return rows / self.totals.rows
        alarm, miss, review = map(float, self.asked.costs)
        missed = self.totals.positives - hits - found
        cost = alarm * (selected - hits) + miss * missed + review * rows
        return cost / self.totals.rows

    def met(self, selected: int, true_positives: int, gain: int = 0, *reviewed: float) -> bool:
        """Return whether all bounds are met."""
        rows, hits = reviewed or (0, 0)
        enough = true_positives + hits >= self.least and rows <= self.limit
        return enough and self.block.met(selected, true_positives)

    def priced(self, prices: tuple[float, ...], counts: tuple[float, ...]) -> float:
        """Return what counts are worth where bounds that are missed are paid for, per row.

        With r the precision of the block, and the rates at the margins of block and review as
        prices: true positives of the block less r times its rows, and what is caught at the price
        of review less what is reviewed, in the same unit.
        """
        rate, block, review = prices
        selected, hits, _, reviewed, more = counts
        if self.asked.costs:
            return -(self.value(*counts) or 0.0)
        caught = (hits + more) / review if review else 0.0
        found = hits - rate * selected + max(rate - block, 0.0) * (caught - reviewed)
        return found / (self.totals.rows or 1)


class MostRowsAtPrecision(RecallAtPrecision):
    """Select most rows subject to ``precision >= bound``: what is blocked needs no review."""

    maximised = "rows"

    def pick(self, selected: Int64s, true_positives: Int64s, gain: Int64s | None = None) -> int:
        """Return the feasible totals with most rows, then most positives."""
        met = self.feasible(selected, true_positives)
        order = np.lexsort((true_positives, np.where(met, selected, -1)))
        return int(order[-1]) if met.any() else -1

    def budget(self, best: float, slope: float, selected: int, true_positives: int) -> float:
        """See `Goal.budget`: ``T' - c M' >= (bound - c) M'``."""
        if selected == self.totals.rows:
            return 0.0
        return max(0.0, best - (self.numerator / self.denominator - slope) * selected)

    def window(self, best: float, slope: float, budget: float) -> Window:
        """See `Goal.window`: the slack ``T - bound * M`` lies between 0 and the budget."""
        return Window(self.numerator / self.denominator, -1.0, -budget, 0.0)

    def ceiling(self, best: float, slope: float) -> float:
        """Return the rows of the linear relaxation."""
        room = self.numerator / self.denominator - slope
        return min(best / room if room > 0.0 else np.inf, float(self.totals.rows))

    def value(self, selected: float, hits: float, gain: float = 0, *more: float) -> float | None:
        """Return the rows."""
        return float(selected)

    def compared(self, totals: Int64s) -> Int64s:
        """Return what is to be small, slack that is used up, and what is to be large, rows."""
        rows, hits = totals[:, 0], totals[:, 1]
        used = rows - hits
        if self.numerator * int(rows.max(initial=0)) < 2**62:
            used = self.numerator * rows - self.denominator * hits
        return np.column_stack((used, rows))


class FewestRowsAtRecall(PrecisionAtRecall):
    """Select fewest rows subject to so many true positives."""

    maximised = "rows"

    def pick(self, selected: Int64s, true_positives: Int64s, gain: Int64s | None = None) -> int:
        """Return the totals with fewest rows, then most positives."""
        enough = np.where(true_positives >= self.least, selected, np.iinfo(np.int64).max)
        return int(np.lexsort((-true_positives, enough))[0])

    def budget(self, best: float, slope: float, selected: int, true_positives: int) -> float:
        """See `Goal.budget`: ``T' - c M' >= least - c M``."""
        return max(0.0, best - self.least + slope * selected)

    def window(self, best: float, slope: float, budget: float) -> Window:
        """See `Goal.window`: ``T' <= best + c M'``, and what is lost is no more than the budget."""
        return Window(0.0, 1.0, float(self.least), self.least + budget)

    def ceiling(self, best: float, slope: float) -> float:
        """Return the rows of the linear relaxation, a lower bound."""
        return max(0.0, (self.least - best) / slope) if slope else 0.0

    def value(self, selected: float, hits: float, gain: float = 0, *more: float) -> float | None:
        """Return the rows."""
        return float(selected)


class RecallWithinRows(RecallAtCapacity):
    """Maximise recall with so many units of rows."""

    def __init__(self, limit: int, totals: Totals) -> None:
        super().__init__(decimal_bound("0"), totals, share=Fraction(0))
        self.allowed, self.limit = Fraction(limit), limit


class PrecisionAtRows(PrecisionAtRecall):
    """Maximise precision with at least so many units of rows."""

    bounded = "rows"

    def __init__(self, least: int, totals: Totals) -> None:
        super().__init__(decimal_bound("0"), totals)
        self.least = max(1, least)

    def whole_blocks(self, selected: Int64s, true_positives: Int64s) -> tuple[int, int | None]:
        """Take blocks until there are as many rows."""
        reached = int(np.searchsorted(selected, self.least))
        return reached + 1, reached

    def pick(self, selected: Int64s, true_positives: Int64s, gain: Int64s | None = None) -> int:
        """Return the totals with the largest precision, then most positives."""
        enough = np.flatnonzero(selected >= self.least)
        best = int(largest_ratio(true_positives[enough], selected[enough], 0))
        return int(enough[best]) if best >= 0 else -1

    def budget(self, best: float, slope: float, selected: int, true_positives: int) -> float:
        """See `Goal.budget`: with r the precision, ``T' - c M' >= (r - c) least``."""
        return max(0.0, best - (true_positives / selected - slope) * self.least)

    def window(self, best: float, slope: float, budget: float) -> Window:
        """See `Goal.window`: ``(r' - c) M' <= best``, with the least such precision."""
        most = best * self.least / (best - budget) if best > budget else np.inf
        return Window(1.0, 0.0, float(self.least), most)

    def ceiling(self, best: float, slope: float) -> float:
        """Return the precision of the linear relaxation."""
        return min(1.0, best / self.least + slope)

    def compared(self, totals: Int64s) -> Int64s:
        """Return what is to be small, false positives, and what is to be large, rows."""
        return np.column_stack((totals[:, 0] - totals[:, 1], totals[:, 0]))
