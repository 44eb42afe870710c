"""Writing down a fitted boundary: thresholds, columns, the data in outline, warnings."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np

from calibkit.bins.binning import Grid, Levels
from calibkit.errors import DataError
from calibkit.methods.boundary.problem.found import Found
from calibkit.methods.boundary.problem.goals import Totals
from calibkit.methods.boundary.problem.problem import goal_of
from calibkit.methods.boundary.result import parts
from calibkit.methods.boundary.result.model import COEFFICIENTS, BoundaryModel
from calibkit.methods.boundary.solvers.exact import isotonic_blocks
from calibkit.methods.boundary.solvers.logistic import logistic
from calibkit.methods.boundary.solvers.summary import Summary
from calibkit.models.model import Column
from calibkit.options.boundary import BoundaryOptions
from calibkit.options.objective import Target


def reference(summary: Summary, share: float) -> parts.Reference | None:
    """Return the rows in outline, None where only a grid is known; `share` is what is selected."""
    if summary.score is None:
        return None
    tally, score, uncertainty = summary.tally, summary.score, summary.uncertainty
    if summary.single is not None and summary.single.levels > tally.levels:
        tally = summary.single  # the levels that are shown, of which score bins have none
    return parts.Reference(
        score_quantiles=[parts.threshold_json(value) for value in score.quantiles],
        uncertainty_quantiles=None if uncertainty is None else uncertainty.quantiles,
        rows_per_level=[tally.unit.amount(units) for units in tally.level_totals[:, 1]],
        selected_share=share,
        score_counts=score.counts,
        score_max=parts.threshold_json(score.largest),
        uncertainty_counts=None if uncertainty is None else uncertainty.counts,
        uncertainty_max=None if uncertainty is None else uncertainty.largest,
    )


def flatten(summary: Summary, found: Found) -> tuple[Summary, Found]:
    """Leave out of what is written down an uncertainty that a surface has no use for; gather cells."""
    if found.leaves is not None:
        found = found.gathered()
        assert found.leaves is not None
        leaves = found.thresholds.size
        planned = replace(summary.planned, levels=leaves)
        tally = summary.tally.coarser(found.leaves, leaves)
        return replace(summary, tally=tally, single=tally, planned=planned), found
    if found.surface is None or not found.surface.flat or summary.shown is None:
        return summary, found
    tally = summary.tally
    together = replace(tally, level=np.zeros_like(tally.level), levels=1)
    surface = replace(found.surface, ranks=np.array([0.5]))
    return (
        replace(
            summary,
            planned=replace(summary.planned, levels=1),
            tally=together,
            single=together,
            shown=Levels(-math.inf, np.empty(0)),
        ),
        replace(found, thresholds=found.thresholds[:1], surface=surface),
    )


def describe(
    summary: Summary,
    found: Found,
    fit: parts.BoundaryFit,
    segments: Sequence[parts.SegmentFit] = (),
) -> BoundaryModel:
    """Return the model of a boundary that was found on a tally; `segments` are their figures."""
    planned, stack = summary.planned, summary.stack
    options, columns = planned.options, dict(summary.columns)
    more: dict[str, Any] = {}
    isotonic = _level_steps(summary) if planned.method.isotonic else None
    if stack is None:
        rule = _rule(summary, found, isotonic)
    else:
        rules = []
        for segment, levels_of in enumerate(stack.levels):
            own = stack.places(segment)
            wide = None if found.wide is None else found.wide[own]
            part = replace(found, thresholds=found.thresholds[own], wide=wide)
            steps = None if isotonic is None else isotonic[own]
            rules.append(_rule(replace(summary, stack=None, shown=levels_of), part, steps))
        groups = {
            name: parts.Segment(fit=seen, **decides)
            for name, seen, decides in zip(stack.names, segments, rules, strict=True)
        }
        rule, more = never(rules[0]), grouped(groups, stack.pooled, options)
    levels = planned.levels
    if found.surface is not None and summary.shown is not None:
        levels = summary.shown.count
    if levels == 1:
        columns = {role: c for role, c in columns.items() if not role.startswith("uncertainty")}
    if more:
        columns["by"] = more.pop("by")
    return BoundaryModel(
        kind=BoundaryModel.KIND,
        version=BoundaryModel.VERSION,
        columns=columns,
        objective=_objective(options.target, summary.totals()),
        fit=fit,
        provenance=summary.origin,
        **rule,
        **more,
    )


def _level_steps(summary: Summary) -> list[parts.Steps]:
    """Return the isotonic regression of the labels on the score in each level: what MIST estimates.

    (Arora, Merugu, Saladi, Rastogi, Leveraging uncertainty estimates to improve classifier
    performance, appendix C.6.)  The share of positive rows rises by blocks.  A block reaches down to
    its lowest score; rows below the last score with a positive row are a block of rate 0.
    """
    tally, _ = summary.aim()
    points = tally.points()
    blocks = isotonic_blocks(points)
    rate = blocks.true_positives / blocks.selected
    lowest = tally.score[points.entry[blocks.point]]
    lowest_of = np.full(tally.levels, np.nan)
    lowest_of[tally.level] = tally.score  # scores fall along the tally: the last one stays
    found = []
    for level, least in enumerate(lowest_of):
        own = blocks.level == level  # from the highest score down
        knots, values = lowest[own], rate[own]
        if not np.isnan(least) and not (knots.size and knots[-1] == least):
            knots, values = np.append(knots, least), np.append(values, 0.0)
        scores = [parts.threshold_json(summary.score_at(level, knot)) for knot in knots[::-1]]
        found.append(parts.Steps(knots=scores, values=values[::-1].tolist()))
    return found


def never(rule: Mapping[str, Any]) -> dict[str, Any]:
    """Return a rule like another one that selects nothing."""
    nothing = {"method": rule["method"], "uncertainty_min": None, "uncertainty_edges": []}
    nothing["score_thresholds"] = [None]
    if rule.get("randomise", msgspec.UNSET) is not msgspec.UNSET:
        nothing |= {"randomise": rule["randomise"], "seed": rule["seed"]}
        nothing |= {"random_thresholds": [None], "tie_probability": [0.0]}
    return nothing


def grouped(
    segments: dict[str, parts.Segment], pooled: tuple[str, ...], options: BoundaryOptions
) -> dict[str, Any]:
    """Return what a model says of its segments, and their column."""
    assert options.by is not None
    said = {"groups": segments, "bound": options.bound, "pooled": list(pooled)}
    return said | {"by": Column(options.by)}


def _rule(summary: Summary, found: Found, isotonic: list[parts.Steps] | None) -> dict[str, Any]:
    """Return what decides in a model: its method, levels and thresholds."""
    planned, levels = summary.planned, summary.planned.levels
    if found.surface is not None and summary.shown is not None:
        levels = summary.shown.count
    rule: dict[str, Any] = {"method": planned.method.name, "uncertainty_min": None}
    rule |= {"uncertainty_edges": [], "score_thresholds": []}
    if isotonic is not None:
        rule["isotonic"] = isotonic
    if summary.grid is not None and summary.grid.order == "score-uncertainty":
        name = summary.columns["score"].name
        return rule | _score_first(summary.grid, summary.take(found.thresholds), name)
    lowest = summary.scores(found.thresholds)
    if levels > 1 and found.leaves is not None and summary.cells is not None:
        edges = [own.tolist() for own in summary.cells.edges]
        rule["partition"] = parts.Partition(edges=edges, leaves=found.leaves.tolist())
    elif levels > 1:
        assert summary.shown is not None
        lowest = np.broadcast_to(lowest, levels)  # a single threshold, shown at every level
        rule["uncertainty_min"] = summary.shown.minimum
        rule["uncertainty_edges"] = summary.shown.edges.tolist()
    rule["score_thresholds"] = [parts.threshold_json(value) for value in lowest]
    if found.review is not None:
        review = np.broadcast_to(summary.scores(found.review), lowest.shape)
        rule["block_thresholds"] = rule["score_thresholds"]
        rule["review_thresholds"] = [parts.threshold_json(value) for value in review]
    if planned.method.mix is not None:
        rule |= _random(summary, found, rule["score_thresholds"])
    if found.surface is not None:
        clipped: int | float = 0  # of probabilities, to have logits
        if summary.columns["score"].measure == "probability":
            clipped = summary.tally.unit.amount(summary.tally.logits[1])
        rule |= {
            "coefficients": {name: getattr(found.surface, name) for name in COEFFICIENTS},
            "uncertainty_ranks": found.surface.ranks.tolist(),
            "cut": None if math.isnan(found.cut) else logistic(found.cut),
            "clipped": clipped,
        }
    return rule


def _random(summary: Summary, found: Found, thresholds: list[parts.Threshold]) -> dict[str, Any]:
    """Return what is random: over scores from `random_thresholds` up, or at the threshold itself."""
    options = summary.planned.options
    assert found.wide is not None
    wide = np.broadcast_to(summary.scores(found.wide), len(thresholds))
    rule = {"randomise": options.randomise, "seed": options.seed}
    if options.randomise == "tie":
        chance = found.probability or float(not np.isnan(wide[0]))
        return rule | {
            "score_thresholds": [parts.threshold_json(wide[0])],
            "random_thresholds": [None] * len(thresholds),
            "tie_probability": [chance],
        }
    lows = [parts.threshold_json(low) for low in wide]
    differs = [
        found.probability > 0.0 and narrow != low
        for narrow, low in zip(thresholds, lows, strict=True)
    ]
    return rule | {
        "random_thresholds": [low if new else None for new, low in zip(differs, lows, strict=True)],
        "tie_probability": [found.probability if new else 0.0 for new in differs],
    }


def _score_first(grid: Grid, take: list[int], column: str) -> dict[str, Any]:
    """Return the levels of each score bin, and how many of the highest bins each takes."""
    if not np.isfinite(grid.score_edges).all() or not np.isfinite(grid.score_min).all():
        raise DataError("--order score-uncertainty needs finite scores", column=column)
    empty = np.isnan(grid.uncertainty_min)
    lowest = zip(grid.uncertainty_min, empty, strict=True)
    edges = zip(grid.uncertainty_edges, empty, strict=True)
    return {
        "order": grid.order,
        "take": take,
        "score_min": float(grid.score_min[0]),
        "score_edges": grid.score_edges[0].tolist(),
        "uncertainty_min": [None if none or np.isinf(low) else float(low) for low, none in lowest],
        "uncertainty_edges": [[] if none else own.tolist() for own, none in edges],
    }


def _objective(target: Target, totals: Totals) -> parts.Objective:
    found = parts.Objective(subject_to={})
    if target.prevalence is not None:
        found.prevalence = float(target.prevalence)
    if (asked := target.review) is not None:
        setattr(found, "minimize" if target.minimised else "maximize", asked.objective)
        found.subject_to = {name: float(bound) for name, bound in asked.bounds.items()}
        if asked.costs:
            found.review_cost = float(asked.costs[2])
    elif target.bound is not None:
        found.maximize = goal_of(target, totals).maximised
        found.subject_to = {target.option: float(target.bound)}
        if target.gap is not None:
            found.max_gap = {target.gap.measure: float(target.gap.most)}
    elif target.option == "minimize":
        found.minimize = target.value
    else:
        found.maximize = target.value
    return found


def warnings_of(model: BoundaryModel, target: Target) -> list[str]:
    """Return what the user of a boundary should be told."""
    found = []
    figures_seen = model.fit.in_sample
    if not model.fit.bound_met:
        found.append(
            f"counted again on the rows, --method {model.method} misses the bound {target.text}: "
            f"precision {_rate(figures_seen.precision)}, recall {_rate(figures_seen.recall)}"
        )
    coarse = model.fit.resolution is not msgspec.UNSET or model.partition is not msgspec.UNSET
    whole = model.method == "exact" and target.gap is None  # of a gap some choices are searched
    if whole and not model.fit.optimal_in_sample and not coarse:
        found.append(
            f"the search was cut short: {_rate(figures_seen.objective_value)} is reached, at "
            f"{'least' if target.minimised else 'most'} {_rate(model.fit.upper_bound)} is possible"
        )
    if target.review is not None and target.review.precision and not figures_seen.selected:
        found.append(
            f"no rows reach precision {target.review.precision}: none is blocked, and what is wanted "
            "of recall is reviewed"
        )
    return found


def _rate(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.6g}"
