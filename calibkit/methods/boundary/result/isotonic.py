"""The isotonic regression of the labels on the score in each level: the probabilities of MIST.

(Arora, Merugu, Saladi, Rastogi, Leveraging uncertainty estimates to improve classifier performance,
appendix C.6.)
"""

from __future__ import annotations

import numpy as np

from calibkit.methods.boundary.problem.problem import Problem
from calibkit.methods.boundary.result.parts import Steps, threshold_json
from calibkit.methods.boundary.solvers.exact import isotonic_blocks
from calibkit.methods.boundary.solvers.summary import Summary
from calibkit.summaries.tally import Tally


def level_steps(summary: Summary) -> list[Steps]:
    """Return, for each level, the share of positive rows by score, rising by blocks.

    A block reaches down to its lowest score; rows below the last score with a positive row are a
    block of rate 0.
    """
    tally, _ = summary.aim()
    points = tally.points()
    blocks = isotonic_blocks(points)
    rate = blocks.true_positives / blocks.selected
    lowest = tally.score[points.entry[blocks.point]]
    found = []
    for level, least in enumerate(_least_scores(tally)):
        own = blocks.level == level  # from the highest score down
        knots, values = lowest[own], rate[own]
        if not np.isnan(least) and not (knots.size and knots[-1] == least):
            knots, values = np.append(knots, least), np.append(values, 0.0)
        knots = _as_scores(summary.problem, level, knots[::-1])
        found.append(Steps(knots=[threshold_json(x) for x in knots], values=values[::-1].tolist()))
    return found


def _least_scores(tally: Tally) -> np.ndarray:
    """Return the lowest score of each level, NaN where it has no rows."""
    least = np.full(tally.levels, np.nan)
    least[tally.level] = tally.score  # scores fall along the tally: the last one stays
    return least


def _as_scores(problem: Problem, level: int, knots: np.ndarray) -> list[float]:
    """Return scores of a tally, which may be the columns of a grid, as scores."""
    if problem.grid is None:
        return [float(knot) for knot in knots]
    found = []
    for knot in knots:
        asked = np.full(problem.tally.levels, np.nan)
        asked[level] = knot
        found.append(float(problem.scores(asked)[level]))
    return found
