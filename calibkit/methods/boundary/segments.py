"""Boundaries with thresholds for each segment, a value of a column.

With the bound on all rows together the segments are one problem: its levels are the uncertainty
levels of the first segment, then those of the next one.  The optimum over them spends the bound where
it buys most.  With the bound on each segment, every segment is a fit of its own.
"""

from __future__ import annotations

import dataclasses
import math
from functools import partial

import numpy as np
from msgspec.structs import replace

from calibkit.arrays import Floats
from calibkit.columns.segments import read_segments
from calibkit.errors import InfeasibleError, UsageError
from calibkit.methods.boundary import choice
from calibkit.methods.boundary.problem.columns import amounts_of
from calibkit.methods.boundary.problem.goals import Goal
from calibkit.methods.boundary.result import parts
from calibkit.methods.boundary.result.application import OTHER
from calibkit.methods.boundary.result.figures import (
    Judged,
    judge_rows,
    pooled_figures,
    standard_error,
)
from calibkit.methods.boundary.result.fit import FittedBoundary, fit_summary, never, reference
from calibkit.methods.boundary.result.model import BoundaryModel
from calibkit.methods.boundary.solvers.methods import METHODS
from calibkit.methods.boundary.solvers.summary import Stack, Summary, count_at, summarise
from calibkit.models.model import Column
from calibkit.numerics.sums import added, exact_group_sums
from calibkit.options.boundary import AUTO, BoundaryOptions
from calibkit.summaries.binning import MOST_LEVELS, GridTable, Levels, uncertainty_levels
from calibkit.summaries.score_rows import ScoreRows

#: Positive rows that a segment needs for a bound of its own.
MIN_POSITIVES = 50
#: The methods that take all segments as one problem.
OVERALL = ("exact", "st", "stochastic", "mist", "gmt")


def fit_segments(data: ScoreRows | GridTable, options: BoundaryOptions) -> FittedBoundary:
    """Fit a boundary with thresholds for each value of the column `options.by`.

    Raises `UsageError` for an impossible combination of options, `DataError` for rows without a
    segment, or without a class that is needed, `InfeasibleError` where no boundary selects a row and
    meets the bound.
    """
    if isinstance(data, GridTable):
        raise UsageError("a grid has lost its rows: --by needs them.")
    overall = options.bound == "overall"
    if not overall and options.target.bound is None:
        raise UsageError(
            f"--bound each needs a bound, and --{options.target.option} has none: leave it out, or "
            "give --precision, --recall, --fpr or --capacity."
        )
    if overall and (options.method not in (*OVERALL, AUTO) or options.randomise == "tie"):
        able = [name for name in OVERALL if METHODS[name].values or not options.target.worths]
        raise UsageError(
            f"--by with --bound overall does not go with --method {options.method}"
            f"{' --randomise tie' if options.randomise == 'tie' else ''}; methods that do: "
            f"{', '.join((AUTO, *able))}."
            f"{' --bound each takes all methods.' * (options.max_gap is None)}"
        )
    if overall and (options.score_bins or options.order != "uncertainty-score"):
        raise UsageError(
            "--by with --bound overall takes every distinct score: leave --score-bins and --order out"
            f"{', or use --bound each' * (options.max_gap is None)}."
        )
    split = split_rows(data, options)
    try:
        whole: BoundaryModel | None = choice.fit_rows(data, options.whole).model
    except InfeasibleError:
        whole = None
    if not overall:
        return _fit_each(data, options, split, whole)
    count = partial(stacked, split=split)
    if options.method == AUTO:  # a threshold a segment, then the optimum over several levels
        room = MOST_LEVELS // len(split.names)
        several = [own for own in choice.LEVELS if own <= room]
        several = several if options.levels is None else [options.levels]
        wanted = [("st" if options.max_gap is None else "exact", 1)]
        if data.uncertainty is not None and several != [1]:
            wanted += [("exact", own) for own in several]
        named = (dataclasses.replace(options.at_levels(own), method=name) for name, own in wanted)
        fitted = choice.fit_choice(choice.choose_among([count(data, one) for one in named]))
    elif options.auto_levels:
        fitted = choice.choose_levels(data, options, count)
    else:
        fitted = fit_summary(count(data, options))
    if whole is None:
        return fitted
    # Rows of no known segment are decided by the boundary of all rows.
    model = fitted.model
    rule, columns = whole.rule | {"method": model.method}, {**whole.columns, **model.columns}
    return replace(fitted, model=replace(model, columns=columns, **rule))


