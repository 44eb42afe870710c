"""Writing down a fitted boundary: thresholds, columns, the data in outline, warnings."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibkit import __version__
from calibkit.binning import Grid, quantile_edges, uncertainty_levels
from calibkit.boundary.goals import Goal
from calibkit.boundary.model import (
    BoundaryFit,
    BoundaryModel,
    Objective,
    Reference,
    threshold_json,
)
from calibkit.boundary.problem import Problem
from calibkit.boundary.spec import Plan
from calibkit.columns import ScoreRows
from calibkit.errors import DataError
from calibkit.grid_table import GridTable
from calibkit.models import Provenance
from calibkit.provenance import data_hash

#: How many quantiles of the fitting data a model keeps.
QUANTILES = 20


def reference(problem: Problem, share: float) -> Reference | None:
    """Return the rows in outline, None where only a grid is known; `share` is what is selected."""
    rows = problem.rows
    if rows is None:
        return None
    weight = rows.weight

    def quantiles(values: NDArray[Any]) -> list[float]:
        low, edges = quantile_edges(values, QUANTILES, weight)
        return [low, *edges.tolist()]

    scores = quantiles(rows.score) if problem.grid else problem.tally.quantiles(QUANTILES)
    per_level = problem.tally.level_totals[:, 1]
    return Reference(
        score_quantiles=[threshold_json(value) for value in scores],
        uncertainty_quantiles=None if rows.uncertainty is None else quantiles(rows.uncertainty),
        rows_per_level=[problem.tally.unit.amount(units) for units in per_level],
        selected_share=share,
    )


def describe(
    planned: Plan,
    problem: Problem,
    lowest: NDArray[np.float64],
    fit: BoundaryFit,
) -> BoundaryModel:
    """Return the model of a boundary with the `lowest` selected score of each level of the tally."""
    spec, levels = planned.spec, planned.levels
    columns = dict(problem.columns)
    if levels == 1:
        columns.pop("uncertainty", None)
    model = BoundaryModel(
        kind=BoundaryModel.KIND,
        version=BoundaryModel.VERSION,
        columns=columns,
        method=planned.method.name,
        objective=Objective(
            spec.goal(problem.totals()).maximised, {spec.bounded: float(spec.bound)}
        ),
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
            assert problem.rows is not None
            fitted = uncertainty_levels(problem.rows, levels, spec.strategy)
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


def provenance_of(data: ScoreRows | GridTable, planned: Plan, *, names: bool) -> Provenance:
    """Return where a model comes from; `names` adds the names of the files."""
    spec = planned.spec
    options: dict[str, Any] = {
        spec.bounded: spec.bound.text,
        "method": spec.method,
        "uncertainty_bins": planned.levels,
        "score_bins": planned.score_bins,
        "strategy": spec.strategy,
        "order": spec.order,
        "folds": spec.folds,
        "seed": spec.seed,
    }
    if isinstance(data, GridTable):
        rows, fingerprint = data.source.rows, data.fingerprint
        del options["strategy"]
    else:
        rows, fingerprint = data.score.size, _rows_hash(data, planned.levels)
        options |= {"on_missing": data.options.on_missing, "unlabelled": data.options.unlabelled}
    files = None
    if names and data.source is not None:
        files = [part.path for part in data.source.parts]
    return Provenance(__version__, options, rows, fingerprint, files)


def _rows_hash(rows: ScoreRows, levels: int) -> str:
    used: dict[str, NDArray[Any]] = {"score": rows.score}
    if rows.label is not None:
        used["label"] = rows.label
    if rows.uncertainty is not None and levels > 1:
        used["uncertainty"] = rows.uncertainty
    if rows.weight is not None:
        used["weight"] = rows.weight
    return data_hash(used)


def warnings_of(model: BoundaryModel, goal: Goal) -> list[str]:
    """Return what the user of a boundary should be told."""
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
