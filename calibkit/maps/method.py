"""What a method of calibration is, once it is loaded, and what it is fitted on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from calibkit.arrays import Floats, Numbers, rows_by_group
from calibkit.columns.weights import Unit
from calibkit.maps.model import ScoreMap
from calibkit.numerics.sums import cut, each_block
from calibkit.options.calibrate import MapOptions
from calibkit.summaries.tally import Tally, log_odds
from calibkit_kernels import maps
from calibkit_kernels.logistic import share_classes
from calibkit_kernels.maps import LEAST

if TYPE_CHECKING:
    from calibkit.expressions.nodes import Node
    from calibkit.maps.formulas import Maker


#: What writes the results of scores to arrays, one for each column that a method adds.
Writer = Callable[..., object]


class Points(Struct, frozen=True, dict=True):
    """What a map is fitted on: distinct scores, from high to low, in the dtype of the input.

    `count` and `positive` are the rows and positive rows of each in units of weight; `scale` is
    ``probability``, ``logit`` or ``raw``; `what` says which rows these are, for messages.
    """

    score: Numbers
    count: Numbers
    positive: Numbers
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

    def linear(self, threads: int = 1) -> Floats:
        """Return the scores on the scale of a line: logits of probabilities, else as they are."""
        if self.scale != "probability":
            return self.score.astype(np.float64)
        return log_odds(self.score, threads)

    def weights(self, threads: int = 1, *, smoothed: bool = False) -> tuple[Floats, Floats]:
        """Return what positive and what negative rows of each score weigh.

        `smoothed`: each row counts as a share of both classes instead, by Platt's targets: a
        positive one (P + 1) / (P + 2) positive, a negative one 1 / (N + 2), P and N the total
        weights.
        """
        size, high, low = self.unit.size, 1.0, 0.0
        if smoothed:
            rows, hits = (total * size for total in self.totals)
            high, low = (hits + 1.0) / (hits + 2.0), 1.0 / (rows - hits + 2.0)
        ones, zeros = np.empty(self.score.size), np.empty(self.score.size)
        arrays, blocks = (self.count, self.positive, ones, zeros), cut(0, self.score.size)
        each_block(share_classes, arrays, blocks, threads, [(size, high, low)] * len(blocks))
        return ones, zeros

    def backwards(self) -> Points:
        """Return the points in the opposite order."""
        score, count, positive = (
            own[::-1].copy() for own in (self.score, self.count, self.positive)
        )
        return replace(self, score=score, count=count, positive=positive)

    def clipped(self, score: Numbers, count: Numbers) -> int:
        """Return how many rows of some scores, in units, `linear` moves inside (0, 1)."""
        if self.scale != "probability":
            return 0
        return maps.mass_outside(score.astype(np.float64), count, LEAST, 1.0 - LEAST)


def pooled(tally: Tally, scale: str) -> Points:
    """Return the points of all levels of a tally together."""
    if tally.levels == 1 and not tally.part.size:
        return Points(tally.score, tally.count, tally.positive, tally.unit, scale)
    return merged(tally, scale)


def parts_of(tally: Tally, parts: int, scale: str) -> list[Points]:
    """Return the points of each part of a dealt tally, all levels together."""
    return [merged(tally.where(tally.part == part), scale) for part in range(parts)]


def together(parts: Sequence[Points]) -> Points:
    """Return the points of several parts of the same rows."""
    score, count, positive = (
        np.concatenate([getattr(part, name) for part in parts])
        for name in ("score", "count", "positive")
    )
    own, first = np.argsort(-score, kind="stable"), parts[0]
    whole = replace(first, score=score[own], count=count[own], positive=positive[own])
    return merged(whole, first.scale)


def by_level(tally: Tally) -> list[Tally]:
    """Return a tally of one level for each level."""
    one = np.zeros(tally.levels, np.uint16)
    parts = rows_by_group(tally.level, tally.levels)
    return [tally.where(own).coarser(one, 1) for own in parts]


def merged(own: Tally | Points, scale: str) -> Points:
    """Return points with one entry for each run of equal scores."""
    starts = np.flatnonzero(np.append(True, own.score[1:] != own.score[:-1])[: own.score.size])
    count = np.add.reduceat(own.count, starts, dtype=np.int64)
    positive = np.add.reduceat(own.positive, starts, dtype=np.int64)
    return Points(own.score[starts], count, positive, own.unit, scale)


class Found(Struct, frozen=True):
    """What a method found: the fields of its map, and what the user should be told, if anything.

    Lists of numbers may be arrays.
    """

    fields: dict[str, Any]
    warning: str | None = None


class Method(Struct, frozen=True):
    """One method of calibration."""

    #: Takes points, options and the points of each part, if rows are dealt to parts; returns what
    #: it found.  Refuses points on which it has no finite solution.
    fit: Callable[[Points, MapOptions, list[Points]], Found]
    #: Takes a map and a scale; returns what takes scores and the arrays to write to.
    writer: Callable[[ScoreMap, str], Writer]
    #: Takes what formulas are written with; returns the same for an export, before it is clipped.
    program: Callable[[Maker], tuple[Node, ...]]
    #: Whether a map that takes logarithms rises; None: it copies numbers or does plain arithmetic,
    #: the same on every machine.
    rises: Callable[[ScoreMap], bool] | None = None
    added: tuple[str, ...] = ("calibrated",)  # the columns it adds
    #: Whether it takes logits of probabilities, so that these are moved inside (0, 1) first.
    takes_logits: bool = False
    as_it_is: bool = False  # whether results stay as they are where no clip is asked for

    def fitted(
        self, points: Points, options: MapOptions, parts: list[Points], clip: float | None
    ) -> tuple[ScoreMap, tuple[str, ...]]:
        """Return the map of points, and what the user should be told; without a `clip` has its own."""
        found = self.fit(points, options, parts)
        if clip is None:
            clip = 0.0 if self.as_it_is else 1.0 / (max(float(points.rows), 1.0) + 2.0)
        plain = {name: np.asarray(value).tolist() for name, value in found.fields.items()}
        return ScoreMap(clip=clip, **plain), tuple(filter(None, [found.warning]))

    def mapped(self, one: ScoreMap, score: Numbers, scale: str, threads: int) -> tuple[Floats, ...]:
        """Return what a map makes of scores, an array for each column that is added."""
        out = tuple(np.empty(score.size) for _ in self.added)
        each_block(self.writer(one, scale), (score, *out), cut(0, score.size), threads)
        return out
