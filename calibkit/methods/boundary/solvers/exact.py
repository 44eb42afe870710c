"""The optimal boundary over several uncertainty levels, with proof.

With the bound fixed, choosing one prefix of the rows in each level is a multiple-choice knapsack
(see `calibkit.numerics.knapsack`).  Its linear relaxation takes the blocks of the levels' isotonic
regressions by falling rate until the bound is exhausted; the rate at that margin is the multiplier.
Every choice as good as one already known loses at most a *budget* against the relaxation, so the
search widens the band of small losses until the budget of the best choice found lies inside: then
that choice is optimal.  Where the optimum is a vertex of the hull, choices of equal value lie on the
edge that leads to it, where nothing is lost.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calibkit.methods.boundary.problem.goals import CountGoal
from calibkit.numerics import knapsack
from calibkit.numerics.isotonic import pool_prefixes
from calibkit.summaries.tally import Points

Int64s = NDArray[np.int64]

#: The first band is this share of the known budget, each next one so many times wider.
_FIRST_SHARE, _WIDEN = 1 / 256, 2.0


@dataclass(frozen=True)
class Blocks:
    """The blocks of the isotonic regressions of all levels, by falling rate of positives."""

    selected: Int64s  # rows of each block
    true_positives: Int64s
    level: Int64s
    point: Int64s  # the prefix at which the block ends

    def choice(self, taken: int, levels: int) -> Int64s:
        """Return the choice that takes the first blocks whole."""
        choice = np.full(levels, -1, np.int64)
        choice[self.level[:taken]] = self.point[:taken]  # within a level the last block stays
        return choice


@dataclass(frozen=True)
class Solution:
    """A choice of one point per level, and what is known of it."""

    choice: Int64s  # -1 for none
    selected: int
    true_positives: int
    proven: bool  # whether no choice is better
    ceiling: float  # what no choice can exceed; the objective itself where proven


def isotonic_blocks(points: Points) -> Blocks:
    """Return the blocks of all levels by falling rate; within a level in the order of scores."""
    found: list[tuple[Int64s, Int64s, Int64s, Int64s]] = []
    for level in range(points.levels):
        own = points.of_level(level)
        rows, hits, entries = pool_prefixes(points.selected[own], points.true_positives[own]).T
        last = np.cumsum(entries) - 1 + own.start
        found.append((rows, hits, np.full(rows.size, level), last))
    selected, hits, level_of, point = (
        np.concatenate([block[k] for block in found]) for k in range(4)
    )
    order = np.argsort(-(hits / selected), kind="stable")
    return Blocks(selected[order], hits[order], level_of[order], point[order])


def margin(points: Points, goal: CountGoal) -> float:
    """Return the rate of positives at the margin of a goal's relaxation, 0 where no block is left."""
    blocks = isotonic_blocks(points)
    _, found = goal.whole_blocks(np.cumsum(blocks.selected), np.cumsum(blocks.true_positives))
    return 0.0 if found is None else float(blocks.true_positives[found] / blocks.selected[found])


def solve(points: Points, goal: CountGoal, cap: int = knapsack.STATE_CAP) -> Solution:
    """Return the best choice of one prefix per level; some choice must meet the bound of the goal.

    `cap`: how many combinations of prefixes one step of the search may hold.  Beyond it the best
    choice found so far is returned with an upper bound and ``proven=False``.
    """
    blocks = isotonic_blocks(points)
    taken, margin = goal.whole_blocks(np.cumsum(blocks.selected), np.cumsum(blocks.true_positives))
    choice = blocks.choice(taken, points.levels)
    selected, true_positives = points.totals(choice)
    slope = goal.slope(selected, true_positives)
    if margin is not None:
        slope = float(blocks.true_positives[margin] / blocks.selected[margin])
    prefixes = (points.selected, points.true_positives, points.offsets, points.ends)
    relaxed = knapsack.Relaxation(prefixes, slope)
    most = relaxed.most
    known = goal.budget(most, slope, selected, true_positives)
    budget = min(known, max(known * _FIRST_SHARE, 1.0 - slope))
    while True:
        window = goal.window(most, slope, budget)
        band = knapsack.pareto_band(relaxed, budget, window, cap, goal.compared)
        if band is not None:
            # The choice at hand comes last: of equals one from the band is taken.
            rows = np.append(band.selected, selected)
            hits = np.append(band.true_positives, true_positives)
            pick = goal.pick(rows, hits)
            if 0 <= pick < band.selected.size:  # -1: rounded, no choice of the band meets the bound
                choice = band.choices[pick]
                selected, true_positives = int(rows[pick]), int(hits[pick])
                known = goal.budget(most, slope, selected, true_positives)
        elif not goal.at_vertex:
            return Solution(choice, selected, true_positives, False, goal.ceiling(most, slope))
        if known <= budget:
            value = goal.value(selected, true_positives)
            assert value is not None  # the fits refuse rows without positives
            return Solution(choice, selected, true_positives, True, value)
        budget = min(known, _WIDEN * budget)
