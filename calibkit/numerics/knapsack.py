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

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calibkit_kernels import knapsack as kernels

Int64s = NDArray[np.int64]
Floats = NDArray[np.float64]

#: Beyond this many combinations in one level the search gives up and says so.
STATE_CAP = 4_000_000


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
    compared: Callable[[Int64s], Int64s] | None = None,
    empty: bool = True,
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
    compared
        What of totals is to be small, and what large: rows and positives, unless it says otherwise.
    empty
        Whether a level may also take none of its points.

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
        _near(prefixes, level, slope, best[level], budget + slack, window, empty)
        for level in range(ends.size)
    ]
    # The level with most points comes last: its combinations are limited by the window alone.
    order = sorted(range(ends.size), key=lambda level: levels[level][0].size)
    # The least and the most that the levels after each one can add to the value.
    values = [levels[level][2][:, 1] for level in order[:0:-1]]
    room_low, room_high = (
        np.append(np.cumsum([pick(own) for own in values])[::-1], 0.0) for pick in (np.min, np.max)
    )
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
    return Band(totals[:, 0], totals[:, 1], _trace(history, len(totals)))


def undominated(totals: Int64s) -> Int64s:
    """Return which totals (rows, positives) no other dominates, by falling positives."""
    order = np.lexsort((totals[:, 0], -totals[:, 1]))
    least = np.minimum.accumulate(totals[order, 0])
    return order[np.diff(least, prepend=least[:1] + 1) < 0]


def _near(
    prefixes: tuple[Int64s, Int64s, Int64s, Int64s],
    level: int,
    slope: float,
    best: float,
    budget: float,
    window: Window,
    empty: bool,
) -> tuple[Int64s, Int64s, Floats]:
    """Return the points of a level within the budget, their totals, and (loss, value) of each."""
    selected, true_positives, offsets, ends = prefixes
    points, losses = kernels.near_points(
        selected, true_positives, offsets[level], ends[level], slope, best, budget
    )
    if not empty:
        points, losses = points[points >= 0], losses[points >= 0]
    totals = np.zeros((points.size, 2), np.int64)
    taken = points >= 0
    totals[taken, 0] = selected[points[taken]]
    totals[taken, 1] = true_positives[points[taken]]
    values = window.rows * totals[:, 0] + window.hits * totals[:, 1]
    return points, totals, np.column_stack((losses, values))


def _trace(history: list[tuple[int, Int64s, Int64s]], states: int) -> Int64s:
    """Return the point of every level for every final state."""
    choices = np.empty((states, len(history)), np.int64)
    current = np.arange(states)
    for level, origin, point in reversed(history):
        choices[:, level] = point[current]
        current = origin[current]
    return choices
