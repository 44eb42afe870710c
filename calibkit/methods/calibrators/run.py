"""A fit of ``calibrate`` from its rows to its model: see `calibkit.summaries.states.Run`.

Rows of scores become a tally, a map for all of them and for each segment, the model; rows of class
probabilities are needed all at once, see `calibkit.methods.calibrators.classes`.
"""

from __future__ import annotations

import dataclasses
from functools import cached_property, partial
from typing import Any, Final

import numpy as np
from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from calibkit.arrays import Numbers, UInt8s
from calibkit.columns.remarks import of_tally
from calibkit.columns.rows import Remark
from calibkit.columns.segments import Segments, group_parts, read_segments, time_parts
from calibkit.errors import DataError, ModelError, UsageError
from calibkit.files.sources import Source
from calibkit.maps.application import into_unit_interval
from calibkit.maps.method import Points, by_level, parts_of, pooled
from calibkit.maps.methods import FOLDS, METHODS, MOST_PARTS, choose
from calibkit.maps.model import (
    SCORE_VERSION,
    SEGMENTS,
    CalibratorModel,
    Candidate,
    MapFit,
    ScoreMap,
)
from calibkit.methods.calibrators import classes
from calibkit.models.model import Column
from calibkit.numerics.hashes import random_parts
from calibkit.numerics.sums import added, cut, each_block
from calibkit.options.calibrate import AUTO, DEFAULTS, CalibrateOptions
from calibkit.options.option import plain
from calibkit.runtime.memory import Memory
from calibkit.runtime.threads import later
from calibkit.summaries.score_batches import Reading, rows_within, score_state
from calibkit.summaries.score_rows import ScoreRows, columns_beside, read_score_rows, resolve
from calibkit.summaries.score_summary import columns_of, rows_of_state
from calibkit.summaries.states import Fitted, Plan, State, about, finished, options_of, recorded
from calibkit.summaries.tally import Tally, count_rows
from calibkit_kernels.maps import mass_outside
from calibkit_kernels.metrics import expit, loss_sums

#: A segment needs so many rows of each class for a map of its own.
FEWEST_OF_A_CLASS: Final = 10
_MOST_SEGMENTS: Final = 65_535
_PARTS: Final = 3
#: Segments that a warning names.
_NAMED: Final = 10


def fit(options: CalibrateOptions, source: Source) -> Fitted[CalibratorModel]:
    """Return the model of all rows."""
    if options.of_classes:
        return recorded(classes.fit(options, source, source.memory), source)
    rows = rows_within(source, score_reading(source, options), source.memory)
    return recorded(fit_calibrator(rows, options), source)


def plan(options: CalibrateOptions, source: Source) -> Plan:
    """Return what a fit would do."""
    found = classes.used_columns if options.of_classes else used_columns
    return Plan(found(source, options), options.steps())


def state(options: CalibrateOptions, source: Source) -> State:
    """Return a summary of the scores of a shard; of class probabilities the rows."""
    if options.of_classes:
        return classes.state(options, source)
    said = {"problem": plain(options)}
    return score_state("calibrate", source, score_reading(source, options), options, said)


def finish(state: State, memory: Memory, threads: int) -> Fitted[CalibratorModel]:
    """Return the model of the rows of a merged state."""
    if isinstance(state, classes.ClassState):
        return classes.finish(state, memory, threads)
    options = options_of(state, CalibrateOptions, threads)
    rows = rows_of_state(state, memory, options.needs_each)
    others = rows.others.columns
    if options.of_classes or sorted(others) != sorted(set(options.segments)):
        raise ModelError("a damaged state: its rows are not those of its options", file=state.path)
    return finished(fit_calibrator(rows, options), state)


