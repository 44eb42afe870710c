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
def count_pairs(state_losses: Floats, losses: Floats, budget: float) -> int:
    """Return how many pairs of a state and a point stay within the budget."""
    pairs = 0
    for s in range(state_losses.size):
        for p in range(losses.size):
            pairs += state_losses[s] + losses[p] <= budget
    return pairs


@kernel
def combine(
    states: Int64s,
    state_losses: Floats,
    points: Int64s,
    losses: Floats,
    budget: float,
    pairs: int,
) -> tuple[Int64s, Floats, Int64s]:
    """Return the totals, losses and origins of all pairs within the budget.

    `states` and `points` have rows (selected, true positives); an origin is (state, point).
    """
    totals = np.empty((pairs, 2), np.int64)
    total_losses = np.empty(pairs, np.float64)
    origins = np.empty((pairs, 2), np.int64)
    size = 0
    for s in range(state_losses.size):
        for p in range(losses.size):
            loss = state_losses[s] + losses[p]
            if loss <= budget:
                totals[size, 0] = states[s, 0] + points[p, 0]
                totals[size, 1] = states[s, 1] + points[p, 1]
                total_losses[size] = loss
                origins[size, 0] = s
                origins[size, 1] = p
                size += 1
    return totals, total_losses, origins


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
    selected: Int64s,
    true_positives: Int64s,
    offsets: Int64s,
    ends: Int64s,
    slope: float,
    budget: float,
    cap: int = STATE_CAP,
) -> Band | None:
    """Return every Pareto-optimal choice that loses at most `budget`, or None beyond the cap.

    Parameters
    ----------
    selected, true_positives
        The points of all levels; level i has ``offsets[i]:ends[i]``.
    offsets, ends
        Where each level's points begin and end.
    slope
        The multiplier c: what a selected row costs in true positives.
    budget
        How much a choice may lose against the best value of ``true positives - slope * selected``.
    cap
        How many combinations one level may need.
    """
    best = best_values(selected, true_positives, offsets, ends, slope)
    # A value carries the rounding of its two terms; a band wider by that much misses nothing.
    last = ends[ends > offsets[: ends.size]] - 1
    budget += 2e-15 * float(np.sum(true_positives[last]) + slope * np.sum(selected[last]))
    states = np.zeros((1, 2), np.int64)
    losses = np.zeros(1, np.float64)
    history: list[tuple[Int64s, Int64s]] = []
    for level in range(ends.size):
        near, near_losses = near_points(
            selected, true_positives, offsets[level], ends[level], slope, best[level], budget
        )
        points = np.zeros((near.size, 2), np.int64)
        taken = near >= 0
        points[taken, 0] = selected[near[taken]]
        points[taken, 1] = true_positives[near[taken]]
        pairs = count_pairs(losses, near_losses, budget)
        if pairs > cap:
            return None
        totals, total_losses, origins = combine(states, losses, points, near_losses, budget, pairs)
        kept = undominated(totals, np.lexsort((totals[:, 0], -totals[:, 1])))
        states, losses = totals[kept], total_losses[kept]
        history.append((origins[kept, 0], near[origins[kept, 1]]))
    return Band(states[:, 0], states[:, 1], _trace(history, len(states)))


def _trace(history: list[tuple[Int64s, Int64s]], states: int) -> Int64s:
    """Return the point of every level for every final state."""
    choices = np.empty((states, len(history)), np.int64)
    current = np.arange(states)
    for level in range(len(history) - 1, -1, -1):
        origin, point = history[level]
        choices[:, level] = point[current]
        current = origin[current]
    return choices
