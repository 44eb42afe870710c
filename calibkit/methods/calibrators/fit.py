"""Fitting a calibrator: rows to a tally, a map for all of them and for each segment, the model."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from calibkit.columns.columns import ScoreRows
from calibkit.columns.remarks import of_tally
from calibkit.columns.segments import Segments, group_parts, read_segments, time_parts
from calibkit.errors import DataError, UsageError
from calibkit.maps.calibrator import SCORE_VERSION, SEGMENTS, CalibratorModel
from calibkit.maps.choose import FOLDS, MOST_PARTS, choose, splits
from calibkit.maps.method import Method, Points, by_level, default_clip, mapped, parts_of, pooled
from calibkit.maps.methods import METHODS
from calibkit.maps.score_map import Candidate, MapFit, ScoreMap
from calibkit.models.model import Column
from calibkit.numerics.blocks import added, cut, each_block
from calibkit.numerics.row_hash import random_parts
from calibkit.options.calibrate import CalibrateOptions
from calibkit.options.maps import AUTO, DEFAULTS
from calibkit.runtime.threads import later
from calibkit.summaries.runs import Fitted, provenance
from calibkit.summaries.tally import Tally, count_rows
from calibkit_kernels.maps import mass_outside
from calibkit_kernels.reliability import expit, loss_sums

Floats = NDArray[Any]

#: A segment needs so many rows of each class for a map of its own.
FEWEST_OF_A_CLASS: Final = 10
_MOST_SEGMENTS: Final = 65_535
_PARTS: Final = 3
#: Segments that a warning names.
_NAMED: Final = 10


@dataclass(frozen=True)
class Sums:
    """Sums over the rows of a map, and the rows that were moved.

    Losses are in units: log loss and squared error of the map, then those of the scores where they are
    probabilities.
    """

    losses: tuple[float, ...]
    inputs: int | float
    outputs: int | float


def fit_calibrator(rows: ScoreRows, options: CalibrateOptions) -> Fitted[CalibratorModel]:
    """Fit a map from scores to probabilities, of rows that `read_calibration_rows` of `run` reads."""
    scale, threads = rows.options.measure, options.workers
    segments = _segments(rows, options)
    fingerprint = later(threads, _rows_hash, rows, segments)
    level, tally = _tally(rows, segments, options)
    asked, candidates, said = _chosen(rows, level, tally, options)
    method = METHODS[asked.named]
    try:
        whole, warnings = _map(tally, scale, method, asked)
    except DataError as error:
        label = rows.options.label
        file = None if rows.source is None else rows.source.parts[0].path
        message = f"{f'{file}: ' if file else ''}column {label!r}: {error}"
        raise DataError(message, file=file, column=label, rows=rows.rows) from None
    points = pooled(tally, scale)
    total = _sums(points, whole, method, threads)
    model = CalibratorModel(
        kind=CalibratorModel.KIND,
        version=SCORE_VERSION,
        columns=_columns(rows, options),
        method=asked.named,
        candidates=candidates,
        fit=_figures(points, total, rows),
        out_of_range=options.out_of_range or "error",
        tags=dict(options.tags or {}),
        **{name: getattr(whole, name) for name in ScoreMap.__struct_fields__ if name != "fit"},
    )
    if segments is not None:
        groups, shared, total, more = _by_segment(tally, segments, rows, whole, method, asked)
        warnings = (*warnings, *more)
        model.groups, model.pooled_groups = groups, shared
        model.fit = _figures(points, total, rows)
    files = rows.source.paths if rows.source else []
    shaped = _shaped(options, rows)
    model.provenance = provenance(options, shaped, rows.rows, fingerprint(), files)
    if rows.label is not None:
        columns = tally.score, tally.count, tally.positive, int(rows.score.size)
        warnings = (*warnings, *of_tally(rows.options.score, rows.options.scale, *columns))
    details = (f"{rows.rows:,} rows used of {rows.rows_read:,} read",)
    return Fitted(model, (*rows.warnings, *warnings), (*rows.notes, *said), details)


def _chosen(
    rows: ScoreRows, level: NDArray[np.uint16], tally: Tally, options: CalibrateOptions
) -> tuple[CalibrateOptions, list[Candidate] | msgspec.UnsetType, tuple[str, ...]]:
    """Return what is fitted, the candidates where it had to be chosen, and what to say of them."""
    if options.named != AUTO:
        return options, msgspec.UNSET, ()
    points = pooled(tally, rows.options.measure)

    forward = options.time is not None

    def deal(parts: int, seed: int) -> list[Points]:
        found = _dealt(rows, level, tally, parts, seed, options)
        return parts_of(found, FOLDS + forward, points.scale)

    dealings = splits(deal, float(points.rows), options.seed, forward=forward)
    name, candidates = choose(
        dealings, points, options, measure=options.optimize or "log_loss", clip=options.clip
    )
    said: tuple[str, ...] = ()
    if name == "none":
        others = [one.reason for one in candidates if one.method != "none"]
        why = (
            "no map is better than the scores as they are, beyond noise"
            if None in others
            else f"no map could be compared ({others[0]})"
        )
        said = (f"{why}: they stay as they are",)
    return options.chosen(name), candidates, said


def _segments(rows: ScoreRows, options: CalibrateOptions) -> Segments | None:
    if options.by is None:
        return None
    assert rows.others is not None and rows.where is not None
    found = read_segments(rows.others[options.by], rows.where)
    if len(found.names) > _MOST_SEGMENTS:
        raise UsageError(
            f"--by {options.by} has {len(found.names):,} values; at most {_MOST_SEGMENTS:,} can have a "
            "map each."
        )
    return found


def _tally(
    rows: ScoreRows, segments: Segments | None, options: CalibrateOptions
) -> tuple[NDArray[np.uint16], Tally]:
    """Return the level of each row, its segment, and the tally, dealt to parts where they are split."""
    level = np.zeros(rows.score.size, np.uint16)
    levels = 1
    if segments is not None:
        level, levels = segments.code.astype(np.uint16), len(segments.names)
    label = np.zeros(rows.score.size, np.uint8) if rows.label is None else rows.label
    columns = rows.score, level, label, levels
    tally = count_rows(*columns, weight=rows.weight, threads=options.workers)
    if options.split == "thirds":
        tally = _dealt(rows, level, tally, _PARTS, options.seed, options)
    return level, tally


def _dealt(
    rows: ScoreRows,
    level: NDArray[np.uint16],
    tally: Tally,
    parts: int,
    seed: int,
    options: CalibrateOptions,
) -> Tally:
    """Return a tally of rows dealt to parts: rows of a group to one, blocks of time in their order."""
    by_column = options.groups is not None or options.time is not None
    if not by_column and tally.unit.size == 1.0:  # whole rows: dealt as counts
        return tally.deal(parts, seed)
    label = np.zeros(rows.score.size, np.uint8) if rows.label is None else rows.label
    used: dict[str, NDArray[Any]] = {"score": rows.score, "label": label, "by": level}
    if rows.weight is not None:
        used["weight"] = rows.weight
    if options.groups is not None:
        assert rows.others is not None and rows.where is not None
        part = group_parts(rows.others[options.groups], parts, seed, rows.where)
    else:
        part = random_parts(used, parts, seed)
    if options.time is not None:
        assert rows.others is not None and rows.where is not None
        block = time_parts(rows.others[options.time], FOLDS + 1, rows.where)
        part = np.where(part < FOLDS, block, MOST_PARTS).astype(np.uint8)
    columns = rows.score, level, label, tally.levels
    return count_rows(*columns, weight=rows.weight, part=part, threads=options.workers)


def _map(
    tally: Tally, scale: str, method: Method, options: CalibrateOptions, what: str = "the rows"
) -> tuple[ScoreMap, tuple[str, ...]]:
    """Return the map of the rows of a tally, and what the user should be told."""
    points = replace(pooled(tally, scale), what=what)
    parts = []
    if tally.part.size:
        parts = [replace(part, what=what) for part in parts_of(tally, _PARTS, scale)]
        if not all(part.score.size for part in parts):
            raise DataError(f"{what} are too few for --split thirds; use --split same")
    found = method.fit(points, options, parts)
    clip = default_clip(method, points) if options.clip is None else options.clip
    return ScoreMap(clip=clip, **found.fields), found.warnings


def _by_segment(
    tally: Tally,
    segments: Segments,
    rows: ScoreRows,
    whole: ScoreMap,
    method: Method,
    options: CalibrateOptions,
) -> tuple[dict[str, ScoreMap], list[str], Sums, tuple[str, ...]]:
    """Return the maps of segments, which segments use the one of all rows, and sums over all."""
    groups: dict[str, ScoreMap] = {}
    shared: list[str] = []
    warnings: list[str] = []
    sums: list[Sums] = []
    fewest = min(FEWEST_OF_A_CLASS, options.min_rows // 2)
    for name, own in zip(segments.names, by_level(tally), strict=True):
        if not own.score.size:  # its rows have no weight
            shared.append(name)
            continue
        points = pooled(own, rows.options.measure)
        rarer = min(float(points.positives), float(points.rows) - float(points.positives))
        made = None
        if points.rows >= options.min_rows and rarer >= fewest:
            try:
                what = f"the rows with {segments.column} = {name}"
                made, said = _map(own, rows.options.measure, method, options, what)
                warnings += said
            except DataError as error:
                warnings.append(f"{error}: {name} uses the map of all rows")
        found = _sums(points, made or whole, method, options.workers)
        sums.append(found)
        if made is None:
            shared.append(name)
        else:
            groups[name] = msgspec.structs.replace(made, fit=_figures(points, found, rows))
    if shared:
        named = ", ".join(shared[:_NAMED]) + (", …" if len(shared) > _NAMED else "")
        count = "1 value uses" if len(shared) == 1 else f"{len(shared)} values use"
        warnings.append(
            f"--by {segments.column}: {count} the map of all rows ({named}); fewer than "
            f"{options.min_rows} rows, or than {fewest} of a class"
        )
    losses = added([one.losses for one in sums])
    total = Sums(losses, *added([(one.inputs, one.outputs) for one in sums]))
    return groups, shared, total, tuple(warnings)


def _sums(points: Points, one: ScoreMap, method: Method, threads: int) -> Sums:
    """Return the losses of scores and of calibrated probabilities, summed in score order."""
    scale = points.scale
    raw = msgspec.structs.replace(one, clip=0.0)
    result = mapped(method, raw, points.score, scale, threads)[0]
    outputs = 0
    if one.clip > 0.0:
        outputs = mass_outside(result, points.count, one.clip, 1.0 - one.clip)
        np.clip(result, one.clip, 1.0 - one.clip, out=result)
    losses = _losses(result, points, threads)
    if scale != "raw":
        score = points.score
        if scale == "logit":
            score = np.empty(points.score.size)
            expit(points.score, score)
        losses += _losses(score, points, threads)
    inputs = points.clipped() if method.takes_logits else 0
    return Sums(losses, inputs, points.unit.amount(int(outputs)))


def _losses(probability: Floats, points: Points, threads: int) -> tuple[float, ...]:
    """Return the sums of log loss and squared error, in units."""
    arrays = probability, points.count, points.positive
    found = each_block(loss_sums, arrays, cut(0, probability.size), threads)
    return added(found)[1:]


def _figures(points: Points, sums: Sums, rows: ScoreRows) -> MapFit:
    """Return what a model says of the rows of a map."""
    labelled, total = rows.label is not None, points.totals[0]
    means = [loss / total for loss in sums.losses] if labelled else []
    log_loss, brier, log_loss_before, brier_before = (*means, *[None] * 4)[:4]
    return MapFit(
        rows=points.rows,
        positives=points.positives if labelled else None,
        log_loss=log_loss,
        brier=brier,
        log_loss_before=log_loss_before,
        brier_before=brier_before,
        inputs_clipped=sums.inputs,
        outputs_clipped=sums.outputs,
        resolution=msgspec.UNSET if rows.resolution is None else rows.resolution,
    )


def _columns(rows: ScoreRows, options: CalibrateOptions) -> dict[str, Column]:
    used = rows.options
    found = {"score": Column(used.score, str(rows.score.dtype), used.scale)}
    if rows.label is not None:
        found["label"] = Column(used.label, positive=used.positive)
    if used.weight is not None:
        found["weight"] = Column(used.weight)
    if options.by is not None:
        found[SEGMENTS] = Column(options.by)
    return found


def _shaped(options: CalibrateOptions, rows: ScoreRows) -> dict[str, Any]:
    """Return what shaped a model."""
    shaped: dict[str, Any] = {
        "method": options.named,
        "clip": options.clip,
        "out_of_range": options.out_of_range or "error",
        "on_missing": rows.options.on_missing,
        "unlabelled": rows.options.unlabelled,
    }
    own = [name for name in options.entry.options if name in DEFAULTS]
    shaped |= {name: getattr(options, name) or DEFAULTS[name] for name in own}
    if options.interpolate:
        shaped["interpolate"] = True
    if options.named == AUTO:
        shaped["optimize"] = options.optimize or "log_loss"
        for name in ("groups", "time"):
            if getattr(options, name) is not None:
                shaped[name] = getattr(options, name)
    if options.split == "thirds" or options.named == AUTO:
        shaped["seed"] = options.seed
    if options.by is not None:
        shaped |= {"by": options.by, "min_rows": options.min_rows}
    return shaped


def _rows_hash(rows: ScoreRows, segments: Segments | None) -> str:
    used: dict[str, NDArray[Any]] = {"score": rows.score}
    if rows.label is not None:
        used["label"] = rows.label
    if rows.weight is not None:
        used["weight"] = rows.weight
    if segments is not None:
        used[SEGMENTS] = segments.code
    return rows.fingerprint(used)
