"""Counted rows: what rows become that are many, and what merges.

They are the distinct rows with counts while there is room for them.  Beyond that scores with levels,
labels and weights go into one dense table (`calibkit.summaries.cells`); of any other rows the floats
are cut to the most bits after the exponent at which the distinct rows have room.  Fewer bits join
values that more bits keep apart, so either is a function of the set of rows and of the room there is:
counting in parts, in any order, gives what counting the whole gives.  Rows for which there is room
whatever they are need no counting until somebody asks for it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import msgspec
import numpy as np
import polars as pl
from numpy.typing import NDArray

from calibkit.columns.weights import Unit
from calibkit.errors import ResourceError
from calibkit.runtime.memory import Memory
from calibkit.summaries.cells import (
    COMMON,
    COUNT,
    FEW_CELLS,
    MOST_CELLS,
    Cells,
    Role,
    Scale,
    finest_scale,
    keys_of,
    least_of,
    spread_bits,
)

#: Bits that cut rows keep at most; and rows there is room for at most.
_MOST_BITS: Final = 20
_MOST_CUT: Final = 2**22


class NoRoomError(Exception):
    """The distinct rows have no room as they are."""


class Room(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How many distinct rows there is room for, and how many cells of a dense table."""

    most: int
    cells: int

    @classmethod
    def of(cls, memory: Memory) -> Room:
        """Return the room within a memory budget."""
        cells = MOST_CELLS if memory.room >= 16 * MOST_CELLS else FEW_CELLS
        return cls(memory.entries, cells)


@dataclass(frozen=True)
class Counted:
    """Counted rows.

    The frames have the columns of the roles of all rows, in any order, and `COUNT` (int64) beside them
    where rows were counted.  With `bits` after the exponent (None: all) coarse values are the least of
    their cell, and the weights of a dense table integers: what all rows of an entry weigh, in units.
    """

    roles: tuple[Role, ...]
    frames: tuple[pl.DataFrame, ...]
    room: Room
    bits: int | None = None
    unit: Unit = COMMON
    levels: int = 1

    def merge(self, *others: Counted) -> Counted:
        """Return the counted rows of all, which have the same roles and levels.

        `UnitError` says that weights are no multiples of the common unit, where there is no room.
        """
        parts = (self, *others)
        room = Room(min(part.room.most for part in parts), min(part.room.cells for part in parts))
        counter = Counter(self.roles, room, self.levels)
        bits = [part.bits for part in parts if part.bits is not None]
        if bits:
            counter.coarsen(min(bits))
        for frame in (frame for part in parts for frame in part.frames):
            counter.add(frame)
        return counter.finish()

    def __reduce__(self) -> tuple[Any, ...]:
        """Travel with numbers as arrays, which nobody has to pack."""

        def packed(column: pl.Series) -> NDArray[Any] | pl.Series:
            plain = column.dtype.is_numeric() and not column.null_count()
            return column.to_numpy() if plain else column

        frames = [{column.name: packed(column) for column in frame} for frame in self.frames]
        return _unpacked, (self.roles, frames, self.room, self.bits, self.unit, self.levels)

    @cached_property
    def frame(self) -> pl.DataFrame:
        """The distinct rows and `COUNT`, sorted."""
        if len(self.frames) == 1 and COUNT in self.frames[0].columns:
            return self.frames[0]
        return _distinct(_counted(self.frames, self.roles))

    def written(self) -> pl.DataFrame:
        """Return the rows one by one, each as often as it occurs, in no order."""
        found = []
        for frame in self.frames:
            if COUNT in frame.columns:
                times = frame[COUNT].to_numpy()
                places = np.arange(times.size, dtype=np.uint32)
                frame = frame if (times == 1).all() else frame[np.repeat(places, times)]
            found.append(frame.select(role.name for role in self.roles))
        return pl.concat(found, rechunk=True)

    @property
    def exact(self) -> bool:
        """Whether nothing was made coarser."""
        return self.bits is None

    @property
    def spread_bits(self) -> int | None:
        """How many bits after the exponent uncertainties keep; None: all, or there are levels."""
        cut = any(role.name == "uncertainty" and role.coarse for role in self.roles)
        return None if self.bits is None or not cut else spread_bits(self.bits)

    @property
    def weights(self) -> NDArray[np.float64]:
        """What the rows of each entry weigh together."""
        times = self.frame[COUNT].to_numpy()
        if "weight" not in self.frame.columns:
            return times.astype(np.float64)
        own = self.frame["weight"].to_numpy()
        return own * (self.unit.size if own.dtype == np.int64 else times)

    @property
    def rows(self) -> int:
        """How many rows were counted."""
        return sum(
            int(frame[COUNT].sum()) if COUNT in frame.columns else frame.height
            for frame in self.frames
        )


def _unpacked(roles: tuple[Role, ...], frames: Any, *more: Any) -> Counted:
    return Counted(roles, tuple(map(pl.DataFrame, frames)), *more)


