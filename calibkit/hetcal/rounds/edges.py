"""The bins of features whose rows are read in rounds: the very bins that they have in memory.

A first look counts the distinct values of a number while they are few, and its keys (integers in the
order of the numbers) by their first 16 bits.  Where there are more values than bins, the stretches of
keys that hold a quantile are cut finer, round after round, until their values can be counted.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from calibkit.hetcal.features import MOST_BINS, QUANTILE_BINS
from calibkit.hetcal.rounds.known import Bucket, Edges
from calibkit.hetcal.rounds.tables import (
    Numbers,
    What,
    array_of,
    keys_of,
    places_of,
    values_of,
)

Floats = NDArray[np.float64]
Int64s = NDArray[np.int64]

#: The bits of a key that the first look leaves open, and how many stretches it tells apart.
_LEFT: Final = 48
_STRETCHES: Final = 1 << 16

#: Values, or stretches of keys, that are counted at a time for all features together.
_MOST_COUNTED: Final = 1 << 20
_FEWEST_COUNTED: Final = 1 << 13


def limits(max_bins: int | None) -> tuple[int, int]:
    """Return how many distinct values have a bin each, and how many bins there are beyond."""
    return (MOST_BINS, QUANTILE_BINS) if max_bins is None else (max_bins, max_bins)


class Look:
    """Counts the values of a number."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.coarse = np.zeros(_STRETCHES, np.int64)
        self.keys: Int64s | None = np.empty(0, np.int64)

    def add(self, values: Floats) -> None:
        """Add some values; NaN is none."""
        keys = keys_of(values[~np.isnan(values)])
        self.coarse += np.bincount((keys >> _LEFT) + _STRETCHES // 2, minlength=_STRETCHES)
        if self.keys is not None:
            self.keys = np.union1d(self.keys, keys)
            if self.keys.size > self.limit:
                self.keys = None

    def tell(self, numbers: Numbers, feature: int) -> None:
        """Tell what was counted; distinct values only while they are few."""
        numbers.add_all(What.COARSE, self.coarse, feature)
        if self.keys is not None:
            numbers.add(What.VALUE, self.keys, np.ones_like(self.keys), feature)


def first_edges(table: pl.DataFrame, feature: int, many: bool, max_bins: int | None) -> Edges:
    """Return the bins of a feature after the first look; `many`: some shard had too many values."""
    limit, bins = limits(max_bins)
    coarse = array_of(table, What.COARSE, _STRETCHES, feature)
    present = int(coarse.sum())
    keys, _ = places_of(table, What.VALUE, feature)
    if not many and keys.size <= limit:
        lows = values_of(keys).tolist()
        return Edges(present, lows, lows)
    stretches = np.flatnonzero(coarse)
    firsts = (stretches - _STRETCHES // 2) << _LEFT
    found = Edges(present)
    ranks = ranks_of(present, bins)
    found.buckets = _holding(firsts.tolist(), coarse[stretches], 0, _LEFT, ranks)
    return found


def ranks_of(present: int, bins: int) -> Int64s:
    """Return the places of the quantiles among the values in order."""
    return np.unique(np.array([present * place // bins for place in range(bins)], np.int64))


def _holding(
    firsts: list[int], counts: Int64s, below: int, bits: int, ranks: Int64s
) -> list[Bucket]:
    """Return the stretches that hold a quantile."""
    ends = below + np.cumsum(counts)
    starts = ends - counts
    holding = np.flatnonzero(np.searchsorted(ranks, starts) < np.searchsorted(ranks, ends))
    return [
        Bucket(firsts[place], bits, int(starts[place]), int(counts[place]))
        for place in holding.tolist()
    ]


def finer(buckets: list[Bucket], counts: Int64s, told: int, ranks: Int64s) -> list[Bucket]:
    """Return the parts of stretches that hold a quantile.

    Parameters
    ----------
    buckets
        The stretches, which hold all quantiles.
    counts, told
        Of 2^`told` equal parts of each of them.
    ranks
        The places of the quantiles.
    """
    found = []
    for place, bucket in enumerate(buckets):
        own, left = counts[place << told : (place + 1) << told], bucket.bits - told
        used = np.flatnonzero(own)
        firsts = [bucket.first + (part << left) for part in used.tolist()]
        found += _holding(firsts, own[used], bucket.below, left, ranks)
    return found


def _most(features: int) -> int:
    """Return how much is counted of one feature."""
    return max(_FEWEST_COUNTED, _MOST_COUNTED // features)


def _finer(edges: Edges, features: int) -> int:
    """Return how many bits of the keys are told in the next round; 0: values are counted."""
    most = _most(features)
    if sum(one.rows for one in edges.buckets) <= most or edges.buckets[0].bits <= 1:
        return 0
    return min(edges.buckets[0].bits, max(1, (most // len(edges.buckets)).bit_length() - 1))


class Refine:
    """Counts the values of a number in the stretches that hold a quantile."""

    def __init__(self, edges: Edges, features: int) -> None:
        self.firsts = np.array([one.first for one in edges.buckets], np.int64)
        self.bits = edges.buckets[0].bits
        self.told = _finer(edges, features)
        self.counts = np.zeros(self.firsts.size << self.told, np.int64)
        self.keys: dict[int, int] = {}

    def add(self, values: Floats) -> None:
        """Add some values; NaN is none."""
        keys = keys_of(values[~np.isnan(values)])
        place = np.searchsorted(self.firsts, keys, "right") - 1
        inside = (place >= 0) & (keys >> self.bits == self.firsts[place] >> self.bits)
        place, keys = place[inside], keys[inside]
        if self.told:
            fine = (keys - self.firsts[place]) >> (self.bits - self.told)
            self.counts += np.bincount((place << self.told) + fine, minlength=self.counts.size)
            return
        for key, count in zip(
            *(one.tolist() for one in np.unique(keys, return_counts=True)), strict=True
        ):
            self.keys[key] = self.keys.get(key, 0) + count

    def tell(self, numbers: Numbers, feature: int) -> None:
        """Tell what was counted."""
        if self.told:
            numbers.add_all(What.SHARE, self.counts, feature)
            return
        keys = sorted(self.keys)
        counts = np.array([self.keys[key] for key in keys], np.int64)
        numbers.add(What.VALUE, np.array(keys, np.int64), counts, feature)


def refined(
    edges: Edges, table: pl.DataFrame, feature: int, features: int, max_bins: int | None
) -> Edges:
    """Return what is known of the bins of a feature after a further round."""
    ranks = ranks_of(edges.present, limits(max_bins)[1])
    told, bits = _finer(edges, features), edges.buckets[0].bits
    found = Edges(edges.present)
    if told:
        counts = array_of(table, What.SHARE, len(edges.buckets) << told, feature)
        found.buckets = finer(edges.buckets, counts, told, ranks)
        return found
    keys, counts = places_of(table, What.VALUE, feature)
    lows: list[float] = []
    for bucket in edges.buckets:
        within = slice(*np.searchsorted(keys, [bucket.first, bucket.first + (1 << bits)]))
        ends = bucket.below + np.cumsum(counts[within])
        here = ranks[(ranks >= bucket.below) & (ranks < bucket.below + bucket.rows)]
        places = np.unique(np.searchsorted(ends, here, "right"))
        lows += values_of(keys[within][places]).tolist()
    found.lows = lows
    return found
