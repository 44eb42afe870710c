"""Fitting a boundary: rows to a problem, a method's choice, its figures, the model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibkit import __version__
from calibkit.binning import Grid, check_bins, quantile_edges, uncertainty_levels
from calibkit.boundary import exact
from calibkit.boundary.figures import cross_validate, figures, judge_rows
from calibkit.boundary.goals import GOALS, Goal, Totals
from calibkit.boundary.methods import Method, method, thresholds
from calibkit.boundary.model import (
    BoundaryFit,
    BoundaryModel,
    CrossValidated,
    Figures,
    Objective,
    Reference,
    threshold_json,
)
from calibkit.boundary.problem import Problem, deal, grid_problem, raw_problem
from calibkit.bounds import Bound
from calibkit.columns import ScoreRows
from calibkit.errors import DataError, InfeasibleError, UsageError
from calibkit.models import Column, Provenance
from calibkit.provenance import data_hash
from calibkit.tally import Points, Tally
from calibkit.weights import Unit

#: How many quantiles of the fitting data a model keeps.
QUANTILES = 20


@dataclass(frozen=True, kw_only=True)
class BoundarySpec:
    """What to fit, as the options of ``boundary`` say it.

    Attributes
    ----------
    bounded, bound
        The bounded figure (a key of `calibkit.boundary.goals.GOALS`) and its bound.
    method
        A key of `calibkit.boundary.methods.METHODS`.
    uncertainty_bins
        K; None is 3 where rows have uncertainties, 1 for the single threshold and without them.
    score_bins
        L; 0 tries every distinct score; None is the method's default.
    strategy, order
        Of the bins, see `calibkit.binning.fit_grid`.
    folds
        Of the cross-validation; 0 leaves it out.
    seed, threads
        The seed of the folds; how many threads may work.
    """

    bounded: str
    bound: Bound
    method: str = "exact"
    uncertainty_bins: int | None = None
    score_bins: int | None = None
    strategy: str = "equal-mass"
    order: str = "uncertainty-score"
    folds: int = 5
    seed: int = 0
    threads: int = 1


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
    chosen = method(spec.method, spec.bounded)
    levels = _levels_wanted(rows, spec, chosen)
    score_bins = chosen.score_bins if spec.score_bins is None else spec.score_bins
    _check(rows, spec, levels, score_bins)
    problem = _problem(rows, spec, chosen, levels, score_bins)
    goal = _goal(spec, problem.totals())
    found, points = _find(problem.tally, chosen, goal)
    if found.selected == 0:
        raise _infeasible(goal, points, problem.tally.unit, chosen.name)
    lowest = thresholds(problem.tally, points, found.choice)
    warnings: list[str] = []
    unit = problem.tally.unit
    fit = BoundaryFit(
        rows=unit.amount(goal.totals.rows),
        positives=unit.amount(goal.totals.positives),
        in_sample=figures(found.selected, found.true_positives, goal, unit),
        upper_bound=found.ceiling,
        optimal_in_sample=found.proven,
        exact_arithmetic=unit.exact,
        bound_met=goal.met(found.selected, found.true_positives),
        cross_validated=_cross_validated(rows, spec, chosen, problem, warnings),
        score_only=_score_only(rows, problem, goal, spec.threads),
        test=None,
        reference=_reference(rows, problem, found.selected / goal.totals.rows),
    )
    model = _model(rows, spec, chosen, problem, lowest, fit, levels)
    if provenance != "none":
        model.provenance = _provenance(rows, spec, levels, score_bins, provenance)
    model.tags = dict(tags or {})
    if test is not None:
        model.fit.test = judge_rows(model, test, lambda totals: _goal(spec, totals))
    warnings += _warnings(model, goal)
    return Fitted(model, tuple(warnings))


def _levels_wanted(rows: ScoreRows, spec: BoundarySpec, chosen: Method) -> int:
    if spec.uncertainty_bins is not None:
        if spec.uncertainty_bins > 1 and rows.uncertainty is None:
            raise UsageError(
                f"--uncertainty-bins {spec.uncertainty_bins} needs an uncertainty column; "
                "name one with --uncertainty"
            )
        return spec.uncertainty_bins
    return 1 if rows.uncertainty is None or chosen.name == "st" else 3


def _check(rows: ScoreRows, spec: BoundarySpec, levels: int, score_bins: int) -> None:
    if score_bins < 0:
        raise UsageError(f"--score-bins is {score_bins}; 0 stands for every distinct score")
    check_bins(levels, max(score_bins, 1))
    if spec.order == "score-uncertainty" and score_bins == 0:
        raise UsageError("--order score-uncertainty needs --score-bins")
    if spec.folds < 0 or spec.folds == 1:
        raise UsageError(f"--folds is {spec.folds}; expected 0 (none) or at least 2")
    assert rows.label is not None
    hits = rows.label if rows.weight is None else rows.label * rows.weight
    if not hits.any():
        raise DataError(
            f"no positive row, so --{spec.bounded} means nothing here",
            column=rows.options.label,
            file=rows.source.parts[0].path if rows.source else None,
        )


def _problem(
    rows: ScoreRows, spec: BoundarySpec, chosen: Method, levels: int, score_bins: int
) -> Problem:
    together = chosen.name == "st"
    if score_bins:
        bins = (1 if together else levels, score_bins)
        return grid_problem(rows, bins, spec.strategy, spec.order, spec.threads)
    return raw_problem(rows, uncertainty_levels(rows, levels, spec.strategy), spec.threads)


def _goal(spec: BoundarySpec, totals: Totals) -> Goal:
    return GOALS[spec.bounded](spec.bound, totals)


def _find(
    tally: Tally, chosen: Method, goal: Goal, excluded: int = -1
) -> tuple[exact.Solution, Points]:
    """Return a method's choice and what the optimum over the same prefixes says of it."""
    points = tally.points(excluded=excluded, together=chosen.name == "st")
    optimum = exact.solve(points, goal)
    if chosen.name == "exact":
        return optimum, points
    choice = chosen.find(points, goal)
    selected, hits = points.totals(choice)
    value = goal.value(selected, hits)
    best = optimum.proven and goal.met(selected, hits) and value == optimum.ceiling
    return exact.Solution(choice, selected, hits, best, optimum.ceiling), points


