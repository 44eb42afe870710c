"""A partition of several uncertainties: cells that want about the same threshold share one.

The best boundary over any levels takes in each the scores down to where the rate of positives falls
to that of the margin, one rate for all levels (see `calibkit.methods.boundary.solvers.exact`).  So of
a cell one number matters: the score at which its rate crosses the margin.  It is that of a logistic
line in the cell, drawn towards the line of all rows.  Cells in the order of these numbers are cut into
leaves, with the least variance of the numbers within leaves, whatever uncertainties they lie at: an
exclusive-or of two columns is found as easily as a single cut.  Thresholds are found on rows that
lie in the leaves of partitions made without them.  How many leaves pay is for cross-validation to
say, in which each fold is judged by a partition that it had no part in.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from calibkit.methods.boundary.problem.goals import Goal
from calibkit.methods.boundary.problem.three_way import ThreeWay
from calibkit.methods.boundary.solvers import classic, three_way
from calibkit.methods.boundary.solvers.cell_surface import score_bins
from calibkit.numerics.logistic import ridge_lines
from calibkit.summaries.tally import Tally

Floats = NDArray[np.float64]

#: Bins of the score, of equal positives, that lines are fitted to.
_BINS = 64

#: Parts that partitions are made without, for thresholds.
_PARTS = 4

#: Intercept and slope of a cell differ from those of all rows by about so much.
_SPREAD = (1.0, 0.5)
#: A line rises at least so much as that of all rows.
_LEAST_SLOPE = 0.2


def leaves_of(tally: Tally, goal: Goal, leaves: int) -> NDArray[np.uint16]:
    """Return the leaf of each cell, which are the levels of a tally; low leaves want low thresholds."""
    return _Tables(tally, goal).leaves(leaves)


def cross_fitted(
    tally: Tally, goal: Goal, leaves: int, excluded: int = -1
) -> tuple[NDArray[np.uint16], Tally]:
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
        count, positive, bins = score_bins(tally, _BINS, excluded)
        self.part = np.arange(count.size) % _PARTS
        place = (self.part * tally.levels + tally.level) * _BINS + bins
        shape = _PARTS, tally.levels, _BINS
        self.rows, self.hits = (
            np.bincount(place, c, math.prod(shape)).reshape(shape) for c in (count, positive)
        )
        # The score bin in which the best single threshold lies; the highest without one.
        at = 0
        if isinstance(goal, ThreeWay):
            found, _ = three_way.find(tally, goal, excluded=excluded, together=True)
            if np.isfinite(found.thresholds[0]):
                at = int(np.searchsorted(-tally.score, -found.thresholds[0]))
            self.margin = int(bins[min(at, bins.size - 1)])
        else:
            points = tally.points(excluded=excluded, together=True)
            choice = int(classic.single_threshold(points, goal)[0])
            self.margin = int(bins[points.entry[choice]]) if choice >= 0 else 0

    def leaves(self, leaves: int, without: int = -1) -> NDArray[np.uint16]:
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


def _natural_breaks(values: Floats, mass: Floats, groups: int) -> NDArray[np.int64]:
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
