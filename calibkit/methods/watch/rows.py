"""New rows as a watch counts them: those of each night by label and chance of being selected."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from calibkit.columns.rows import (
    Remark,
    RowFinder,
    as_fitted,
    is_text,
    label_column,
    merge_remarks,
    missing_mask,
    present_in,
    weight_column,
)
from calibkit.errors import DataError, ModelError, UsageError
from calibkit.files.sources import Source
from calibkit.methods.watch import covariates
from calibkit.methods.watch.residuals import BINS, counted, edges_of
from calibkit.methods.watch.state import Calendar, Night, Shard, period_at, table_of
from calibkit.models.kinds import KINDS, Reads, Request
from calibkit.models.lineage import check_makers
from calibkit.numerics.row_hash import hash_rows, hash_text
from calibkit.options.watch import WatchOptions

Places = NDArray[np.int64]

#: How many different weights the rows of a night may have: that many lines its state has.
MOST_WEIGHTS = 100

#: What the applier of a boundary that draws adds: the chance that a row is selected.
_CHANCE = "decision_probability"


#: What is said of rows without a label, where drift is not watched and where it is.
_UNLABELLED = ("without a label left out (--unlabelled drop)", "without a label, for drift alone")


@dataclass(frozen=True)
class Reading:
    """How rows are read, settled before any is.

    `labelled` says whether there is a column of labels, `outlines` what is watched for drift.
    """

    options: WatchOptions
    applier: Any
    request: Request
    reads: Reads
    calendar: Calendar
    edges: NDArray[np.float64]
    labelled: bool
    outlines: dict[str, covariates.Outline]

    @property
    def columns(self) -> dict[str, str]:
        """The columns that are read, by role."""
        options = self.options
        named = {role: getattr(options, role) for role in ("weight", "period", "labelled_at")}
        if self.labelled:
            named = {"label": options.label, **named}
        beside = {role: name for role, name in named.items() if name is not None}
        return {**self.reads.needed, **beside}

    def begun(self) -> Counted:
        """Return a night of which nothing is counted yet."""
        scores = np.zeros((BINS * self.options.calibration, 3), np.int64)
        return Counted(scores, np.zeros((len(self.outlines), BINS), np.int64))


@dataclass
class Counted:
    """What was counted of a night: rows by chance, weight and label, and the sum of their hashes.

    `drift` has the rows of each bin, a line a column that is watched for it.
    """

    scores: NDArray[np.int64]
    drift: NDArray[np.int64]
    cells: Counter[tuple[float, float, int]] = field(default_factory=Counter)
    total: int = 0

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return sum(self.cells.values())

    def night(self, period: str | int, *, weighted: bool) -> Night:
        """Return this as a night of one shard."""
        kinds = {(chance, weight) for chance, weight, _ in self.cells}
        cells, weights = table_of({k: (self.cells[*k, 0], self.cells[*k, 1]) for k in kinds})
        scores = tuple(map(tuple, self.scores.tolist()))
        drift = tuple(map(tuple, self.drift.tolist()))
        shards = (Shard(hash_text(self.total), self.rows),)
        return Night(period, cells, shards, scores, weights if weighted else (), drift)


def plan(options: WatchOptions, source: Source) -> Reading:
    """Return how the rows of a source are read.

    Raises `ModelError` for a model that is no boundary, `UsageError` for a column that is not there,
    `DataError` for a column that another model made than that of the fit.
    """
    model = options.fitted
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
    request = Request(columns=options.elsewhere, key=key)
    reads = applier.reads(source, request)
    labelled = options.label in source.schema
    if not (options.drift and options.unlabelled == "drop"):
        beside = " (--unlabelled drop needs none)" if options.drift else ""
        source.require([options.label], f"--label{beside}")
    for name, flag in (
        (options.weight, "--weight"),
        (options.period, "--period"),
        (options.labelled_at, "--labelled-at"),
    ):
        if name is not None:
            source.require([name], flag)
    check_makers(model, options.elsewhere, source)
    scale = model.columns["score"].scale
    if options.calibration and scale not in (None, "probability"):
        raise UsageError(
            f"--calibration judges probabilities, and the model's score is of --scale {scale}; leave "
            "it out, or watch a boundary that was fitted on calibrated scores."
        )
    known = covariates.outlines(model) if options.drift else {}
    outlines = {role: own for role, own in known.items() if role in reads.needed}
    calendar = _calendar(options, source)
    return Reading(options, applier, request, reads, calendar, edges_of(model), labelled, outlines)


def _calendar(options: WatchOptions, source: Source) -> Calendar:
    """Return what the nights of the inputs are, which their first value says of columns of text."""
    found: dict[str, Calendar] = {}
    names = [name for name in (options.period, options.labelled_at) if name is not None]
    if source.dialect.date_format is not None:
        source.as_dates(names)
    for name in names:
        kind = source.schema[name]
        whole = kind.is_integer()
        if is_text(kind):
            values = next(source.windows([name])).read([name])[name].drop_nulls()
            whole = len(values) > 0 and str(values[0]).strip().lstrip("-").isdigit()
        found[name] = "integer" if whole else "date"
    if len(set(found.values())) > 1:
        said = " and ".join(f"column {name!r} holds {kind}s" for name, kind in found.items())
        raise ModelError(f"{source.parts[0].path}: {said}; nights are of one kind")
    return next(iter(found.values()), "run")


def count(
    reading: Reading, source: Source, rows: int | None = None
) -> tuple[tuple[Night, ...], tuple[Remark, ...]]:
    """Return the nights of the inputs, in order, and what there is to say of rows that do not count.

    So many rows are read at a time; None: as many as memory allows.
    """
    columns = list(dict.fromkeys([*reading.columns.values(), *reading.reads.optional]))
    nights: dict[int, Counted] = {}
    remarks, tonight = list[Remark](), list[int]()
    for window in source.windows(columns, rows=rows):
        remarks += _count_window(reading, window, columns, nights, tonight)
    if tonight:
        young = sum(nights.pop(place).rows for place in sorted(nights) if place > max(tonight))
        remarks.append(
            Remark("", "row", "younger than --maturity left out, for a later night", young)
        )
    weighted = reading.options.weight is not None
    for night in nights.values():
        kinds = len({weight for _, weight, _ in night.cells})
        if kinds > MOST_WEIGHTS:
            raise DataError(
                f"{source.parts[0].path}: column {reading.options.weight!r} holds {kinds:,} weights in "
                f"a night, and a state keeps {MOST_WEIGHTS} at most: draw rows to be labelled with "
                "fewer different chances, such as one a range of the score",
                file=source.parts[0].path,
                column=reading.options.weight,
            )
    found = (
        nights[place].night(period_at(place, reading.calendar), weighted=weighted)
        for place in sorted(nights)
    )
    return tuple(found), tuple(one for one in merge_remarks(remarks) if one.count)


def _count_window(
    reading: Reading,
    window: Source,
    columns: list[str],
    nights: dict[int, Counted],
    tonight: list[int],
) -> list[Remark]:
    """Add the rows of a window to the nights; return what is to be said of others.

    `tonight` gets the last night that the window knows of, where rows wait to be of age.
    """
    options, calendar = reading.options, reading.calendar
    frame, where = window.read(columns), RowFinder(window)
    arrival = options.labelled_at or options.period
    tonight += _latest(reading, frame, where)
    remarks = []
    present = present_in([frame[name] for name in reading.reads.needed.values()])
    labelled_at = None if options.labelled_at is None else _there(frame[options.labelled_at])
    labelled = None
    if not reading.labelled:
        labelled = np.zeros(frame.height, np.bool_)
    elif options.unlabelled == "drop":
        labelled = _there(frame[options.label])
    if options.drift:
        own = np.arange(frame.height) if present is None else np.flatnonzero(present)
        _count_drift(reading, frame[own], replace(where, kept=own), nights)
    kept = np.arange(frame.height)
    for mask, after in (
        (present, "without a value that the boundary reads left out"),
        (labelled_at, "whose label has not arrived left out"),
        (labelled, _UNLABELLED[options.drift]),
    ):
        if mask is not None:
            left = kept[mask[kept]]
            remarks.append(Remark("", "row", after, kept.size - left.size))
            kept = left
    if not kept.size:
        return remarks
    if kept.size < frame.height:
        frame, where = frame[kept], replace(where, kept=kept)
    label, _ = label_column(
        frame[options.label], where, positive=options.positive, must_occur=False
    )
    weight = np.ones(frame.height)
    if options.weight is not None and options.max_weight is not None:
        weight = _weights(frame[options.weight], where, options.max_weight)
    values = reading.applier.values(frame, where, reading.reads, reading.request)
    added = dict(zip(reading.applier.added, values, strict=True))
    selected: pl.Series = added[_CHANCE if _CHANCE in added else "decision"]
    chance = selected.cast(pl.Float64).to_numpy()
    # A row counts on the night its label arrived, and with an age to wait for when it is of age.
    places = np.zeros(frame.height, np.int64)
    if arrival is not None:
        places = places_of(frame[arrival], where, calendar)
    if options.maturity is not None and options.period is not None:
        of_age = places_of(frame[options.period], where, calendar) + options.maturity
        places = of_age if options.labelled_at is None else np.maximum(places, of_age)
    used = frame.select(
        *(pl.col(name).alias(role) for role, name in reading.reads.needed.items()),
        *(pl.col(name).alias(f"by {name}") for name in reading.reads.optional),
    ).with_columns(label=pl.Series(label))
    if options.weight is not None:
        used = used.with_columns(weight=pl.Series(weight))
    score = None
    if options.calibration:
        column = reading.request.columns.get("score", options.fitted.columns["score"].name)
        score = as_fitted(options.fitted.columns["score"], frame[column], where)
    for place in np.unique(places).tolist():
        own = np.flatnonzero(places == place)
        night = nights.setdefault(place, reading.begun())
        kinds = np.stack([chance[own], weight[own], label[own]])
        alike = np.unique(kinds, axis=1, return_counts=True)
        for (share, mass, positive), times in zip(
            alike[0].T.tolist(), alike[1].tolist(), strict=True
        ):
            night.cells[share, mass, int(positive)] += times
        night.total += hash_rows(used[own])
        if score is not None:
            night.scores = counted(score[own], label[own], reading.edges) + night.scores
    return remarks


def _latest(reading: Reading, frame: pl.DataFrame, where: RowFinder) -> list[int]:
    """Return the last night that rows know of, where some wait to be of age."""
    options = reading.options
    if options.maturity is None:
        return []
    clocks = {options.labelled_at or options.period, options.period if options.drift else None}
    found = []
    for name in clocks - {None}:
        column = frame[str(name)]
        known = np.flatnonzero(_there(column))
        if known.size:
            own = places_of(column.gather(known), replace(where, kept=known), reading.calendar)
            found.append(int(own.max()))
    return found


def _count_drift(
    reading: Reading, frame: pl.DataFrame, where: RowFinder, nights: dict[int, Counted]
) -> None:
    """Add rows to the bins of their own nights, whether they have a label or not."""
    places = np.zeros(frame.height, np.int64)
    if reading.options.period is not None:
        places = places_of(frame[reading.options.period], where, reading.calendar)
    columns = reading.options.fitted.columns
    values = {
        role: as_fitted(
            columns[role], frame[reading.reads.needed[role]], where, finite=role != "score"
        )
        for role in reading.outlines
    }
    for place in np.unique(places).tolist():
        own = np.flatnonzero(places == place)
        night = nights.setdefault(place, reading.begun())
        for line, (role, outline) in enumerate(reading.outlines.items()):
            night.drift[line] += covariates.counted(values[role][own], outline.edges)
        night.total += hash_rows(pl.DataFrame({role: all_[own] for role, all_ in values.items()}))


def _weights(column: pl.Series, where: RowFinder, most: float) -> NDArray[np.float64]:
    """Return sampling weights; refuse one that is 0, and one above the largest that was declared."""
    found = weight_column(column, where)
    if not found.all():
        where.refuse(
            column, found == 0.0, "weight 0", "a row that has a label stands for some rows"
        )
    if (found > most).any():
        advice = "the bets rest on this bound: begin a new state with one that holds for all rows"
        where.refuse(column, found > most, f"a weight above --max-weight {most:g}", advice)
    return found


def _there(column: pl.Series) -> NDArray[np.bool_]:
    """Return which rows of a column have a value."""
    absent = missing_mask(column, empty=True)
    return np.ones(len(column), np.bool_) if absent is None else ~absent


def places_of(column: pl.Series, where: RowFinder, calendar: Calendar) -> Places:
    """Return the place in time of each night of a column; refuse what is none."""
    absent = missing_mask(column, empty=True)
    if absent is not None:
        where.refuse(column, absent, "no night", "fill these rows, or leave them out")
    kind = column.dtype
    if calendar == "integer":
        places = column.cast(pl.String).str.strip_chars().cast(pl.Int64, strict=False)
    elif is_text(kind):
        days = column.cast(pl.String).str.strip_chars().str.slice(0, 10)
        places = days.str.to_date("%Y-%m-%d", strict=False).to_physical().cast(pl.Int64)
    elif kind == pl.Date or isinstance(kind, pl.Datetime):
        places = column.cast(pl.Date).to_physical().cast(pl.Int64)
    else:
        where.refuse(column, None, f"type {kind} is no night", _KINDS)
    if places.null_count():
        where.refuse(column, places.is_null().to_numpy(), "no night", _KINDS)
    return places.to_numpy()


_KINDS = "give dates (2026-11-22; others by --date-format), times or whole numbers"
