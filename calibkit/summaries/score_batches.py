"""Score rows that do not fit: read window by window, condensed as they come.

What is kept is a `ScoreSummary`.  Summaries of parts of the rows merge; a summary gives rows that can
be fitted, each of them standing for all rows that are equal to it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeGuard

import numpy as np
import polars as pl
from numpy.typing import NDArray

from calibkit.bins.binning import assign
from calibkit.errors import DataError, ResourceError
from calibkit.files.sources import Source
from calibkit.memory import Memory, memory_budget
from calibkit.rows.columns import (
    HASHED,
    ScoreRows,
)
from calibkit.rows.numeric import weightless
from calibkit.rows.provenance import added_hashes, data_hash
from calibkit.rows.rows import NothingLeft, Remark, added_up
from calibkit.summaries.condense import Condensed, Condenser, NoRoomError
from calibkit.summaries.ladder import SCORE, SPREAD, Role
from calibkit.summaries.score_summary import OTHER, ScoreSummary
from calibkit.summaries.uncertainties import Uncertainties
from calibkit.summaries.windows import read_in_windows
from calibkit.threads import one_behind

#: Reads a source, or a window of one.
Read = Callable[[Source], ScoreRows]

#: The rows of the windows of a source; of some windows nothing is left.
Windows = Iterator[ScoreRows | NothingLeft]

#: Which part of the room may keep rows for another pass.
_KEPT: Final = 3


@dataclass(frozen=True)
class Spread:
    """What uncertainties are needed for.

    Attributes
    ----------
    levels
        The numbers of levels whose edges must stay what they are.
    strategy
        ``equal-mass`` or ``equal-width``: how levels are cut.
    edges
        Edges that were given: uncertainties count as the edge below them.
    """

    levels: tuple[int, ...] = ()
    strategy: str = "equal-mass"
    edges: tuple[float, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Reading:
    """How rows are read, and what they are needed for.

    Attributes
    ----------
    columns
        The columns that are read.
    read
        Reads and checks the rows of the inputs, or of a window of them.
    spread
        What uncertainties are needed for.
    needs_each
        An option that needs rows as they are, if one does.
    others
        Further columns that may be made coarser like scores: whether they are probabilities.
    threads
        With more than one, windows are condensed while the next ones are read.
    """

    columns: Sequence[str]
    read: Read
    spread: Spread = field(default_factory=Spread)
    needs_each: str | None = None
    others: Mapping[str, bool] = field(default_factory=dict)
    threads: int = 1


def rows_within(source: Source, reading: Reading, memory: Memory | None) -> ScoreRows:
    """Return the rows of a source: all at once where they fit, else condensed.

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
    if not reading.spread.edges and (memory is None or source.rows <= memory.entries):
        return reading.read(source)
    memory = memory_budget(None) if memory is None else memory
    rows = summarise_scores(source, reading, memory).rows(source, memory)
    if reading.needs_each is not None:
        rows.need_each(reading.needs_each)
    return rows


