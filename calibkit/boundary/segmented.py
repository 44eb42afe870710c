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
from calibkit.boundary.describe import never, segment_of, with_segments
from calibkit.boundary.fit import Fitted, fit_summary
from calibkit.boundary.methods import METHODS, Method, exact_choice
from calibkit.boundary.model import BoundaryModel, SegmentFit
from calibkit.boundary.pooled import pool
from calibkit.boundary.problem import columns_of
from calibkit.boundary.spec import AUTO, BoundarySpec
from calibkit.boundary.summary import Stack, Summary, summarise
from calibkit.boundary.worths import read_worths
from calibkit.errors import InfeasibleError, UsageError
from calibkit.rows.columns import ScoreRows
from calibkit.rows.segments import read_segments
from calibkit.rows.weights import ROW
from calibkit.summaries.tally import count_rows

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
    assert data.label is not None
    worths = read_worths(data, spec.target)
    tally = count_rows(
        data.score,
        level,
        data.label,
        planned.levels * len(split.names),
        weight=data.weight,
        gain=None if worths is None else worths.gain,
        gain_unit=ROW if worths is None else worths.unit,
        threads=spec.threads,
    )
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
    goal = pool(data, spec, model, list(able.values()), single)
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
