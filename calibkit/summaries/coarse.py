"""Floats as integer keys in their own order, of which fewer bits are a coarser scale.

The key of a probability follows its log-odds: below one half it is the bit pattern of the value,
above it mirrors that of one minus the value (which floats subtract exactly), so that both ends are
resolved alike.  The key of any other float is its bit pattern, made to rise through the negative
values.  Between two powers of two keys are evenly spaced: a key that keeps m bits after the exponent
tells values apart that differ by 2^-m of themselves, be they 1e-9 or 0.4.

A value is made coarser by dropping the last bits of its key, which moves it down to the least float
that has the same key.  Dropping one bit after the other gives what dropping them at once gives.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

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
