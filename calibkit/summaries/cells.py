"""Rows that do not fit, counted by the cells of a fixed scale: a dense table, of which sums are merges.

Floats become integer keys in their own order.  The key of a probability follows its log-odds: below
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

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import msgspec
import numpy as np
import polars as pl
from numpy.typing import NDArray

from calibkit.columns.weights import Unit, whole_units
from calibkit.errors import ResourceError
from calibkit_kernels.tally import count_cells

Floats = NDArray[Any]
Keys = NDArray[np.uint64]

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


class Role(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
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


def keys_of(values: Floats, *, probability: bool) -> Keys:
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


def least_of(keys: Keys, dtype: Any, *, probability: bool) -> Floats:
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


Int64s = NDArray[np.int64]

#: Cells of a table (for each label), and those where there is little memory.
MOST_CELLS, FEW_CELLS = 2**25, 2**20
#: Bits after the exponent that are kept at most: more would cost time and tell nothing.
_MOST_BITS: Final = 18
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


class UnitError(Exception):
    """Weights that are no whole numbers of the unit that they are counted in."""


@dataclass(frozen=True)
class Scale:
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
        found: Int64s = np.append(0, np.cumsum(sizes))
        return found

    @cached_property
    def drops(self) -> NDArray[np.uint64]:
        """How many bits behind each power are cut."""
        power = np.arange(_POWERS[self.probability])
        if self.probability:
            fine = (power >= _HALF_POWER - _FINE) & (power < _HALF_POWER + _FINE)
        else:
            exponent = np.where(power < 2048, 2047 - power, power - 2048) - 1023
            fine = (exponent >= -_FINE_RAW) & (exponent < _FINE_RAW)
        return np.where(fine, SIGNIFICAND - self.bits, SIGNIFICAND).astype(np.uint64)

    def least(self, cells: Int64s, dtype: Any) -> NDArray[Any]:
        """Return the least value of a float type in each cell; the cells rise."""
        power = np.searchsorted(self.starts, cells, side="right") - 1
        behind = (cells - self.starts[power]).astype(np.uint64) << self.drops[power]
        keys = power.astype(np.uint64) << np.uint64(SIGNIFICAND) | behind
        return least_of(keys, dtype, probability=self.probability)


def finest_scale(cells: int, levels: int, *, probability: bool) -> Scale:
    """Return the finest scale of which every level has room in a table of so many cells, if any."""
    for bits in range(_MOST_BITS, -1, -1):
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
        self.roles, self.scale, self.unit = tuple(roles), scale, unit
        names = [role.name for role in roles]
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
        for start in range(0, values.size, _BLOCK):
            part = slice(start, start + _BLOCK)
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
        ends = np.append(
            np.flatnonzero(np.diff(cells)) + 1, cells.size
        )  # several kinds share a cell
        values = self.scale.least(cells[ends - 1], self._dtype)
        values = np.repeat(values, np.diff(ends, prepend=0))
        found: dict[str, Any] = {self._first: values}
        if self._levels:
            found["uncertainty"] = (kind // self._labels).astype(np.uint16)
        if self._labels == 2:
            found["label"] = (kind % 2).astype(np.uint8)
        if self._weighted:
            found["weight"] = self._sums[cells, kind]
        names = [role.name for role in self.roles]
        return pl.DataFrame(
            {name: found[name] for name in names} | {COUNT: self._rows[cells, kind]}
        )
