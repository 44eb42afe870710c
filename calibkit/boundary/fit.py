"""Fitting a boundary: rows to a problem, a method's choice, its figures, the model."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calibkit.binning import uncertainty_levels
from calibkit.boundary import exact
from calibkit.boundary.describe import describe, provenance_of, reference, warnings_of
from calibkit.boundary.figures import cross_validate, figures, judge_rows
from calibkit.boundary.goals import Goal, Totals
from calibkit.boundary.methods import METHODS, Found
from calibkit.boundary.model import BoundaryFit, BoundaryModel, CrossValidated, Figures
from calibkit.boundary.problem import (
    Problem,
    binned_problem,
    deal,
    grid_problem,
    raw_problem,
)
from calibkit.boundary.spec import BoundarySpec, Plan, plan
from calibkit.columns import ScoreRows
from calibkit.errors import DataError, InfeasibleError, UsageError
from calibkit.grid_table import GridTable
from calibkit.tally import Tally


@dataclass(frozen=True)
class Fitted:
    """A fitted boundary and what the user should be told."""

    model: BoundaryModel
    warnings: tuple[str, ...]


def fit_boundary(
    data: ScoreRows | GridTable,
    spec: BoundarySpec,
    *,
    test: ScoreRows | None = None,
    provenance: str = "hash",
    tags: dict[str, str] | None = None,
) -> Fitted:
    """Fit a decision boundary over score and uncertainty.

    Parameters
    ----------
    data
        Scores and labels, with uncertainties where there are to be several levels; or a grid of
        their counts.
    spec
        What to fit.
    test
        Labelled rows on which the boundary is judged; they take no part in the fit.
    provenance
        ``hash``, ``names`` (adds file names) or ``none``.
    tags
        Copied into the model.

    Raises
    ------
    UsageError
        An impossible combination of options.
    DataError
        Rows without a positive one.
    InfeasibleError
        No boundary of this method selects a row and meets the bound.
    """
    planned = plan(spec, data)
    problem = make_problem(data, planned)
    _need_positives(problem, data, spec)
    goal, unit = spec.goal(problem.totals()), problem.tally.unit
    found, optimum = planned.method.find_with_optimum(problem.tally, goal)
    if found.selected == 0:
        raise _infeasible(problem.tally, goal, planned)
    warnings: list[str] = []
    fit = BoundaryFit(
        rows=unit.amount(goal.totals.rows),
        positives=unit.amount(goal.totals.positives),
        in_sample=figures(found.selected, found.true_positives, goal, unit),
        upper_bound=optimum.ceiling,
        optimal_in_sample=_is_optimal(found, optimum, goal),
        exact_arithmetic=unit.exact,
        bound_met=goal.met(found.selected, found.true_positives),
        cross_validated=_cross_validated(planned, problem, warnings),
        score_only=_score_only(problem, goal, spec.threads),
        test=None,
        reference=reference(problem, found.selected / goal.totals.rows),
    )
    model = describe(planned, problem, found.thresholds, fit)
    if provenance != "none":
        model.provenance = provenance_of(data, planned, names=provenance == "names")
    model.tags = dict(tags or {})
    if test is not None:
        model.fit.test = judge_rows(model, test, spec.goal)
    return Fitted(model, (*warnings, *warnings_of(model, goal)))


def make_problem(data: ScoreRows | GridTable, planned: Plan) -> Problem:
    """Return what the planned method chooses from."""
    spec, method = planned.spec, planned.method
    if isinstance(data, GridTable):
        if method.together and data.grid.score_edges.shape[0] > 1:
            raise UsageError(
                f"--method {method.name} needs the same score bins at every uncertainty level; "
                "make the grid by --strategy equal-width or --order score-uncertainty, or give "
                "the rows themselves."
            )
        return grid_problem(data.grid, data.columns)
    if planned.score_bins:
        bins = (1 if method.together else planned.levels, planned.score_bins)
        return binned_problem(data, bins, spec.strategy, spec.order, spec.threads)
    levels = uncertainty_levels(data, planned.levels, spec.strategy)
    return raw_problem(data, levels, spec.threads)


def _need_positives(problem: Problem, data: ScoreRows | GridTable, spec: BoundarySpec) -> None:
    if problem.totals().positives:
        return
    file = data.source.parts[0].path if data.source else None
    column = problem.columns["label"].name
    raise DataError(
        f"{file}: column {column!r}: no positive row, but --{spec.bounded} needs some; name the "
        "positive class by --positive if labels are not 0/1",
        column=column,
        file=file,
        rows=problem.totals().rows,
    )


def _is_optimal(found: Found, optimum: exact.Solution, goal: Goal) -> bool:
    """Return whether a boundary is proven to reach the best value over its prefixes."""
    if not optimum.proven or not goal.met(found.selected, found.true_positives):
        return False
    best = goal.value(optimum.selected, optimum.true_positives)
    return goal.value(found.selected, found.true_positives) == best


def _infeasible(tally: Tally, goal: Goal, planned: Plan) -> InfeasibleError:
    blocks = exact.isotonic_blocks(tally.points(together=planned.method.together))
    rows, hits = int(blocks.selected[0]), int(blocks.true_positives[0])
    name = planned.method.name
    if goal.met(rows, hits):
        advice = f"--method {'exact' if name != 'exact' else 'st'} does"
    else:
        advice = (
            f"the highest precision any selection reaches is {hits / rows:.6g}, with "
            f"{tally.unit.amount(rows):,} rows: lower the bound, or improve the scores"
        )
    return InfeasibleError(
        f"no boundary of --method {name} selects a row with {goal.bounded} >= {goal.bound}; "
        f"{advice}."
    )


def _cross_validated(planned: Plan, problem: Problem, warnings: list[str]) -> CrossValidated | None:
    spec, unit = planned.spec, problem.tally.unit
    if spec.folds == 0:
        return None
    totals = problem.totals()
    rows, positives = totals.rows, totals.positives
    if unit.size != 1.0 and problem.rows is not None and problem.rows.label is not None:
        rows, positives = problem.rows.label.size, int(problem.rows.label.sum())
    if positives < spec.folds or rows < 2 * spec.folds:
        warnings.append(
            f"{positives} positive of {rows} rows are too few for {spec.folds} folds: not "
            "cross-validated, and the figures on these rows are optimistic"
        )
        return None

    def find(dealt: Tally, fold: int, others: Totals) -> NDArray[np.float64] | None:
        if others.positives == 0:
            return None
        return planned.method.find(dealt, spec.goal(others), excluded=fold).thresholds

    dealt = deal(problem, spec.folds, spec.seed, spec.threads)
    return cross_validate(dealt, spec.folds, find, spec.goal, spec.threads)


def _score_only(problem: Problem, goal: Goal, threads: int) -> Figures | None:
    """Return the figures of the best single threshold over every distinct score.

    Over the score bins where only a grid is known, and None where they differ between levels.
    """
    tally = problem.tally
    if problem.grid is not None:
        if problem.rows is not None:
            tally = raw_problem(problem.rows, uncertainty_levels(problem.rows, 1), threads).tally
        elif problem.grid.score_edges.shape[0] > 1:
            return None
    found = METHODS["st"].find(tally, goal)
    return figures(found.selected, found.true_positives, goal, tally.unit)
