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

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from calibkit.boundary.exact import isotonic_blocks
from calibkit.boundary.goals import Goal, count_goal
from calibkit.summaries.tally import Tally

Floats = NDArray[np.float64]
Int64s = NDArray[np.int64]


@dataclass(frozen=True)
class Mixture:
    """Two boundaries on a tally; the wider one holds with a probability.

    Attributes
    ----------
    narrow, wide
        The lowest selected score of each level, NaN where nothing is selected; they differ in one
        level at most.
    probability
        With which a row that only the wide boundary selects is positive.
    selected, true_positives
        Expected counts, in units.
    """

    narrow: Floats
    wide: Floats
    probability: float
    selected: float
    true_positives: float


def random_block(tally: Tally, goal: Goal, excluded: int = -1) -> Mixture:
    """Return the best boundary that may be random over one block of scores."""
    points = tally.points(excluded=excluded)
    blocks = isotonic_blocks(points)
    rows, hits = np.cumsum(blocks.selected), np.cumsum(blocks.true_positives)
    taken, share = count_goal(goal).mix(np.append(0, rows), np.append(0, hits))
    narrow = wide = _lowest(tally, points.entry, blocks.choice(taken, points.levels))
    if share:
        wide = _lowest(tally, points.entry, blocks.choice(taken + 1, points.levels))
    return _mixture(narrow, wide, share, rows, hits, taken)


def random_tie(tally: Tally, goal: Goal, excluded: int = -1) -> Mixture:
    """Return the best threshold that may be random at its own score, for a tally of one level."""
    kept = np.ones(tally.score.size, bool) if not tally.part.size else tally.part != excluded
    score = tally.score[kept].astype(np.float64)
    last = np.append(score[1:] != score[:-1], True)  # of equal scores, in several parts
    rows = np.cumsum(tally.count[kept].astype(np.int64))[last]
    hits = np.cumsum(tally.positive[kept].astype(np.int64))[last]
    score = score[last]
    taken, share = count_goal(goal).mix(np.append(0, rows), np.append(0, hits))
    narrow = wide = np.array([score[taken - 1] if taken else np.nan])
    if share:
        wide = np.array([score[taken]])
        narrow = np.where(wide < np.inf, np.nextafter(wide, np.inf), np.nan)
    return _mixture(narrow, wide, share, rows, hits, taken)


def _mixture(
    narrow: Floats, wide: Floats, share: Fraction, rows: Int64s, hits: Int64s, taken: int
) -> Mixture:
    expected = _expected(rows, hits, taken, share)
    if share == 1:  # no chance is left
        return Mixture(wide, wide, 0.0, *expected)
    return Mixture(narrow, wide, float(share), *expected)


def _expected(rows: Int64s, hits: Int64s, taken: int, share: Fraction) -> tuple[float, float]:
    """Return what the first blocks and a share of the next hold."""
    found = []
    for total in (rows, hits):
        before = int(total[taken - 1]) if taken else 0
        after = int(total[taken]) if share else before
        found.append(float(before + share * (after - before)))
    return found[0], found[1]


def _lowest(tally: Tally, entry: Int64s, choice: Int64s) -> Floats:
    lowest = np.full(choice.size, np.nan)
    taken = choice >= 0
    lowest[taken] = tally.score[entry[choice[taken]]]
    return lowest
