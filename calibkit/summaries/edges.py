"""Rows by falling score, columns of few values (quick where rows were counted), and edges of bins."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibkit.columns.weights import in_units
from calibkit.numerics.quantile import order_statistics, quantile_ranks
from calibkit_kernels import sorting
from calibkit_kernels import tally as kernels
from calibkit_kernels.tally import sum_few

Edges = NDArray[np.float64]
Floats = NDArray[Any]
Int64s = NDArray[np.int64]

#: Values that are looked at before all of them are, and how many different ones are few.
_LOOK, _FEW = 1024, 64


def falling_keys(score: Floats) -> tuple[NDArray[np.uint64], np.uint64]:
    """Return keys that sort scores from high to low, less the smallest of them."""
    keys = np.empty(score.size, np.uint64)
    sorting.falling_keys(score.view(f"u{score.itemsize}"), keys)
    smallest = keys.min()
    keys -= smallest
    return keys, smallest


def falling_places(score: Floats, second: NDArray[Any], threads: int) -> NDArray[np.uint32]:
    """Return the places of rows by falling score, then by a rising second column of integers.

    Counted and stored rows have rising scores already: they are turned round.
    """
    places = np.empty(score.size, np.uint32)
    if sorting.turn_round(score, second, places):
        return places
    places[:] = np.arange(score.size)
    below = second.astype(np.uint64)
    _, places = sorting.sort_pairs(below, places, int(below.max()).bit_length(), threads)
    keys, _ = falling_keys(score)
    keys = keys[places]
    _, places = sorting.sort_pairs(keys, places, int(keys.max()).bit_length(), threads)
    return places


def few_values(values: Floats, units: Int64s) -> tuple[Floats, Int64s]:
    """Return the distinct values with the sums of their units if they are few, else all of them."""
    some = np.unique(values[:: max(1, values.size // _LOOK)])
    if values.size <= _LOOK or some.size > _FEW:
        return values, units
    sums = np.zeros(some.size, np.int64)
    return (some, sums) if sum_few(values, units, some, sums) else (values, units)


def unit_sums(place: NDArray[np.uint16], units: Int64s, size: int) -> Int64s:
    """Return the sums of integers by place, which are numbers from 0 up to a size."""
    if int(units.max()) * units.size < 2**53:  # floats count exactly so far
        return np.bincount(place, weights=units, minlength=size).astype(np.int64)
    return np.array([units[place == own].sum() for own in range(size)], np.int64)


def quantile_edges(
    values: Floats, bins: int, weight: NDArray[np.float64] | None = None
) -> tuple[float, Edges]:
    """Return the smallest value and the inner edges of quantile bins.

    Edge j (j = 1 … bins - 1) is the value of rank ``floor(j N / bins)``, counted from 0; weighted,
    the first value whose cumulative weight exceeds ``j W / bins``.  Duplicate edges stay: the bins
    between them are empty.
    There is at least one value and no NaN; some weight is positive (None: each is 1).
    """
    if weight is not None:
        return quantiles_in_units(*few_values(values, in_units(weight)[0]), bins)
    found = order_statistics(values, quantile_ranks(values.size, bins))
    return _edges(found)


def quantiles_in_units(values: Floats, units: NDArray[np.int64], bins: int) -> tuple[float, Edges]:
    """Return what `quantile_edges` does, of weights in `calibkit.columns.weights.in_units`."""
    ranks = quantile_ranks(int(units.sum(dtype=np.int64)), bins)
    return _edges(order_statistics(values, ranks, units))


def _edges(found: Floats) -> tuple[float, Edges]:
    rising = found.astype(np.float64) + 0.0  # no -0.0
    return float(rising[0]), rising[1:]


def equal_width_edges(low: float, high: float, bins: int) -> Edges:
    """Return the inner edges ``low + (high - low) j / bins`` of bins of equal width."""
    if not np.isfinite((high - low) * bins):  # beyond the largest float: a power of two is exact
        return equal_width_edges(low / 2**20, high / 2**20, bins) * 2**20
    return np.array([low + ((high - low) * j) / bins for j in range(1, bins)], np.float64)


def assign(values: Floats, minimum: float, edges: Edges) -> NDArray[np.uint16]:
    """Return the bin of each value: the number of edges at or below ``max(value, minimum)``."""
    out = np.empty(values.size, np.uint16)
    kernels.assign_levels(values, minimum, edges, out)
    return out
