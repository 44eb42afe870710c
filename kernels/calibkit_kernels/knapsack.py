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

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ._jit import kernel

Int64s = NDArray[np.int64]
Floats = NDArray[np.float64]

#: Beyond this many combinations in one level the search gives up and says so.
STATE_CAP = 4_000_000


@kernel
def best_values(
    selected: Int64s, true_positives: Int64s, offsets: Int64s, ends: Int64s, slope: float
) -> Floats:
    """Return the largest ``true_positives - slope * selected`` of each level; nothing selected is 0."""
    best = np.zeros(ends.size, np.float64)
    for level in range(ends.size):
        for i in range(offsets[level], ends[level]):
            value = float(true_positives[i]) - slope * float(selected[i])
            best[level] = max(best[level], value)
    return best


@kernel
def near_points(
    selected: Int64s,
    true_positives: Int64s,
    start: int,
    end: int,
    slope: float,
    best: float,
    budget: float,
) -> tuple[Int64s, Floats]:
    """Return the points of one level that lose at most `budget` against its best, and what they lose.

    The empty prefix is point -1.
    """
    size = 1 if best <= budget else 0
    for i in range(start, end):
        size += best - (float(true_positives[i]) - slope * float(selected[i])) <= budget
    points = np.empty(size, np.int64)
    losses = np.empty(size, np.float64)
    size = 0
    if best <= budget:
        points[0] = -1
        losses[0] = best
        size = 1
    for i in range(start, end):
        loss = best - (float(true_positives[i]) - slope * float(selected[i]))
        if loss <= budget:
            points[size] = i
            losses[size] = loss
            size += 1
    return points, losses


@kernel
def count_pairs(states: Floats, points: Floats, limits: Floats) -> int:
    """Return how many pairs of a state and a point stay within the limits; see `combine`."""
    budget, low, high = limits[0], limits[1], limits[2]
    pairs = 0
    for s in range(states.shape[0]):
        for p in range(points.shape[0]):
            value = states[s, 1] + points[p, 1]
            pairs += states[s, 0] + points[p, 0] <= budget and low <= value <= high
    return pairs


@kernel
def combine(
    totals: Int64s,
    states: Floats,
    point_totals: Int64s,
    points: Floats,
    limits: Floats,
    pairs: int,
) -> tuple[Int64s, Floats, Int64s]:
    """Return the totals, measures and origins of all pairs within the limits.

    Parameters
    ----------
    totals, states
        (selected, true positives) and (loss, value) of each state so far, one row a state.
    point_totals, points
        The same of each point of the next level.
    limits
        The largest loss, the smallest and the largest value.
    pairs
        How many pairs there are, from `count_pairs`.

    Returns
    -------
    totals, states, origins
        Of each pair; an origin is (state, point).
    """
    budget, low, high = limits[0], limits[1], limits[2]
    new_totals = np.empty((pairs, 2), np.int64)
    new_states = np.empty((pairs, 2), np.float64)
    origins = np.empty((pairs, 2), np.int64)
    size = 0
    for s in range(states.shape[0]):
        for p in range(points.shape[0]):
            loss, value = states[s, 0] + points[p, 0], states[s, 1] + points[p, 1]
            if loss <= budget and low <= value <= high:
                new_totals[size, 0] = totals[s, 0] + point_totals[p, 0]
                new_totals[size, 1] = totals[s, 1] + point_totals[p, 1]
                new_states[size, 0] = loss
                new_states[size, 1] = value
                origins[size, 0] = s
                origins[size, 1] = p
                size += 1
    return new_totals, new_states, origins


@kernel
def undominated(totals: Int64s, order: Int64s) -> Int64s:
    """Return those of `order` (falling true positives, then rising rows) that no other dominates."""
    kept = np.empty(order.size, np.int64)
    size = 0
    least = np.int64(0)
    for i in range(order.size):
        selected = totals[order[i], 0]
        if size == 0 or selected < least:
            kept[size] = order[i]
            size += 1
            least = selected
    return kept[:size]


@dataclass(frozen=True)
class Window:
    """Which choices are of interest: ``low <= rows * selected + hits * true_positives <= high``."""

    rows: float
    hits: float
    low: float
    high: float


