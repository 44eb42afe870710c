"""Writing down a fitted boundary: thresholds, columns, the data in outline, warnings."""

from __future__ import annotations

import math
from dataclasses import replace

import msgspec
import numpy as np

from calibkit.bins.binning import Grid, Levels
from calibkit.errors import DataError
from calibkit.methods.boundary.problem.found import Found, Surface
from calibkit.methods.boundary.problem.goals import Totals
from calibkit.methods.boundary.problem.target import Target
from calibkit.methods.boundary.result.model import COEFFICIENTS, BoundaryModel
from calibkit.methods.boundary.result.parts import (
    RULE,
    BoundaryFit,
    Objective,
    Reference,
    Segment,
    SegmentFit,
    threshold_json,
)
from calibkit.methods.boundary.solvers.logistic import logistic
from calibkit.methods.boundary.solvers.summary import Stack, Summary
from calibkit.models.model import Column
from calibkit.options.boundary import BoundaryOptions
from calibkit.summaries.tally import Tally


def reference(summary: Summary, share: float) -> Reference | None:
    """Return the rows in outline, None where only a grid is known; `share` is what is selected."""
    if summary.score is None:
        return None
    tally, score, uncertainty = summary.problem.tally, summary.score, summary.uncertainty
    return Reference(
        score_quantiles=[threshold_json(value) for value in score.quantiles],
        uncertainty_quantiles=None if uncertainty is None else uncertainty.quantiles,
        rows_per_level=[tally.unit.amount(units) for units in tally.level_totals[:, 1]],
        selected_share=share,
        score_counts=score.counts,
        score_max=threshold_json(score.largest),
        uncertainty_counts=None if uncertainty is None else uncertainty.counts,
        uncertainty_max=None if uncertainty is None else uncertainty.largest,
    )


def flatten(summary: Summary, found: Found) -> tuple[Summary, Found]:
    """Leave the uncertainty out of what is written down where a surface has no use for it."""
    if found.surface is None or not found.surface.flat or summary.levels is None:
        return summary, found
    tally = summary.problem.tally
    together = replace(tally, level=np.zeros_like(tally.level), levels=1)
    surface = replace(found.surface, ranks=np.array([0.5]))
    return (
        replace(
            summary,
            planned=replace(summary.planned, levels=1),
            problem=replace(summary.problem, tally=together),
            levels=Levels(-math.inf, np.empty(0)),
        ),
        replace(found, thresholds=found.thresholds[:1], surface=surface),
    )


def describe(summary: Summary, found_on: Found, fit: BoundaryFit) -> BoundaryModel:
    """Return the model of a boundary that was found on a tally."""
    if summary.stack is not None:
        return _describe_stack(summary, summary.stack, found_on, fit)
    lowest = found_on.thresholds
    planned, problem = summary.planned, summary.problem
    options, levels = planned.options, planned.levels
    if found_on.surface is not None and summary.levels is not None:
        levels = summary.levels.count
    columns = dict(problem.columns)
    if levels == 1:
        columns.pop("uncertainty", None)
    model = BoundaryModel(
        kind=BoundaryModel.KIND,
        version=BoundaryModel.VERSION,
        columns=columns,
        method=planned.method.name,
        objective=_objective(options.target, problem.totals()),
        uncertainty_min=None,
        uncertainty_edges=[],
        score_thresholds=[],
        fit=fit,
        provenance=summary.origin,
    )
    if problem.grid is not None and problem.grid.order == "score-uncertainty":
        _describe_score_first(model, problem.grid, problem.take(lowest))
        return model
    found = problem.scores(lowest)
    if levels > 1:
        assert summary.levels is not None
        found = np.broadcast_to(found, levels)  # a single threshold, shown at every level
        model.uncertainty_min = summary.levels.minimum
        model.uncertainty_edges = list(summary.levels.edges.tolist())
    model.score_thresholds = [threshold_json(value) for value in found]
    if planned.method.mix is not None:
        _describe_random(model, summary, found_on)
    if found_on.surface is not None:
        _describe_surface(model, summary.problem.tally, found_on.surface, found_on.cut)
    return model


