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
    RecallAtPrecision,
)
from calibkit.methods.boundary.problem.goals import Goal, Totals
from calibkit.numerics.bounds import decimal_bound
from calibkit.options.objective import Review

Int64s = NDArray[np.int64]


class ThreeWay(Goal):
    """Review the least share of rows within bounds on precision and recall, or spend a capacity.

    Of precision, recall and reviewed rows two are bounded, and the third is as good as it can be;
    with costs, their sum over the rows is least.  A capacity in rows is one of the fitting rows: for
    other rows it counts as the share it was there.
    """

    #: The share of the rows that can be reviewed; None: all.
    share: Fraction | None = None

    def __init__(self, asked: Review, totals: Totals) -> None:
        self.asked, self.totals, self.maximised = asked, totals, asked.objective
        self.prepare()

    def prepare(self) -> None:
        """Work out what depends on the totals."""
        asked, totals = self.asked, self.totals
        if asked.capacity is not None and self.share is None:
            self.share = totals.share_of(asked.capacity)
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
