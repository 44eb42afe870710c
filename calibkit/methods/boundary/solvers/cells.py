"""Several uncertainties, in cells: a logistic surface over them, and a partition of them into leaves.

Uncertainties enter by the bins of their cells, scores by bins of equal positives: sums are over cells
and bins, whatever the number of rows.

*The surface.*  The regressors are s (the logit of a probability, or the score), the rank of each
uncertainty, the middle of those of a bin's rows, their products with each other and with s; the fit is
logistic regression with a ridge on the standardised regressors.  So a surface with a cut is one
threshold a cell.  Where the score does not rise with the probability in every cell, its products are
dropped.

*The partition.* Cells that want about the same threshold share one.  The best boundary over any
levels takes in each the scores down to where the rate of positives falls to that of the margin, one
rate for all levels.  So of a cell one number matters: the score at which its rate crosses the
margin.  It is that of a logistic line in the cell, drawn towards the line of all rows.  Cells in
the order of these numbers are cut into leaves, with the least variance of the numbers within
leaves, whatever uncertainties they lie at: an exclusive-or of two columns is found as easily as a
single cut.  Thresholds are found on rows that lie in the leaves of partitions made without them.
How many leaves pay is for cross-validation to say, in which each fold is judged by a partition that
it had no part in.
"""

from __future__ import annotations

import math
from itertools import combinations
from typing import Any

import numpy as np
from msgspec.structs import replace

from calibkit.arrays import Floats, Int64s, UInt16s
from calibkit.methods.boundary.problem.found import Found
from calibkit.methods.boundary.problem.goals import Goal
from calibkit.methods.boundary.solvers import three_way
from calibkit.methods.boundary.solvers.logistic import fit_surface, regressor, surface_cut
from calibkit.methods.boundary.solvers.prefixes import single_threshold
from calibkit.numerics.logistic import ridge_lines, ridge_weights
from calibkit.summaries.tally import Tally

#: Bins of the score, of equal positives, for a surface and for the lines of a partition.
_BINS, _LINE_BINS = 200, 64
#: Parts that partitions are made without, for thresholds.
_PARTS = 4
#: Intercept and slope of a cell differ from those of all rows by about so much.
_SPREAD = (1.0, 0.5)
#: A line rises at least so much as that of all rows.
_LEAST_SLOPE = 0.2


def best_cut(
    tally: Tally,
    goal: Goal,
    excluded: int = -1,
    *,
    shape: tuple[int, ...] = (),
    scale: str = "probability",
    threads: int = 1,
) -> Found:
    """Fit a logistic surface and return its best cut.

    `tally`: scores, finite unless they are probabilities, and levels; `goal`: what to reach;
    `excluded`: a part of a dealt tally that takes no part; `shape`: where levels are cells, how many
    bins each uncertainty has; `scale`: what scores hold: ``probability``, ``logit`` or ``raw``;
    `threads`: how many may sum; the result does not depend on them.
    """
    probability = scale == "probability"
    about: dict[str, Any] = {"leaves": np.arange(tally.levels, dtype=np.uint16)}
    if shape:
        lines = fit_cells(tally, shape, excluded, probability=probability)
    else:
        surface = fit_surface(tally, excluded, scale=scale, threads=threads)
        lines, about = surface.lines(), {"surface": surface}
    found = surface_cut(tally, lines, goal, excluded, probability=probability, threads=threads)
    return replace(found, **about)


def fit_cells(
    tally: Tally, shape: tuple[int, ...], excluded: int = -1, *, probability: bool = True
) -> Floats:
    """Return log-odds ``a + g s`` of each cell, (a, g); without `excluded`, a part of a dealt tally."""
    s = np.asarray(regressor(tally, probability), np.float64)
    count, positive, bins = _score_bins(tally, _BINS, excluded)
    place = tally.level.astype(np.int64) * _BINS + bins
    rows, hits, score = (
        np.bincount(place, own, tally.levels * _BINS) for own in (count, positive, count * s)
    )
    held = np.flatnonzero(rows > 0.0)
    times: Floats = rows[held].astype(np.float64)
    share, mean = hits[held] / times, score[held] / times
    ranks = _ranks(tally, shape)
    pairs = combinations(ranks.T, 2)
    among: Floats = np.column_stack([ranks, *(one * other for one, other in pairs)])
    cells = held // _BINS
    for product in (ranks, ranks[:, :0]):
        terms: Floats = np.column_stack((mean, among[cells], mean[:, None] * product[cells]))
        with np.errstate(over="ignore", invalid="ignore"):
            if not np.isfinite(np.square(terms - terms[0]) @ np.ones(terms.shape[1])).all():
                break  # scores so large that nothing can be summed are the surface themselves
        intercept, weights = _fit(terms, share, times)
        split = 1 + among.shape[1]
        slope = weights[0] + product @ weights[split:]
        if (slope > 0.0).all():
            return np.column_stack((intercept + among @ weights[1:split], slope))
    return np.column_stack((np.zeros(tally.levels), np.ones(tally.levels)))


def _score_bins(tally: Tally, bins: int, excluded: int = -1) -> tuple[Floats, Floats, Int64s]:
    """Return rows and positive rows of each entry, and its bin of the score, of equal positives."""
    kept = tally.row_size * (np.ones(tally.score.size) if excluded < 0 else tally.part != excluded)
    count, positive = tally.count * kept, tally.positive * kept
    seen = np.cumsum(positive) - positive
    place = np.minimum(bins * seen / (positive.sum() or 1.0), bins - 1)
    return count, positive, place.astype(np.int64)


