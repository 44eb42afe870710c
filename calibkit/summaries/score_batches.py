"""Score rows that do not fit: read window by window, counted as they come.

What is kept is a `ScoreSummary`.  Summaries of parts of the rows merge; a summary gives rows that can
be fitted, each of them standing for all rows that are equal to it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import polars as pl
from msgspec import Struct
from msgspec.structs import replace

from calibkit.arrays import Numbers, distinct_values, fixed
from calibkit.columns.weights import Unit, Weighed
from calibkit.errors import ResourceError
from calibkit.files.sources import Source
from calibkit.models.lineage import makers_in
from calibkit.numerics.hashes import row_hashes
from calibkit.options.shared import FitOptions, Threaded
from calibkit.runtime.memory import Memory, memory_budget
from calibkit.runtime.threads import in_order
from calibkit.summaries.counted import (
    COMMON,
    SCORE,
    SPREAD,
    Counted,
    Counter,
    NoRoomError,
    Role,
    Room,
    UnitError,
)
from calibkit.summaries.edges import edges_by
from calibkit.summaries.passes import Passes, merge_all
from calibkit.summaries.row_store import Arrays, ColumnSummaries, RowStore
from calibkit.summaries.score_rows import ROLES, ScoreRows
from calibkit.summaries.score_summary import (
    OTHER,
    ScoreState,
    ScoreSummary,
    Seen,
    checked,
    columns_of,
    level_numbers,
    level_values,
    levels_of,
)
from calibkit.summaries.states import Shard, State, files_named

#: Roles of columns that deal rows to folds, which no model names.
DEALING: Final = ("groups", "time")


class Reading(Struct, frozen=True, kw_only=True):
    """How rows are read, by columns (of roles) and a reader of all or a window of them, and what for.

    The edges of so many uncertainty `levels`, cut by a strategy (``equal-mass`` or ``equal-width``),
    must stay what they are; where `edges` were given, uncertainties count as the edge below them.
    `needs_each` is an option that needs rows as they are, if one does.  Of the `others`, further
    columns that may be made coarser like scores, it is said whether they are probabilities.  With
    several threads windows are counted while the next ones are read.
    """

    columns: Mapping[str, str]
    read: Callable[[Source], ScoreRows]
    levels: tuple[int, ...] = ()
    strategy: str = "equal-mass"
    edges: tuple[float, ...] = ()
    needs_each: str | None = None
    others: Mapping[str, bool] = {}
    threads: int = 1


def rows_within(source: Source, reading: Reading, memory: Memory | None) -> ScoreRows:
    """Return the rows of a source: all at once where they fit, else counted, or in a row store.

    `ResourceError` says that there is no room for the rows, and that they cannot be made coarser.
    """
    fits = memory is None or source.rows <= memory.entries
    if fits and not reading.edges:
        return reading.read(source)
    memory = memory_budget(None) if memory is None else memory
    passes = Passes(source, reading.columns.values(), reading.read, memory)
    if reading.needs_each is not None and not fits:
        return stored_rows(passes, memory, reading.edges)
    try:
        summary = _summarise(passes, reading, memory, COMMON)
    except UnitError:
        summary = _summarise(passes, reading, memory, _unit_of(passes))
    return summary.rows(source, memory)


def score_state(
    kind: str,
    source: Source,
    reading: Reading,
    options: Threaded,
    said: Mapping[str, Any],
    made_by: Mapping[str, str] | None = None,
) -> State:
    """Return the state of the rows of a shard, with what is said of the options of the command.

    That of a fit knows which models made the columns that its model names: those of `made_by` for
    certain, by their roles.
    """
    memory = source.memory or memory_budget(None)
    passes = Passes(source.shard(), reading.columns.values(), reading.read, memory)
    summary = _summarise(passes, reading, memory, COMMON)
    found = {**summary.said, **said}
    if isinstance(options, FitOptions):
        named = {role: name for role, name in reading.columns.items() if role not in DEALING}
        found["makers"] = makers_in(source, named, made_by)
    fullest = max(summary.seen.hashes, key=len)
    files = files_named(options, source)
    shard = Shard(summary.seen.hashes[fullest], summary.seen.rows_read, files)
    return ScoreState.of(kind, found, shard, summary, source)


def _unit_of(passes: Passes[ScoreRows]) -> Unit:
    """Return the unit that the weights of all rows are counted in."""
    found = Weighed()
    for window in passes:
        if window.weight is not None:
            found.add(window.weight)
    return found.unit


def _summarise(
    passes: Passes[ScoreRows], reading: Reading, memory: Memory, unit: Unit
) -> ScoreSummary:
    """Return the summary of the rows of some passes, which merges with others; see `rows_within`.

    Where the rows have no room as they are, uncertainties are moved down to the edges that the
    levels of the reading have on all rows, which takes another pass, or cut in bits.
    """
    room, edges = Room.of(memory), reading.edges or None
    finds = edges is None and bool(reading.levels)
    exactly = finds or reading.needs_each is not None
    first = _Pass(passes, reading, room, edges, unit, exactly=exactly)
    counted = first.count()
    if not first.narrow:
        return first.summary(counted)
    found, error = level_edges(counted, reading.levels, reading.strategy)
    second = _Pass(passes, reading, room, found, unit)
    return replace(second.summary(second.count()), level_error=error)


def level_edges(
    counted: Counted, levels: Sequence[int], strategy: str = "equal-mass"
) -> tuple[list[float], float]:
    """Return the edges of levels of counted uncertainties (see `Reading`), and the smallest; rising.

    With them comes by what share of the rows they may miss.
    """
    values, weight = counted.frame["uncertainty"].to_numpy(), counted.weights
    if not weight.any():  # which is refused of all rows, and not of a shard
        weight = np.ones(values.size)
    cut = edges_by(strategy, values, levels, weight)
    error = 0.0 if counted.exact else float(weight.max() / weight.sum())
    smallest = cut[0][0]
    return distinct_values([smallest, *np.concatenate([own for _, own in cut])]).tolist(), error


class _Pass(Struct):
    """One pass over the rows, with uncertainties moved down to edges; see `_summarise`.

    Without room for rows that must stay `exactly` as they are it becomes `narrow`: uncertainties alone
    are counted from there on, if nothing needs each row.
    """

    passes: Passes[ScoreRows]
    reading: Reading
    room: Room
    edges: Sequence[float] | None
    unit: Unit
    exactly: bool = False
    counter: Counter | None = None
    narrow: bool = False
    seen: list[Seen] = []
    last: ScoreRows | None = None
    dtypes: dict[str, str] = {}

    def count(self) -> Counted:
        frames = ((rows, self._frame(rows)) for rows in self.passes)
        for _ in in_order(self.reading.threads, self._add, frames, workers=1):
            pass  # one after the other, while the next ones are read
        assert self.counter is not None
        try:
            return self.counter.finish()
        except NoRoomError:
            return self._narrowed(self.counter).finish()

    def _add(self, window: tuple[ScoreRows, pl.DataFrame]) -> None:
        """Add the rows of a window, and the frame that they are counted in."""
        rows, frame = window
        self.last = rows
        self.seen.append(Seen.of(rows))
        if self.counter is None:
            levels = levels_of(self.edges)
            roles = _roles(rows, self.reading.others, levels=self.edges is not None)
            self.counter = Counter(roles, self.room, levels, exactly=self.exactly, unit=self.unit)
        try:
            self.counter.add(frame)
        except NoRoomError:
            self._narrowed(self.counter)

    def _narrowed(self, full: Counter) -> Counter:
        """Keep only what edges need from now on, if there are any to find; else all, but coarser."""
        if self.reading.needs_each is not None:
            raise ResourceError(
                f"memory: {self.passes.source.rows:,} rows do not fit, and {self.reading.needs_each} "
                "needs them as they are; raise --memory, or leave it out"
            )
        roles = full.roles
        self.narrow = any(role.name == "uncertainty" for role in roles)
        if self.narrow:
            weight = [role for role in roles if role.name == "weight"]
            roles = (Role("uncertainty", SCORE), *weight)
        self.counter = Counter(roles, self.room, unit=self.unit)
        for frame in full.held:
            self.counter.add(frame)
        return self.counter

    def summary(self, counted: Counted) -> ScoreSummary:
        assert self.last is not None
        return ScoreSummary(
            counted=counted,
            seen=_of_all(self.seen, self.passes),
            options=self.last.options,
            notes=self.last.notes,
            dtypes=self.dtypes,
            edges=None if self.edges is None else tuple(self.edges),
        )

    def _frame(self, rows: ScoreRows) -> pl.DataFrame:
        """Return the columns that are counted; uncertainties as numbers of levels, if there are any."""
        others = {OTHER + column.name: column for column in rows.others.iter_columns()}
        frame = pl.DataFrame({**columns_of(rows), **others})
        frame = frame.cast({pl.Int128: pl.Decimal(38, 0)})  # which Arrow has, for states
        self.dtypes = {name: str(kind) for name, kind in frame.schema.items()}
        if self.edges is None or rows.uncertainty is None:
            return frame
        return frame.with_columns(uncertainty=level_numbers(rows.uncertainty, self.edges))


def _of_all(windows: Sequence[Seen], passes: Passes[ScoreRows]) -> Seen:
    """Return what is known of all rows, also of windows of which nothing was left."""
    lost = Seen(rows_read=passes.dropped, dropped=passes.dropped, remarks=passes.remarks)
    return merge_all([*windows, lost])


def _roles(rows: ScoreRows, coarse: Mapping[str, bool], *, levels: bool) -> tuple[Role, ...]:
    found = []
    for name in columns_of(rows):
        cut = {"score": SCORE, "uncertainty": "" if levels else SPREAD}.get(name, "")
        probability = name == "score" and rows.options.measure == "probability"
        found.append(Role(name, cut, probability))
    for name in rows.others.columns:
        cut = SCORE if name in coarse else ""
        found.append(Role(OTHER + name, cut, coarse.get(name, False)))
    return tuple(found)


#: How further columns are called among the fields of a store.
_OTHER: Final = "other "


def stored_rows(
    passes: Passes[ScoreRows], memory: Memory | None, edges: Sequence[float] = ()
) -> ScoreRows:
    """Return all rows of some passes, in the order of their score and hash.

    Further columns of text are known by their distinct values, each once in memory.  Uncertainties are
    moved down to edges, if to anything.
    """
    windows, scores, known = list[Seen](), ColumnSummaries(1), dict[str, pl.Series]()
    for window in passes:
        windows.append(Seen.of(window))
        scores.add([window.score], row_hashes(columns_of(window)))
        for column in window.others.iter_columns():
            if not _is_number(column):
                text = _as_text(column).unique()
                before = known.get(column.name, text.clear())
                known[column.name] = before.append(text).unique().sort()
    seen = _of_all(windows, passes)
    arrays = Arrays(None if passes.whole else memory)
    fields = {name: values.dtype for name, values in _fields(window, known).items()}
    store = RowStore(fields, seen.rows_read - seen.dropped, arrays, scores)
    for window in passes:
        columns = _fields(window, known)
        if edges and window.uncertainty is not None:
            steps = level_values(edges, window.uncertainty.dtype.type, seen.lowest)
            columns["uncertainty"] = steps[level_numbers(window.uncertainty, edges)]
        store.add({**columns, "hash": row_hashes(columns)})
    passes.release()
    found, others = store.finish(), []
    for like in window.others.iter_columns():  # as they were read; categories have become text
        values = found[_OTHER + like.name]
        if _is_number(like):
            others.append(pl.Series(like.name, values).cast(like.dtype))
        else:
            text = known[like.name].gather(values).alias(like.name)
            others.append(text.cast(like.dtype) if like.dtype.is_numeric() else text)
    own = seen.fields(passes.source)
    own |= {role: fixed(found[role]) if role in found else None for role in ROLES}
    own["warnings"] += arrays.warnings
    own["hashes"] = seen.hashes if edges else {}
    return checked(replace(window, **own, others=pl.DataFrame(others), moved=bool(edges)))


def _fields(rows: ScoreRows, known: Mapping[str, pl.Series]) -> dict[str, Numbers]:
    """Return what is stored of rows; of text its place among the values that are `known`."""
    found = columns_of(rows)
    for column in rows.others.iter_columns():
        if _is_number(column):
            found[_OTHER + column.name] = column.to_physical().to_numpy()
            continue
        codes = pl.int_range(known[column.name].len(), dtype=pl.UInt32, eager=True)
        place = _as_text(column).replace_strict(known[column.name], codes)
        found[_OTHER + column.name] = place.to_numpy()
    return found


def _as_text(column: pl.Series) -> pl.Series:
    return column if column.dtype == pl.Binary else column.cast(pl.String)  # bytes need not be text


def _is_number(column: pl.Series) -> bool:
    kind = column.dtype
    if kind.is_integer():
        return kind != pl.Int128  # which numpy does not have
    return kind.is_float() or kind.is_temporal() or kind == pl.Boolean