@dataclass(frozen=True)
class Band:
    """The Pareto-optimal choices within a budget of loss.

    Attributes
    ----------
    selected, true_positives
        Totals of each choice, by falling true positives.
    choices
        Shape (choices, levels): the point each level takes, -1 for none.
    """

    selected: Int64s
    true_positives: Int64s
    choices: Int64s


def pareto_band(
    prefixes: tuple[Int64s, Int64s, Int64s, Int64s],
    slope: float,
    best: Floats,
    budget: float,
    window: Window,
    cap: int = STATE_CAP,
) -> Band | None:
    """Return the Pareto-optimal choices within a budget of loss and a window.

    Parameters
    ----------
    prefixes
        ``selected, true_positives, offsets, ends``: the points of all levels; level i has
        ``offsets[i]:ends[i]``.
    slope
        The multiplier c: what a selected row costs in true positives.
    best
        The largest ``true_positives - slope * selected`` of each level, from `best_values`.
    budget
        How much a choice may lose against the sum of `best`.
    window
        Other choices may be left out; those inside are complete up to dominated ones.
    cap
        How many combinations one level may need.

    Returns
    -------
    band
        None where a level needs more combinations than `cap`.
    """
    selected, true_positives, offsets, ends = prefixes
    # A value carries the rounding of its two terms; a band wider by that much misses nothing.
    last = ends[ends > offsets[: ends.size]] - 1
    slack = 2e-15 * float(np.sum(true_positives[last]) + slope * np.sum(selected[last]))
    levels = [
        _near(prefixes, level, slope, best[level], budget + slack, window)
        for level in range(ends.size)
    ]
    # The level with most points comes last: its combinations are limited by the window alone.
    order = sorted(range(ends.size), key=lambda level: levels[level][0].size)
    room_low, room_high = _rooms([levels[level][2][:, 1] for level in order])
    totals, states = np.zeros((1, 2), np.int64), np.zeros((1, 2), np.float64)
    history: list[tuple[int, Int64s, Int64s]] = []
    wide = 1e-9 + 1e3 * slack
    for step, level in enumerate(order):
        points, point_totals, measures = levels[level]
        limits = np.array(
            [
                budget + slack,
                window.low - room_high[step] - wide,
                window.high - room_low[step] + wide,
            ]
        )
        pairs = count_pairs(states, measures, limits)
        if pairs > cap:
            return None
        totals, states, origins = combine(totals, states, point_totals, measures, limits, pairs)
        kept = undominated(totals, np.lexsort((totals[:, 0], -totals[:, 1])))
        totals, states = totals[kept], states[kept]
        history.append((level, origins[kept, 0], points[origins[kept, 1]]))
    return Band(totals[:, 0], totals[:, 1], _trace(history, len(totals)))


def _near(
    prefixes: tuple[Int64s, Int64s, Int64s, Int64s],
    level: int,
    slope: float,
    best: float,
    budget: float,
    window: Window,
) -> tuple[Int64s, Int64s, Floats]:
    """Return the points of a level within the budget, their totals, and (loss, value) of each."""
    selected, true_positives, offsets, ends = prefixes
    points, losses = near_points(
        selected, true_positives, offsets[level], ends[level], slope, best, budget
    )
    totals = np.zeros((points.size, 2), np.int64)
    taken = points >= 0
    totals[taken, 0] = selected[points[taken]]
    totals[taken, 1] = true_positives[points[taken]]
    values = window.rows * totals[:, 0] + window.hits * totals[:, 1]
    return points, totals, np.column_stack((losses, values))


def _rooms(values: list[Floats]) -> tuple[Floats, Floats]:
    """Return the least and the most that the levels after each one can add to the value."""
    least = np.array([level.min() for level in values])
    most = np.array([level.max() for level in values])
    return (
        np.append(np.cumsum(least[::-1])[::-1][1:], 0.0),
        np.append(np.cumsum(most[::-1])[::-1][1:], 0.0),
    )


def _trace(history: list[tuple[int, Int64s, Int64s]], states: int) -> Int64s:
    """Return the point of every level for every final state."""
    choices = np.empty((states, len(history)), np.int64)
    current = np.arange(states)
    for level, origin, point in reversed(history):
        choices[:, level] = point[current]
        current = origin[current]
    return choices
