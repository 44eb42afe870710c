"""What candidates of a choice are worth on rows that their fits left out."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from calibkit.methods.boundary.problem.goals import CountGoal, Goal
from calibkit.methods.boundary.problem.three_way import ThreeWay
from calibkit.methods.boundary.result.figures import Judged, Validation, standard_error
from calibkit.methods.boundary.solvers import exact, three_way
from calibkit.methods.boundary.solvers.partition import leaves_of
from calibkit.methods.boundary.solvers.summary import Summary
from calibkit.summaries.tally import Tally
from calibkit_kernels.surface import differing

Floats = NDArray[np.float64]
Places = NDArray[np.uint16]


@dataclass(frozen=True)
class Tried:
    """A candidate: what it is fitted on, and its cross-validation; None where there was none.

    `fine` has its threshold at each of the finest levels on each fold; None on a tally of its own.
    """

    summary: Summary
    checked: Validation | None = None
    fine: Floats | None = None

    @property
    def folds(self) -> tuple[Judged, ...]:
        """Its folds."""
        return () if self.checked is None else self.checked.folds

    @property
    def pooled(self) -> Judged:
        """The sum of its folds."""
        return Judged(*(sum(column) for column in zip(*self.folds, strict=True)))


class Judge:
    """What candidates are worth on the rows that their fits left out.

    Where the objective is more than counts of rows (a column of values or costs), a candidate is
    worth the objective itself, and errors come from the folds.
    """

    def __init__(
        self, goal: Goal, prices: tuple[float, ...], dealt: Tally | None, minimised: bool
    ) -> None:
        self.goal, self.prices, self.dealt, self.minimised = goal, prices, dealt, minimised
        self.price = prices[0]
        self.rows_alone = not goal.uses_gain and not isinstance(goal, ThreeWay)
        self.priced = bool(goal.bounded) and self.rows_alone

    def worth(self, seen: Judged) -> float:
        """Return the worth of what was seen, in shares of the positives or in the objective's unit."""
        if self.priced:
            return (seen.true_positives - self.price * seen.selected) / (seen.positives or 1)
        goal = self._goal(seen)
        if isinstance(goal, ThreeWay):
            return goal.priced(self.prices, seen[2:])
        value = goal.value(*seen[2:]) or 0.0
        return -value if self.minimised else value

    def _goal(self, seen: Judged) -> Goal:
        share = seen.rows / (self.goal.totals.rows or 1)
        totals = replace(
            self.goal.totals,
            rows=int(seen.rows),
            positives=int(seen.positives),
            gain=int(self.goal.totals.gain * share),
        )
        return self.goal.of(totals)

    def within(self, tried: Tried) -> bool:
        """Tell whether the bounded figure is not short of its bound by two standard errors."""
        if isinstance(self.goal, ThreeWay):  # what its bounds are missed by is paid for
            return True
        seen, classes = tried.pooled, self.goal.totals.classes
        selected, hits = seen.selected, seen.true_positives
        positives, negatives = seen.positives, seen.rows - seen.positives
        per_row, harm = _units_per_row(tried), selected - hits
        # What a count of units varies by: each row of a class is as many units as its weight.
        if self.goal.bounded == "precision":
            rate = hits / selected if selected else 0.0
            spread = classes.positive * hits * (1 - rate) ** 2 + classes.negative * harm * rate**2
        elif self.goal.bounded == "recall":
            spread = classes.positive * hits * (1 - hits / (positives or 1))
        elif self.goal.bounded == "fpr":
            spread = classes.negative * harm * (1 - harm / (negatives or 1))
        else:
            spread = classes.positive * hits + classes.negative * harm
            spread *= 1 - selected / (seen.rows or 1)
        slack = 2 * math.sqrt(max(spread, 0.0) * per_row)
        if self.goal.bounded in ("precision", "recall"):
            hits += slack
        else:
            selected -= slack
        return self._goal(seen).met(math.floor(selected), math.ceil(hits), int(seen.gain))

    def error(self, one: Tried, other: Tried) -> float:
        """Return the standard error of the difference between two candidates' worths."""
        if one is other:
            return 0.0
        apart = [self.worth(a) - self.worth(b) for a, b in zip(one.folds, other.folds, strict=True)]
        if self.dealt is None:  # dealt apart: the error of the better one's worth must do
            return standard_error([self.worth(fold) for fold in other.folds]) or 0.0
        over_folds = standard_error(apart) or 0.0
        options = one.summary.planned.options
        if one.fine is None or other.fine is None or not self.rows_alone:
            return over_folds
        # What comes from the rows that one of the two boundaries selects.
        dealt = self.dealt
        scale, price = self._slope(other.pooled)
        entries = dealt.score, dealt.level, dealt.count, dealt.positive, dealt.part
        apart_rows = differing(*entries, one.fine, other.fine).sum(axis=(0, 1))
        rows, hits = (float(amount) for amount in apart_rows)
        variance = dealt.classes.positive * hits * (1 - price) ** 2
        variance += dealt.classes.negative * (rows - hits) * price**2
        found = scale * math.sqrt(variance * _units_per_row(one))
        independent = options.groups is None and not self.dealt.squares.size
        return found if independent else max(found, over_folds)

    def error_alone(self, tried: Tried) -> float:
        """Return the standard error of a candidate's worth."""
        assert tried.checked is not None
        if not self.priced and self.rows_alone | self.goal.uses_gain:
            return tried.checked.figures.standard_error or 0.0
        worths = [self.worth(fold) for fold in tried.folds if fold.positives]
        return standard_error(worths) or 0.0

    def _slope(self, seen: Judged) -> tuple[float, float]:
        """Return what a true positive adds to the worth, and what share of that a row costs."""
        if self.priced:
            return 1.0 / (seen.positives or 1.0), self.price
        rows, hits = seen.selected, seen.true_positives
        step = max(1.0, 0.01 * rows)
        more, fewer = min(hits + step, rows, seen.positives), max(hits - step, 0.0)
        wider, narrower = (
            min(rows + step, seen.rows - seen.positives + hits),
            max(rows - step, hits),
        )

        def worth(selected: float, true_positives: float) -> float:
            return self.worth(seen._replace(selected=selected, true_positives=true_positives))

        gain = (worth(rows, more) - worth(rows, fewer)) / max(more - fewer, 1.0)
        cost = (worth(narrower, hits) - worth(wider, hits)) / max(wider - narrower, 1.0)
        return (gain, cost / gain) if gain > 0.0 else (0.0, 0.0)


def _units_per_row(tried: Tried) -> float:
    """Return how many units a row has, 1 where a weight of 2 is two rows."""
    summary = tried.summary
    return 1.0 if summary.tally.unit.size == 1.0 else summary.totals().rows / summary.rows


def marginal_prices(summary: Summary) -> tuple[float, ...]:
    """Return the rate of positives at which the bound stops one more row; of three-way decisions more.

    It is 0 without a bound, and where what rows are worth counts.
    """
    tally, goal = summary.aim()
    if leaves := summary.planned.method.leaves:
        tally = tally.coarser(leaves_of(tally, goal, leaves), leaves)
    if isinstance(goal, ThreeWay):
        return three_way.prices(three_way.every_prefix(tally), goal)
    if goal.uses_gain:
        return (0.0,)
    assert isinstance(goal, CountGoal)
    return (exact.margin(tally.points(), goal),)
