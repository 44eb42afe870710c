"""Quantiles and edges of bins; columns of few values.

Bin j of n begins at the first value whose cumulative weight exceeds ``j W // n``.  Of values that weigh
1 each that is the value of rank ``j N // n``, counted from 0.  No value lies between two others, and
equal values are never parted.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from calibkit.arrays import Floats, Int64s, Numbers, UInt16s, distinct_values
from calibkit.columns.weights import in_units
from calibkit_kernels import sorting
from calibkit_kernels.tally import assign_levels, sum_few

#: Below this size sorting everything is as fast as looking for ranks.
_SHORT = 65_536
#: Values that are looked at before all of them are, and how many different ones are few.
_LOOK, _FEW = 1024, 64
_ONE_LEVEL = np.empty(0, np.uint16)
NO_WEIGHT = np.empty(0, np.int64)


def quantile_ranks(total: int, bins: int) -> Int64s:
    """Return the ranks at which bins begin."""
    return np.array([j * total // bins for j in range(bins)], np.int64)


def quantile_places(count: Numbers, bins: int, *, falling: bool = False) -> Int64s:
    """Return where bins begin among values that rise, or fall; there is one that counts.

    `count` has what each value weighs, an integer.
    """
    out = np.empty((1, bins), np.int64)
    sorting.quantile_places(count, _ONE_LEVEL, np.array([count.sum(dtype=np.int64)]), falling, out)
    return out[0]


def falling_quantiles(values: Numbers, count: Numbers, bins: int) -> Floats:
    """Return the smallest value and the inner edges of bins of values that fall."""
    return values[quantile_places(count, bins, falling=True)].astype(np.float64)


def level_edges(
    values: Numbers, level: UInt16s, count: Numbers, totals: Int64s, bins: int
) -> Floats:
    """Return the inner edges of the bins of each level, shape (levels, bins - 1); NaN without rows.

    Values fall; `totals` are the counts of the levels.
    """
    places = np.empty((totals.size, bins), np.int64)
    sorting.quantile_places(count, level, np.ascontiguousarray(totals), True, places)
    return np.where(places < 0, np.nan, values[places].astype(np.float64))[:, 1:]


def order_statistics(values: Numbers, ranks: Int64s, weight: Int64s = NO_WEIGHT) -> Numbers:
    """Return the values of some ranks, counted from 0 and rising, without sorting all values.

    Values are float32 or float64, none NaN.  Weighted, that of rank r is the first whose cumulative
    weight exceeds r.
    """
    if values.size >= _SHORT:
        bits = values.view(np.uint32 if values.dtype == np.float32 else np.uint64)
        counts = np.zeros(sorting.HEADS, np.int64)
        sorting.count_heads(bits, weight, counts)
        heads = np.searchsorted(np.cumsum(counts), ranks, side="right")
        wanted = np.zeros(sorting.HEADS, np.bool_)
        wanted[heads] = True
        most = values.size if weight.size else int(counts[wanted].sum())
        gathered, own = np.empty(most, values.dtype), np.empty(min(most, weight.size), np.int64)
        size = sorting.gather_heads(bits, weight, wanted, gathered.view(bits.dtype), own)
        values, weight = gathered[:size], own[:size]
        # A rank within the gathered values: less what lies below in heads that were not gathered.
        ranks = ranks - np.cumsum(np.where(wanted, 0, counts))[heads]
    if not weight.size:
        return np.partition(values, ranks)[ranks]
    order = np.argsort(values)  # of equal values any comes first: only the value counts
    return values[order[np.searchsorted(np.cumsum(weight[order]), ranks, side="right")]]


def few_values(values: Numbers, units: Int64s) -> tuple[Numbers, Int64s]:
    """Return the distinct values with the sums of their units if they are few, else all of them."""
    some = distinct_values(values[:: max(1, values.size // _LOOK)])
    if values.size <= _LOOK or some.size > _FEW:
        return values, units
    sums = np.zeros(some.size, np.int64)
    return (some, sums) if sum_few(values, units, some, sums) else (values, units)


def unit_sums(place: UInt16s, units: Int64s, size: int) -> Int64s:
    """Return the sums of integers by place, which are numbers from 0 up to a size."""
    weights = units if units.size else None
    if int(units.max(initial=0)) * units.size < 2**53:  # floats count exactly so far
        return np.bincount(place, weights=weights, minlength=size).astype(np.int64)
    return np.array([units[place == own].sum() for own in range(size)], np.int64)


def quantile_edges(
    values: Numbers, bins: int, weight: Floats | None = None
) -> tuple[float, Floats]:
    """Return the smallest value and the inner edges of quantile bins; see `edges_by`."""
    return edges_by("equal-mass", values, (bins,), weight)[0]


def edges_by(
    strategy: str, values: Numbers, bins: Sequence[int], weight: Floats | None
) -> list[tuple[float, Floats]]:
    """Return the smallest value and the inner edges of bins, for several numbers of bins.

    The bins are equally wide if the strategy is ``equal-width``, else quantile bins: edge j (j = 1 …
    bins - 1) is the value of rank ``floor(j N / bins)``, counted from 0; weighted, the first value
    whose cumulative weight exceeds ``j W / bins``.  Duplicate edges stay: the bins between them are
    empty.  There is at least one value and no NaN; some weight is positive (None: each is 1).
    """
    if strategy == "equal-width":
        low, high = extremes(values, weight)
        return [(low, equal_width_edges(low, high, one)) for one in bins]
    if weight is not None:
        return quantiles_in_units(*few_values(values, in_units(weight)[0]), bins)
    return quantiles_in_units(values, NO_WEIGHT, bins)


def quantiles_in_units(
    values: Numbers, units: Int64s, bins: Sequence[int]
) -> list[tuple[float, Floats]]:
    """Return quantile bins as `edges_by` does, of `columns.weights.in_units` (none: each is 1)."""
    total = int(units.sum(dtype=np.int64)) if units.size else values.size
    ranks = np.concatenate([quantile_ranks(total, one) for one in bins])
    rising = order_statistics(values, ranks, units).astype(np.float64) + 0.0  # no -0.0
    return [(float(own[0]), own[1:]) for own in np.split(rising, np.cumsum(bins)[:-1])]


def extremes(values: Numbers, weight: Floats | None) -> tuple[float, float]:
    """Return the smallest and the largest value among rows that weigh something."""
    present = values if weight is None else values[weight > 0]
    return float(present.min()), float(present.max())


def equal_width_edges(low: float, high: float, bins: int) -> Floats:
    """Return the inner edges ``low + (high - low) j / bins`` of bins of equal width."""
    if not np.isfinite((high - low) * bins):  # beyond the largest float: a power of two is exact
        return equal_width_edges(low / 2**20, high / 2**20, bins) * 2**20
    return np.array([low + ((high - low) * j) / bins for j in range(1, bins)], np.float64)


def assign(values: Numbers, minimum: float, edges: Floats) -> UInt16s:
    """Return the bin of each value: the number of edges at or below ``max(value, minimum)``."""
    out = np.empty(values.size, np.uint16)
    assign_levels(values, minimum, edges, out)
    return out
