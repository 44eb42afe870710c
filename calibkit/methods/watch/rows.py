"""New rows as a watch counts them: those of each night by label and chance of being selected."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import polars as pl
from msgspec import Struct
from msgspec.structs import replace

from calibkit.arrays import Bools, Floats, Int64s, rows_by_group
from calibkit.columns import rows as readers
from calibkit.columns.rows import Remark, RowFinder
from calibkit.errors import DataError, ModelError, UsageError
from calibkit.files.sources import Source
from calibkit.methods.watch import bins
from calibkit.methods.watch.bets import PROMISES
from calibkit.methods.watch.state import DAYS, Calendar, Night, Shard, period_at
from calibkit.models.kinds import KINDS, Reads, Request
from calibkit.models.lineage import check_makers
from calibkit.numerics.hashes import hash_rows, hash_text, merge_hashes
from calibkit.options.watch import WatchOptions
from calibkit.summaries.score_rows import columns_beside

#: How many different weights the rows of a night may have: that many lines its state has.
MOST_WEIGHTS = 100

#: What the applier of a boundary that draws adds: the chance that a row is selected.
_CHANCE = "decision_probability"

#: What is said of rows without a label, where drift is not watched and where it is.
_UNLABELLED = ("without a label left out (--unlabelled drop)", "without a label, for drift alone")

#: A night as text: a date, which a time of day may follow.
_DAY = r"^(\d{4}-\d\d-\d\d)(?:$|[T ](?:[01]?\d|2[0-3])(?::?[0-5]\d|[Z+-]|$))"
_KINDS = "give dates (2026-11-22; others by --date-format), times or whole numbers"


class Reading(Struct, frozen=True):
    """How rows are read, settled before any is.

    `outlines` says what is watched for drift; `columns` are those that are read, by role, of which
    there may be no label; `segments` are those that have promises of their own.
    """

    options: WatchOptions
    applier: Any
    reads: Reads
    calendar: Calendar
    outlines: dict[str, bins.Outline]
    columns: dict[str, str]
    segments: tuple[str, ...]

    def segment_of(self, frame: pl.DataFrame) -> Int64s:
        """Return the place of each row's segment, their number where it is none of them."""
        place = {name: at for at, name in enumerate(self.segments)}
        found = [place.get(name, len(place)) for name in self.applier.model.groups]
        return np.array([*found, len(place)])[self.applier.group_of(frame)]

    def night(self, place: int, rows: int, total: int, **counted: Any) -> Night:
        """Return rows of a night, of which so many have a label, with the sum of their hashes."""
        scores = ((0, 0, 0),) * (bins.BINS * self.options.calibration)
        drift = ((0,) * bins.BINS,) * len(self.outlines)
        shards = (Shard(hash_text(total), rows),)
        night = Night(period_at(place, self.calendar), (), shards, scores, drift=drift)
        return replace(night, **counted)

    def places(self, name: str | None, frame: pl.DataFrame, where: RowFinder) -> Int64s:
        """Return the place in time of each night of a column, 0 without one; refuse what is none."""
        if name is None:
            return np.zeros(frame.height, np.int64)
        column = frame[name]
        readers.refuse_missing(column, where, "no night", empty=True)
        kind = column.dtype
        if self.calendar == "integer":
            places = column.cast(pl.String).str.strip_chars().cast(pl.Int64, strict=False)
        elif readers.is_text(kind):
            days = column.cast(pl.String).str.strip_chars().str.extract(_DAY)
            places = days.str.to_date("%Y-%m-%d", strict=False).to_physical().cast(pl.Int64)
        elif kind == pl.Date or isinstance(kind, pl.Datetime):
            places = column.dt.date().to_physical().cast(pl.Int64)
        else:
            where.refuse(column, None, f"type {kind} is no night", _KINDS)
        if self.calendar == "date":
            places = places.set(~places.is_between(*DAYS), None)
        where.check(column, places.is_null(), "no night", _KINDS)
        return places.to_numpy()


def plan(options: WatchOptions, source: Source) -> Reading:
    """Return how the rows of a source are read.

    Raises `ModelError` for a model that is no boundary, `UsageError` for a column that is not there,
    `DataError` for a column that another model made than that of the fit.
    """
    model: Any = options.fitted
    if model.kind != "boundary":
        raise ModelError(
            f"a model of kind {model.kind!r} makes no promise that labels could refute; watch takes "
            "a boundary (of a bundle, the boundary's own file and the scores that it reads)"
        )
    applier = KINDS[model.kind].applier(model)
    if getattr(applier, "three_way", False):
        raise UsageError(
            "watch tests what one threshold a level promises, and this boundary blocks and reviews; "
            "judge it by evaluate --boundary."
        )
    key = "row-number" if _CHANCE in applier.added else None
    reads = applier.reads(source, Request(columns=options.elsewhere, key=key))
    if not (options.drift and options.unlabelled == "drop"):
        beside = " (--unlabelled drop needs none)" if options.drift else ""
        source.require([options.label], f"--label{beside}")
    columns = reads.needed | ({"label": options.label} if options.label in source.schema else {})
    columns |= columns_beside(source, options, "weight", "period", "labelled_at")
    check_makers(model, options.elsewhere, source)
    score = model.columns["score"]
    if options.calibration and score.measure != "probability":
        raise UsageError(
            f"--calibration judges probabilities, and the model's score is of --scale {score.scale}; "
            "leave it out, or watch a boundary that was fitted on calibrated scores."
        )
    known = bins.outlines(model) if options.drift else {}
    outlines = {role: own for role, own in known.items() if role in reads.needed}
    own = not options.named and model.objective.subject_to.keys() & set(PROMISES)
    segments = model.bounded_groups if own else ()
    calendar = _calendar(options, source)
    return Reading(options, applier, reads, calendar, outlines, columns, segments)


