"""Quantiles: bin j of n begins at the first value whose cumulative weight exceeds ``j W // n``.

Of values that weigh 1 each that is the value of rank ``j N // n``, counted from 0.  No value lies
between two others, and equal values are never parted.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibkit_kernels import quantile as kernels

Floats = NDArray[Any]
Counts = NDArray[Any]
Int64s = NDArray[np.int64]

#: Below this size sorting everything is as fast as looking for ranks.
_FEW = 65_536
_ONE_LEVEL = np.empty(0, np.uint16)
_NO_WEIGHT = np.empty(0, np.int64)


def quantile_ranks(total: int, bins: int) -> Int64s:
    """Return the ranks at which bins begin."""
    return np.array([j * total // bins for j in range(bins)], np.int64)


def quantile_places(count: Counts, bins: int, *, falling: bool = False) -> Int64s:
    """Return where bins begin among values that rise, or fall; there is one that counts.

    `count` has what each value weighs, an integer.
    """
    out = np.empty((1, bins), np.int64)
    kernels.quantile_places(count, _ONE_LEVEL, np.array([count.sum(dtype=np.int64)]), falling, out)
    found: Int64s = out[0]
    return found


def falling_quantiles(values: Floats, count: Counts, bins: int) -> NDArray[np.float64]:
    """Return the smallest value and the inner edges of bins of values that fall."""
    found: NDArray[np.float64] = values[quantile_places(count, bins, falling=True)].astype(
        np.float64
    )
    return found


def level_edges(
    values: Floats, level: NDArray[np.uint16], count: Counts, totals: Int64s, bins: int
) -> NDArray[np.float64]:
    """Return the inner edges of the bins of each level, shape (levels, bins - 1); NaN without rows.

    Values fall; `totals` are the counts of the levels.
    """
    places = np.empty((totals.size, bins), np.int64)
    kernels.quantile_places(count, level, np.ascontiguousarray(totals), True, places)
    return np.where(places < 0, np.nan, values[places].astype(np.float64))[:, 1:]


def order_statistics(values: Floats, ranks: Int64s, weight: Int64s = _NO_WEIGHT) -> Floats:
    """Return the values of some ranks, counted from 0 and rising, without sorting all values.

    Values are float32 or float64, none NaN.  Weighted, that of rank r is the first whose cumulative
    weight exceeds r.
    """
    if values.size >= _FEW:
        bits = values.view(np.uint32 if values.dtype == np.float32 else np.uint64)
        counts = np.zeros(kernels.HEADS, np.int64)
        kernels.count_heads(bits, weight, counts)
        heads = np.searchsorted(np.cumsum(counts), ranks, side="right")
        wanted = np.zeros(kernels.HEADS, np.bool_)
        wanted[heads] = True
        most = values.size if weight.size else int(counts[wanted].sum())
        gathered, own = np.empty(most, values.dtype), np.empty(min(most, weight.size), np.int64)
        size = kernels.gather_heads(bits, weight, wanted, gathered.view(bits.dtype), own)
        values, weight = gathered[:size], own[:size]
        # A rank within the gathered values: less what lies below in heads that were not gathered.
        ranks = ranks - np.cumsum(np.where(wanted, 0, counts))[heads]
    if not weight.size:
        few: Floats = np.partition(values, np.unique(ranks))[ranks]
        return few
    order = np.argsort(values)  # of equal values any comes first: only the value counts
    found: Floats = values[order[np.searchsorted(np.cumsum(weight[order]), ranks, side="right")]]
    return found