class Counter:
    """Counts rows as they come: frames with a column for each role, floats where they may be cut.

    Without room it raises `NoRoomError` if rows must stay `exactly` as they are (they are in `held`
    then), `ResourceError` if there is none for rows however coarse, and `UnitError` of the weights of a
    dense table.
    """

    def __init__(
        self,
        roles: Sequence[Role],
        room: Room,
        levels: int = 1,
        *,
        exactly: bool = False,
        unit: Unit = COMMON,
    ) -> None:
        self.roles = tuple(roles)
        #: The rows that were added, or what became of them; none once they go into a table.
        self.held: list[pl.DataFrame] = []
        self._room, self._levels, self._exactly, self._unit = room, levels, exactly, unit
        self._bits: int | None = None
        self._table: Cells | None = None
        self._rows = self._settled = 0
        self._dtypes: dict[str, Any] = {}

    def add(self, frame: pl.DataFrame) -> None:
        """Add rows, or rows with counts where the frame has a column `COUNT`."""
        if self._table is not None:
            self._table.add(frame)
            return
        self.held.append(frame if self._bits is None else self._keys(frame, self._bits))
        self._rows += frame.height
        if self._rows - self._settled > self._most:
            self._settle()

    def finish(self) -> Counted:
        """Return what was counted."""
        if self._table is None and (self._bits is not None or self._rows > self._most):
            self._settle()
        frames, bits = self.held, self._bits
        if self._table is not None:
            frames, bits = [self._table.finish()], self._table.scale.bits
        elif bits is not None:
            frames = [self._values(self.held[0], bits)]
        return Counted(self.roles, tuple(frames), self._room, bits, self._unit, self._levels)

    def coarsen(self, bits: int | None = None) -> None:
        """Go on with coarse rows, of no more bits than some."""
        held, self.held, self._rows, self._settled = self.held, [], 0, 0
        first, *rest = self.roles
        known = {"uncertainty", "label", "weight"}
        if first.coarse and all(role.name in known and not role.coarse for role in rest):
            scale = finest_scale(self._room.cells, self._levels, probability=first.probability)
            if bits is not None:
                scale = Scale(first.probability, min(bits, scale.bits))
            self._table = Cells(self.roles, self._levels, scale, self._unit)
        else:
            self._bits = _MOST_BITS if bits is None else bits
        for frame in held:
            self.add(frame)

    @property
    def _most(self) -> int:
        return self._room.most if self._bits is None else min(self._room.most, _MOST_CUT)

    @property
    def _cut(self) -> list[Role]:
        return [role for role in self.roles if role.coarse]

    def _keys(self, frame: pl.DataFrame, bits: int) -> pl.DataFrame:
        """Return a frame with the keys of the columns that are cut."""
        for role in self._cut:
            values = frame[role.name].to_numpy()
            self._dtypes[role.name] = values.dtype
            keys = keys_of(values, probability=role.probability) >> role.drop(bits)
            frame = frame.with_columns(pl.Series(role.name, keys))
        return frame

    def _values(self, frame: pl.DataFrame, bits: int) -> pl.DataFrame:
        """Return a frame of keys with the least values that have them."""
        for role in self._cut:
            keys, kind = frame[role.name].to_numpy() << role.drop(bits), self._dtypes[role.name]
            values = least_of(keys, kind, probability=role.probability)
            frame = frame.with_columns(pl.Series(role.name, values))
        return frame

    def _settle(self) -> None:
        """Gather equal rows; of too many keep fewer bits, if that may be."""
        frame, most = _counted(self.held, self.roles), self._most
        first = frame[self.roles[0].name]
        full = self._bits is None and first.len() > most and first.n_unique() > most
        if not full:  # which was quickly told
            frame = _distinct(frame)
            if self._bits is not None and frame.height > most:
                frame = self._coarser(frame, self._bits)
            self.held, self._rows, self._settled = [frame], frame.height, frame.height
            full = frame.height > most
        if full:
            if self._exactly:
                raise NoRoomError
            self.coarsen()

    def _coarser(self, frame: pl.DataFrame, bits: int) -> pl.DataFrame:
        """Return rows of keys with the most bits at which they have room."""
        names = [role.name for role in self.roles]

        def shifted(fewer: int) -> pl.DataFrame:
            return frame.with_columns(
                pl.Series(
                    role.name, frame[role.name].to_numpy() >> (role.drop(fewer) - role.drop(bits))
                )
                for role in self._cut
            )

        steps = range(bits - 1, -1, -1)
        found = bisect_left(
            steps, True, key=lambda fewer: shifted(fewer).select(names).n_unique() <= self._most
        )
        if found == len(steps):
            fixed = ", ".join(role.name for role in self.roles if not role.coarse)
            raise ResourceError(
                f"memory: the rows have too many different values of {fixed}, which cannot be made "
                "coarser; raise --memory, or leave such columns out"
            )
        self._bits = steps[found]
        return _distinct(shifted(steps[found]))


def _counted(frames: Sequence[pl.DataFrame], roles: Sequence[Role]) -> pl.DataFrame:
    """Return frames as one, with `COUNT`."""
    names = [role.name for role in roles]
    once = pl.lit(1, pl.Int64).alias(COUNT)
    return pl.concat(
        frame.select(*names, COUNT if COUNT in frame.columns else once) for frame in frames
    )


def _distinct(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the distinct rows of a frame, sorted, with the sums of their counts."""
    names = [name for name in frame.columns if name != COUNT]
    frame = frame.sort(names, nulls_last=True)
    changed = pl.any_horizontal(pl.col(name).ne_missing(pl.col(name).shift()) for name in names)
    first: NDArray[np.bool_] = frame.select(changed).to_series().to_numpy().copy()
    first[:1] = True
    if first.all():
        return frame
    starts = np.flatnonzero(first)
    sums = np.add.reduceat(frame[COUNT].to_numpy(), starts)
    return frame[starts].with_columns(pl.Series(COUNT, sums))
