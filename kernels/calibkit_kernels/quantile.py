"""Quantiles: places of ranks among counted values, and the few floats that ranks can be of.

A float's *head* is the 16 leading bits of an integer that rises with it.  Counting heads tells in
which head each wanted rank falls; only the values with those heads need to be gathered and sorted.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._jit import kernel

#: Bit patterns of float32 (uint32) or float64 (uint64).
Bits = NDArray[Any]
Int64s = NDArray[np.int64]

#: How many heads there are.
HEADS = 65_536
_SIGN = HEADS // 2


@kernel
def head(bits: np.uint64, shift: np.uint64) -> int:
    """Return the leading bits, those from `shift` on, of the rising integer of a float."""
    leading = int(bits >> shift)
    return HEADS - 1 - leading if leading >= _SIGN else leading + _SIGN


@kernel
def count_heads(bits: Bits, weight: Int64s, counts: Int64s) -> None:
    """Add to `counts` what the floats with each head weigh: 1 each where no weights are given."""
    shift = np.uint64(8 * bits.itemsize - 16)
    for i in range(bits.size):
        counts[head(np.uint64(bits[i]), shift)] += weight[i] if weight.size else 1


@kernel
def gather_heads(
    bits: Bits, weight: Int64s, wanted: NDArray[np.bool_], out: Bits, weight_out: Int64s
) -> int:
    """Write the floats whose heads are wanted, and their weights if there are; return how many.

    Floats that weigh 0 are left out.
    """
    shift, size = np.uint64(8 * bits.itemsize - 16), 0
    for i in range(bits.size):
        if wanted[head(np.uint64(bits[i]), shift)]:
            if weight.size:
                if weight[i] == 0:
                    continue
                weight_out[size] = weight[i]
            out[size] = bits[i]
            size += 1
    return size


@kernel
def quantile_places(
    count: NDArray[Any], level: NDArray[np.uint16], totals: Int64s, falling: bool, out: Int64s
) -> None:
    """Write where the quantile bins of each level begin, shape (levels, bins); -1 without rows.

    Bin j begins at the first value, from below, whose cumulative count exceeds ``j total // bins``.

    Parameters
    ----------
    count
        How often each value occurs; they rise, or fall where `falling` says so.
    level
        Which level each belongs to; empty: there is one.
    totals
        The counts of the levels.
    """
    levels, bins = out.shape
    out[:] = -1
    below, reached = np.zeros(levels, np.int64), np.zeros(levels, np.int64)
    wanted = np.zeros(levels, np.int64)  # rows below the next bin
    for step in range(count.size):
        i = count.size - 1 - step if falling else step
        own = level[i] if level.size else 0
        below[own] += count[i]
        while reached[own] < bins and below[own] > wanted[own]:
            out[own, reached[own]] = i
            reached[own] += 1
            # j total // bins, with the product split to stay below 2^63
            j, whole, rest = reached[own], totals[own] // bins, totals[own] % bins
            wanted[own] = j * whole + (j * rest) // bins