def split_rows(data: ScoreRows, options: BoundaryOptions, times: Floats | None = None) -> Stack:
    """Return the rows of each segment; those with too few positives share one.

    `times` says how often each row counts for that; None: as often as its frequency weight says.
    """
    assert options.by is not None
    segments = read_segments(data.other(options.by), data.finder)
    least = options.min_group_positives
    if least is None:
        alone = options.bound == "each" or options.confidence is not None
        least = MIN_POSITIVES if alone else 0
    if times is None and not options.sampled:
        times = data.weight
    counted = data.labels.astype(np.float64) if times is None else data.labels * times
    positives = exact_group_sums(counted, segments.code, len(segments.names))
    names: list[str] = []
    pooled: list[str] = []
    for name, held in zip(segments.names, positives, strict=True):
        (pooled if held < least else names).append(name)
    if pooled and OTHER not in names:
        names.append(OTHER)
    place = {name: number for number, name in enumerate(names)}
    code = np.array([place[name if name in place else OTHER] for name in segments.names])
    code = code[segments.code]
    return Stack(tuple(names), tuple(pooled), code)


def stacked(data: ScoreRows, options: BoundaryOptions, split: Stack) -> Summary:
    """Return rows as one problem over the levels of all segments."""
    single = options.method == METHODS["st"].name  # one threshold, which is one a segment
    base = summarise(data, options.at_levels(1) if single else options)
    planned = base.planned
    if single:
        method = replace(planned.method, cut=None, together=False)
        planned = replace(planned, method=method)
    levels_of_all = planned.levels * len(split.names)
    if levels_of_all > MOST_LEVELS:
        raise UsageError(
            f"{len(split.names)} segments of {planned.levels} uncertainty levels are more than "
            f"{MOST_LEVELS} levels; take fewer, or pool segments by --min-group-positives."
        )
    level = np.empty(data.score.size, np.uint16)
    own_levels: list[Levels] = []
    for segment, rows in enumerate(split.rows):
        part = data.only(rows)
        if part.weight is not None and not part.weight.any():
            part = replace(part, weight=None)  # whose levels count nothing, wherever they begin
        levels = uncertainty_levels(part, planned.levels, options.strategy)
        first = np.uint16(segment * planned.levels)
        level[rows] = first + levels.of(part.uncertainty, rows.size)
        own_levels.append(levels)
    tally = count_at(data, level, levels_of_all, base.values, threads=options.workers)
    stack = replace(split, code=split.code[:0], levels=tuple(own_levels))
    counted = replace(base, tally=tally, single=tally, levels=None, level=level)
    return replace(counted, planned=planned, stack=stack)


# ---------------------------------------------------------------- a bound for each


def _fit_each(
    data: ScoreRows, options: BoundaryOptions, split: Stack, whole: BoundaryModel | None
) -> FittedBoundary:
    """Fit each segment by itself and put the boundaries side by side."""
    found: dict[str, FittedBoundary] = {}
    warnings: list[str] = []
    failure: InfeasibleError | None = None
    for name, rows in zip(split.names, split.rows, strict=True):
        part = data.only(rows)
        classes = part.labels if part.weight is None else part.labels[part.weight > 0.0]
        lack = "" if classes.size else "no row of positive weight"
        for needed, word, wanted in (("n", "negative", 0), ("p", "positive", 1)):
            if needed in options.target.needs and not (classes == wanted).any():
                lack = f"no {word} row"
        if not lack and options.value is not None:
            amounts = amounts_of(part.other(options.value), part.finder, "values")
            weights = 1.0 if part.weight is None else part.weight
            lack = "" if (amounts * part.labels * weights).any() else "no positive row of any value"
        if lack:
            warnings.append(f"segment {name!r} has {lack}: none of its rows is selected")
            continue
        try:  # what the rows of a segment were counted in can go
            found[name] = replace(choice.fit_rows(part, options.whole), summary=None)
        except InfeasibleError as error:
            failure = error
            warnings.append(f"segment {name!r}: {error.message}")
        else:
            warnings += [f"segment {name!r}: {remark}" for remark in found[name].warnings]
    if not found:
        raise failure or InfeasibleError(
            f"no segment of {options.by} has a row to select: {warnings[0]}"
        )
    together = side_by_side(data, options, split, found, whole)
    model = together.model
    if options.recall is not None and len(found) < len(split.names):  # of nothing recall is 0
        left = (own.fit for name, own in (model.groups or {}).items() if name not in found)
        model.fit.bound_met &= not any(own.positives for own in left)
    return replace(together, warnings=tuple(warnings))


