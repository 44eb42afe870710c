"""Score rows that do not fit: read window by window, condensed as they come.

What is kept is a `ScoreSummary`.  Summaries of parts of the rows merge; a summary gives rows that can
be fitted, each of them standing for all rows that are equal to it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from calibkit.bins.binning import equal_width_edges, quantile_edges
from calibkit.errors import ResourceError
from calibkit.files.sources import Source
from calibkit.memory import Memory, memory_budget
from calibkit.rows.columns import (
    HASHED,
    ScoreRows,
)
from calibkit.rows.provenance import added_hashes, data_hash
from calibkit.rows.rows import NothingLeft, Remark, added_up
from calibkit.summaries.condense import COUNT, Condenser, NoRoomError
from calibkit.summaries.ladder import SCORE, SPREAD, Role
from calibkit.summaries.score_summary import OTHER, ScoreSummary, column_of
from calibkit.summaries.windows import read_in_windows

#: Reads a source, or a window of one.
Read = Callable[[Source], ScoreRows]


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
    """

    columns: Sequence[str]
    read: Read
    spread: Spread = field(default_factory=Spread)
    needs_each: str | None = None
    others: Mapping[str, bool] = field(default_factory=dict)


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
    levels of `Reading.spread` have on all rows, which takes two more passes, or cut in bits.
    """
    spread = reading.spread
    edges = np.array(spread.edges) if spread.edges else None
    if reading.needs_each is None and (edges is not None or not spread.levels):
        return _summary(source, reading, memory, edges=edges)
    try:
        return _summary(source, reading, memory, edges=edges, exactly=True)
    except NoRoomError:
        if reading.needs_each is not None:
            raise ResourceError(
                f"memory: {source.rows:,} rows do not fit, and {reading.needs_each} needs them as "
                "they are; raise --memory, or leave it out"
            ) from None
    edges, error = _edges(source, reading, memory)
    return replace(_summary(source, reading, memory, edges=edges), level_error=error)


def _edges(
    source: Source, reading: Reading, memory: Memory
) -> tuple[NDArray[np.float64] | None, float]:
    """Return the edges of the levels that are needed, and by what share of the rows they may miss."""
    spread = reading.spread
    found = _summary(source, reading, memory, keep=("uncertainty", "weight"))
    frame = found.condensed.frame
    values, weight = column_of(frame, "uncertainty"), column_of(frame, "weight")
    if values is None:
        return None, 0.0
    times = frame[COUNT].to_numpy().astype(np.float64)
    weight = times if weight is None else weight * times
    held = values[weight > 0]
    if spread.strategy == "equal-width":
        ends = float(held.min()), float(held.max())
        edges = [equal_width_edges(*ends, count) for count in spread.levels]
    else:
        edges = [quantile_edges(values, count, weight)[1] for count in spread.levels]
    error = 0.0 if found.condensed.exact else float(weight.max() / weight.sum())
    return np.unique(np.concatenate([*edges, held[:1].astype(np.float64)])), error


def _summary(
    source: Source,
    reading: Reading,
    memory: Memory,
    *,
    exactly: bool = False,
    keep: Sequence[str] | None = None,
    edges: NDArray[np.float64] | None = None,
) -> ScoreSummary:
    """Return the summary of rows, or (`exactly`) raise `NoRoomError` where it would be coarse."""
    counted = _Counted(memory.entries, exactly, keep, edges, reading.others)
    for rows in read_in_windows(source, reading.columns, memory.batch, reading.read):
        counted.remarks += rows.remarks
        if isinstance(rows, NothingLeft):
            counted.rows_read += rows.rows or 0
            counted.dropped += rows.rows or 0
        else:
            counted.add(rows)
    return counted.summary(source.parts[0].path)


@dataclass
class _Counted:
    """The rows of the windows so far; see `_summary`."""

    entries: int
    exactly: bool
    keep: Sequence[str] | None
    edges: NDArray[np.float64] | None
    others: Mapping[str, bool]
    condenser: Condenser | None = None
    last: ScoreRows | None = None
    rows_read: int = 0
    dropped: int = 0
    remarks: list[Remark] = field(default_factory=list)
    hashes: dict[str, str] = field(default_factory=dict)
    lowest: float | None = None

    def add(self, rows: ScoreRows) -> None:
        """Add the rows of a window."""
        self.last = rows
        self.rows_read += rows.rows_read
        self.dropped += rows.dropped
        self.lowest = _least(rows, self.lowest)
        if self.keep is None:
            for roles, total in row_sums(rows).items():
                self.hashes[roles] = added_hashes(self.hashes.get(roles, "0"), total)
        if self.condenser is None:
            known = _roles(rows, self.others, levels=self.edges is not None)
            if self.keep is not None:
                known = tuple(role for role in known if role.name in self.keep)
            self.condenser = Condenser(known, self.entries, exactly=self.exactly)
        names = [role.name for role in self.condenser.roles]
        self.condenser.add(_frame(rows, self.edges).select(names))

    def summary(self, file: str) -> ScoreSummary:
        """Return the summary of all that was added."""
        if self.condenser is None or self.last is None:
            raise NothingLeft(file, self.rows_read, added_up(self.remarks))
        return ScoreSummary(
            condensed=self.condenser.finish(),
            options=self.last.options,
            rows_read=self.rows_read,
            dropped=self.dropped,
            remarks=added_up(self.remarks),
            notes=self.last.notes,
            hashes=self.hashes,
            lowest=self.lowest,
            edges=None if self.edges is None else tuple(self.edges.tolist()),
        )


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
        columns["uncertainty"] = _onto(rows.uncertainty, edges)
    if rows.others is not None:
        columns |= {OTHER + column.name: column for column in rows.others.iter_columns()}
    return pl.DataFrame(columns)


def _onto(values: NDArray[Any], edges: NDArray[np.float64]) -> NDArray[Any]:
    """Return values moved down to the next edge, those below all of them to -inf."""
    steps = np.concatenate([[-np.inf], edges]).astype(values.dtype)
    steps[1:] = np.where(
        steps[1:] < edges, np.nextafter(steps[1:], steps.dtype.type(np.inf)), steps[1:]
    )
    return steps[np.searchsorted(edges, values, side="right")]