def _calendar(options: WatchOptions, source: Source) -> Calendar:
    """Return what the nights of the inputs are, which the first value says of columns of text.

    A column without a value says nothing: labels that have not arrived.
    """
    found: dict[str, Calendar] = {}
    names = [name for name in (options.period, options.labelled_at) if name is not None]
    if source.dialect.date_format is not None:
        source.as_dates(names)
    for name in names:
        kind = source.schema[name]
        whole = kind.is_integer()
        if readers.is_text(kind) or kind == pl.Null:
            first = _first(source, name)
            if first is None:
                continue
            whole = first.strip().lstrip("-").isdigit()
        found[name] = "integer" if whole else "date"
    if len(set(found.values())) > 1:
        said = " and ".join(f"column {name!r} holds {kind}s" for name, kind in found.items())
        raise ModelError(f"{source.file}: {said}; nights are of one kind")
    return next(iter(found.values()), "date" if names else "run")


def _first(source: Source, name: str) -> str | None:
    """Return the first value of a column as text; None where it has none."""
    for window in source.windows([name]):
        column = window.read([name])[name]
        values = column.filter(_there(column))
        if values.len():
            return str(values[0])
    return None


def count(
    reading: Reading, source: Source, last: int | None
) -> tuple[tuple[Night, ...], tuple[Remark, ...]]:
    """Return the nights of the inputs, in order, and what there is to say of rows that do not count.

    `last` is the last night counted before: tonight, where the inputs know of none that is later.
    """
    columns = list(dict.fromkeys([*reading.columns.values(), *reading.reads.optional]))
    parts: dict[int, list[Night]] = {}
    remarks, tonight = list[Remark](), list[int]()
    for window in source.windows(columns):
        frame, where = window.read(columns), RowFinder(window, remedy=readers.LEAVE_OUT)
        tonight += _latest(reading, frame, where)
        found = [*_drifted(reading, frame, where)] if reading.options.drift else []
        kept = _counting(reading, frame, remarks)
        if kept.size:
            found += _labelled(reading, frame[kept], where.only(kept))
        for place, night in found:
            parts.setdefault(place, []).append(night)
    nights = {place: _one(parts[place]) for place in sorted(parts)}
    if tonight:
        now = max(tonight) if last is None else max(*tonight, last)
        young = sum(nights.pop(place).rows for place in [*nights] if place > now)
        remarks.append(
            Remark("", "row", "younger than --maturity left out, for a later night", young)
        )
    most = max((len(set(night.weights)) for night in nights.values()), default=0)
    if most > MOST_WEIGHTS:
        raise DataError.of(
            source.file,
            f"column {reading.options.weight!r} holds {most:,} weights in a night, and a state keeps "
            f"{MOST_WEIGHTS} at most: draw rows to be labelled with fewer different chances, such as "
            "one a range of the score",
            column=reading.options.weight,
        )
    return tuple(nights.values()), tuple(one for one in readers.merge_remarks(remarks) if one.count)


def _one(parts: list[Night]) -> Night:
    """Return the parts of a night as those of one shard."""
    night = parts[0].merge(*parts[1:])
    whole = Shard(merge_hashes(shard.data_hash for shard in night.shards), night.rows)
    return replace(night, shards=(whole,))


def _counting(reading: Reading, frame: pl.DataFrame, remarks: list[Remark]) -> Int64s:
    """Return the rows that count as labelled, and remark on the others."""
    options = reading.options
    present = readers.present_in([frame[name] for name in reading.reads.needed.values()])
    arrived = None if options.labelled_at is None else _there(frame[options.labelled_at])
    labelled = None
    if "label" not in reading.columns:
        labelled = np.zeros(frame.height, np.bool_)
    elif options.unlabelled == "drop":
        labelled = _there(frame[options.label])
    kept = np.arange(frame.height)
    for mask, after in (
        (present, "without a value that the boundary reads left out"),
        (arrived, "whose label has not arrived left out"),
        (labelled, _UNLABELLED[options.drift]),
    ):
        if mask is not None:
            left = kept[mask[kept]]
            remarks.append(Remark("", "row", after, kept.size - left.size))
            kept = left
    return kept