def _ranks(tally: Tally, shape: tuple[int, ...]) -> Floats:
    """Return the rank of each uncertainty in each cell, shape (cells, uncertainties), from 0 to 1."""
    rows, found = tally.level_totals[:, 1], []
    for bins in np.indices(shape).reshape(len(shape), -1):
        own = np.bincount(bins, rows)
        middle = (np.cumsum(own) - own / 2.0) / (own.sum() or 1.0)
        found.append(middle[bins])
    return np.column_stack(found)


def _fit(terms: Floats, share: Floats, rows: Floats) -> tuple[float, Floats]:
    """Return intercept and weights of least log loss with a ridge on standardised regressors."""
    whole = rows.sum()
    mean = rows @ terms / whole
    spread = np.sqrt(np.maximum(rows @ np.square(terms - mean) / whole, 0.0))
    varies = spread > 1e-9
    scaled = np.where(varies, (terms - mean) / np.where(varies, spread, 1.0), 0.0)
    scaled = np.ascontiguousarray(np.column_stack((np.ones(rows.size), scaled)))
    found = ridge_weights(lambda: [(scaled, share, rows)], scaled.shape[1], whole)
    weights = np.where(varies, found[1:] / np.where(varies, spread, 1.0), 0.0)
    return float(found[0] - mean @ weights), weights


# ---------------------------------------------------------------- partitions


def leaves_of(tally: Tally, goal: Goal, leaves: int) -> UInt16s:
    """Return the leaf of each cell, which are the levels of a tally; low leaves want low thresholds."""
    return _Tables(tally, goal).leaves(leaves)


def cross_fitted(
    tally: Tally, goal: Goal, leaves: int, excluded: int = -1
) -> tuple[UInt16s, Tally]:
    """Return the leaf of each cell, and the tally over leaves to find their thresholds on.

    There each entry lies in the leaf that its cell has in a partition made without it: a cell whose
    rows look better by chance than they are does not find its way into a leaf on their own word.
    """
    tables = _Tables(tally, goal, excluded)
    level = np.empty_like(tally.level)
    for part in range(_PARTS):
        own = tables.part == part
        level[own] = tables.leaves(leaves, without=part)[tally.level[own]]
    return tables.leaves(leaves), replace(tally, level=level, levels=leaves)


class _Tables:
    """Rows and positive rows of a tally by part, cell and bin of the score, without one fold."""

    def __init__(self, tally: Tally, goal: Goal, excluded: int = -1) -> None:
        count, positive, bins = _score_bins(tally, _LINE_BINS, excluded)
        self.part = np.arange(count.size) % _PARTS
        place = (self.part * tally.levels + tally.level) * _LINE_BINS + bins
        shape = _PARTS, tally.levels, _LINE_BINS
        self.rows, self.hits = (
            np.bincount(place, c, math.prod(shape)).reshape(shape) for c in (count, positive)
        )
        # The score bin in which the best single threshold lies; the highest without one.
        if isinstance(goal, three_way.ThreeWay):
            single = three_way.find(tally, goal, excluded=excluded, together=True)
        else:
            single = single_threshold(tally, goal, excluded)
        lowest = single.thresholds[0]
        at = int(np.searchsorted(-tally.score, -lowest)) if np.isfinite(lowest) else 0
        self.margin = int(bins[min(at, bins.size - 1)])

    def leaves(self, leaves: int, without: int = -1) -> UInt16s:
        """Return the leaf of each cell, as all parts but one would have it."""
        kept = np.arange(_PARTS) != without
        rows, hits = self.rows[kept].sum(axis=0), self.hits[kept].sum(axis=0)
        rate = (hits.sum(axis=0) + 0.5) / (rows.sum(axis=0) + 1.0)
        x = np.log(rate / (1.0 - rate))
        lines = ridge_lines(x, hits, rows, _SPREAD)
        slope = np.maximum(1.0 + lines[:, 1], _LEAST_SLOPE)
        wanted = np.clip((x[self.margin] - lines[:, 0]) / slope, x.min() - 1.0, x.max() + 1.0)
        order = np.argsort(wanted, kind="stable")
        mass = (hits.sum(axis=1) + 1e-9 * rows.sum(axis=1))[order] + 1e-9
        found = np.empty(order.size, np.uint16)
        found[order] = _natural_breaks(wanted[order], mass, leaves)
        return found


def _natural_breaks(values: Floats, mass: Floats, groups: int) -> Int64s:
    """Return the group of each of some rising values, with the least variance within groups."""
    sums = [np.append(0.0, np.cumsum(mass * values**power)) for power in range(3)]
    whole, first, second = (own[None, :] - own[:, None] for own in sums)  # from row to column
    rising = np.triu(np.ones(whole.shape, np.bool_), 1)
    cost = np.where(rising, second - first**2 / np.where(rising, whole, 1.0), np.inf)
    best, starts = cost[0], []
    for _ in range(min(groups, values.size) - 1):
        ways = best[:, None] + cost
        starts.append(np.argmin(ways, axis=0))
        best = np.min(ways, axis=0)
    cuts, end = [], values.size
    for start in reversed(starts):
        end = int(start[end])
        cuts.append(end)
    return np.searchsorted(np.sort(cuts), np.arange(values.size), side="right")
