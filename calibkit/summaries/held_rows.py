"""Rows that a fit goes through many times, held together: the distinct ones, and how often each occurs.

Multi-pass fits (trees, gradients) have no smaller summary that is exact.  Rows of a column set merge
like any summary: each distinct row once, sorted, whatever the shards were.  The fit then runs on all
of them as if they had been read at once, so it gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import polars as pl

from calibkit.errors import ResourceError
from calibkit.files.formats import TEXT_FORMATS
from calibkit.files.inputs import Part
from calibkit.files.readers import Table
from calibkit.files.schemas import one_schema
from calibkit.files.sources import Source
from calibkit.memory import Memory
from calibkit.rows.provenance import hash_text
from calibkit.rows.rows import NothingLeft
from calibkit.summaries.condense import COUNT, Condenser, NoRoomError
from calibkit.summaries.ladder import Role
from calibkit.summaries.row_hashes import hash_rows
from calibkit.summaries.windows import read_in_windows

#: How the columns are called among the roles: none of them is `COUNT` then.
HELD = "column "


#: Into how many windows as many rows as there is room for are cut: each is read, checked and hashed.
_PARTS = 4


@dataclass(frozen=True)
class HeldRows:
    """Distinct rows.

    Attributes
    ----------
    frame
        The columns as they were read (categories as text), called `HELD` and their name, and
        `COUNT`; sorted.
    text
        Whether numbers were read from text, so that other shards may hold them in another type.
    """

    frame: pl.DataFrame
    text: bool

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return int(self.frame[COUNT].sum())

    @property
    def columns(self) -> tuple[str, ...]:
        """What the columns are called in the inputs."""
        names = (name.removeprefix(HELD) for name in self.frame.columns if name.startswith(HELD))
        return tuple(names)

    @property
    def hash(self) -> str:
        """A hash of the rows, as 16 hexadecimal digits: that of `SeenRows` too."""
        return hash_text(
            hash_rows(_without_prefix(self.frame.drop(COUNT)), self.frame[COUNT].to_numpy())
        )

    def source(self, names: Sequence[str], memory: Memory | None = None) -> Source:
        """Return all rows as a source.

        Parameters
        ----------
        names
            The files that the rows came from, for messages and provenance.
        memory
            How much room there is; None: enough.

        Raises
        ------
        ResourceError
            If the rows do not fit.
        """
        need_room(self.rows, len(self.columns), memory)
        frame, times = self.frame, self.frame[COUNT].to_numpy()
        if self.rows > times.size:
            frame = frame[np.repeat(np.arange(times.size, dtype=np.uint32), times)]
        frame = frame.select(pl.col(HELD + name).alias(name) for name in self.columns)
        frames = [frame, *(frame.clear() for _ in names[1:])]
        parts = [
            Part(name, "arrow", {}, one.height, name)
            for name, one in zip(names, frames, strict=True)
        ]
        return Source(parts, [Table(one, dict(one.schema), one.height) for one in frames])


@dataclass(frozen=True)
class SeenRows:
    """Rows that were read and checked, but not kept.

    Attributes
    ----------
    frame
        As that of `HeldRows`, without rows: it has the types of the columns.
    text
        As that of `HeldRows`.
    rows, hash
        How many rows there are, and a hash of them.
    """

    frame: pl.DataFrame
    text: bool
    rows: int
    hash: str

    @property
    def columns(self) -> tuple[str, ...]:
        """What the columns are called in the inputs."""
        return HeldRows(self.frame, self.text).columns


def hold_rows(
    source: Source, columns: Sequence[str], check: Callable[[Source], object], memory: Memory
) -> HeldRows:
    """Return the rows of a source, read in windows; see `see_rows`.

    Raises
    ------
    UsageError, DataError
        As `check`.
    ResourceError
        If the distinct rows do not fit.
    """
    rows = see_rows(source, columns, check, memory)
    if isinstance(rows, SeenRows):
        raise _no_room(source.rows, len(rows.columns))
    return rows


def see_rows(
    source: Source,
    columns: Sequence[str],
    check: Callable[[Source], object],
    memory: Memory,
    *,
    hold: bool = True,
) -> HeldRows | SeenRows:
    """Return the rows of a source, read in windows, or where they do not fit what was seen of them.

    Parameters
    ----------
    source, columns
        The inputs, and which of their columns.
    check
        Reads a window as the fit would, so that values that cannot be used are refused here, where
        their file and row are known.
    memory
        How much room there is.

    Raises
    ------
    UsageError, DataError
        As `check`.
    """
    names = list(dict.fromkeys(columns))

    def read(window: Source) -> pl.DataFrame:
        with suppress(NothingLeft):  # what is dropped is said of all rows together
            check(window)
        return _plain(window.read(names))

    condenser: Condenser | None = None
    if hold:
        roles = tuple(Role(HELD + name) for name in names)
        condenser = Condenser(roles, memory.rows_of(len(names)), exactly=True)
    kinds, rows, total = pl.DataFrame(), 0, 0
    most = min(memory.batch, memory.rows_of(len(names)) // _PARTS)
    for frame in read_in_windows(source, names, most, read):
        assert isinstance(frame, pl.DataFrame)
        kinds, rows = frame.clear(), rows + frame.height
        total += hash_rows(_without_prefix(frame))
        if condenser is not None:
            try:
                condenser.add(frame)
            except NoRoomError:
                condenser = None
    text = any(part.format in TEXT_FORMATS for part in source.parts)
    with suppress(NoRoomError):
        if condenser is not None:
            return HeldRows(condenser.finish().frame, text)
    nothing = kinds.with_columns(pl.Series(COUNT, [], pl.Int64))
    return SeenRows(nothing, text, rows, hash_text(total))


def merge_rows(parts: Sequence[HeldRows | SeenRows], names: Sequence[str]) -> HeldRows | SeenRows:
    """Return the rows of all parts, which have the same columns; `names` is for messages.

    Where a part has none of its rows any more, the whole has none either.

    Raises
    ------
    DataError
        A column of different types; see `calibkit.files.schemas.one_schema`.
    """
    frames = [part.frame for part in parts]
    text = any(part.text for part in parts)
    files = [
        Part(name, "csv" if text else "arrow", {}, part.frame.height, name)
        for name, part in zip(names, parts, strict=True)
    ]
    bare = [_without_prefix(one.drop(COUNT)) for one in frames]
    tables = [Table(one, dict(one.schema), one.height) for one in bare]
    common = {HELD + name: kind for name, kind in one_schema(files, tables, {}).items()}
    roles = tuple(Role(name) for name in frames[0].columns if name != COUNT)
    kinds = pl.Schema({role.name: common[role.name] for role in roles})
    if any(isinstance(part, SeenRows) for part in parts):
        total = hash_text(sum(int(part.hash, 16) for part in parts))
        return SeenRows(
            frames[0].clear().cast(kinds), text, sum(part.rows for part in parts), total
        )
    condenser = Condenser(roles, sum(frame.height for frame in frames), exactly=True)
    for frame in frames:
        condenser.add(frame.cast(kinds))
    return HeldRows(condenser.finish().frame, text)


def need_room(rows: int, columns: int, memory: Memory | None) -> None:
    """Refuse rows that a fit cannot hold.

    Raises
    ------
    ResourceError
        With what would help.
    """
    if memory is not None and rows > memory.rows_of(columns):
        raise _no_room(rows, columns)


def _no_room(rows: int, columns: int) -> ResourceError:
    size = Memory.of_rows(rows, columns) / 1e6
    return ResourceError(
        f"memory: {rows:,} rows of {columns} columns do not fit, and this fit goes through them many "
        f"times; about {size:,.0f} MB would do: raise --memory, or fit on a sample of the rows"
    )


def _without_prefix(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.rename(lambda name: name.removeprefix(HELD))


def _plain(frame: pl.DataFrame) -> pl.DataFrame:
    """Return a frame whose equal values look alike, its columns renamed."""
    return frame.select(_as_plain(name, kind) for name, kind in frame.schema.items())


def _as_plain(name: str, kind: pl.DataType) -> pl.Expr:
    column = pl.col(name)
    if isinstance(kind, pl.Categorical | pl.Enum):
        column, kind = column.cast(pl.String), pl.String()
    elif kind.is_float():
        column = pl.when(column == 0.0).then(pl.lit(0.0, kind)).otherwise(column)  # not -0.0
    if kind.is_numeric() or kind.is_temporal() or kind in (pl.String, pl.Boolean):
        # Files hold something in the place of a null too: let it be the same always.
        nothing = pl.lit("") if kind == pl.String else pl.lit(0).cast(kind)
        column = pl.when(column.is_null()).then(None).otherwise(column.fill_null(nothing))
    return column.alias(HELD + name)