def read_calibration_rows(source: Source, options: CalibrateOptions) -> ScoreRows:
    """Read scores, labels, weights and segments.

    Prior shift needs no labels: a file without the label column will do.
    """
    clips, columns = options.out_of_range == "clip", options.columns
    beside = _beside(source, options)
    rows = read_score_rows(
        source,
        dataclasses.replace(columns, scale="raw") if clips else columns,
        label=_labelled(source, options),
        uncertainty=False,
        finite_scores=True,
        others=list(dict.fromkeys(beside.values())),
    )
    if not source.whole:
        rows.refuse_absent(beside)
    if not clips:
        return rows
    score, moved = into_unit_interval(rows.score)
    clipped = dataclasses.replace(rows.options, scale=options.scale)
    rows = replace(rows, score=score, options=clipped)
    if not moved:
        return rows
    remark = Remark("", "score", "outside [0, 1] clipped (--out-of-range clip)", moved)
    return replace(rows, warnings=(*rows.warnings, remark.text), remarks=(*rows.remarks, remark))


def score_reading(source: Source, options: CalibrateOptions) -> Reading:
    """Return how scores are read, and which option needs each row as it is."""
    return Reading(
        columns=used_columns(source, options),
        read=partial(read_calibration_rows, options=options),
        needs_each=options.needs_each,
        threads=options.workers,
    )


def used_columns(source: Source, options: CalibrateOptions) -> dict[str, str]:
    """Return the column of each role that is read."""
    labelled = _labelled(source, options)
    roles = resolve(source, options.columns, label=labelled, uncertainty=False).roles
    if not labelled:
        roles.pop("label")
    return roles | _beside(source, options)


def _beside(source: Source, options: CalibrateOptions) -> dict[str, str]:
    taken = {name: f"--{role}" for role, name in options.columns.roles.items()}
    return columns_beside(source, options, SEGMENTS, "groups", "time", taken=taken)


def _labelled(source: Source, options: CalibrateOptions) -> bool:
    return options.entry.fits or options.label in source.schema


def fit_calibrator(rows: ScoreRows, options: CalibrateOptions) -> Fitted[CalibratorModel]:
    """Fit a map from scores to probabilities, of rows that `read_calibration_rows` reads."""
    given = _Given(rows, options)
    by = {} if given.segments is None else {SEGMENTS: given.segments.code}
    fingerprint = later(options.workers, rows.fingerprint, {**columns_of(rows), **by})
    tally = given.counted()
    if options.split == "thirds":
        tally = given.dealt(tally, _PARTS, options.seed)
    asked, candidates, said = _chosen(given, tally)
    points = pooled(tally, given.scale)
    try:
        whole, warnings = _map(tally, points, asked)
    except DataError as error:
        problem, label = f"column {rows.options.label!r}: {error}", rows.options.label
        raise DataError.of(rows.source.file, problem, column=label, rows=rows.rows) from None
    total = _sums(points, whole, asked)
    groups: dict[str, ScoreMap] | UnsetType = UNSET
    shared: list[str] | UnsetType = UNSET
    if given.segments is not None:
        groups, shared, total, more = _by_segment(given, given.segments, tally, whole, asked)
        warnings = (*warnings, *more)
    shaped, more_said = _shaped(options)
    files = rows.source.paths
    origin = about(CalibratorModel, options, shaped, rows.rows, fingerprint(), files, **more_said)
    model = CalibratorModel(
        **{**origin, "version": SCORE_VERSION},
        columns=_columns(rows, options),
        method=asked.named,
        candidates=candidates,
        fit=_figures(points, total, rows),
        out_of_range=options.out_of_range or "error",
        groups=groups,
        pooled_groups=shared,
        **{name: getattr(whole, name) for name in ScoreMap.__struct_fields__ if name != "fit"},
    )
    if rows.label is not None:
        columns = tally.score, tally.count, tally.positive, int(rows.score.size)
        warnings = (*warnings, *of_tally(rows.options.score, rows.options.scale, *columns))
    return Fitted(model, (*rows.warnings, *warnings), (*rows.notes, *said), rows.details)


