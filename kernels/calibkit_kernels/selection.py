"""Order statistics of many floats without sorting all of them, and sums of columns of few values.

A float's *head* is the 16 leading bits of an integer that rises with it.  Counting heads tells in
which head each wanted rank falls; only the values with those heads are gathered and sorted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._jit import kernel

Floats = NDArray[Any]
Bits32 = NDArray[np.uint32]
Bits64 = NDArray[np.uint64]
Int64s = NDArray[np.int64]
Wanted = NDArray[np.bool_]

_HEADS = 65_536
#: Below this size sorting everything is as fast.
_FEW = 65_536


@kernel
def head32(bits: np.uint32) -> int:
    """Return the 16 leading bits of the rising integer of a float32."""
    if bits & np.uint32(0x80000000):
        return int(~bits >> np.uint32(16))
    return int((bits | np.uint32(0x80000000)) >> np.uint32(16))


@kernel
def head64(bits: np.uint64) -> int:
    """Return the 16 leading bits of the rising integer of a float64."""
    if bits & np.uint64(0x8000000000000000):
        return int(~bits >> np.uint64(48))
    return int((bits | np.uint64(0x8000000000000000)) >> np.uint64(48))


@kernel
def count_heads32(bits: Bits32, counts: Int64s) -> None:
    """Add to `counts` how many float32 have each head."""
    for i in range(bits.size):
        counts[head32(bits[i])] += 1


@kernel
def count_heads64(bits: Bits64, counts: Int64s) -> None:
    """Add to `counts` how many float64 have each head."""
    for i in range(bits.size):
        counts[head64(bits[i])] += 1


@kernel
def gather_heads32(bits: Bits32, wanted: Wanted, out: Bits32) -> int:
    """Write the float32 whose heads are wanted, in their order; return how many they are."""
    size = 0
    for i in range(bits.size):
        if wanted[head32(bits[i])]:
            out[size] = bits[i]
            size += 1
    return size


@kernel
def gather_heads64(bits: Bits64, wanted: Wanted, out: Bits64) -> int:
    """Write the float64 whose heads are wanted, in their order; return how many they are."""
    size = 0
    for i in range(bits.size):
        if wanted[head64(bits[i])]:
            out[size] = bits[i]
            size += 1
    return size


_BY_KIND: dict[Any, tuple[Any, ...]] = {
    np.dtype(np.float32): (np.uint32, count_heads32, gather_heads32),
    np.dtype(np.float64): (np.uint64, count_heads64, gather_heads64),
}


def order_statistics(parts: Sequence[NDArray[Any]], ranks: Int64s) -> NDArray[Any]:
    """Return the values of some ranks, counted from 0.

    Parameters
    ----------
    parts
        The values in parts, all float32 or all float64, no NaN; they are not put together.
    ranks
        Ranks in rising order.
    """
    if sum(part.size for part in parts) < _FEW:
        few: NDArray[Any] = np.partition(np.concatenate(parts), np.unique(ranks))[ranks]
        return few
    kind = parts[0].dtype
    integers, count_heads, gather_heads = _BY_KIND[kind]
    counts = np.zeros(_HEADS, np.int64)
    for part in parts:
        count_heads(part.view(integers), counts)
    ends = np.cumsum(counts)
    heads = np.searchsorted(ends, ranks, side="right")
    wanted = np.zeros(_HEADS, np.bool_)
    wanted[heads] = True
    gathered = np.empty(int(counts[wanted].sum()), kind)
    size = 0
    for part in parts:
        size += gather_heads(part.view(integers), wanted, gathered[size:].view(integers))
    gathered.sort()
    # A rank within the gathered values: less what lies below in heads that were not gathered.
    left_out = np.cumsum(np.where(wanted, 0, counts))
    found: NDArray[Any] = gathered[ranks - left_out[heads]]
    return found


@kernel
def sum_few(values: Floats, units: Int64s, distinct: Floats, sums: Int64s) -> bool:
    """Add up the units of each of few distinct values, which rise; False where another value comes.

    `sums` begins with zeros.
    """
    place = 0
    for i in range(values.size):
        if values[i] != distinct[place]:  # neighbours are often equal
            place, high = 0, distinct.size
            while place < high:
                middle = (place + high) // 2
                if distinct[middle] < values[i]:
                    place = middle + 1
                else:
                    high = middle
            if place == distinct.size or distinct[place] != values[i]:
                return False
        sums[place] += units[i]
    return True
