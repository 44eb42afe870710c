"""Loops of the multiple-choice knapsack that `calibkit.numerics.knapsack` explains, and of grids.

On a grid, dynamic programmes choose in each level one prefix of the score bins, from the highest down.
Prefix t of a level has a *gain* and a *cost*; what is wanted is the largest sum of gains for every sum
of costs.  With true positives as gains and bins, or rows, as costs this is EW-DPMT, or VW-DPMT (Arora,
Merugu, Saladi, Rastogi, Leveraging uncertainty estimates to improve classifier performance, Algorithms
1 and 4); with rows as negative gains and true positives as costs it gives the fewest rows for every
number of true positives.

A cost that no choice has is *unreachable*.  Its value lies below that of any choice; sums of gains
stay within 2^62 either way, so that nothing overflows.
"""

from __future__ import annotations

import numpy as np

from ._jit import kernel
from .arrays import Floats, Int64s


@kernel
def near_pairs(states: Floats, points: Floats, limits: Floats, out: Int64s) -> int:
    """Return how many pairs of a state and a point stay within the limits, and write the first ones.

    States so far, and points of the next level, are (loss, value); `limits` the largest loss, the
    smallest and the largest value; `out` has room for pairs (state, point), maybe too little, or none.
    """
    budget, low, high = limits[0], limits[1], limits[2]
    pairs = 0
    for s in range(states.shape[0]):
        for p in range(points.shape[0]):
            value = states[s, 1] + points[p, 1]
            if states[s, 0] + points[p, 0] <= budget and low <= value <= high:
                if pairs < out.shape[0]:
                    out[pairs, 0], out[pairs, 1] = s, p
                pairs += 1
    return pairs


@kernel
def undominated(rows: Int64s, rank: Int64s, fewest: Int64s) -> int:
    """Return how many totals no other dominates; the end of `fewest` has them, by rising rank.

    Of one rank the total of fewest rows is kept, of equals the first.  `fewest` has room for an index
    for each rank.
    """
    fewest[:] = -1
    for i in range(rows.size):
        known = fewest[rank[i]]
        if known < 0 or rows[i] < rows[known]:
            fewest[rank[i]] = i
    kept, least = fewest.size, 0
    for place in range(fewest.size - 1, -1, -1):  # from the end: what is read is not yet written
        own = fewest[place]
        if own >= 0 and (kept == fewest.size or rows[own] < least):
            kept -= 1
            least = rows[own]
            fewest[kept] = own
    return fewest.size - kept


UNREACHABLE = -(2**62)

#: Values worked on at a time: both sides of the inner loop stay in the first-level cache.
_BLOCK = 2048


@kernel
def add_level(previous: Int64s, gains: Int64s, costs: Int64s) -> Int64s:
    """Return the largest gain for every cost, with one more level.

    `previous` has the largest gain of the levels before for every cost from 0: ``[0]`` before the
    first. Gains and costs are those of the level's choices; costs do not decrease from 0.
    """
    best = np.full(previous.size + costs[costs.size - 1], UNREACHABLE, np.int64)
    for start in range(0, previous.size, _BLOCK):
        part = previous[start : start + _BLOCK]
        for t in range(gains.size):
            gain = gains[t]
            target = best[start + costs[t] : start + costs[t] + part.size]
            for m in range(part.size):
                target[m] = max(target[m], part[m] + gain)
    return best


@kernel
def trace_level(
    previous: Int64s, gains: Int64s, costs: Int64s, targets: Int64s, values: Int64s
) -> Int64s:
    """Return the first choice of a level that attains each value at its cost.

    `targets` are costs that `add_level` reached with these arguments, `values` what it found there.
    """
    choices = np.full(targets.size, -1, np.int64)
    for i in range(targets.size):
        for t in range(gains.size):
            left = targets[i] - costs[t]
            if 0 <= left < previous.size and previous[left] + gains[t] == values[i]:
                choices[i] = t
                break
    return choices


@kernel
def nested_levels(gains: Int64s, costs: Int64s, limit: int, lowest: int) -> tuple[Int64s, int]:
    """Return the largest gain for every cost over choices that never rise from level to level.

    Choices are tried from the largest down to `lowest`.  At that moment the value of the first
    levels covers the choices t_0 >= … >= t_i >= t, which is what the next level may build on when
    it takes t: the suffix maximum over the last choice needs no table of its own.

    Gains and costs, levels x choices, do not decrease from 0 within a level.  Returned are the largest
    gain for the costs 0 … `limit`, and the choice of the last level that attains it at the cost `limit`
    (-1 where that is unreachable).
    """
    levels, choices = gains.shape
    best = np.full((levels, limit + 1), UNREACHABLE, np.int64)
    last = -1
    for t in range(choices - 1, lowest - 1, -1):
        before = best[levels - 1, limit]
        if costs[0, t] <= limit:
            best[0, costs[0, t]] = max(best[0, costs[0, t]], gains[0, t])
        reach = costs[0, choices - 1]
        for i in range(1, levels):
            gain, cost = gains[i, t], costs[i, t]
            size = min(reach, limit - cost) + 1
            if size > 0:
                part = best[i - 1, :size]
                target = best[i, cost : cost + size]
                for m in range(size):
                    target[m] = max(target[m], part[m] + gain)
            reach += costs[i, choices - 1]
        if best[levels - 1, limit] > before:
            last = t
    if best[levels - 1, limit] < 0:
        last = -1
    return best[levels - 1].copy(), last
