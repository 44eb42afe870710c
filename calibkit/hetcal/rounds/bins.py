"""Histogram maps of the leaves in rounds: the very bins that they have in memory.

The quantiles of a leaf's scores are sought among keys, unsigned integers in the order of the scores:
the stretches of keys that hold one are cut finer, round after round, until one key is left of each.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from calibkit.hetcal.maps import HISTOGRAM_BINS
from calibkit.hetcal.rounds.edges import finer, ranks_of
from calibkit.hetcal.rounds.ends import mapped_end_of
from calibkit.hetcal.rounds.grow import MOST_CELLS, Shared
from calibkit.hetcal.rounds.known import Bucket, Edges, Known
from calibkit.hetcal.rounds.protocol import Mapped
from calibkit.hetcal.rounds.rows import Block
from calibkit.hetcal.rounds.tables import Numbers, What, array_of, keys_of, values_of
from calibkit.hetcal.states import HetcalProblem
from calibkit_kernels import leaf_maps

Floats = NDArray[np.float64]
Int64s = NDArray[np.int64]
Keys = NDArray[np.uint64]

#: What makes signed keys unsigned ones, in the same order.
_SIGN: Final = np.uint64(1 << 63)


def first_cuts(end: Mapped) -> list[Edges]:
    """Return where the bins of each leaf are to be sought."""
    found = []
    for leaf in end.each_leaf():
        if leaf is None:
            found.append(Edges(0, [0.0]))
            continue
        low, high = unsigned(np.array([leaf.low, leaf.high])).tolist()
        bits = (low ^ high).bit_length()
        if bits:
            stretch = Bucket(low >> bits << bits, bits, 0, leaf.rows)
            found.append(Edges(leaf.rows, buckets=[stretch]))
        else:
            found.append(Edges(leaf.rows, [leaf.low]))
    return found


def unsigned(scores: Floats) -> Keys:
    """Return keys of scores, in their order."""
    found: Keys = keys_of(scores).view(np.uint64) ^ _SIGN
    return found


def scores_of(keys: Sequence[int]) -> list[float]:
    """Return the scores that keys stand for."""
    found: list[float] = values_of((np.array(keys, np.uint64) ^ _SIGN).view(np.int64)).tolist()
    return found


def told_bits(cuts: Sequence[Edges]) -> list[int]:
    """Return how many bits of the keys the next round tells of each leaf; 0: its bins are known."""
    stretches = sum(len(edges.buckets) for edges in cuts)
    most = max(1, (MOST_CELLS // max(stretches, 1)).bit_length() - 1)
    return [min(most, edges.buckets[0].bits) if edges.buckets else 0 for edges in cuts]


def cut_finer(cuts: Sequence[Edges], table: pl.DataFrame) -> None:
    """Learn from a round in which stretches hold the quantiles of each leaf."""
    told = told_bits(cuts)
    starts = _starts(cuts, told)
    counts = array_of(table, What.SHARE, starts[-1])
    for place, (edges, bits) in enumerate(zip(cuts, told, strict=True)):
        if not bits:
            continue
        own = counts[starts[place] : starts[place + 1]]
        ranks = ranks_of(edges.present, HISTOGRAM_BINS)
        edges.buckets = finer(edges.buckets, own, bits, ranks)
        if not edges.buckets[0].bits:
            edges.lows = scores_of([bucket.first for bucket in edges.buckets])
            edges.buckets = []


def _starts(cuts: Sequence[Edges], told: Sequence[int]) -> list[int]:
    """Return where the counts of each leaf begin, and where they end."""
    sizes = [len(edges.buckets) << bits for edges, bits in zip(cuts, told, strict=True)]
    return list(accumulate(sizes, initial=0))


class SeekCounter:
    """Weighs the rows in the stretches of keys that hold quantiles."""

    def __init__(self, known: Known, problem: HetcalProblem, shared: Shared) -> None:
        self.end, self.shared, self.cuts = mapped_end_of(known, problem), shared, known.cuts
        self.end.need(len(self.cuts))
        self.told = told_bits(self.cuts)
        self.starts = _starts(self.cuts, self.told)
        self.open = np.flatnonzero(self.told)
        self.counts = np.zeros(self.starts[-1], np.int64)

    def add(self, block: Block) -> None:
        """Add some rows."""
        keys = unsigned(self.end.first(block.score))
        spans, rows = self.end.rows_by_leaf(block)

        def work(part: Int64s) -> None:
            for place in self.open[part].tolist():
                own = rows[slice(*spans[place])]
                self._count(place, keys[own], block.weight[own])

        self.shared.over(self.open.size, work)

    def _count(self, leaf: int, keys: Keys, weight: Int64s) -> None:
        buckets, told = self.cuts[leaf].buckets, self.told[leaf]
        firsts = np.array([bucket.first for bucket in buckets], np.uint64)
        place = np.searchsorted(firsts, keys, "right") - 1
        fine = (keys - firsts[place]) >> np.uint64(buckets[0].bits - told)
        inside = (place >= 0) & (fine < np.uint64(1 << told))
        own = self.counts[self.starts[leaf] : self.starts[leaf + 1]]
        np.add.at(own, (place[inside] << told) + fine[inside].astype(np.int64), weight[inside])

    def tell(self, numbers: Numbers) -> dict[str, Any]:
        """Tell the counts."""
        numbers.add_all(What.SHARE, self.counts)
        return {}


class RateCounter:
    """Sums the rows and the positives in the bins of each leaf."""

    def __init__(self, known: Known, problem: HetcalProblem) -> None:
        self.end = mapped_end_of(known, problem)
        self.end.need(len(known.cuts))
        self.knots, self.starts = knots_of(known.cuts)
        self.sums = np.zeros((self.knots.size, 2), np.int64)

    def add(self, block: Block) -> None:
        """Add some rows."""
        spans, rows = self.end.rows_by_leaf(block)
        rows = rows[: spans[-1, 1]]
        leaf = np.repeat(np.arange(len(spans), dtype=np.int32), spans[:, 1] - spans[:, 0])
        places, found = np.arange(self.knots.size, dtype=np.float64), np.empty(rows.size)
        score = self.end.first(block.score)[rows]
        leaf_maps.leaf_steps(score, leaf, self.starts, self.knots, places, found)
        payload = np.stack([block.weight, block.weight * block.label], axis=1)
        np.add.at(self.sums, found.astype(np.int64), payload[rows])

    def tell(self, numbers: Numbers) -> dict[str, Any]:
        """Tell the sums."""
        numbers.add_all(What.CELL, self.sums)
        return {}


def knots_of(cuts: Sequence[Edges]) -> tuple[Floats, Int64s]:
    """Return the lowest scores of all bins, leaf by leaf, and where those of each leaf begin."""
    lows = [edges.lows or [0.0] for edges in cuts]
    return np.concatenate([np.array(own) for own in lows]), np.cumsum([0, *map(len, lows)])


def rates_of(cuts: Sequence[Edges], table: pl.DataFrame) -> list[list[float]]:
    """Return the positive rates of the bins of each leaf."""
    knots, starts = knots_of(cuts)
    rows, hits = array_of(table, What.CELL, 2 * knots.size).reshape(-1, 2).T
    rates = np.divide(hits, rows, out=np.zeros(knots.size), where=rows > 0)
    return [own.tolist() for own in np.split(rates, starts[1:-1])]