def _labelled(
    reading: Reading, frame: pl.DataFrame, where: RowFinder
) -> Iterator[tuple[int, Night]]:
    """Yield the nights of labelled rows, with their places."""
    options = reading.options
    label, _ = readers.label_column(
        frame[options.label], where, positive=options.positive, must_occur=False
    )
    weight = np.ones(frame.height)
    if options.weight is not None and options.max_weight is not None:
        weight = _weights(frame[options.weight], where, options.max_weight)
    values = reading.applier.values(frame, where, reading.reads)
    added = dict(zip(reading.applier.added, values, strict=True))
    selected: pl.Series = added[_CHANCE if _CHANCE in added else "decision"]
    chance = selected.cast(pl.Float64).to_numpy()
    # A row counts on the night its label arrived, and with an age to wait for when it is of age.
    places = reading.places(options.labelled_at or options.period, frame, where)
    if options.maturity is not None:
        places = np.maximum(places, reading.places(options.period, frame, where) + options.maturity)
    used = frame.select(
        *(pl.col(name).alias(role) for role, name in reading.reads.needed.items()),
        *(pl.col(name).alias(f"by {name}") for name in reading.reads.optional),
    ).with_columns(label=pl.Series(label))
    if options.weight is not None:
        used = used.with_columns(weight=pl.Series(weight))
    score, edges = np.empty(0), bins.edges_of(options.fitted)
    if options.calibration:
        column = frame[reading.reads.needed["score"]]
        score = readers.as_fitted(options.fitted.columns["score"], column, where)
    told = [chance, weight]
    if reading.segments:
        told = [reading.segment_of(frame), *told]
    for place, own in _by_night(places):
        alike = np.stack([column[own] for column in told])
        kinds, code = np.unique(alike, axis=1, return_inverse=True)
        *segments, chances, weights = kinds
        counts = np.zeros((weights.size, 2), np.int64)
        np.add.at(counts, (code.ravel(), label[own]), 1)
        cells = zip(chances.tolist(), *counts.T.tolist(), strict=True)
        counted: dict[str, Any] = {"cells": tuple(cells)}
        if options.weight is not None:
            counted["weights"] = tuple(weights.tolist())
        if reading.segments:
            counted["segments"] = tuple(segments[0].astype(np.int64).tolist())
        if options.calibration:
            scores = bins.calibration_counts(score[own], label[own], edges)
            counted["scores"] = tuple(map(tuple, scores.tolist()))
        yield place, reading.night(place, own.size, hash_rows(used[own]), **counted)


def _by_night(places: Int64s) -> Iterator[tuple[int, Int64s]]:
    """Yield each night, and which rows are of it."""
    nights, code = np.unique(places, return_inverse=True)
    yield from zip(nights.tolist(), rows_by_group(code, nights.size), strict=False)


def _latest(reading: Reading, frame: pl.DataFrame, where: RowFinder) -> Iterator[int]:
    """Yield the last night that each column of nights knows of, where rows wait to be of age."""
    options = reading.options
    if options.maturity is None:
        return
    names = {options.labelled_at or options.period}
    if options.drift:
        names.add(options.period)
    for name in names:
        known = np.flatnonzero(_there(frame[str(name)]))
        if known.size:
            yield int(reading.places(name, frame[known], where.only(known)).max())


def _drifted(
    reading: Reading, frame: pl.DataFrame, where: RowFinder
) -> Iterator[tuple[int, Night]]:
    """Yield the nights of rows, whether they have a label or not, by the bins of what is watched."""
    needed = reading.reads.needed
    present = readers.present_in([frame[name] for name in needed.values()])
    if present is not None:
        frame, where = frame.filter(pl.Series(present)), where.only(np.flatnonzero(present))
    places = reading.places(reading.options.period, frame, where)
    columns = reading.options.fitted.columns
    names = {role: needed[role] for role in reading.outlines}
    values = readers.arrays_as_fitted(columns, names, frame, where)
    for place, own in _by_night(places):
        watched = {role: column[own] for role, column in values.items()}
        drift = tuple(
            tuple(bins.drift_counts(watched[role], outline.edges).tolist())
            for role, outline in reading.outlines.items()
        )
        yield place, reading.night(place, 0, hash_rows(pl.DataFrame(watched)), drift=drift)


def _weights(column: pl.Series, where: RowFinder, most: float) -> Floats:
    """Return sampling weights; refuse one that is 0, and one above the largest that was declared."""
    found = readers.weight_column(column, where)
    where.check(column, found == 0.0, "weight 0", "a row that has a label stands for some rows")
    advice = "the bets rest on this bound: begin a new state with one that holds for all rows"
    where.check(column, found > most, f"a weight above --max-weight {most:g}", advice)
    return found


def _there(column: pl.Series) -> Bools:
    """Return which rows of a column have a value."""
    absent = readers.missing_mask(column, empty=True)
    return np.ones(len(column), np.bool_) if absent is None else ~absent