def summarise_scores(source: Source, reading: Reading, memory: Memory) -> ScoreSummary:
    """Return the summary of the rows of a source; see `rows_within`.

    Where the rows have no room as they are, uncertainties are moved down to the edges that the
    levels of `Reading.spread` have on all rows, which takes another pass, or cut in bits.
    """
    spread, file = reading.spread, source.parts[0].path
    edges = np.array(spread.edges) if spread.edges else None

    def windows() -> Windows:
        return read_in_windows(source, reading.columns, memory.batch, reading.read)

    if reading.needs_each is None and (edges is not None or not spread.levels):
        counted = _Counted(reading, memory.entries, edges)
        _count(windows(), counted, file)
        return counted.summary()
    first = _Counted(reading, memory.entries, edges, exactly=True)
    kept = _Kept(windows(), memory.room // _KEPT)
    try:
        _count(iter(kept), first, file)
    except NoRoomError:
        raise ResourceError(
            f"memory: {source.rows:,} rows do not fit, and {reading.needs_each} needs them as "
            "they are; raise --memory, or leave it out"
        ) from None
    if first.uncertainties is None:
        return first.summary()
    found = first.uncertainties.edges(spread.levels, spread.strategy)
    if found is None:
        raise first.weightless(file)
    again = kept.again() if kept.whole else windows()
    second = _Counted(reading, memory.entries, found[0], hashes=first.sums)
    _count(again, second, file)
    return replace(second.summary(), level_error=found[1])


def _count(windows: Windows, counted: _Counted, file: str) -> None:
    """Count the rows of some windows."""
    with one_behind(counted.reading.threads, counted.add) as add:
        for rows in windows:
            frame = None if isinstance(rows, NothingLeft) else _frame(rows, counted.edges)
            add((rows, frame))
    counted.finish(file)


class _Kept:
    """Windows that are kept for another pass, as long as they are few.

    Parameters
    ----------
    windows
        Where they come from.
    room
        How many bytes they may have in all.
    """

    def __init__(self, windows: Windows, room: int) -> None:
        self._windows, self._room = windows, room
        self._held: deque[ScoreRows | NothingLeft] = deque()
        self.whole = True

    def __iter__(self) -> Windows:
        for rows in self._windows:
            yield rows
            if self.whole:
                self._keep(rows)

    def _keep(self, rows: ScoreRows | NothingLeft) -> None:
        if isinstance(rows, ScoreRows):  # without the window, which may have columns of its own
            rows = replace(rows, where=None, source=None)
            self._room -= _size(rows)
        self._held.append(rows)
        if self._room < 0:
            self.whole = False
            self._held.clear()

    def again(self) -> Windows:
        """Yield the windows once more, and for the last time."""
        while self._held:
            yield self._held.popleft()


def _size(rows: ScoreRows) -> int:
    """Return how many bytes some rows have."""
    arrays = (rows.score, rows.uncertainty, rows.label, rows.weight)
    others = 0 if rows.others is None else int(rows.others.estimated_size())
    return others + sum(array.nbytes for array in arrays if array is not None)


@dataclass
class _Counted:
    """The rows of the windows so far; see `summarise_scores`.

    Attributes
    ----------
    edges
        What uncertainties are moved down to.
    exactly
        Whether rows stay as they are.  Without room for that, `uncertainties` alone are kept from
        there on, if nothing needs each row.
    hashes
        The sums of the rows' hashes, if they are known.
    """

    reading: Reading
    entries: int
    edges: NDArray[np.float64] | None
    exactly: bool = False
    hashes: dict[str, str] | None = None
    condenser: Condenser | None = None
    last: ScoreRows | None = None
    rows_read: int = 0
    dropped: int = 0
    remarks: list[Remark] = field(default_factory=list)
    sums: dict[str, str] = field(default_factory=dict)
    lowest: float | None = None
    uncertainties: Uncertainties | None = None
    condensed: Condensed | None = None

    def add(self, window: tuple[ScoreRows | NothingLeft, pl.DataFrame | None]) -> None:
        """Add the rows of a window, and the frame that they are condensed in."""
        rows, frame = window
        self.remarks += rows.remarks
        if isinstance(rows, NothingLeft):
            self.rows_read += rows.rows or 0
            self.dropped += rows.rows or 0
            return
        assert frame is not None
        self.last = rows
        self.rows_read += rows.rows_read
        self.dropped += rows.dropped
        self.lowest = _least(rows, self.lowest)
        if self.hashes is None:
            for roles, total in row_sums(rows).items():
                self.sums[roles] = added_hashes(self.sums.get(roles, "0"), total)
        if self.uncertainties is not None:
            self.uncertainties.add(frame)
            return
        if self.condenser is None:
            known = _roles(rows, self.reading.others, levels=self.edges is not None)
            self.condenser = Condenser(known, self.entries, exactly=self.exactly)
        names = [role.name for role in self.condenser.roles]
        try:
            self.condenser.add(frame.select(names))
        except NoRoomError:
            self._narrow()

    def _narrow(self) -> None:
        """Keep only what edges need from now on; all, but coarser, where that is no uncertainty."""
        if self.reading.needs_each is not None:
            raise NoRoomError
        assert self.condenser is not None
        wide = self.condenser
        narrow = tuple(role for role in wide.roles if role.name in ("uncertainty", "weight"))
        if any(role.name == "uncertainty" for role in narrow):
            self.condenser = None
            self.uncertainties = Uncertainties(narrow, self.entries)
            into: Condenser | Uncertainties = self.uncertainties
        else:
            into = self.condenser = Condenser(wide.roles, self.entries)
        for frame in wide.held:
            into.add(frame)

    def finish(self, file: str) -> None:
        """Condense what was added last; of rows of which nothing is left `file` is the first."""
        if self.last is None:
            raise NothingLeft(file, self.rows_read, added_up(self.remarks))
        if self.condenser is None:
            return
        try:
            self.condensed = self.condenser.finish()
        except NoRoomError:
            self._narrow()
            if self.uncertainties is None:
                self.condensed = self.condenser.finish()

    def weightless(self, file: str) -> DataError:
        """Return what is said of rows without weight."""
        assert self.last is not None
        return weightless(file, self.last.options.weight, self.rows_read - self.dropped)

    def summary(self) -> ScoreSummary:
        """Return the summary of all that was added, once it is finished."""
        assert self.condensed is not None
        assert self.last is not None
        return ScoreSummary(
            condensed=self._with_values(self.condensed),
            options=self.last.options,
            rows_read=self.rows_read,
            dropped=self.dropped,
            remarks=added_up(self.remarks),
            notes=self.last.notes,
            hashes=self.sums if self.hashes is None else self.hashes,
            lowest=self.lowest,
            edges=None if self.edges is None else tuple(self.edges.tolist()),
        )

    def _with_values(self, condensed: Condensed) -> Condensed:
        """Return condensed rows with the uncertainties whose numbers they have."""
        if self.last is None or self.last.uncertainty is None or not _numbered(self.edges):
            return condensed
        steps = _steps(self.edges, self.last.uncertainty.dtype)
        values = pl.Series("uncertainty", steps[condensed.frame["uncertainty"].to_numpy()])
        return replace(condensed, frame=condensed.frame.with_columns(values))


def _least(rows: ScoreRows, lowest: float | None) -> float | None:
    """Return the smallest uncertainty of rows that weigh something, and of those before."""
    if rows.uncertainty is None:
        return None
    held = rows.uncertainty if rows.weight is None else rows.uncertainty[rows.weight > 0]
    if not held.size:
        return lowest
    least = float(held.min())
    return least if lowest is None else min(least, lowest)


def row_sums(rows: ScoreRows) -> dict[str, str]:
    """Return the sums of the rows' hashes, with and without the uncertainty."""
    used = {role: getattr(rows, role) for role in HASHED if getattr(rows, role) is not None}
    found = {",".join(used): data_hash(used)}
    if used.pop("uncertainty", None) is not None:
        found[",".join(used)] = data_hash(used)
    return found


def _roles(rows: ScoreRows, coarse: Mapping[str, bool], *, levels: bool) -> tuple[Role, ...]:
    probability = rows.options.scale == "probability"
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


def _frame(rows: ScoreRows, edges: NDArray[np.float64] | None) -> pl.DataFrame:
    columns: dict[str, Any] = {
        role: getattr(rows, role)
        for role in ("score", "uncertainty", "label", "weight")
        if getattr(rows, role) is not None
    }
    if edges is not None and rows.uncertainty is not None:
        place = assign(rows.uncertainty, -np.inf, edges)
        numbered = _numbered(edges)
        columns["uncertainty"] = (
            place.astype(np.uint8) if numbered else _steps(edges, rows.uncertainty.dtype)[place]
        )
    if rows.others is not None:
        columns |= {OTHER + column.name: column for column in rows.others.iter_columns()}
    return pl.DataFrame(columns)


def _numbered(edges: NDArray[np.float64] | None) -> TypeGuard[NDArray[np.float64]]:
    """Tell whether rows have the number of their edge while they are condensed: a byte says it."""
    return edges is not None and edges.size < 256


def _steps(edges: NDArray[np.float64], kind: np.dtype[Any]) -> NDArray[Any]:
    """Return what uncertainties are moved down to: the edges, -inf below all of them."""
    steps = np.concatenate([[-np.inf], edges]).astype(kind)
    steps[1:] = np.where(
        steps[1:] < edges, np.nextafter(steps[1:], steps.dtype.type(np.inf)), steps[1:]
    )
    return steps
