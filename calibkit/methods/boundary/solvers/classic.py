"""Single threshold, greedy and isotonic multi-threshold boundaries, and randomised ones.

(Arora, Merugu, Saladi, Rastogi, Leveraging uncertainty estimates to improve classifier performance,
section 5: ST; Algorithm 2, GMT; Algorithm 3, MIST, with the errata of its indices corrected.)

Randomised boundaries: two boundaries mixed, so that a bound is met with equality.

``block``: the optimum over all randomised boundaries.  The linear relaxation of the choice of
prefixes takes whole blocks of the levels' isotonic regressions by falling rate and a share of the
one at the margin; taking each row of that block with this probability is a randomised boundary with
exactly those expected counts.

``tie``: random at one score only (Singh, Khim, Optimal binary classification beyond accuracy,
section 3): positive above the threshold, with a probability on it.

"Optimal" refers to the measure of the expected counts.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from calibkit.methods.boundary.problem.found import Found, lowest_scores
from calibkit.methods.boundary.problem.goals import CountGoal, Goal
from calibkit.methods.boundary.solvers.exact import Blocks, isotonic_blocks, pick_in_level
from calibkit.summaries.tally import Points, Tally

Floats = NDArray[np.float64]
Int64s = NDArray[np.int64]


def single_threshold(points: Points, goal: Goal) -> Int64s:
    """Return the best prefix of all rows together; `points` has a single level.

    Every distinct score is tried: whether a bound is met may change back and forth along the scores.
    """
    return np.array([pick_in_level(points, goal, 0)])


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
        found.append(pick_in_level(points, own, level))
    return np.array(found)


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
    rate = blocks.true_positives / blocks.selected
    closes = np.append(rate[1:] != rate[:-1], True)[: rate.size]
    order, start = np.arange(rate.size), 0
    for end in np.flatnonzero(closes):
        run = np.arange(start, end + 1)
        start = int(end) + 1
        if run.size == 1:
            continue
        exact = [Fraction(int(blocks.true_positives[i]), int(blocks.selected[i])) for i in run]
        order[run] = run[sorted(range(run.size), key=lambda k: -exact[k])]
        exact.sort(reverse=True)
        closes[run[:-1]] = [a != b for a, b in itertools.pairwise(exact)]
    return blocks.ordered(order), np.flatnonzero(closes)


# ---------------------------------------------------------------- at random


def random_block(tally: Tally, goal: Goal, excluded: int = -1) -> Found:
    """Return the best boundary that may be random over one block of scores."""
    points = tally.points(excluded=excluded)
    blocks = isotonic_blocks(points)
    rows, hits = np.cumsum(blocks.selected), np.cumsum(blocks.true_positives)
    taken, share, counts = _mixed(goal, rows, hits)
    narrow = wide = lowest_scores(tally, points, blocks.choice(taken, points.levels))
    if share:
        wide = lowest_scores(tally, points, blocks.choice(taken + 1, points.levels))
    return _mixture(narrow, wide, share, counts)


def random_tie(tally: Tally, goal: Goal, excluded: int = -1) -> Found:
    """Return the best threshold that may be random at its own score, for a tally of one level."""
    points = tally.points(excluded=excluded, together=True, every=True)
    own = points.of_level(0)
    score = tally.score[points.entry[own]].astype(np.float64)
    taken, share, counts = _mixed(goal, points.selected[own], points.true_positives[own])
    narrow = wide = np.array([score[taken - 1] if taken else np.nan])
    if share:
        wide = np.array([score[taken]])
        narrow = np.where(wide < np.inf, np.nextafter(wide, np.inf), np.nan)
    return _mixture(narrow, wide, share, counts)


def _mixed(goal: Goal, rows: Int64s, hits: Int64s) -> tuple[int, Fraction, tuple[float, float]]:
    """Return how many groups are taken, which share of the next one, and rows and positives then.

    The arguments are cumulative totals of the groups.
    """
    assert isinstance(goal, CountGoal)
    totals = np.append(0, rows), np.append(0, hits)
    taken, share = goal.mix(*totals)

    def expected(total: Int64s) -> float:
        before, after = int(total[taken]), int(total[taken + bool(share)])
        return float(before + share * (after - before))

    return taken, share, (expected(totals[0]), expected(totals[1]))


def _mixture(narrow: Floats, wide: Floats, share: Fraction, counts: tuple[float, float]) -> Found:
    if share == 1:  # no chance is left
        return Found(wide, *counts, wide)
    return Found(narrow, *counts, wide, float(share))
