"""The multiple-choice knapsack behind every decision boundary over several uncertainty levels.

In each level choose one prefix of its rows by falling score (or none).  A choice has a total of
selected rows M and of true positives T; every goal and every bound of a decision boundary looks at
(M, T) only, so the optimum lies on the Pareto frontier of few rows and many true positives.  With a
multiplier c (a rate of positives at the margin) the choice that maximises ``T - c M`` takes in each
level the prefix at which the level's concave hull has slope c: the linear relaxation.  What any
other choice loses against it is the sum of the *losses* of its prefixes.  So the choices within a
budget of loss are few and are found level by level, exactly: the core of a knapsack (Pisinger, A
minimal algorithm for the multiple-choice knapsack problem, 1995).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import numpy as np
from msgspec import Struct

from calibkit.arrays import Floats, Int64s
from calibkit_kernels import knapsack as kernels

#: Beyond this many combinations in one level the search gives up and says so.
STATE_CAP = 4_000_000
#: Points of a level that are looked at together: few enough to stay in the cache.
_STRETCH = 16_384
#: Numbers of positives are looked up where there are at most so many for each total.
_SPARSE = 16
#: Before any level: a place for its point, totals and measures of nothing.
_NOTHING = np.zeros(1, np.int64), np.zeros((1, 2), np.int64), np.zeros((1, 2))


class Window(Struct, frozen=True):
    """Which choices are of interest: ``low <= rows * selected + hits * true_positives <= high``."""

    rows: float
    hits: float
    low: float
    high: float


class Band(Struct, frozen=True):
    """The Pareto-optimal choices within a budget of loss, by falling true positives."""

    selected: Int64s
    true_positives: Int64s
    choices: Int64s  # the point each level takes, -1 for none: shape (choices, levels)


class Relaxation:
    """What prefixes lose against the best of their level, at a price of a row in true positives.

    `best` has the largest ``true_positives - slope * selected`` of each level, and `most` their sum:
    what any choice of one prefix a level can have.
    """

    def __init__(
        self, prefixes: tuple[Int64s, Int64s, Int64s, Int64s], slope: float, *, empty: bool = True
    ) -> None:
        """Look at the points of all levels.

        `prefixes`: ``selected, true_positives, offsets, ends``; level i has the points
        ``offsets[i]:ends[i]``; `slope`: what a selected row costs in true positives; `empty`: whether
        a level may also take none of its points, which has the value 0.
        """
        self.selected, self.true_positives, offsets, ends = prefixes
        self.slope, self.empty = slope, empty
        self._levels = list(zip(offsets.tolist(), ends.tolist(), strict=False))
        #: The largest value of each stretch of a level: most hold nothing that is near the best.
        self._largest = [
            np.array([self._values(own).max() for own in self._stretches(level)])
            for level in range(ends.size)
        ]
        least = 0.0 if empty else -np.inf
        self.best = [float(own.max(initial=least)) for own in self._largest]
        self.most = float(np.sum(self.best))
        # A value carries the rounding of its two terms; a band wider by that much misses nothing.
        last = ends[ends > offsets[: ends.size]] - 1
        whole = np.sum(self.true_positives[last]) + slope * np.sum(self.selected[last])
        self.rounding = 2e-15 * float(whole)

    def near(self, level: int, budget: float) -> tuple[Int64s, Floats]:
        """Return the points of a level that lose at most so much, and what they lose; -1: none."""
        best = self.best[level]
        points, losses = list[Int64s](), list[Floats]()
        if self.empty and best <= budget:
            points, losses = [np.array([-1])], [np.array([best])]
        for own, largest in zip(self._stretches(level), self._largest[level], strict=True):
            if best - largest <= budget:
                lost = best - self._values(own)
                places = np.flatnonzero(lost <= budget)
                points.append(own.start + places)
                losses.append(lost[places])
        if len(points) == 1:
            return points[0], losses[0]
        return np.concatenate(points), np.concatenate(losses)

    def _stretches(self, level: int) -> Iterator[slice]:
        first, end = self._levels[level]
        return (slice(at, min(at + _STRETCH, end)) for at in range(first, end, _STRETCH))

    def _values(self, own: slice) -> Floats:
        found: Floats = self.true_positives[own] - self.slope * self.selected[own]
        return found


def pareto_band(
    relaxed: Relaxation,
    budget: float,
    window: Window,
    cap: int = STATE_CAP,
    compared: Callable[[Int64s], Int64s] | None = None,
) -> Band | None:
    """Return the Pareto-optimal choices within a budget of loss and a window.

    Choices outside the window may be left out; those inside are complete up to dominated ones.
    `compared` says what of totals is to be small, and what large: rows and positives, unless given.
    None is returned where a level needs more combinations than `cap`.
    """
    slack = relaxed.rounding
    levels = _near(relaxed, budget + slack, window)
    # The level with most points comes last: its combinations are limited by the window alone.
    order = sorted(range(len(levels)), key=lambda level: levels[level][0].size)
    # Levels of one point leave nothing to choose; at least one level is looked at.
    fixed = [level for level in order[:-1] if levels[level][0].size == 1]
    order = order[len(fixed) :]
    alone, totals, states = map(
        np.concatenate, zip(_NOTHING, *(levels[k] for k in fixed), strict=True)
    )
    totals, states = np.cumsum(totals, axis=0)[-1:], np.cumsum(states, axis=0)[-1:]
    # The least and the most that the levels after each one can add to the value.
    values = [levels[level][2][:, 1] for level in order[:0:-1]]
    room_low, room_high = (
        np.append(np.cumsum([pick(own) for own in values])[::-1], 0.0) for pick in (np.min, np.max)
    )
    history: list[tuple[int, Int64s, Int64s]] = []
    wide = 1e-9 + 1e3 * slack
    for step, level in enumerate(order):
        points, point_totals, measures = levels[level]
        low, high = window.low - room_high[step] - wide, window.high - room_low[step] + wide
        limits = np.array([budget + slack, low, high])
        pairs = kernels.near_pairs(states, measures, limits, np.empty((0, 2), np.int64))
        if pairs > cap:
            return None
        origins = np.empty((pairs, 2), np.int64)
        kernels.near_pairs(states, measures, limits, origins)
        before, chosen = origins.T
        totals = totals[before] + point_totals[chosen]
        kept = undominated(totals if compared is None else compared(totals))
        before, chosen = origins[kept].T
        totals, states = totals[kept], states[before] + measures[chosen]
        history.append((level, before, points[chosen]))
    choices = np.empty((len(totals), len(levels)), np.int64)
    choices[:, fixed] = alone[1:]
    current = np.arange(len(totals))
    for level, origin, point in reversed(history):
        choices[:, level] = point[current]
        current = origin[current]
    return Band(totals[:, 0], totals[:, 1], choices)


def undominated(totals: Int64s) -> Int64s:
    """Return which totals (rows, positives) no other dominates, by falling positives."""
    if not len(totals):
        return np.empty(0, np.int64)
    rank = totals[:, 1] - totals[:, 1].min()
    if rank.max() > _SPARSE * rank.size:
        rank = np.unique(rank, return_inverse=True)[1]
    fewest = np.empty(int(rank.max()) + 1, np.int64)
    size = kernels.undominated(np.ascontiguousarray(totals[:, 0]), rank, fewest)
    return fewest[::-1][:size]


def _near(
    relaxed: Relaxation, budget: float, window: Window
) -> list[tuple[Int64s, Int64s, Floats]]:
    """Return the points of each level within the budget, their totals, and (loss, value) of each."""
    found = [relaxed.near(level, budget) for level in range(len(relaxed.best))]
    points, losses = map(np.concatenate, zip(*found, strict=True))
    totals = np.zeros((points.size, 2), np.int64)
    taken = points >= 0
    totals[taken, 0] = relaxed.selected[points[taken]]
    totals[taken, 1] = relaxed.true_positives[points[taken]]
    measures = np.column_stack((losses, window.rows * totals[:, 0] + window.hits * totals[:, 1]))
    ends = np.cumsum([0, *(own.size for own, _ in found)]).tolist()
    levels = itertools.starmap(slice, itertools.pairwise(ends))
    return [(points[own], totals[own], measures[own]) for own in levels]