def _infeasible(goal: Goal, points: Points, unit: Unit, name: str) -> InfeasibleError:
    blocks = exact.isotonic_blocks(points)
    best, hits = int(blocks.selected[0]), int(blocks.true_positives[0])
    if points.levels > 1 and goal.met(best, hits):
        advice = f"--method {name} selects nothing here, though --method exact would"
    else:
        advice = (
            f"the highest precision any selection reaches is {hits / best:.6g}, with "
            f"{unit.amount(best):,} rows: lower the bound, or improve the scores"
        )
    return InfeasibleError(
        f"no boundary of method {name} selects a row with {goal.bounded} >= {goal.bound}; {advice}"
    )


def _cross_validated(
    rows: ScoreRows, spec: BoundarySpec, chosen: Method, problem: Problem, warnings: list[str]
) -> CrossValidated | None:
    if spec.folds == 0:
        return None
    totals = problem.totals()
    enough = min(int((problem.tally.positive > 0).sum()), totals.positives)
    if problem.tally.unit.size == 1.0:
        enough = totals.positives
    if enough < spec.folds or totals.rows < 2 * spec.folds:
        warnings.append(
            f"too few rows for {spec.folds} folds ({problem.tally.unit.amount(totals.positives)} "
            "positive): the boundary is not cross-validated, and the figures below are optimistic"
        )
        return None

    def find(dealt: Tally, fold: int, others: Totals) -> NDArray[np.float64] | None:
        if others.positives == 0:
            return None
        goal = _goal(spec, others)
        points = dealt.points(excluded=fold, together=chosen.name == "st")
        return thresholds(dealt, points, chosen.find(points, goal))

    dealt = deal(problem, rows, spec.folds, spec.seed, spec.threads)
    return cross_validate(dealt, spec.folds, find, lambda others: _goal(spec, others), spec.threads)


def _score_only(rows: ScoreRows, problem: Problem, goal: Goal, threads: int) -> Figures:
    """Return the figures of the best single threshold on raw scores."""
    tally = problem.tally
    if problem.grid is not None:
        tally = raw_problem(rows, uncertainty_levels(rows, 1), threads).tally
    points = tally.points(together=True)
    pick = goal.pick(points.selected, points.true_positives)
    selected, hits = points.totals(np.array([pick]))
    return figures(selected, hits, goal, tally.unit)


def _reference(rows: ScoreRows, problem: Problem, share: float) -> Reference:
    def quantiles(values: NDArray[Any]) -> list[float]:
        low, edges = quantile_edges(values, QUANTILES, rows.weight)
        return [low, *edges.tolist()]

    per_level = problem.tally.level_totals()[:, 1]
    return Reference(
        score_quantiles=[threshold_json(value) for value in quantiles(rows.score)],
        uncertainty_quantiles=None if rows.uncertainty is None else quantiles(rows.uncertainty),
        rows_per_level=[problem.tally.unit.amount(units) for units in per_level],
        selected_share=share,
    )


