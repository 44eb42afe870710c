"""Boundaries with thresholds for each segment, a value of a column.

With the bound on all rows together the segments are one problem: its levels are the uncertainty
levels of the first segment, then those of the next one.  The optimum over them spends the bound where
it buys most.  With the bound on each segment, every segment is a fit of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import msgspec
import numpy as np
from numpy.typing import NDArray

from calibkit.bins.binning import MOST_LEVELS, Levels, uncertainty_levels
from calibkit.bins.grid_table import GridTable
from calibkit.boundary.auto import LEVELS, choose_among, choose_method, fit_choice
from calibkit.boundary.choose import choose_levels
from calibkit.boundary.decide import OTHER
from calibkit.boundary.describe import never, reference, segment_of, with_segments
from calibkit.boundary.figures import judge_rows, pooled_figures, standard_error
from calibkit.boundary.fit import Fitted, fit_summary
from calibkit.boundary.goals import Goal
from calibkit.boundary.methods import METHODS, Method, exact_choice
from calibkit.boundary.model import BoundaryModel
from calibkit.boundary.parts import BoundaryFit, CrossValidated, Figures, SegmentFit
from calibkit.boundary.problem import columns_of, count_at, tally_totals
from calibkit.boundary.spec import AUTO, BoundarySpec
from calibkit.boundary.summary import Stack, Summary, summarise
from calibkit.boundary.worths import read_worths
from calibkit.errors import InfeasibleError, UsageError
from calibkit.rows.columns import ScoreRows
from calibkit.rows.segments import read_segments

#: Positive rows that a segment needs for a bound of its own.
MIN_POSITIVES = 50

#: The methods that take all segments as one problem.
OVERALL = ("exact", "st", "stochastic", "mist", "gmt")


@dataclass(frozen=True)
class Split:
    """Rows by segment.

    Attributes
    ----------
    names
        The segments.
    rows
        The rows of each of them.
    pooled
        The values of the column that share the segment `calibkit.boundary.decide.OTHER`.
    """

    names: tuple[str, ...]
    rows: tuple[NDArray[np.int64], ...]
    pooled: tuple[str, ...]


def fit_segments(
    data: ScoreRows | GridTable, spec: BoundarySpec, *, auto_levels: bool = False
) -> Fitted:
    """Fit a boundary with thresholds for each value of a column.

    Parameters
    ----------
    data
        Rows, the column `spec.by` among their others.
    spec
        What to fit.
    auto_levels
        Whether cross-validation chooses the number of uncertainty levels.

    Raises
    ------
    UsageError
        An impossible combination of options.
    DataError
        Rows without a segment, or without a class that is needed.
    InfeasibleError
        No boundary selects a row and meets the bound.
    """
    _check(data, spec)
    assert isinstance(data, ScoreRows)
    split = split_rows(data, spec)
    alone = replace(spec, by=None, bound="overall", min_group_positives=None)
    fit = partial(_fit_alone, auto_levels=auto_levels)
    try:
        whole: Fitted | None = fit(data, alone)
    except InfeasibleError:
        whole = None
    if spec.bound == "overall":
        count = partial(stacked, split=split, fallback=None if whole is None else whole.model)
        if spec.method == AUTO:
            summaries = [count(data, wanted) for wanted in _candidates(data, spec)]
            return fit_choice(choose_among(summaries))
        return fit_summary(choose_levels(data, spec, count) if auto_levels else count(data, spec))
    return _fit_each(data, spec, split, whole, fit)


def _check(data: ScoreRows | GridTable, spec: BoundarySpec) -> None:
    if isinstance(data, GridTable):
        raise UsageError("a grid has lost its rows: --by needs them.")
    if spec.bound == "each":
        if spec.target.bound is None:
            raise UsageError(
                f"--bound each needs a bound, and --{spec.target.option} has none: leave it out, or "
                "give --precision, --recall, --fpr or --capacity."
            )
        return
    if spec.method not in (*OVERALL, AUTO) or spec.randomise == "tie":
        raise UsageError(
            f"--by with --bound overall does not go with --method {spec.method}"
            f"{' --randomise tie' if spec.randomise == 'tie' else ''}; methods that do: "
            f"{', '.join((AUTO, *OVERALL))}. --bound each takes all methods."
        )
    if spec.score_bins or spec.order != "uncertainty-score":
        raise UsageError(
            "--by with --bound overall takes every distinct score: leave --score-bins and --order "
            "out, or use --bound each."
        )


def split_rows(data: ScoreRows, spec: BoundarySpec) -> Split:
    """Return the rows of each segment; those with too few positives share one."""
    assert spec.by is not None and data.others is not None and data.where is not None
    assert data.label is not None
    segments = read_segments(data.others[spec.by], data.where)
    least = spec.min_group_positives
    if least is None:
        least = MIN_POSITIVES if spec.bound == "each" else 0
    positives = np.bincount(segments.code[data.label == 1], minlength=len(segments.names))
    short = positives < least
    pooled = [name for name, few in zip(segments.names, short, strict=True) if few]
    names = [name for name, few in zip(segments.names, short, strict=True) if not few]
    if pooled and OTHER not in names:
        names.append(OTHER)
    place = {name: names.index(OTHER if name in pooled else name) for name in segments.names}
    code = np.array([place[name] for name in segments.names])[segments.code]
    rows = tuple(np.flatnonzero(code == own) for own in range(len(names)))
    return Split(tuple(names), rows, tuple(pooled))


def _fit_alone(data: ScoreRows, spec: BoundarySpec, *, auto_levels: bool) -> Fitted:
    """Fit one boundary on some rows, without segments."""
    if spec.method == AUTO:
        return fit_choice(choose_method(data, spec))
    return fit_summary(choose_levels(data, spec) if auto_levels else summarise(data, spec))


# ---------------------------------------------------------------- one bound for all


def _candidates(data: ScoreRows, spec: BoundarySpec) -> list[BoundarySpec]:
    """Return what ``auto`` tries: a threshold a segment, then the optimum over several levels."""
    several: tuple[int, ...] = LEVELS if spec.uncertainty_bins is None else (spec.uncertainty_bins,)
    if data.uncertainty is None or several == (1,):
        several = ()
    single = replace(spec, method="st", uncertainty_bins=1)
    return [single, *(replace(spec, method="exact", uncertainty_bins=own) for own in several)]


def stacked(
    data: ScoreRows, spec: BoundarySpec, split: Split, fallback: BoundaryModel | None
) -> Summary:
    """Return rows as one problem over the levels of all segments."""
    base = summarise(data, spec)
    planned = replace(base.planned, method=_per_segment(base.planned.method))
    if planned.levels * len(split.names) > MOST_LEVELS:
        raise UsageError(
            f"{len(split.names)} segments of {planned.levels} uncertainty levels are more than "
            f"{MOST_LEVELS} levels; take fewer, or pool segments by --min-group-positives."
        )
    level = np.empty(data.score.size, np.uint16)
    own_levels: list[Levels] = []
    for segment, rows in enumerate(split.rows):
        part = data.only(rows)
        levels = uncertainty_levels(part, planned.levels, spec.strategy)
        first = np.uint16(segment * planned.levels)
        level[rows] = first + levels.of(part.uncertainty, rows.size)
        own_levels.append(levels)
    worths = read_worths(data, spec.target)
    levels_of_all = planned.levels * len(split.names)
    tally = count_at(data, level, levels_of_all, worths, threads=spec.threads)
    problem = replace(
        base.problem, tally=tally, levels=None, level=level, columns=columns_of(data, worths)
    )
    stack = Stack(split.names, split.pooled, tuple(own_levels), fallback)
    return replace(base, planned=planned, problem=problem, single=tally, levels=None, stack=stack)


def _per_segment(method: Method) -> Method:
    """Return a method that takes each level by itself: a single threshold is one a segment."""
    if method.name == METHODS["st"].name:
        return replace(method, choose=exact_choice, together=False)
    return method


# ---------------------------------------------------------------- a bound for each


def _fit_each(
    data: ScoreRows,
    spec: BoundarySpec,
    split: Split,
    whole: Fitted | None,
    fit: Callable[[ScoreRows, BoundarySpec], Fitted],
) -> Fitted:
    """Fit each segment by itself and put the boundaries side by side."""
    alone = replace(spec, by=None, bound="overall", min_group_positives=None)
    found: dict[str, Fitted | None] = {}
    warnings: list[str] = []
    failure: InfeasibleError | None = None
    for name, rows in zip(split.names, split.rows, strict=True):
        part = data.only(rows)
        assert part.label is not None
        found[name] = None
        if "p" in spec.target.needs and not part.label.any():
            warnings.append(f"segment {name!r} has no positive row: none of its rows is selected")
            continue
        try:
            found[name] = fit(part, alone)
        except InfeasibleError as error:
            failure = error
            warnings.append(f"segment {name!r}: {error.message}")
        else:
            told = found[name]
            warnings += [
                f"segment {name!r}: {remark}" for remark in (told.warnings if told else ())
            ]
    able = {name: one for name, one in found.items() if one is not None}
    if not able:
        assert failure is not None
        raise failure
    like = next(iter(able.values())).model
    segments = {}
    for name, rows in zip(split.names, split.rows, strict=True):
        one = found[name]
        segments[name] = segment_of(never(like) if one is None else one.model)
        segments[name].fit = _segment_fit(one, data.only(rows))
    model = with_segments(_beside(like, whole, able), segments, split.pooled, spec)
    methods = {one.model.method for one in able.values()}
    model.method = methods.pop() if len(methods) == 1 else AUTO
    single = None if whole is None else whole.model.fit.score_only
    goal = _pool(data, spec, model, list(able.values()), single)
    return Fitted(model, goal, tuple(warnings))


def _beside(like: BoundaryModel, whole: Fitted | None, able: dict[str, Fitted]) -> BoundaryModel:
    """Return the boundary of rows of no known segment, with all columns that segments use."""
    model = never(like) if whole is None else whole.model
    columns = dict(model.columns)
    for one in able.values():
        columns |= one.model.columns
    return msgspec.structs.replace(model, columns=columns)


def _segment_fit(fitted: Fitted | None, rows: ScoreRows) -> SegmentFit:
    if fitted is None:
        weight = rows.weight if rows.weight is not None else np.ones(rows.score.size)
        assert rows.label is not None
        counts = math.fsum(weight), math.fsum(weight[rows.label == 1])
        whole = [int(count) if count.is_integer() else count for count in counts]
        return SegmentFit(rows=whole[0], positives=whole[1], in_sample=None)
    fit = fitted.model.fit
    return SegmentFit(
        rows=fit.rows,
        positives=fit.positives,
        in_sample=fit.in_sample,
        bound_met=fit.bound_met,
        cross_validated=fit.cross_validated,
    )


# ---------------------------------------------------------------- figures of all of them


def _pool(
    data: ScoreRows,
    spec: BoundarySpec,
    model: BoundaryModel,
    parts: list[Fitted],
    single: Figures | None,
) -> Goal:
    """Give the boundaries side by side the figures of all rows, and return the goal of these.

    `parts` are the fits of the segments that have a boundary, `single` the figures of one threshold
    for all rows.
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
    options = {**base.origin.options, "method": spec.method}
    model.provenance = msgspec.structs.replace(base.origin, options=options)
    return goal


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
    counted = [sum(fold[k] for fold in folds) for k in (2, 3, 4)]
    forward = base.planned.spec.time is not None  # the first block of time is judged by no fit
    pooled = goal
    if forward:
        rows, positives = (round(sum(fold[k] for fold in folds)) for k in (0, 1))
        pooled = goal.of(replace(whole, rows=rows, positives=positives))
    return pooled_figures(pooled, counted, standard_error(values), len(folds))


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