def _describe_stack(
    summary: Summary, stack: Stack, found: Found, fit: BoundaryFit
) -> BoundaryModel:
    """Return the model of a boundary over the levels of several segments."""
    alone = []
    for segment, levels in enumerate(stack.levels):
        own = stack.places(segment)
        wide = None if found.wide is None else found.wide[own]
        part = replace(found, thresholds=found.thresholds[own], wide=wide)
        alone.append(describe(replace(summary, stack=None, levels=levels), part, fit))
    fallback = stack.fallback or never(alone[0])
    model = alone[0].with_rule(fallback)
    model.method = summary.planned.method.name
    model.columns = {**fallback.columns, **model.columns}
    segments = {name: segment_of(one) for name, one in zip(stack.names, alone, strict=True)}
    return with_segments(model, segments, stack.pooled, summary.planned.options)


def never(model: BoundaryModel) -> BoundaryModel:
    """Return a boundary like another one that selects nothing."""
    nothing = Segment(
        method=model.method,
        uncertainty_min=None,
        uncertainty_edges=[],
        score_thresholds=[None],
        fit=SegmentFit(rows=0, positives=0, in_sample=None),
    )
    if model.randomise is not msgspec.UNSET:
        nothing.randomise, nothing.seed = model.randomise, model.seed
        nothing.random_thresholds, nothing.tie_probability = [None], [0.0]
    return model.with_rule(nothing)


def segment_of(model: BoundaryModel) -> Segment:
    """Return a model as the boundary of a segment, without figures."""
    nothing = SegmentFit(rows=0, positives=0, in_sample=None)
    return Segment(fit=nothing, **{name: getattr(model, name) for name in RULE})


def with_segments(
    model: BoundaryModel,
    segments: dict[str, Segment],
    pooled: tuple[str, ...],
    options: BoundaryOptions,
) -> BoundaryModel:
    """Return a model with boundaries for segments; beside them stands the one for other rows."""
    assert options.by is not None
    return msgspec.structs.replace(
        model,
        columns={**model.columns, "by": Column(options.by)},
        groups=segments,
        bound=options.bound,
        pooled=list(pooled),
    )


def _describe_random(model: BoundaryModel, summary: Summary, found: Found) -> None:
    """Add what is random: over scores from `random_thresholds` up, or at the threshold itself."""
    planned, levels = summary.planned, model.levels
    assert found.wide is not None
    wide = np.broadcast_to(summary.problem.scores(found.wide), levels)
    model.randomise = planned.options.randomise
    model.seed = planned.options.seed
    model.random_thresholds = [None] * levels
    if planned.options.randomise == "tie":
        selects = not np.isnan(wide[0])
        model.score_thresholds = [threshold_json(wide[0])]
        model.tie_probability = [found.probability or float(selects)]
        return
    pairs = zip(model.score_thresholds, map(threshold_json, wide), strict=True)
    differs = [found.probability > 0.0 and narrow != low for narrow, low in pairs]
    model.random_thresholds = [
        threshold_json(low) if new else None for new, low in zip(differs, wide, strict=True)
    ]
    model.tie_probability = [found.probability if new else 0.0 for new in differs]


def _describe_surface(model: BoundaryModel, tally: Tally, surface: Surface, cut: float) -> None:
    """Add the surface, and the fitted probability from which on rows are selected."""
    model.coefficients = {name: getattr(surface, name) for name in COEFFICIENTS}
    model.uncertainty_ranks = surface.ranks.tolist()
    model.cut = None if math.isnan(cut) else logistic(cut)
    probability = model.columns["score"].scale == "probability"
    model.clipped = tally.unit.amount(tally.logits[1]) if probability else 0


def _objective(target: Target, totals: Totals) -> Objective:
    found = Objective(subject_to={})
    if target.prevalence is not None:
        found.prevalence = float(target.prevalence)
    if target.bound is not None:
        found.maximize = target.goal(totals).maximised
        found.subject_to = {target.option: float(target.bound)}
    elif target.option == "minimize":
        found.minimize = target.value
    else:
        found.maximize = target.value
    return found


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


def warnings_of(model: BoundaryModel, target: Target) -> list[str]:
    """Return what the user of a boundary should be told."""
    found = []
    figures_seen = model.fit.in_sample
    if not model.fit.bound_met:
        found.append(
            f"counted again on the rows, --method {model.method} misses the bound {target.text}: "
            f"precision {_rate(figures_seen.precision)}, recall {_rate(figures_seen.recall)}"
        )
    coarse = model.fit.resolution is not msgspec.UNSET
    if model.method == "exact" and not model.fit.optimal_in_sample and not coarse:
        found.append(
            f"the search was cut short: {_rate(figures_seen.objective_value)} is reached, at most "
            f"{_rate(model.fit.upper_bound)} is possible"
        )
    return found


def _rate(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.6g}"
