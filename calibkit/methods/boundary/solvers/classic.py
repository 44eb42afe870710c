"""Single threshold, greedy multi-threshold and isotonic multi-threshold boundaries.

(Arora, Merugu, Saladi, Rastogi, Leveraging uncertainty estimates to improve classifier performance,
section 5: ST; Algorithm 2, GMT; Algorithm 3, MIST, with the errata of its indices corrected.)
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from calibkit.methods.boundary.problem.goals import CountGoal, Goal
from calibkit.methods.boundary.solvers.exact import Blocks, isotonic_blocks
from calibkit.summaries.tally import Points

Int64s = NDArray[np.int64]


def single_threshold(points: Points, goal: Goal) -> Int64s:
    """Return the best prefix of all rows together; `points` has a single level.

    Every distinct score is tried: whether a bound is met may change back and forth along the scores.
    """
    return _pick_in_level(points, goal, 0)


def greedy(points: Points, goal: Goal) -> Int64s:
    """Return, in each level on its own, the best prefix that meets the bound (GMT).

    With a bound on precision that is the largest one; a level that cannot reach it alone gets nothing,
    even where others have room to spare.  With a bound on recall it is the one of largest precision
    that selects this share of the level's own positives, so that all levels together reach it too.
    """
    found = []
    for level in range(points.levels):
        hits = points.true_positives[points.of_level(level)]
        positives = int(hits.max(initial=0))
        own = goal.of(replace(goal.totals, positives=positives))
        found.append(_pick_in_level(points, own, level))
    return np.concatenate(found)


def _pick_in_level(points: Points, goal: Goal, level: int) -> Int64s:
    own = points.of_level(level)
    # To select nothing is a choice as well, and the best one for some measures.
    gain = np.append(0, points.gain[own]) if points.gain.size else None
    pick = goal.pick(
        np.append(0, points.selected[own]), np.append(0, points.true_positives[own]), gain
    )
    return np.array([own.start + pick - 1 if pick > 0 else -1], np.int64)


def isotonic(points: Points, goal: Goal) -> Int64s:
    """Return the blocks of the levels' isotonic regressions above one common rate (MIST).

    Blocks of equal rate, in whatever level, enter together.  A precision bound ends the selection
    before the first set of them that would break it, a recall bound after the first that reaches it:
    the precision falls from set to set.
    """
    blocks, ends = level_sets(isotonic_blocks(points))
    if ends.size == 0:
        return np.full(points.levels, -1, np.int64)
    rows, hits = np.cumsum(blocks.selected), np.cumsum(blocks.true_positives)
    assert isinstance(goal, CountGoal)
    taken, _ = goal.whole_blocks(rows[ends], hits[ends])
    if taken > ends.size:  # no positives, no recall
        taken = 0
    return blocks.choice(int(ends[taken - 1]) + 1 if taken else 0, points.levels)


def level_sets(blocks: Blocks) -> tuple[Blocks, Int64s]:
    """Return the blocks in exact order of their rates, and the last block of each distinct rate.

    Rates that differ by less than a float can tell are told apart in integers.
    """
    selected, hits = blocks.selected.copy(), blocks.true_positives.copy()
    level, point = blocks.level.copy(), blocks.point.copy()
    rate = hits / selected
    closes = np.append(rate[1:] != rate[:-1], True)[: rate.size]
    start = 0
    for end in np.flatnonzero(closes):
        run = np.arange(start, end + 1)
        start = int(end) + 1
        if run.size == 1:
            continue
        exact = [Fraction(int(hits[i]), int(selected[i])) for i in run]
        order = run[sorted(range(run.size), key=lambda k: -exact[k])]
        for array in (selected, hits, level, point):
            array[run] = array[order]
        exact.sort(reverse=True)
        closes[run[:-1]] = [a != b for a, b in itertools.pairwise(exact)]
    return Blocks(selected, hits, level, point), np.flatnonzero(closes)
