"""Score rows that do not fit: read window by window, counted as they come.

What is kept is a `ScoreSummary`.  Summaries of parts of the rows merge; a summary gives rows that can
be fitted, each of them standing for all rows that are equal to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import polars as pl

from calibkit.columns.columns import ScoreRows
from calibkit.columns.numeric import weightless
from calibkit.columns.rows import NothingLeft, merge_remarks
from calibkit.columns.weights import Unit, bit_range, common_unit
from calibkit.errors import ResourceError
from calibkit.files.sources import Source
from calibkit.numerics.sums import ExactSum
from calibkit.runtime.memory import Memory, memory_budget
from calibkit.runtime.threads import one_behind
from calibkit.summaries.cells import COMMON, UnitError
from calibkit.summaries.counted import Counted, Counter, Room
from calibkit.summaries.distinct import COUNT, SCORE, SPREAD, NoRoomError, Role
from calibkit.summaries.edges import equal_width_edges, quantile_edges
from calibkit.summaries.passes import Passes, read_in_windows
from calibkit.summaries.score_summary import (
    OTHER,
    ScoreSummary,
    Seen,
    level_numbers,
    levels_of,
    no_unit,
)
from calibkit.summaries.stored_scores import stored_rows

#: Reads a source, or a window of one.
Read = Callable[[Source], ScoreRows]

#: The rows of the windows of a source; of some windows nothing is left.
Windows = Iterator[ScoreRows | NothingLeft]


@dataclass(frozen=True, kw_only=True)
class Reading:
    """How rows are read, and what they are needed for.

    Attributes
    ----------
    columns
        The columns that are read.
    read
        Reads and checks the rows of the inputs, or of a window of them.
    levels
        The numbers of uncertainty levels whose edges must stay what they are.
    strategy
        ``equal-mass`` or ``equal-width``: how levels are cut.
    edges
        Edges that were given: uncertainties count as the edge below them.
    needs_each
        An option that needs rows as they are, if one does.
    others
        Further columns that may be made coarser like scores: whether they are probabilities.
    threads
        With more than one, windows are counted while the next ones are read.
    """

    columns: Sequence[str]
    read: Read
    levels: tuple[int, ...] = ()
    strategy: str = "equal-mass"
    edges: tuple[float, ...] = ()
    needs_each: str | None = None
    others: Mapping[str, bool] = field(default_factory=dict)
    threads: int = 1


def rows_within(source: Source, reading: Reading, memory: Memory | None) -> ScoreRows:
    """Return the rows of a source: all at once where they fit, else counted, or in a row store.

    Parameters
    ----------
    source, reading
        The inputs, and how they are read.
    memory
        How much room there is; None: enough.

    Raises
    ------
    DataError
        As the reader.
    ResourceError
        No room for the rows, and they cannot be made coarser.
    """
    fits = memory is None or source.rows <= memory.entries
    if fits and not reading.edges:
        return reading.read(source)
    memory = memory_budget(None) if memory is None else memory
    if reading.needs_each is not None and not fits:
        passes = Passes(source, reading.columns, reading.read, memory)
        return stored_rows(passes, memory, reading.edges)
    try:
        summary = _summarise(source, reading, memory, COMMON)
    except UnitError:
        summary = _summarise(source, reading, memory, _unit_of(_windows(source, reading, memory)))
    return summary.rows(source, memory)


def summarise_scores(source: Source, reading: Reading, memory: Memory) -> ScoreSummary:
    """Return the summary of the rows of a source, which merges with others; see `rows_within`.

    Where the rows have no room as they are, uncertainties are moved down to the edges that the
    levels of the reading have on all rows, which takes another pass, or cut in bits.
    """
    try:
        return _summarise(source, reading, memory, COMMON)
    except UnitError:
        raise no_unit() from None


def _windows(source: Source, reading: Reading, memory: Memory) -> Windows:
    return read_in_windows(source, reading.columns, memory.batch, reading.read)


def _unit_of(windows: Windows) -> Unit:
    """Return the unit that the weights of all rows are counted in."""
    rows, total, top, last = 0, ExactSum(), -1074, 1024
    for window in windows:
        if isinstance(window, NothingLeft) or window.weight is None or not window.weight.any():
            continue
        own = bit_range(window.weight)
        rows, top, last = rows + window.weight.size, max(top, own[0]), min(last, own[1])
        total.add(window.weight)
    return common_unit(rows, total.fraction, top, last)


def _summarise(source: Source, reading: Reading, memory: Memory, unit: Unit) -> ScoreSummary:
    file, room, edges = source.parts[0].path, Room.of(memory), reading.edges or None
    finds = edges is None and bool(reading.levels)
    first = _Pass(reading, room, edges, unit, exactly=finds or reading.needs_each is not None)
    try:
        first.read(_windows(source, reading, memory), file)
    except NoRoomError:
        raise ResourceError(
            f"memory: {source.rows:,} rows do not fit, and {reading.needs_each} needs them as "
            "they are; raise --memory, or leave it out"
        ) from None
    if not first.narrow:
        return first.summary()
    assert first.counted is not None and first.seen.last is not None
    found = level_edges(first.counted, reading.levels, reading.strategy)
    if found is None:
        raise weightless(file, first.seen.last.options.weight, first.seen.rows)
    second = _Pass(reading, room, found[0], unit, hashes=first.seen.hashes)
    second.read(_windows(source, reading, memory), file)
    return replace(second.summary(), level_error=found[1])


def level_edges(
    counted: Counted, levels: Sequence[int], strategy: str = "equal-mass"
) -> tuple[list[float], float] | None:
    """Return the edges of levels, and by what share of the rows they may miss; None without weight.

    Parameters
    ----------
    counted
        Uncertainties.
    levels, strategy
        See `Reading`: all edges together, and the smallest uncertainty, rise.
    """
    values, weight = counted.frame["uncertainty"].to_numpy(), counted.weights
    held = values[weight > 0]
    if not held.size:
        return None
    low, high = float(held.min()), float(held.max())
    if strategy == "equal-width":
        edges = [equal_width_edges(low, high, count) for count in levels]
    else:
        edges = [quantile_edges(values, count, weight)[1] for count in levels]
    error = 0.0 if counted.exact else float(weight.max() / weight.sum())
    return np.unique([*np.concatenate(edges), low]).tolist(), error


@dataclass
class _Pass:
    """One pass over the rows; see `_summarise`.

    Attributes
    ----------
    edges
        What uncertainties are moved down to.
    exactly
        Whether rows stay as they are.  Without room for that, `narrow`: uncertainties alone are
        counted from there on, if nothing needs each row.
    hashes
        The sums of the rows' hashes, if they are known.
    """

    reading: Reading
    room: Room
    edges: Sequence[float] | None
    unit: Unit
    exactly: bool = False
    hashes: dict[str, str] | None = None
    counter: Counter | None = None
    narrow: bool = False
    seen: Seen = field(default_factory=Seen)
    dtypes: dict[str, str] = field(default_factory=dict)
    counted: Counted | None = None

    def read(self, windows: Windows, file: str) -> None:
        """Count the rows of all windows; of rows of which nothing is left `file` is the first."""
        with one_behind(self.reading.threads, self.add) as add:
            for rows in windows:
                add((rows, None if isinstance(rows, NothingLeft) else self._frame(rows)))
        if self.seen.last is None:
            raise NothingLeft(file, self.seen.rows_read, merge_remarks(self.seen.remarks))
        assert self.counter is not None
        try:
            self.counted = self.counter.finish()
        except NoRoomError:
            self._narrow()
            self.counted = self.counter.finish()

    def add(self, window: tuple[ScoreRows | NothingLeft, pl.DataFrame | None]) -> None:
        """Add the rows of a window, and the frame that they are counted in."""
        rows, frame = window
        self.seen.add(rows, hashed=self.hashes is None)
        if isinstance(rows, NothingLeft):
            return
        assert frame is not None
        if self.counter is None:
            levels = levels_of(self.edges)
            roles = _roles(rows, self.reading.others, levels=self.edges is not None)
            self.counter = Counter(roles, self.room, levels, exactly=self.exactly, unit=self.unit)
        try:
            self.counter.add(self._known(frame))
        except NoRoomError:
            self._narrow()

    def _known(self, frame: pl.DataFrame) -> pl.DataFrame:
        assert self.counter is not None
        names = [role.name for role in self.counter.roles]
        return frame.select(name for name in frame.columns if name in (*names, COUNT))

    def _narrow(self) -> None:
        """Keep only what edges need from now on, if there are any to find; else all, but coarser."""
        if self.reading.needs_each is not None:
            raise NoRoomError
        assert self.counter is not None
        held, roles = self.counter.held, self.counter.roles
        self.narrow = any(role.name == "uncertainty" for role in roles)
        if self.narrow:
            weight = [role for role in roles if role.name == "weight"]
            roles = (Role("uncertainty", SCORE), *weight)
        self.counter = Counter(roles, self.room, unit=self.unit)
        for frame in held:
            self.counter.add(self._known(frame))

    def summary(self) -> ScoreSummary:
        """Return the summary of all that was added."""
        seen = self.seen
        assert self.counted is not None and seen.last is not None
        return ScoreSummary(
            counted=self.counted,
            options=seen.last.options,
            rows_read=seen.rows_read,
            dropped=seen.rows_read - seen.rows,
            remarks=merge_remarks(seen.remarks),
            notes=seen.last.notes,
            hashes=seen.hashes if self.hashes is None else self.hashes,
            dtypes=self.dtypes,
            lowest=seen.lowest,
            edges=None if self.edges is None else tuple(self.edges),
        )

    def _frame(self, rows: ScoreRows) -> pl.DataFrame:
        """Return the columns that are counted; uncertainties as numbers of levels, if there are any."""
        columns: dict[str, Any] = {
            role: getattr(rows, role)
            for role in ("score", "uncertainty", "label", "weight")
            if getattr(rows, role) is not None
        }
        if rows.others is not None:
            columns |= {OTHER + column.name: column for column in rows.others.iter_columns()}
        frame = pl.DataFrame(columns)
        self.dtypes = {name: str(kind) for name, kind in frame.schema.items()}
        if self.edges is None or rows.uncertainty is None:
            return frame
        return frame.with_columns(uncertainty=level_numbers(rows.uncertainty, self.edges))


def _roles(rows: ScoreRows, coarse: Mapping[str, bool], *, levels: bool) -> tuple[Role, ...]:
    probability = rows.options.measure == "probability"
    found = [Role("score", SCORE, probability)]
    if rows.uncertainty is not None:
        found.append(Role("uncertainty", "" if levels else SPREAD))
    found += [Role(role) for role in ("label", "weight") if getattr(rows, role) is not None]
    others = [] if rows.others is None else rows.others.columns
    return (
        *found,
        *(
            Role(OTHER + name, SCORE, coarse[name]) if name in coarse else Role(OTHER + name)
            for name in others
        ),
    )
