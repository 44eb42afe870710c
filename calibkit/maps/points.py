"""What a map is fitted on: distinct scores with their rows and positive rows."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibkit.columns.weights import Unit
from calibkit.numerics.blocks import cut, each_block
from calibkit.numerics.quantile import falling_quantiles
from calibkit.summaries.tally import Tally
from calibkit_kernels import maps
from calibkit_kernels.logistic import share_classes
from calibkit_kernels.maps import LEAST

Floats = NDArray[Any]
Counts = NDArray[Any]
Float64s = NDArray[np.float64]


@dataclass(frozen=True)
class Points:
    """Distinct scores, from high to low, with counts in units of weight.

    Attributes
    ----------
    score
        Of the scale that `scale` says, in the dtype of the input.
    count, positive
        Rows and positive rows of each score.
    unit
        What one unit of them is worth.
    scale
        ``probability``, ``logit`` or ``raw``.
    what
        Which rows these are, for messages.
    """

    score: Floats
    count: Counts
    positive: Counts
    unit: Unit
    scale: str
    what: str = "the rows"

    @cached_property
    def totals(self) -> tuple[int, int]:
        """Rows and positive rows, in units."""
        return int(self.count.sum(dtype=np.int64)), int(self.positive.sum(dtype=np.int64))

    @property
    def rows(self) -> int | float:
        """How many rows there are, or what they weigh."""
        return self.unit.amount(self.totals[0])

    @property
    def positives(self) -> int | float:
        """How many rows are positive, or what they weigh."""
        return self.unit.amount(self.totals[1])

    @property
    def is_probability(self) -> bool:
        """Whether scores are probabilities, of which logits are taken where they are needed."""
        return self.scale == "probability"

    def linear(self, threads: int = 1) -> Float64s:
        """Return the scores on the scale of a line: logits of probabilities, else as they are."""
        if not self.is_probability:
            return self.score.astype(np.float64)
        out = np.empty(self.score.size)
        blocks = cut(0, self.score.size)
        each_block(_log_odds, (self.score, out), blocks, threads)
        return out

    def weights(self, threads: int = 1, *, smoothed: bool = False) -> tuple[Float64s, Float64s]:
        """Return what positive and what negative rows of each score weigh.

        Parameters
        ----------
        smoothed
            Each row counts as a share of both classes instead, by Platt's targets: a positive one
            (P + 1) / (P + 2) positive, a negative one 1 / (N + 2), P and N the total weights.
        """
        size, high, low = self.unit.size, 1.0, 0.0
        if smoothed:
            rows, hits = (total * size for total in self.totals)
            high, low = (hits + 1.0) / (hits + 2.0), 1.0 / (rows - hits + 2.0)
        ones, zeros = np.empty(self.score.size), np.empty(self.score.size)
        arrays, blocks = (self.count, self.positive, ones, zeros), cut(0, self.score.size)
        each_block(share_classes, arrays, blocks, threads, [(size, high, low)] * len(blocks))
        return ones, zeros

    def clipped(self) -> int | float:
        """Return how many rows `linear` moves inside (0, 1)."""
        if not self.is_probability:
            return 0
        score = self.score.astype(np.float64)
        return self.unit.amount(maps.mass_outside(score, self.count, LEAST, 1.0 - LEAST))

    def quantiles(self, bins: int, values: Floats | None = None) -> Float64s:
        """Return the smallest score and the inner edges of quantile bins.

        `values` takes the place of the scores; they fall like these.
        """
        return falling_quantiles(self.score if values is None else values, self.count, bins)


def _log_odds(score: Floats, out: Float64s) -> None:
    maps.log_odds(score, LEAST, out)


def pooled(tally: Tally, scale: str) -> Points:
    """Return the points of all levels of a tally together."""
    if tally.levels == 1 and not tally.part.size:
        return Points(tally.score, tally.count, tally.positive, tally.unit, scale)
    return _merged(tally.score, tally.count, tally.positive, tally.unit, scale)


def parts_of(tally: Tally, parts: int, scale: str) -> list[Points]:
    """Return the points of each part of a dealt tally, all levels together."""
    found = []
    for part in range(parts):
        own = np.flatnonzero(tally.part == part)
        arrays = (tally.score[own], tally.count[own], tally.positive[own])
        found.append(_merged(*arrays, tally.unit, scale))
    return found


def together(parts: Sequence[Points]) -> Points:
    """Return the points of several parts of the same rows."""
    score, count, positive = (
        np.concatenate([getattr(part, name) for part in parts])
        for name in ("score", "count", "positive")
    )
    order = np.argsort(-score, kind="stable")
    first = parts[0]
    return _merged(score[order], count[order], positive[order], first.unit, first.scale)


def by_level(tally: Tally) -> list[Tally]:
    """Return a tally of one level for each level."""
    order = np.argsort(tally.level, kind="stable")
    ends = np.cumsum(np.bincount(tally.level, minlength=tally.levels))
    found = []
    for start, end in zip([0, *ends[:-1]], ends, strict=True):
        own = order[start:end]
        part = tally.part[own] if tally.part.size else tally.part
        level = np.zeros(own.size, np.uint16)
        counts = tally.count[own], tally.positive[own]
        found.append(Tally(tally.score[own], level, *counts, 1, tally.unit, part))
    return found


def _merged(score: Floats, count: Counts, positive: Counts, unit: Unit, scale: str) -> Points:
    """Return points with one entry for each run of equal scores."""
    if not score.size:
        return Points(score, count, positive, unit, scale)
    starts = np.flatnonzero(np.append(True, score[1:] != score[:-1]))
    counts = [np.add.reduceat(column, starts, dtype=np.int64) for column in (count, positive)]
    return Points(score[starts], counts[0], counts[1], unit, scale)


def sums_between(column: Counts, cuts: Sequence[int]) -> list[int]:
    """Return the sums of counts between successive places."""
    return [int(column[first:last].sum(dtype=np.int64)) for first, last in itertools.pairwise(cuts)]
