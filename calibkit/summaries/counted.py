"""Counted rows: what rows become that are many, and what merges.

They are the distinct rows with counts while there is room for them.  Beyond that scores with levels,
labels and weights go into one dense table (`calibkit.summaries.cells`), anything else becomes distinct
rows of fewer bits (`calibkit.summaries.distinct`).  Either is a function of the set of rows and of the
room there is, so counting in parts, in any order, gives what counting the whole gives.  Rows for which
there is room whatever they are need no counting until somebody asks for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from calibkit.columns.weights import Unit
from calibkit.runtime.memory import Memory
from calibkit.summaries.cells import COMMON, Cells, Scale, cells_within, finest_scale
from calibkit.summaries.distinct import COUNT, MOST_BITS, Distinct, NoRoomError, Role, spread_bits
from calibkit.summaries.summary import summed


@dataclass(frozen=True)
class Room:
    """How many distinct rows there is room for, and how many cells of a dense table."""

    most: int
    cells: int

    @classmethod
    def of(cls, memory: Memory) -> Room:
        """Return the room within a memory budget."""
        return cls(memory.entries, cells_within(memory))


@dataclass(frozen=True)
class Counted:
    """Counted rows.

    Attributes
    ----------
    roles
        The columns.
    frames
        These columns of all rows, in any order; `COUNT` (int64) beside them where rows were counted.
        Coarse values are the least of their cell.  The weights of a dense table are integers: what
        all rows of an entry weigh, in units.
    room
        What there was room for.
    bits
        How many bits after the exponent scores keep; None: all.
    unit
        What integer weights are counted in.
    levels
        How many uncertainty levels there are.
    """

    roles: tuple[Role, ...]
    frames: tuple[pl.DataFrame, ...]
    room: Room
    bits: int | None = None
    unit: Unit = COMMON
    levels: int = 1

    def merge(self, *others: Counted) -> Counted:
        """Return the counted rows of all, which have the same roles and levels.

        Raises
        ------
        UnitError
            Weights of exact rows that are no multiples of the common unit, where there is no room.
        """
        parts = (self, *others)
        room = Room(min(part.room.most for part in parts), min(part.room.cells for part in parts))
        counter = Counter(self.roles, room, self.levels)
        bits = [part.bits for part in parts if part.bits is not None]
        if bits:
            counter.coarsen(min(bits))
        return summed(counter, (frame for part in parts for frame in part.frames))

    def __reduce__(self) -> tuple[Any, ...]:
        """Travel with numbers as arrays, which nobody has to pack."""
        frames = [[_packed(column) for column in frame] for frame in self.frames]
        return _unpacked, (self.roles, frames, self.room, self.bits, self.unit, self.levels)

    @cached_property
    def frame(self) -> pl.DataFrame:
        """The distinct rows and `COUNT`, sorted."""
        if len(self.frames) == 1 and COUNT in self.frames[0].columns:
            return self.frames[0]
        distinct = Distinct(self.roles, self.room.most)
        for frame in self.frames:
            distinct.add(frame)
        return distinct.finish()

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


def _packed(column: pl.Series) -> tuple[str, NDArray[Any] | pl.Series]:
    plain = column.dtype.is_numeric() and not column.null_count()
    return column.name, column.to_numpy() if plain else column


def _unpacked(roles: tuple[Role, ...], frames: Any, *more: Any) -> Counted:
    return Counted(roles, tuple(pl.DataFrame(dict(frame)) for frame in frames), *more)


class Counter:
    """Counts rows as they come.

    Parameters
    ----------
    roles
        The columns of the frames that are added.
    room
        What there is room for.
    levels
        How many uncertainty levels there are.
    exactly
        Whether a lack of room for the rows as they are is an error.
    unit
        What the weights of a dense table are counted in.

    Raises
    ------
    NoRoomError
        No room, if rows must stay `exactly` as they are; they are in `held` then.
    UnitError
        See `calibkit.summaries.cells`.
    ResourceError
        No room for rows however coarse.
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
        self._room, self._levels, self._exactly, self._unit = room, levels, exactly, unit
        self._counts: Distinct | Cells = Distinct(roles, room.most)

    @property
    def held(self) -> list[pl.DataFrame]:
        """The rows that were added, as long as they are exact."""
        return self._counts.held if isinstance(self._counts, Distinct) else []

    def coarsen(self, bits: int | None = None) -> None:
        """Go on with coarse rows, of no more bits than some."""
        held = self.held
        if _is_dense(self.roles):
            first = self.roles[0]
            scale = finest_scale(self._room.cells, self._levels, probability=first.probability)
            if bits is not None:
                scale = Scale(first.probability, min(bits, scale.bits))
            self._counts = Cells(self.roles, self._levels, scale, self._unit)
        else:
            self._counts = Distinct(
                self.roles, self._room.most, MOST_BITS if bits is None else bits
            )
        for frame in held:
            self._counts.add(frame)

    def add(self, frame: pl.DataFrame) -> None:
        """Add rows, or rows with counts where the frame has a column `COUNT`."""
        try:
            self._counts.add(frame)
        except NoRoomError:
            if self._exactly:
                raise
            self.coarsen()

    def finish(self) -> Counted:
        """Return what was counted."""
        if isinstance(self._counts, Distinct) and self._counts.fits:
            return self._found(self._counts.held)
        try:
            frame = self._counts.finish()
        except NoRoomError:
            if self._exactly:
                raise
            self.coarsen()
            frame = self._counts.finish()
        return self._found([frame])

    def _found(self, frames: Sequence[pl.DataFrame]) -> Counted:
        bits = self._counts.bits if isinstance(self._counts, Distinct) else self._counts.scale.bits
        return Counted(self.roles, tuple(frames), self._room, bits, self._unit, self._levels)


def _is_dense(roles: Sequence[Role]) -> bool:
    """Tell whether rows can be counted by cells: one column is cut, and the others are few values."""
    known = {"uncertainty", "label", "weight"}
    return bool(roles[0].coarse) and all(
        role.name in known and not role.coarse for role in roles[1:]
    )