class _Given(Struct, frozen=True, dict=True):
    """The rows of a fit, which are counted, and dealt to parts."""

    rows: ScoreRows
    options: CalibrateOptions

    @property
    def scale(self) -> str:
        """Whether scores are probabilities, logits or neither."""
        return self.rows.options.measure

    @cached_property
    def segments(self) -> Segments | None:
        """The segments that may have a map each."""
        by = self.options.by
        if by is None:
            return None
        found = read_segments(self.rows.other(by), self.rows.finder)
        if len(found.names) > _MOST_SEGMENTS:
            raise UsageError(
                f"--by {by} has {len(found.names):,} values; at most {_MOST_SEGMENTS:,} can have a "
                "map each."
            )
        return found

    @cached_property
    def columns(self) -> dict[str, Numbers]:
        """Score, label (0 where there is none) and segment of each row, and its weight if any."""
        size, by = self.rows.score.size, self.segments
        code = np.zeros(size, np.uint16) if by is None else by.code.astype(np.uint16)
        return {"label": np.zeros(size, np.uint8), **columns_of(self.rows), "by": code}

    def counted(self, part: UInt8s | None = None) -> Tally:
        """Return the tally of the rows, a level for each segment."""
        columns = self.columns["score"], self.columns["by"], self.columns["label"]
        levels = 1 if self.segments is None else len(self.segments.names)
        threads = self.options.workers
        return count_rows(*columns, levels, weight=self.rows.weight, part=part, threads=threads)

    def dealt(self, tally: Tally, parts: int, seed: int, *, kept: int | None = None) -> Tally:
        """Return a tally dealt to parts: rows of a group to one, blocks of time in their order.

        Of parts beyond the first `kept` (None: all) there may be nothing.
        """
        rows, groups, time = self.rows, self.options.groups, self.options.time
        if groups is None and time is None and tally.unit.size == 1.0:  # dealt as counts
            return tally.deal(parts, seed, kept=kept)
        if groups is not None:
            part = group_parts(rows.other(groups), parts, seed, rows.finder)
        else:
            part = random_parts(self.columns, parts, seed)
        if time is not None:
            block = time_parts(rows.other(time), FOLDS + 1, rows.finder, rows.repeats)
            part = np.where(part < FOLDS, block, MOST_PARTS).astype(np.uint8)
        return self.counted(part)


