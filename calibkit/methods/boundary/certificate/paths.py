"""Nested paths of boundaries, fitted on one part of the rows, along which another part certifies.

A path is a sequence of boundaries each of which selects at least what the one before selects.  It
is a function of the fitting part alone, as are the uncertainty levels it stands on and the place
where certification begins on it: so, for the certification part, every boundary of it is fixed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibkit.bins.binning import Levels, uncertainty_levels
from calibkit.columns.columns import ScoreRows
from calibkit.methods.boundary.problem.found import Surface, lowest_scores
from calibkit.methods.boundary.solvers.curved import (
    CurvedSurface,
    Sizes,
    fit_curved,
    plain_values,
    probability_of,
    regressor,
)
from calibkit.methods.boundary.solvers.frontier import supported_frontier
from calibkit.methods.boundary.solvers.logistic import LEVELS as SURFACE_LEVELS
from calibkit.methods.boundary.solvers.logistic import distinct
from calibkit.numerics.isotonic import pool_prefixes
from calibkit.summaries.tally import Tally, count_rows
from calibkit_kernels.decide import LEAST

Floats = NDArray[np.float64]
Int64s = NDArray[np.int64]

#: The path of the curved surface, which no other method has.
CURVED = "curved"
#: The default number of levels of the optimum's path.
_EXACT_LEVELS = 3
#: From one boundary of a path to the next the fitting rows selected grow by this share.
_STEP = 0.005
#: Scores at which a surface is looked at, at every level: so many of the highest, then ever fewer.
_DENSE = 400


@dataclass(frozen=True)
class Path:
    """Boundaries from strict to lax, each selecting at least what the one before selects.

    `thresholds` has the shape (boundaries, levels): NaN selects nothing, -inf everything; `expected`
    how many of the fitting rows and of their positives each is expected to select, on which only the
    power of the tests depends; `totals` the rows and positives of the fitting part; `surface` and
    `cuts` a logistic surface, and where each boundary cuts it.
    """

    method: str
    levels: Levels
    thresholds: Floats
    expected: Floats
    totals: tuple[int, int]
    surface: Surface | None = None
    cuts: Floats | None = None

    @property
    def size(self) -> int:
        """How many boundaries there are."""
        return int(self.thresholds.shape[0])

    def first(self, score: NDArray[Any], level: NDArray[np.uint16]) -> Int64s:
        """Return the first boundary that selects each score at a level; their number if none."""
        first = np.full(score.size, self.size, np.int64)
        for own_level in range(self.thresholds.shape[1]):
            own = np.flatnonzero(level == own_level)
            column = self.thresholds[:, own_level]
            never = int(np.isnan(column).sum())  # they stand first: a path only grows
            falling = -score[own].astype(np.float64)
            first[own] = never + np.searchsorted(-column[never:], falling, side="left")
        return first

    def counts(self, tally: Tally) -> Int64s:
        """Return rows and positive rows that each boundary selects of a tally over the levels."""
        return self.sums(tally, tally.positive, np.int64)

    def sums(self, tally: Tally, hits: NDArray[Any], dtype: type) -> NDArray[Any]:
        """Return rows, and sums of `hits` of the entries, that each boundary selects of a tally."""
        first = self.first(tally.score, tally.level)
        found: NDArray[Any] = np.zeros((self.size + 1, 2), dtype)
        np.add.at(found[:, 0], first, tally.count)
        np.add.at(found[:, 1], first, hits)
        return np.cumsum(found[: self.size], axis=0)


def joined(expected: Sequence[Floats]) -> Int64s:
    """Return one path over several segments, each of which has a path of its own.

    The steps of all paths follow each other by falling rate of expected positives, that of the
    isotonic regression along the path; from one boundary to the next the rows grow by a step.
    `expected` has rows and positives that the boundaries of each path are expected to select; returned
    is the place on each segment's path, shape (boundaries, segments), -1 before its first.
    """
    if len(expected) == 1:
        return np.arange(expected[0].shape[0])[:, None]
    rates, owners, rows = [], [], []
    for own, sums in enumerate(expected):
        units = np.rint(sums * 1024.0).astype(np.int64)  # integers pool exactly
        pools = pool_prefixes(units[:, 0], units[:, 1])
        rates.append(np.repeat(pools[:, 1] / np.maximum(pools[:, 0], 1), pools[:, 2]))
        owners.append(np.full(units.shape[0], own))
        rows.append(np.diff(units[:, 0], prepend=0))
    owner = np.concatenate(owners)
    order = np.argsort(-np.concatenate(rates), kind="stable")
    steps = np.zeros((owner.size, len(expected)), np.int64)
    steps[np.arange(owner.size), owner[order]] = 1
    places = np.cumsum(steps, axis=0) - 1
    kept = _milestones(np.cumsum(np.concatenate(rows)[order]))
    found: Int64s = places[np.unique(np.append(kept, owner.size - 1))]
    return found


def fit_path(rows: ScoreRows, method: str, levels: int | None, sizes: Sizes) -> Path:
    """Return the path of a method (``st``, ``logistic``, ``exact`` or `CURVED`), fitted on some rows.

    Their weights, if there are any, are whole numbers.  `levels` is how many uncertainty levels the
    optimum and the surfaces take, `sizes` how many rows a boundary is expected to select, see
    `calibkit.methods.boundary.solvers.curved`.
    """
    assert rows.label is not None
    wanted = {"st": 1, "exact": levels or _EXACT_LEVELS}.get(method, levels or SURFACE_LEVELS)
    own = distinct(uncertainty_levels(rows, wanted if rows.uncertainty is not None else 1))
    level = own.of(rows.uncertainty, rows.score.size)
    tally = count_rows(rows.score, level, rows.label, own.count, weight=rows.weight)
    probability = rows.options.measure == "probability"
    finite = probability or bool(np.isfinite(tally.score).all())
    curved = fit_curved(tally, sizes, probability=probability) if finite else None
    if method == "exact":
        # The optima of ``true positives - c * selected`` for falling c, and all rows.
        points = tally.points()
        optima = lowest_scores(tally, points, supported_frontier(points).choices())
        every_row = np.full((1, own.count), -np.inf)
        path = _path(tally, "exact", own, np.vstack((optima, every_row)))
    elif method == "st" or curved is None:
        if own.count > 1:
            return fit_path(replace(rows, uncertainty=None), "st", None, sizes)
        # Scores at which the rows selected have grown by a step.
        places = _milestones(np.cumsum(tally.count, dtype=np.int64))
        scores = np.append(tally.score[places].astype(np.float64), -np.inf)
        path = _path(tally, "st", own, scores[:, None])
    elif method == "logistic":
        path = _plain_path(tally, own, curved.plain, probability)
    else:
        path = _curved_path(tally, own, curved, probability)
    if curved is None or path.method == "st":
        # A single threshold follows no surface, and hardly overstates its counts.
        return replace(path, expected=path.counts(tally).astype(np.float64))
    # What the surface expects is smoother than counts.
    s = tally.logits[0] if probability else tally.score.astype(np.float64)
    chance = curved.probabilities(s, tally.level) * tally.count
    return replace(path, expected=path.sums(tally, chance, np.float64))


def _path(tally: Tally, method: str, levels: Levels, thresholds: Floats) -> Path:
    totals = tally.level_totals.sum(axis=0)
    return Path(method, levels, thresholds, np.empty(0), (int(totals[1]), int(totals[2])))


def _milestones(rows: Int64s) -> Int64s:
    """Return places at which cumulative rows have grown by a step since the one before."""
    kept, place = [], 0
    while place < rows.size:
        kept.append(place)
        wanted = max(rows[place] * (1.0 + _STEP), rows[place] + 1.0)
        place = int(np.searchsorted(rows, wanted))
    return np.array(kept, np.int64)


def _plain_path(tally: Tally, levels: Levels, surface: Surface, probability: bool) -> Path:
    """Return the cuts of the logistic surface."""
    s = tally.logits[0] if probability else tally.score.astype(np.float64)
    cuts = np.append(_falling_values(tally, plain_values(surface, s, tally.level)), -np.inf)
    lines = surface.lines()[:-1]
    found = (cuts[:, None] - lines[:, 0]) / lines[:, 1]
    if probability:
        edge = float(regressor(np.array([1.0]), probability=True)[0])
        never, always = found > edge, found <= -edge
        found = np.clip(probability_of(found), LEAST, 1.0 - LEAST)
        found[never], found[always] = np.nan, -np.inf
    return replace(_path(tally, "logistic", levels, found), surface=surface, cuts=cuts)


def _curved_path(tally: Tally, levels: Levels, surface: CurvedSurface, probability: bool) -> Path:
    """Return the cuts of the curved surface, written as scores of the tally."""
    # Some of the distinct scores, rising: the highest ones, then ever fewer, and the lowest.
    distinct_scores = np.unique(tally.score.astype(np.float64))[::-1]
    places = [0]
    while places[-1] < distinct_scores.size - 1:
        places.append(places[-1] + max(1, places[-1] // _DENSE))
    places[-1] = distinct_scores.size - 1
    grid = np.ascontiguousarray(distinct_scores[places][::-1])
    s = regressor(grid, probability=probability)
    worth = surface.worth(s)
    at = np.searchsorted(grid, tally.score, side="right") - 1
    cuts = _falling_values(tally, worth[tally.level, at])
    found = np.full((cuts.size + 1, levels.count), -np.inf)
    scores = np.append(grid, np.nan)
    scores[0] = -np.inf
    for level in range(levels.count):
        found[:-1, level] = scores[np.searchsorted(worth[level], cuts, side="left")]
    return _path(tally, CURVED, levels, found)


def _falling_values(tally: Tally, values: Floats) -> Floats:
    """Return values of the entries, falling, at which the rows above have grown by a step."""
    order = np.argsort(-values, kind="stable")
    ordered = values[order]
    last = np.append(ordered[1:] != ordered[:-1], True)
    rows = np.cumsum(tally.count[order], dtype=np.int64)[last]
    return np.asarray(ordered[last][_milestones(rows)])
