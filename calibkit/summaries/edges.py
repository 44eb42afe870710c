"""Edges of bins: quantiles of a column, or steps of equal width; and the bins of values."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibkit.columns.weights import in_units
from calibkit.numerics.quantile import order_statistics, quantile_places, quantile_ranks
from calibkit.summaries.order import few_values
from calibkit_kernels import tally as kernels

Floats = NDArray[Any]
Edges = NDArray[np.float64]


def quantile_edges(
    values: Floats, bins: int, weight: NDArray[np.float64] | None = None
) -> tuple[float, Edges]:
    """Return the smallest value and the inner edges of quantile bins.

    Edge j (j = 1 … bins - 1) is the value of rank ``floor(j N / bins)``, counted from 0; weighted,
    the first value whose cumulative weight exceeds ``j W / bins``.  Duplicate edges stay: the bins
    between them are empty.
    There is at least one value and no NaN; some weight is positive (None: each is 1).
    """
    if weight is None:
        ranks = quantile_ranks(values.size, bins)
        found = order_statistics(values, ranks).astype(np.float64) + 0.0  # no -0.0
        return float(found[0]), found[1:]
    return quantiles_in_units(*few_values(values, in_units(weight)[0]), bins)


def quantiles_in_units(values: Floats, units: NDArray[np.int64], bins: int) -> tuple[float, Edges]:
    """Return what `quantile_edges` does, of weights in `calibkit.columns.weights.in_units`."""
    order = np.argsort(values, kind="stable")
    order = order[units[order] > 0]
    places = quantile_places(units[order], bins)
    return float(values[order[0]]), values[order[places[1:]]].astype(np.float64)


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