def _chosen(
    given: _Given, tally: Tally
) -> tuple[CalibrateOptions, list[Candidate] | UnsetType, tuple[str, ...]]:
    """Return what is fitted, the candidates where it had to be chosen, and what to say of them."""
    options = given.options
    if options.named != AUTO:
        return options, UNSET, ()
    points = pooled(tally, given.scale)
    forward = options.time is not None

    def deal(parts: int, seed: int) -> list[Points]:
        folds = FOLDS + forward
        return parts_of(given.dealt(tally, parts, seed, kept=folds), folds, points.scale)

    measure = options.optimize or "log_loss"
    name, candidates = choose(
        points, deal, options, forward=forward, measure=measure, clip=options.clip
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


def _map(
    tally: Tally, points: Points, options: CalibrateOptions
) -> tuple[ScoreMap, tuple[str, ...]]:
    """Return the map of the rows of a tally, and what the user should be told."""
    parts = []
    if tally.part.size:
        parts = [replace(one, what=points.what) for one in parts_of(tally, _PARTS, points.scale)]
        if not all(part.score.size for part in parts):
            raise DataError(f"{points.what} are too few for --split thirds; use --split same")
    return METHODS[options.named].fitted(points, options, parts, options.clip)


def _by_segment(
    given: _Given, segments: Segments, tally: Tally, whole: ScoreMap, options: CalibrateOptions
) -> tuple[dict[str, ScoreMap], list[str], tuple[float, ...], tuple[str, ...]]:
    """Return the maps of segments, which segments use the one of all rows, and sums over all."""
    groups: dict[str, ScoreMap] = {}
    shared: list[str] = []
    warnings: list[str] = []
    sums: list[tuple[float, ...]] = []
    fewest = min(FEWEST_OF_A_CLASS, options.min_rows // 2)
    for name, own in zip(segments.names, by_level(tally), strict=True):
        if not own.score.size:  # its rows have no weight
            shared.append(name)
            continue
        points = replace(pooled(own, given.scale), what=f"the rows with {segments.column} = {name}")
        rarer = min(float(points.positives), float(points.rows) - float(points.positives))
        made = None
        if points.rows >= options.min_rows and rarer >= fewest:
            try:
                made, said = _map(own, points, options)
                warnings += said
            except DataError as error:
                warnings.append(f"{error}: {name} uses the map of all rows")
        sums.append(_sums(points, made or whole, options))
        if made is None:
            shared.append(name)
        else:
            figures = _figures(points, sums[-1], given.rows)
            groups[name] = replace(made, fit=figures)
    if shared:
        named = ", ".join(shared[:_NAMED]) + (", …" if len(shared) > _NAMED else "")
        count = "1 value uses" if len(shared) == 1 else f"{len(shared)} values use"
        warnings.append(
            f"--by {segments.column}: {count} the map of all rows ({named}); fewer than "
            f"{options.min_rows} rows, or than {fewest} of a class"
        )
    return groups, shared, added(sums), tuple(warnings)


def _sums(points: Points, one: ScoreMap, options: CalibrateOptions) -> tuple[float, ...]:
    """Return sums over the rows of a map, in score order.

    How many were moved before its logit and after, then in units the log loss and squared error of the
    map, and those of the scores where they are probabilities.
    """
    method, clip = METHODS[options.named], one.clip
    write = method.writer(replace(one, clip=0.0), points.scale)

    def sums(score: Numbers, count: Numbers, positive: Numbers) -> tuple[float, ...]:
        inputs = points.clipped(score, count) if method.takes_logits else 0
        result, *others = (np.empty(score.size) for _ in method.added)
        write(score, result, *others)
        outputs = mass_outside(result, count, clip, 1.0 - clip)
        np.clip(result, clip, 1.0 - clip, out=result)
        losses = loss_sums(result, count, positive)
        if points.scale == "raw":
            return inputs, outputs, *losses
        if points.scale == "logit":
            expit(score, result)
        before = result if points.scale == "logit" else score
        return inputs, outputs, *losses, *loss_sums(before, count, positive)

    arrays = points.score, points.count, points.positive
    found = each_block(sums, arrays, cut(0, points.score.size), options.workers)
    inputs, outputs, *losses = added(found)
    return points.unit.amount(inputs), points.unit.amount(outputs), *losses


def _figures(points: Points, sums: tuple[float, ...], rows: ScoreRows) -> MapFit:
    labelled, total = rows.label is not None, points.totals[0]
    inputs, outputs, *losses = sums
    names = "log_loss", "brier", "log_loss_before", "brier_before"
    means: dict[str, Any] = dict.fromkeys(names)
    if labelled:
        means |= zip(names, (loss / total for loss in losses), strict=False)
    return MapFit(
        rows=points.rows,
        positives=points.positives if labelled else None,
        **means,
        inputs_clipped=inputs,
        outputs_clipped=outputs,
        resolution=UNSET if rows.resolution is None else rows.resolution,
    )


def _columns(rows: ScoreRows, options: CalibrateOptions) -> dict[str, Column]:
    used = rows.options
    found = {
        "score": Column(used.score, str(rows.score.dtype), used.scale),
        "label": None if rows.label is None else Column(used.label, positive=used.positive),
        "weight": None if used.weight is None else Column(used.weight),
        SEGMENTS: None if options.by is None else Column(options.by),
    }
    return {role: column for role, column in found.items() if column is not None}


def _shaped(options: CalibrateOptions) -> tuple[list[str], dict[str, Any]]:
    """Return the options that shape a model, and what stands for those that were not given."""
    shaped = ["on_missing", "unlabelled", "groups", "time", "by"]
    shaped += ["min_rows"] if options.by else []
    shaped += ["interpolate"] if options.interpolate else []
    shaped += ["seed"] if options.named == AUTO or options.split == "thirds" else []
    own = [name for name in options.entry.options if name in DEFAULTS]
    more = {name: getattr(options, name) or DEFAULTS[name] for name in own}
    more |= {"optimize": options.optimize or "log_loss"} if options.named == AUTO else {}
    more |= {"method": options.named, "clip": options.clip}
    return shaped, more | {"out_of_range": options.out_of_range or "error"}