def side_by_side(
    data: ScoreRows,
    options: BoundaryOptions,
    split: Stack,
    found: dict[str, FittedBoundary],
    whole: BoundaryModel | None,
) -> FittedBoundary:
    """Return the boundaries of segments in one model, over that of rows of no known segment.

    It has the figures of all rows.
    """
    models = [one.model for one in found.values()]
    nothing = never(models[0].rule)
    segments = {}
    for name, rows in zip(split.names, split.rows, strict=True):
        if name in found:
            fit, rule = found[name].model.fit, found[name].model.rule
            known = {field: getattr(fit, field) for field in parts.SegmentFit.__struct_fields__}
            known["bound_met"] = fit.bound_met if options.bound == "each" else None
            seen = parts.SegmentFit(**known)
        else:
            own, rule = data.only(rows), nothing
            weight = own.weight if own.weight is not None else np.ones(own.score.size)
            counts = math.fsum(weight), math.fsum(weight[own.labels == 1])
            whole_counts = [int(count) if count.is_integer() else count for count in counts]
            seen = parts.SegmentFit(rows=whole_counts[0], positives=whole_counts[1], in_sample=None)
        segments[name] = parts.Segment(fit=seen, **rule)
    model = models[0].with_rule(nothing) if whole is None else whole
    columns = {**model.columns}
    for one in models:
        columns |= one.columns
    columns["by"] = Column(str(options.by))
    methods = {one.method for one in models}
    method = methods.pop() if len(methods) == 1 else AUTO
    model = replace(model, method=method, columns=columns, groups=segments)
    model = replace(model, bound=options.bound, pooled=list(split.pooled))
    goal = _judge_together(data, options, model, list(found.values()))
    if whole is not None:
        model.fit.score_only = whole.fit.score_only
    return FittedBoundary(model=model, goal=goal)


# ---------------------------------------------------------------- figures of all of them


def _judge_together(
    data: ScoreRows, options: BoundaryOptions, model: BoundaryModel, fits: list[FittedBoundary]
) -> Goal:
    """Give the boundaries side by side the figures of all rows, and return the goal of these.

    `fits` are the fits of the segments that have a boundary.
    """
    method = fits[0].model.method if options.method == AUTO else options.method
    base = summarise(data, dataclasses.replace(options, method=method))
    _, goal = base.aim()
    seen = judge_rows(model, data, options.target, goal.of, base.values)
    counted = {name: getattr(seen, name) for name in parts.Figures.__struct_fields__}
    model.fit = parts.BoundaryFit(
        rows=seen.rows,
        positives=seen.positives,
        in_sample=parts.Figures(**counted),
        upper_bound=_upper_bound(fits, goal, base),
        optimal_in_sample=all(one.model.fit.optimal_in_sample for one in fits),
        exact_arithmetic=all(one.model.fit.exact_arithmetic for one in fits),
        bound_met=all(one.model.fit.bound_met for one in fits),
        cross_validated=_cross_validated(fits, goal, base),
        score_only=None,
        test=None,
        reference=reference(base, seen.selected / seen.rows),
        certificate=None,
    )
    said = {**base.origin.options, "method": options.method}
    model.provenance = replace(base.origin, options=said)
    return goal


def _upper_bound(fits: list[FittedBoundary], goal: Goal, base: Summary) -> float:
    """Return what the objective cannot exceed: shares add up, of ratios one is the largest."""
    bounds = [one.model.fit.upper_bound for one in fits]
    if goal.maximised != "recall":
        return max(bounds)
    if goal.uses_gain:
        amounts = [one.goal.totals.gain * one.goal.totals.gain_unit.size for one in fits]
        whole = base.totals().gain * base.tally.gain_unit.size
    else:
        amounts = [float(one.model.fit.positives) for one in fits]
        whole = float(base.tally.unit.amount(base.totals().positives))
    return min(1.0, math.fsum(a * b for a, b in zip(amounts, bounds, strict=True)) / whole)


def _cross_validated(
    fits: list[FittedBoundary], goal: Goal, base: Summary
) -> parts.CrossValidated | None:
    """Return figures pooled over the folds of all segments; None where one has none."""
    if any(not one.folds for one in fits):
        return None
    folds = [_in_units(fits, fold, goal, base) for fold in range(len(fits[0].folds))]
    error = standard_error(choice.goal_on(goal, fold).value(*fold[2:]) for fold in folds)
    pooled = Judged(*added(folds))
    if base.planned.options.time is not None:  # the first block of time is judged by no fit
        goal = choice.goal_on(goal, pooled)
    return pooled_figures(goal, pooled[2:], error, len(folds))


def _in_units(fits: list[FittedBoundary], fold: int, goal: Goal, base: Summary) -> Judged:
    """Return what a fold of all segments gave, in units of all rows."""
    found = [0.0] * 5
    classes = goal.totals.classes
    for one in fits:
        seen, totals = one.folds[fold], one.goal.totals
        size = float(base.totals().row_units / one.row_units)
        for first, pair in ((0, seen[:2]), (2, seen[2:4])):
            rows, hits = totals.classes.rows(float(pair[0]), float(pair[1]))
            weighed = classes.weigh(rows * size, hits * size)
            found[first] += weighed[0]
            found[first + 1] += weighed[1]
        found[4] += seen.gain * totals.gain_unit.size / goal.totals.gain_unit.size
    return Judged(*found)
