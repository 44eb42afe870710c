"""Bins: which values of a feature a tree tells apart, and the codes that stand for them in a fit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from calibkit.numerics.quantile import quantile_places, quantile_ranks
from calibkit.summaries.row_store import MOST_VALUES, ColumnSummaries
from calibkit_kernels import tree as kernels

Floats = NDArray[np.float64]
Int64s = NDArray[np.int64]
Codes = NDArray[np.uint8] | NDArray[np.uint16]

#: Quantile bins of a feature with more than `MOST_VALUES` distinct values.
QUANTILE_BINS: Final = 1024

#: Sorted values that are compared at a time.
_BLOCK: Final = 1 << 16


@dataclass(frozen=True)
class Bins:
    """The bins of one feature; the code after the last bin is that of a missing value.

    Attributes
    ----------
    values
        The value of each bin, rising (of categories their numbers); or the borders between bins.
    between
        Whether these are borders: the code of a value is the number of borders below it.
    """

    values: Floats
    between: bool = False

    @property
    def count(self) -> int:
        """How many bins there are."""
        return self.values.size + self.between

    @property
    def dtype(self) -> np.dtype[Any]:
        """The narrowest type that holds the codes."""
        return np.dtype(np.uint8 if self.count <= 255 else np.uint16)

    def codes(self, values: Floats) -> Codes:
        """Return the codes of values, NaN where there is none."""
        lows = self.values
        if self.between:  # a bin begins right above a border
            lows = np.append(lows[:1] if lows.size else 0.0, np.nextafter(lows, np.inf))
        codes = np.empty(values.size, self.dtype)
        kernels.bin_codes(values, lows, codes)
        return codes

    def cut(self, low: int, high: int) -> tuple[float, int]:
        """Return the cut between two bins, and the last code on its left.

        Bins in between hold no row of the node.  Between values the cut is half way, else it is the
        middle one of the borders; so codes and values go the same way.  A negative `high` stands for
        no bin: every value goes left, and the cut is NaN.
        """
        if high < 0:
            return np.nan, self.count - 1
        if self.between:
            last = (low + high - 1) // 2
            return float(self.values[last]), last
        middle = float(_midpoints(self.values[low : low + 1], self.values[high : high + 1])[0])
        return middle, int(np.searchsorted(self.values, middle, "right")) - 1


def summarised_bins(found: ColumnSummaries, column: int, bins: int) -> Bins:
    """Return the bins of a column: one a distinct value, or quantiles of its sample."""
    distinct = found.distinct(column)
    if distinct is not None:
        return Bins(distinct)
    values, counts = found.sample(column)
    firsts = values[quantile_places(counts, bins)]
    return _bordered(values, np.unique(np.searchsorted(values, firsts)))


def most_values(most: int | None) -> tuple[int, int]:
    """Return how many distinct values each have a bin, and how many quantile bins there are beyond.

    `most` are quantile bins for every feature with more values; None: 1024 beyond 65,535 values.
    """
    return (MOST_VALUES, QUANTILE_BINS) if most is None else (most, most)


def sorted_bins(ordered: Floats, most: int) -> Bins:
    """Return the bins of sorted values: one a distinct value, or quantiles of all of them."""
    starts, exact = group_starts(ordered, most)
    return Bins(ordered[starts]) if exact else _bordered(ordered, starts)


def group_starts(ordered: Floats, most: int) -> tuple[Int64s, bool]:
    """Return where groups of sorted values begin, and whether each holds one distinct value.

    That is so where there are at most `most` of them; else there are about as many groups of equal
    size.  Equal values are never parted.
    """
    found, count = [np.zeros(1, np.int64)], 1
    for first in range(0, ordered.size - 1, _BLOCK):
        block = ordered[first : first + _BLOCK + 1]
        found.append(np.flatnonzero(block[1:] != block[:-1]) + first + 1)
        count += found[-1].size
        if count > most:
            values = ordered[quantile_ranks(ordered.size, most)]
            return np.unique(np.searchsorted(ordered, values)), False
    return np.concatenate(found), True


def _bordered(ordered: Floats, starts: Int64s) -> Bins:
    """Return bins that begin at some places, of which the first is 0, of sorted values."""
    return Bins(_midpoints(ordered[starts[1:] - 1], ordered[starts[1:]]), between=True)


def _midpoints(low: Floats, high: Floats) -> Floats:
    """Return the numbers half way between two, the lower one where rounding gives the upper."""
    middle = 0.5 * low + 0.5 * high
    return np.where(middle < high, middle, low)
