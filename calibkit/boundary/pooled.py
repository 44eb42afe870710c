"""Figures of all rows together where each segment has a boundary with a bound of its own."""

from __future__ import annotations

from dataclasses import replace

import msgspec

from calibkit.boundary.describe import reference
from calibkit.boundary.figures import judge_rows, standard_error
from calibkit.boundary.fit import Fitted
from calibkit.boundary.goals import Goal
from calibkit.boundary.model import BoundaryFit, BoundaryModel, CrossValidated, Figures
from calibkit.boundary.problem import tally_totals
from calibkit.boundary.spec import AUTO, BoundarySpec
from calibkit.boundary.summary import Summary, summarise
from calibkit.models import Provenance
from calibkit.rows.columns import ScoreRows


def pool(
    data: ScoreRows,
    spec: BoundarySpec,
    model: BoundaryModel,
    parts: list[Fitted],
    single: Figures | None,
) -> Goal:
    """Give a model of several segments the figures of all rows, and return their goal.

    Parameters
    ----------
    data, spec
        All rows, and what was fitted on each segment.
    model
        The boundaries side by side.
    parts
        The fits of the segments that have a boundary.
    single
        The figures of one threshold for all rows.
    """
    method = parts[0].model.method if spec.method == AUTO else spec.method
    base = summarise(data, replace(spec, method=method))
    target = spec.target
    tally = base.problem.tally.reweighted(target.classes(base.problem.totals()))
    goal = target.goal(tally_totals(tally))
    seen = judge_rows(model, data, target, goal.of)
    counted = {name: getattr(seen, name) for name in Figures.__struct_fields__}
    model.fit = BoundaryFit(
        rows=seen.rows,
        positives=seen.positives,
        in_sample=Figures(**counted),
        upper_bound=_upper_bound(parts, goal, base),
        optimal_in_sample=all(one.model.fit.optimal_in_sample for one in parts),
        exact_arithmetic=all(one.model.fit.exact_arithmetic for one in parts),
        bound_met=all(one.model.fit.bound_met for one in parts),
        cross_validated=_cross_validated(parts, goal, base),
        score_only=single,
        test=None,
        reference=reference(base, seen.selected / seen.rows),
        certificate=None,
    )
    model.provenance = _named(base.origin, spec)
    return goal


def _named(origin: Provenance, spec: BoundarySpec) -> Provenance:
    return msgspec.structs.replace(origin, options={**origin.options, "method": spec.method})


def _upper_bound(parts: list[Fitted], goal: Goal, base: Summary) -> float:
    """Return what the objective cannot exceed: shares add up, of ratios one is the largest."""
    bounds = [one.model.fit.upper_bound for one in parts]
    if goal.maximised != "recall":
        return max(bounds)
    if goal.uses_gain:
        whole = base.problem.totals()
        amounts = [one.goal.totals.gain * one.goal.totals.gain_unit.size for one in parts]
        return min(
            1.0,
            sum(a * b for a, b in zip(amounts, bounds, strict=True))
            / (whole.gain * whole.gain_unit.size),
        )
    positives = [float(one.model.fit.positives) for one in parts]
    whole_positives = float(base.problem.tally.unit.amount(base.problem.totals().positives))
    return min(1.0, sum(a * b for a, b in zip(positives, bounds, strict=True)) / whole_positives)


def _cross_validated(parts: list[Fitted], goal: Goal, base: Summary) -> CrossValidated | None:
    """Return figures pooled over the folds of all segments; None where one has none."""
    if any(not one.folds for one in parts):
        return None
    folds = [_in_units(parts, fold, goal, base) for fold in range(len(parts[0].folds))]
    whole = goal.totals
    values = []
    for rows, positives, selected, hits, gain in folds:
        share = rows / (whole.rows or 1)
        totals = replace(
            whole, rows=round(rows), positives=round(positives), gain=round(whole.gain * share)
        )
        value = goal.of(totals).value(selected, hits, gain)
        if value is not None:
            values.append(value)
    selected, hits, gain = (sum(fold[k] for fold in folds) for k in (2, 3, 4))
    forward = base.planned.spec.time is not None  # the first block of time is judged by no fit
    pooled = goal
    if forward:
        rows, positives = (round(sum(fold[k] for fold in folds)) for k in (0, 1))
        pooled = goal.of(replace(whole, rows=rows, positives=positives))
    return CrossValidated(
        precision=hits / selected if selected else None,
        recall=pooled.recall(hits, gain),
        objective_value=pooled.value(selected, hits, gain),
        standard_error=standard_error(values),
        folds=len(folds),
    )


def _in_units(parts: list[Fitted], fold: int, goal: Goal, base: Summary) -> list[float]:
    """Return rows, positives, selected, true positives and gain of a fold, in units of all rows."""
    found = [0.0] * 5
    classes = goal.totals.classes
    for one in parts:
        seen, totals = one.folds[fold], one.goal.totals
        size = float(base.problem.totals().row_units / one.row_units)
        for first, pair in ((0, seen[:2]), (2, seen[2:4])):
            rows, hits = totals.classes.rows(float(pair[0]), float(pair[1]))
            weighed = classes.weigh(rows * size, hits * size)
            found[first] += weighed[0]
            found[first + 1] += weighed[1]
        found[4] += seen.gain * totals.gain_unit.size / goal.totals.gain_unit.size
    return found
