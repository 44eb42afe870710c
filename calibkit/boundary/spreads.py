"""The distribution of a column in outline: quantiles, the rows between them, the largest value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibkit.binning import assign, quantile_edges
from calibkit.tally import Tally
from calibkit.weights import ROW, in_units


@dataclass(frozen=True)
class Spread:
    """Where the values of a column lie.

    Attributes
    ----------
    quantiles
        The smallest value, then the inner edges of bins of equal mass; equal ones stay.
    counts
        The rows (sums of weights) from each quantile up to the next; 0 between equal ones.
    largest
        The largest value.
    """

    quantiles: list[float]
    counts: list[int | float]
    largest: float


def spread_of_rows(
    values: NDArray[Any], weight: NDArray[np.float64] | None, quantiles: int
) -> Spread:
    """Return the outline of a column of numbers; rows of weight 0 do not count."""
    low, edges = quantile_edges(values, quantiles, weight)
    place = assign(values, low, edges)
    if weight is None:
        counts, unit = np.bincount(place, minlength=quantiles), ROW
        largest = values.max()
    else:
        units, unit = in_units(weight)
        counts = np.array([units[place == j].sum() for j in range(quantiles)])
        largest = values[units > 0].max()
    amounts = [unit.amount(int(count)) for count in counts]
    return Spread([low, *edges.tolist()], amounts, float(largest) + 0.0)


def spread_of_tally(tally: Tally, quantiles: int) -> Spread:
    """Return the outline of the scores of a tally."""
    found = tally.quantiles(quantiles)
    rising = tally.score[::-1]
    first = np.searchsorted(rising, found.astype(rising.dtype), side="left")
    ends = np.append(first[1:], rising.size)
    counts = [
        tally.unit.amount(
            int(tally.count[rising.size - end : rising.size - start].sum(dtype=np.int64))
        )
        for start, end in zip(first, ends, strict=True)
    ]
    largest = tally.score[np.argmax(tally.count > 0)]  # entries fall; rows of weight 0 do not count
    return Spread(found.tolist(), counts, float(largest))
