"""Counted rows: what rows become that are many, and what merges.

They are the distinct rows with counts while there is room for them.  Beyond that scores with levels,
labels and weights go into one dense table of cells, of which sums are merges; of any other rows the
floats are cut to the most bits after the exponent at which the distinct rows have room.  Fewer bits
join values that more bits keep apart, so either is a function of the set of rows and of the room there
is: counting in parts, in any order, gives what counting the whole gives.  Rows for which there is room
whatever they are need no counting until somebody asks for it.

Floats are cut as integer keys in their own order.  The key of a probability follows its log-odds: below
one half it is the bit pattern of the value, above it mirrors that of one minus the value (which floats
subtract exactly), so that both ends are resolved alike.  The key of any other float is its bit pattern,
made to rise through the negative values.  A key that keeps m bits after the exponent tells values apart
that differ by 2^-m of themselves, be they 1e-9 or 0.4.  A value is made coarser by dropping the last
bits of its key, which moves it down to the least float that has the same key; dropping one bit after
the other gives what dropping them at once gives.

What a cell holds of is known to a power of two and some bits after it.  The powers that matter are cut
finely, all others are one cell each: probabilities from 2^-25 to 1/2 and, mirrored, up to 1 - 2^-25;
other values from 2^-32 to 2^32 on both sides of zero.  The cells rise with the values, a row counts
as the least value of its cell, and a level, a label and a weight are kept as they are: whatever is
decided at a border of cells is counted exactly.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from functools import cached_property
from typing import Any, Final

import numpy as np
import polars as pl
from msgspec import Struct

from calibkit.arrays import Bools, Floats, Int64s, Numbers, UInt64s, blocks
from calibkit.columns.weights import Unit, whole_units
from calibkit.errors import ResourceError
from calibkit.runtime.memory import Memory
from calibkit_kernels.tally import count_cells

#: Bits after the exponent of a float64.
SIGNIFICAND: Final = 52
#: How often a row occurs: a column of counted rows.
COUNT: Final = "count"
#: How a column may be cut: to some bits, or to half as many.
SCORE, SPREAD = "score", "spread"
_HALF: Final = np.float64(0.5).view(np.uint64)
_SIGN: Final = np.uint64(1 << 63)
#: The key of minus infinity.
_LEAST: Final = ~np.float64(-np.inf).view(np.uint64)
#: Cells of a table (for each label), and those where there is little memory.
MOST_CELLS, FEW_CELLS = 2**25, 2**20
#: Bits after the exponent that are kept at most: more would cost time and tell nothing.
_TABLE_BITS: Final = 18
#: The power of 1/2 in the keys of probabilities, and how many powers on both sides are cut finely.
_HALF_POWER: Final = 1022
_FINE: Final = 24
#: How many powers of other values are cut finely, on both sides of 1.
_FINE_RAW: Final = 32
#: The number of powers that keys tell apart: of probabilities, and of any other values.
_POWERS: Final = {True: 2 * _HALF_POWER + 1, False: 4096}
#: The unit of weights in which every table can be counted, if they are multiples of it.
COMMON: Final = Unit(2.0**-20)
#: Sums of units stay below this, and numbers of rows of a cell.
_MOST_UNITS: Final = 2**62
#: Rows whose keys are made at a time: they stay in the cache.
_BLOCK: Final = 2**13
_NOTHING: Final = np.empty(0, np.int64)
#: Bits that cut rows keep at most; and rows there is room for at most.
_CUT_BITS: Final = 20
_MOST_CUT: Final = 2**22


class Role(Struct, frozen=True, forbid_unknown_fields=True):
    """A column of counted rows, and how it may be cut: as `SCORE` or `SPREAD`, or (empty) not at all.

    A probability is resolved like log-odds.
    """

    name: str
    coarse: str = ""
    probability: bool = False

    def drop(self, bits: int) -> np.uint64:
        """Return how many of the last bits of its keys are cut where scores keep some."""
        return np.uint64(SIGNIFICAND - (bits if self.coarse == SCORE else spread_bits(bits)))


def spread_bits(bits: int) -> int:
    """Return how many bits uncertainties keep where scores keep some."""
    return (bits + 1) // 2


def keys_of(values: Numbers, *, probability: bool) -> UInt64s:
    """Return the keys of floats without NaN and negative zero, in their order.

    A `probability` lies in [0, 1] and is resolved like log-odds.
    """
    wide = values.astype(np.float64)
    if probability:
        upper = wide > 0.5
        np.subtract(1.0, wide, out=wide, where=upper)
        keys = wide.view(np.uint64)
        np.subtract(np.uint64(2) * _HALF, keys, out=keys, where=upper)
        return keys
    keys = wide.view(np.uint64)
    return np.where(keys & _SIGN, ~keys, keys | _SIGN)


def least_of(keys: UInt64s, dtype: Any, *, probability: bool) -> Numbers:
    """Return the least value of a float type whose key is at least the one given."""
    if not probability:
        keys = np.maximum(keys, _LEAST)
        wide = np.where(keys & _SIGN, keys ^ _SIGN, ~keys).view(np.float64)
    else:
        upper = keys > _HALF
        rest = np.where(upper, np.uint64(2) * _HALF - keys, keys).view(np.float64)
        wide = np.where(upper, 1.0 - rest, rest)
        short = upper & (1.0 - wide > rest)
        wide = np.where(short, np.nextafter(wide, 2.0), wide)
    if np.dtype(dtype) == np.float64:
        return wide
    with np.errstate(over="ignore"):
        narrow = wide.astype(np.float32)
    return np.where(narrow < wide, np.nextafter(narrow, np.float32(np.inf)), narrow)


class UnitError(ResourceError):
    """Weights that are no whole numbers of the unit that they are counted in."""

    def __init__(self) -> None:
        super().__init__(
            "memory: the rows do not fit, and their weights are no multiples of 1/1,048,576 (or too "
            "great), so that parts of them cannot be counted alike; raise --memory, round the "
            "weights, or fit on all rows at once"
        )


class Scale(Struct, frozen=True, dict=True):
    """A scale of cells that keeps some bits after the exponent where cells are fine.

    Probabilities, in [0, 1], are resolved like log-odds.
    """

    probability: bool
    bits: int

    @property
    def size(self) -> int:
        """How many cells there are."""
        return int(self.starts[-1])

    @cached_property
    def starts(self) -> Int64s:
        """The first cell of each power, and the number of cells."""
        sizes = np.int64(1) << (SIGNIFICAND - self.drops.astype(np.int64))
        return np.append(0, np.cumsum(sizes))

    @cached_property
    def drops(self) -> UInt64s:
        """How many bits behind each power are cut."""
        power = np.arange(_POWERS[self.probability])
        if self.probability:
            fine = (power >= _HALF_POWER - _FINE) & (power < _HALF_POWER + _FINE)
        else:
            exponent = np.where(power < 2048, 2047 - power, power - 2048) - 1023
            fine = (exponent >= -_FINE_RAW) & (exponent < _FINE_RAW)
        return np.where(fine, SIGNIFICAND - self.bits, SIGNIFICAND).astype(np.uint64)

    def least(self, cells: Int64s, dtype: Any) -> Numbers:
        """Return the least value of a float type in each cell; the cells rise."""
        power = np.searchsorted(self.starts, cells, side="right") - 1
        behind = (cells - self.starts[power]).astype(np.uint64) << self.drops[power]
        keys = power.astype(np.uint64) << np.uint64(SIGNIFICAND) | behind
        return least_of(keys, dtype, probability=self.probability)


def finest_scale(cells: int, levels: int, *, probability: bool) -> Scale:
    """Return the finest scale of which every level has room in a table of so many cells, if any."""
    for bits in range(_TABLE_BITS, -1, -1):
        scale = Scale(probability, bits)
        if scale.size * levels <= cells:
            return scale
    raise ResourceError(
        f"memory: the rows do not fit, and {levels:,} uncertainty levels are too many for a table of "
        "counts; raise --memory, or take fewer levels"
    )


class Cells:
    """Rows by cells of the scale of their first column.

    Of the columns of the frames that are added ``uncertainty`` (if it is another one) has the number of
    a level, ``label`` 0 or 1, ``weight`` weights or, as integers, units.
    """

    def __init__(self, roles: Sequence[Role], levels: int, scale: Scale, unit: Unit) -> None:
        self.scale, self.unit = scale, unit
        self._names = names = [role.name for role in roles]
        self._first, self._labels = names[0], 2 if "label" in names else 1
        self._levels, self._weighted = "uncertainty" in names[1:], "weight" in names
        shape = (scale.size, levels * self._labels)
        self._rows = np.zeros(shape, np.int64)
        self._sums = np.zeros(shape if self._weighted else (0, 0), np.int64)
        self._total = 0
        self._dtype: Any = np.float64

    def add(self, frame: pl.DataFrame) -> None:
        """Add rows, or rows with counts where the frame has a column `COUNT`."""
        values = frame[self._first].to_numpy()
        self._dtype = values.dtype
        times = frame[COUNT].to_numpy() if COUNT in frame.columns else _NOTHING
        units = self._units(frame["weight"], times) if self._weighted else _NOTHING
        kind = np.zeros(values.size, np.uint32)
        if self._levels:
            kind = frame["uncertainty"].to_numpy() * np.uint32(self._labels)
        if self._labels == 2:
            kind = kind + frame["label"].to_numpy()
        for part in blocks(values.size, _BLOCK):
            count_cells(
                keys_of(values[part], probability=self.scale.probability),
                kind[part],
                times[part],
                units[part],
                self.scale.starts,
                self.scale.drops,
                self._rows,
                self._sums,
            )

    def _units(self, column: pl.Series, times: Int64s) -> Int64s:
        """Return what rows weigh together, in units."""
        amounts = column.to_numpy()
        if column.dtype != pl.Int64:
            wanted = amounts / self.unit.size
            if self.unit.exact and (wanted != np.rint(wanted)).any():
                raise UnitError
            if (wanted * times if times.size else wanted).sum() >= 1.5 * _MOST_UNITS:
                raise UnitError
            amounts = whole_units(amounts, self.unit)
            amounts = amounts * times if times.size else amounts
        self._total += int(amounts.sum())
        if self._total >= _MOST_UNITS:
            raise UnitError
        return amounts

    def finish(self) -> pl.DataFrame:
        """Return the cells that hold rows, in order, and `COUNT`: how many; weights are in units."""
        cells, kind = np.nonzero(self._rows)
        ends = np.append(np.flatnonzero(np.diff(cells)) + 1, cells.size)  # kinds share a cell
        values = self.scale.least(cells[ends - 1], self._dtype)
        values = np.repeat(values, np.diff(ends, prepend=0))
        found: dict[str, Any] = {self._first: values}
        if self._levels:
            found["uncertainty"] = (kind // self._labels).astype(np.uint16)
        if self._labels == 2:
            found["label"] = (kind % 2).astype(np.uint8)
        if self._weighted:
            found["weight"] = self._sums[cells, kind]
        found = {name: found[name] for name in self._names}
        return pl.DataFrame(found | {COUNT: self._rows[cells, kind]})


class NoRoomError(Exception):
    """The distinct rows have no room as they are."""


class Room(Struct, frozen=True, forbid_unknown_fields=True):
    """How many distinct rows there is room for, and how many cells of a dense table."""

    most: int
    cells: int

    @classmethod
    def of(cls, memory: Memory) -> Room:
        """Return the room within a memory budget."""
        cells = MOST_CELLS if memory.room >= 16 * MOST_CELLS else FEW_CELLS
        return cls(memory.entries, cells)


class Counted(Struct, frozen=True, dict=True):
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

        def packed(column: pl.Series) -> Numbers | pl.Series:
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
    def weights(self) -> Floats:
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
        self._names = {COUNT, *(role.name for role in roles)}
        self._cut = [role for role in roles if role.coarse]
        #: The rows that were added, or what became of them; none once they go into a table.
        self.held: list[pl.DataFrame] = []
        self._room, self._levels, self._exactly, self._unit = room, levels, exactly, unit
        self._bits: int | None = None
        self._table: Cells | None = None
        self._rows = self._settled = 0
        self._dtypes: dict[str, Any] = {}

    def add(self, frame: pl.DataFrame) -> None:
        """Add rows, or rows with counts where the frame has a column `COUNT`; others do not count."""
        frame = frame.select(name for name in frame.columns if name in self._names)
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
            self._bits = _CUT_BITS if bits is None else bits
        for frame in held:
            self.add(frame)

    @property
    def _most(self) -> int:
        return self._room.most if self._bits is None else min(self._room.most, _MOST_CUT)

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
    first: Bools = frame.select(changed).to_series().to_numpy().copy()
    first[:1] = True
    if first.all():
        return frame
    starts = np.flatnonzero(first)
    sums = np.add.reduceat(frame[COUNT].to_numpy(), starts)
    return frame[starts].with_columns(pl.Series(COUNT, sums))
