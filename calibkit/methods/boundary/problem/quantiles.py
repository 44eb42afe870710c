"""The distribution of a column in outline: quantiles, the rows between them, the largest value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibkit.columns.weights import ROW, in_units
from calibkit.summaries.edges import (
    assign,
    few_values,
    quantile_edges,
    quantiles_in_units,
    unit_sums,
)
from calibkit.summaries.tally import Tally


@dataclass(frozen=True)
class Quantiles:
    """Where the values of a column lie."""

    #: The smallest value, then the inner edges of bins of equal mass; equal ones stay.
    quantiles: list[float]
    counts: list[int | float]  # rows (sums of weights) in the bins of `place_between`
    largest: float


def quantiles_of_rows(
    values: NDArray[Any], weight: NDArray[np.float64] | None, quantiles: int
) -> Quantiles:
    """Return the outline of a column of numbers; rows of weight 0 do not count."""
    if weight is None:
        low, edges = quantile_edges(values, quantiles)
        found = np.array([low, *edges])
        counts, unit = np.bincount(place_between(values, found), minlength=quantiles), ROW
        largest = values.max()
    else:
        units, unit = in_units(weight)
        values, units = few_values(values, units)
        low, edges = quantiles_in_units(values, units, quantiles)
        found = np.array([low, *edges])
        counts = unit_sums(place_between(values, found), units, quantiles)
        largest = values[units > 0].max()
    amounts = [unit.amount(int(count)) for count in counts]
    return Quantiles(found.tolist(), amounts, float(largest) + 0.0)


def quantiles_of_tally(tally: Tally, quantiles: int) -> Quantiles:
    """Return the outline of the scores of a tally."""
    found = tally.quantiles(quantiles)
    rising = tally.score[::-1]
    edges = found.astype(rising.dtype)
    at, above = (np.searchsorted(rising, edges, side=side) for side in ("left", "right"))
    again = np.append(found[1:] == found[:-1], False)  # the next quantile is the same
    before = np.append(False, again[:-1])
    starts = np.where(before, above, at)
    ends = np.where(again, np.where(before, starts, above), np.append(at[1:], rising.size))
    size = rising.size
    counts = [
        tally.unit.amount(int(tally.count[size - end : size - start].sum(dtype=np.int64)))
        for start, end in zip(starts, ends, strict=True)
    ]
    largest = tally.score[np.argmax(tally.count > 0)]  # entries fall; rows of weight 0 do not count
    return Quantiles(found.tolist(), counts, float(largest))


def place_between(values: NDArray[Any], quantiles: NDArray[np.float64]) -> NDArray[np.uint16]:
    """Return the bin of each value between quantiles, which rise or stay.

    Bin j reaches from quantile j up to the next, without it.  Where several quantiles are one value,
    which many rows then share, the bin of the first holds this value alone, that of the last what
    lies above it, and any between are empty.  Values below all quantiles count as the first.
    """
    place = assign(values, float(quantiles[0]), quantiles[1:])
    first = np.searchsorted(quantiles, quantiles, side="left").astype(np.uint16)
    if (first == np.arange(first.size)).all():
        return place
    on = np.maximum(values, quantiles[0]) == quantiles[place]
    found: NDArray[np.uint16] = np.where(on, first[place], place)
    return found
