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
from calibkit.boundary.problem import Problem, deal, grid_problem, raw_problem
from calibkit.boundary.spec import BoundarySpec, Plan, plan
from calibkit.columns import ScoreRows
from calibkit.errors import DataError, InfeasibleError
from calibkit.tally import Tally


@dataclass(frozen=True)
class Fitted:
    """A fitted boundary and what the user should be told."""

    model: BoundaryModel
    warnings: tuple[str, ...]


def fit_boundary(
    rows: ScoreRows,
    spec: BoundarySpec,
    *,
    test: ScoreRows | None = None,
    provenance: str = "hash",
    tags: dict[str, str] | None = None,
) -> Fitted:
    """Fit a decision boundary over score and uncertainty.

    Parameters
    ----------
    rows
        Scores and labels; uncertainties where there are to be several levels.
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
    planned = plan(spec, has_uncertainty=rows.uncertainty is not None)
    _need_positives(rows, spec)
    problem = _problem(rows, planned)
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
        cross_validated=_cross_validated(rows, planned, problem, warnings),
        score_only=_score_only(rows, problem, goal, spec.threads),
        test=None,
        reference=reference(rows, problem, found.selected / goal.totals.rows),
    )
    model = describe(rows, planned, problem, found.thresholds, fit)
    if provenance != "none":
        model.provenance = provenance_of(rows, planned, names=provenance == "names")
    model.tags = dict(tags or {})
    if test is not None:
        model.fit.test = judge_rows(model, test, spec.goal)
    return Fitted(model, (*warnings, *warnings_of(model, goal)))


def _need_positives(rows: ScoreRows, spec: BoundarySpec) -> None:
    assert rows.label is not None
    hits = rows.label if rows.weight is None else rows.label * rows.weight
    if not hits.any():
        file = rows.source.parts[0].path if rows.source else None
        raise DataError(
            f"{file}: column {rows.options.label!r}: no positive row, but --{spec.bounded} needs "
            "some; name the positive class by --positive if labels are not 0/1",
            column=rows.options.label,
            file=file,
            rows=int(rows.score.size),
        )


def _problem(rows: ScoreRows, planned: Plan) -> Problem:
    spec = planned.spec
    if planned.score_bins:
        bins = (1 if planned.method.together else planned.levels, planned.score_bins)
        return grid_problem(rows, bins, spec.strategy, spec.order, spec.threads)
    levels = uncertainty_levels(rows, planned.levels, spec.strategy)
    return raw_problem(rows, levels, spec.threads)


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


def _cross_validated(
    rows: ScoreRows, planned: Plan, problem: Problem, warnings: list[str]
) -> CrossValidated | None:
    spec = planned.spec
    if spec.folds == 0:
        return None
    assert rows.label is not None
    positives = int(rows.label.sum()) if rows.weight is not None else problem.totals().positives
    if positives < spec.folds or rows.score.size < 2 * spec.folds:
        warnings.append(
            f"{positives} positive of {rows.score.size} rows are too few for {spec.folds} folds: "
            "not cross-validated, and the figures on these rows are optimistic"
        )
        return None

    def find(dealt: Tally, fold: int, others: Totals) -> NDArray[np.float64] | None:
        if others.positives == 0:
            return None
        return planned.method.find(dealt, spec.goal(others), excluded=fold).thresholds

    dealt = deal(problem, rows, spec.folds, spec.seed, spec.threads)
    return cross_validate(dealt, spec.folds, find, spec.goal, spec.threads)


def _score_only(rows: ScoreRows, problem: Problem, goal: Goal, threads: int) -> Figures:
    """Return the figures of the best single threshold over every distinct score."""
    tally = problem.tally
    if problem.grid is not None:
        tally = raw_problem(rows, uncertainty_levels(rows, 1), threads).tally
    found = METHODS["st"].find(tally, goal)
    return figures(found.selected, found.true_positives, goal, tally.unit)
