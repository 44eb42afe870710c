"""Loops of the multiple-choice knapsack that `calibkit.numerics.knapsack` explains."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ._jit import kernel

Int64s = NDArray[np.int64]
Floats = NDArray[np.float64]


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