def _model(
    rows: ScoreRows,
    spec: BoundarySpec,
    chosen: Method,
    problem: Problem,
    lowest: NDArray[np.float64],
    fit: BoundaryFit,
    levels: int,
) -> BoundaryModel:
    model = BoundaryModel(
        kind=BoundaryModel.KIND,
        version=BoundaryModel.VERSION,
        columns=_columns(rows, levels),
        method=chosen.name,
        objective=Objective(GOALS[spec.bounded].maximised, {spec.bounded: float(spec.bound)}),
        uncertainty_min=None,
        uncertainty_edges=[],
        score_thresholds=[],
        fit=fit,
    )
    if problem.grid is not None and problem.grid.order == "score-uncertainty":
        _describe_score_first(model, problem.grid, problem.take(lowest))
        return model
    found = problem.scores(lowest)
    if levels > 1:
        fitted = problem.levels
        if fitted is None or fitted.count != levels:  # a single threshold, shown at every level
            fitted = uncertainty_levels(rows, levels, spec.strategy)
            found = np.broadcast_to(found, levels)
        model.uncertainty_min = fitted.minimum
        model.uncertainty_edges = list(fitted.edges.tolist())
    model.score_thresholds = [threshold_json(value) for value in found]
    return model


def _describe_score_first(model: BoundaryModel, grid: Grid, take: list[int]) -> None:
    if not np.isfinite(grid.score_edges).all() or not np.isfinite(grid.score_min).all():
        raise DataError(
            "--order score-uncertainty needs finite scores", column=model.columns["score"].name
        )
    empty = np.isnan(grid.uncertainty_min)
    model.order = grid.order
    model.take = take
    model.score_min = float(grid.score_min[0])
    model.score_edges = grid.score_edges[0].tolist()
    model.uncertainty_min = [
        None if none or np.isinf(low) else float(low)
        for low, none in zip(grid.uncertainty_min, empty, strict=True)
    ]
    model.uncertainty_edges = [
        [] if none else own.tolist()
        for own, none in zip(grid.uncertainty_edges, empty, strict=True)
    ]


def _columns(rows: ScoreRows, levels: int) -> dict[str, Column]:
    options = rows.options
    columns = {
        "score": Column(options.score, dtype=str(rows.score.dtype), scale=options.scale),
        "label": Column(options.label, positive=options.positive),
    }
    if rows.uncertainty is not None and levels > 1 and options.uncertainty is not None:
        columns["uncertainty"] = Column(options.uncertainty, dtype=str(rows.uncertainty.dtype))
    if options.weight is not None:
        columns["weight"] = Column(options.weight, kind="frequency")
    return columns


def _provenance(
    rows: ScoreRows, spec: BoundarySpec, levels: int, score_bins: int, wanted: str
) -> Provenance:
    used: dict[str, NDArray[Any]] = {"score": rows.score}
    if rows.label is not None:
        used["label"] = rows.label
    if rows.uncertainty is not None and levels > 1:
        used["uncertainty"] = rows.uncertainty
    if rows.weight is not None:
        used["weight"] = rows.weight
    options: dict[str, Any] = {
        spec.bounded: spec.bound.text,
        "method": spec.method,
        "uncertainty_bins": levels,
        "score_bins": score_bins,
        "strategy": spec.strategy,
        "order": spec.order,
        "folds": spec.folds,
        "seed": spec.seed,
        "on_missing": rows.options.on_missing,
        "unlabelled": rows.options.unlabelled,
    }
    files = None
    if wanted == "names" and rows.source is not None:
        files = [part.path for part in rows.source.parts]
    return Provenance(__version__, options, int(rows.score.size), data_hash(used), files)


def _warnings(model: BoundaryModel, goal: Goal) -> list[str]:
    found = []
    figures_seen = model.fit.in_sample
    if not model.fit.bound_met:
        seen = figures_seen.precision if goal.bounded == "precision" else figures_seen.recall
        found.append(
            f"counted again on the rows, --method {model.method} misses the bound: "
            f"{goal.bounded} {seen:.6g} < {goal.bound}"
        )
    if not model.fit.exact_arithmetic:
        found.append(
            "the weights are no multiples of one binary fraction: counts are rounded, and the bound "
            "is met with a margin of 1e-12"
        )
    if model.method == "exact" and not model.fit.optimal_in_sample:
        found.append(
            f"the search was cut short: {goal.maximised} {figures_seen.objective_value:.6g} is "
            f"reached, at most {model.fit.upper_bound:.6g} is possible"
        )
    return found
