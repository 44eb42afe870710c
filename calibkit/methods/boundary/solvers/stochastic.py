"""Randomised boundaries: two boundaries mixed, so that a bound is met with equality.

``block``: the optimum over all randomised boundaries.  The linear relaxation of the choice of
prefixes takes whole blocks of the levels' isotonic regressions by falling rate and a share of the
one at the margin; taking each row of that block with this probability is a randomised boundary with
exactly those expected counts.

``tie``: random at one score only (Singh, Khim, Optimal binary classification beyond accuracy,
section 3): positive above the threshold, with a probability on it.

"Optimal" refers to the measure of the expected counts.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from calibkit.methods.boundary.problem.found import Found, lowest_scores
from calibkit.methods.boundary.problem.goals import CountGoal, Goal
from calibkit.methods.boundary.solvers.exact import isotonic_blocks
from calibkit.summaries.tally import Tally

Floats = NDArray[np.float64]
Int64s = NDArray[np.int64]


def random_block(tally: Tally, goal: Goal, excluded: int = -1) -> Found:
    """Return the best boundary that may be random over one block of scores."""
    points = tally.points(excluded=excluded)
    blocks = isotonic_blocks(points)
    rows, hits = np.cumsum(blocks.selected), np.cumsum(blocks.true_positives)
    assert isinstance(goal, CountGoal)
    taken, share = goal.mix(np.append(0, rows), np.append(0, hits))
    narrow = wide = lowest_scores(tally, points, blocks.choice(taken, points.levels))
    if share:
        wide = lowest_scores(tally, points, blocks.choice(taken + 1, points.levels))
    return _mixture(narrow, wide, share, rows, hits, taken)


def random_tie(tally: Tally, goal: Goal, excluded: int = -1) -> Found:
    """Return the best threshold that may be random at its own score, for a tally of one level."""
    kept = np.ones(tally.score.size, bool) if not tally.part.size else tally.part != excluded
    score = tally.score[kept].astype(np.float64)
    last = np.append(score[1:] != score[:-1], True)  # of equal scores, in several parts
    rows = np.cumsum(tally.count[kept].astype(np.int64))[last]
    hits = np.cumsum(tally.positive[kept].astype(np.int64))[last]
    score = score[last]
    assert isinstance(goal, CountGoal)
    taken, share = goal.mix(np.append(0, rows), np.append(0, hits))
    narrow = wide = np.array([score[taken - 1] if taken else np.nan])
    if share:
        wide = np.array([score[taken]])
        narrow = np.where(wide < np.inf, np.nextafter(wide, np.inf), np.nan)
    return _mixture(narrow, wide, share, rows, hits, taken)


def _mixture(
    narrow: Floats, wide: Floats, share: Fraction, rows: Int64s, hits: Int64s, taken: int
) -> Found:
    """Return two boundaries mixed, with what the first blocks and a share of the next hold."""

    def expected(total: Int64s) -> float:
        before = int(total[taken - 1]) if taken else 0
        after = int(total[taken]) if share else before
        return float(before + share * (after - before))

    counts = expected(rows), expected(hits)
    if share == 1:  # no chance is left
        return Found(wide, *counts, wide)
    return Found(narrow, *counts, wide, float(share))
