"""Choosing the number of uncertainty levels by cross-validation.

More levels always do better on the fitting rows; out of sample they select too many rows for the
bound, the more so the more levels.  Recall alone would take that for a gain.  So every number of
levels is judged by true positives less the price of the rows it selects, at the one price c at which
the bound is paid for: the rate of positives at the margin of the best single threshold's relaxation.
The rule is the usual one for nested models: the fewest levels within one standard error of the best.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from calibkit.bins.grid_table import GridTable
from calibkit.columns.columns import ScoreRows
from calibkit.errors import InfeasibleError, UsageError
from calibkit.methods.boundary.fit import FittedBoundary, fit_summary
from calibkit.methods.boundary.problem.goals import CountGoal
from calibkit.methods.boundary.result.figures import standard_error
from calibkit.methods.boundary.solvers.exact import isotonic_blocks
from calibkit.methods.boundary.solvers.summary import Summary, summarise
from calibkit.options.boundary import BoundaryOptions

#: Counts rows for a specification.
Count = Callable[[ScoreRows, BoundaryOptions], Summary]

#: The numbers of levels that are tried.
CANDIDATES = (1, 2, 3, 5, 7, 11)


@dataclass(frozen=True)
class Tried:
    """A number of levels with its worth out of sample and the standard error of that."""

    fitted: FittedBoundary
    worth: float
    error: float


def choose_levels(
    data: ScoreRows | GridTable, options: BoundaryOptions, count: Count = summarise
) -> FittedBoundary:
    """Fit a boundary with the number of levels that cross-validation favours.

    Parameters
    ----------
    data
        Rows; without uncertainties there is one level.
    options
        What to fit, with folds; its number of levels is not looked at.
    count
        How the rows are counted for a number of levels.

    Raises
    ------
    UsageError
        A grid, whose levels are chosen.
    InfeasibleError
        No number of levels meets the bound.
    """
    if isinstance(data, GridTable):
        raise UsageError("a grid has its levels; leave --uncertainty-bins auto out.")
    single = count(data, options.at_levels(1))
    if data.uncertainty is None:
        return fit_summary(single)
    price = marginal_rate(single)
    tried: list[Tried] = []
    failure: InfeasibleError | None = None
    for levels in CANDIDATES:
        summary = single
        if levels > 1:
            summary = count(data, options.at_levels(levels))
        try:
            fitted = fit_summary(summary)
        except InfeasibleError as error:
            failure = error
            continue
        if not fitted.folds:  # too few rows to tell: the fit will warn
            return fitted
        tried.append(Tried(fitted, *_worth(fitted, price)))
    if not tried:
        assert failure is not None
        raise failure
    best = max(tried, key=lambda one: one.worth)
    return next(one.fitted for one in tried if one.worth >= best.worth - best.error)


def marginal_rate(summary: Summary) -> float:
    """Return the rate of positives at which the bound stops one more row.

    It is 0 without a bound, and where what rows are worth counts.
    """
    tally, goal = summary.aim()
    if not isinstance(goal, CountGoal):
        return 0.0
    blocks = isotonic_blocks(tally.points())
    _, margin = goal.whole_blocks(np.cumsum(blocks.selected), np.cumsum(blocks.true_positives))
    if margin is None:
        return 0.0
    return float(blocks.true_positives[margin] / blocks.selected[margin])


def _worth(fitted: FittedBoundary, price: float) -> tuple[float, float]:
    """Return the worth of a boundary on rows it did not see, and its standard error.

    With a bound: ``(T - price * M) / P``, pooled over the folds; else, and where the recall is one
    of value, the objective, or less it.
    """
    checked = fitted.model.fit.cross_validated
    assert checked is not None
    if not fitted.model.objective.subject_to or "value" in fitted.model.columns:
        sign = -1.0 if fitted.model.objective.minimize else 1.0
        return sign * (checked.objective_value or 0.0), checked.standard_error or 0.0
    gains = [fold.true_positives - price * fold.selected for fold in fitted.folds]
    positives = [fold.positives for fold in fitted.folds]
    rates = [gain / count for gain, count in zip(gains, positives, strict=True) if count]
    return sum(gains) / sum(positives), standard_error(rates) or 0.0


def chosen_note(levels: int) -> str:
    """Say how many levels were chosen."""
    return (
        f"{levels} uncertainty level{'s' if levels > 1 else ''} chosen by cross-validation among "
        f"{', '.join(map(str, CANDIDATES))}."
    )
