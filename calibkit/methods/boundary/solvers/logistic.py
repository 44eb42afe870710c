"""The logistic surface: one cut on a fitted probability of score and uncertainty.

The regressors are s (the logit of a probability clipped by 1e-6, a logit as it is, a raw score
standardised), u (the rank of the uncertainty, in [0, 1]) and s u; the fit is logistic regression
with a ridge of 1/n on the standardised regressors.  A boundary has to rise with the score at every
uncertainty: where the slope in s is not positive at both ends, u = 0 and u = 1, the product is
dropped, then u, and where scores fall with the label even so, the score itself is the surface.  The
cut is the best single threshold on the surface's values.

Uncertainties enter by their level, one of 100 of equal mass: u is the middle of the ranks of the
level's rows.  So a surface with a cut *is* one threshold a level, which is what a model holds and
applies, and every sum here is one over the tally, whose order is that of the scores.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from calibkit.bins.binning import Levels
from calibkit.methods.boundary.problem.found import Found
from calibkit.methods.boundary.problem.goals import Goal
from calibkit.methods.boundary.solvers.classic import single_threshold
from calibkit.methods.boundary.solvers.surface_fit import fit_surface, regressor
from calibkit.summaries.tally import Tally
from calibkit_kernels import logistic as kernels
from calibkit_kernels import sorting
from calibkit_kernels.maps import LEAST

Floats = NDArray[np.float64]

#: How many levels the uncertainty is resolved into.
LEVELS = 100


def logistic(value: float) -> float:
    """Return the probability of some log-odds."""
    small = math.exp(-abs(value))
    return 1.0 / (1.0 + small) if value >= 0.0 else small / (1.0 + small)


def distinct(levels: Levels) -> Levels:
    """Return levels without those that no value can be in."""
    edges = np.unique(levels.edges)
    return Levels(levels.minimum, edges[edges > levels.minimum])


def best_cut(
    tally: Tally,
    goal: Goal,
    excluded: int = -1,
    *,
    scale: str = "probability",
    threads: int = 1,
) -> Found:
    """Fit a surface and return its best cut.

    `tally`: scores, finite unless they are probabilities, and levels; `goal`: what to reach;
    `excluded`: a part of a dealt tally that takes no part; `scale`: what scores hold:
    ``probability``, ``logit`` or ``raw``; `threads`: how many may sum; the result does not depend on
    them.
    """
    probability, raw = scale == "probability", scale == "raw"
    surface = fit_surface(tally, excluded, probability=probability, raw=raw, threads=threads)
    lines = surface.lines()
    found = surface_cut(tally, lines, goal, excluded, probability=probability, threads=threads)
    return replace(found, surface=surface)


def surface_cut(
    tally: Tally,
    lines: Floats,
    goal: Goal,
    excluded: int,
    *,
    probability: bool,
    threads: int = 1,
) -> Found:
    """Return the best cut of a surface, a line in the score at each level; see `best_cut`."""
    s = regressor(tally, probability)
    values, words = np.empty(s.size, np.float32), np.empty(s.size, np.uint64)
    arrays = s, tally.level, tally.part, lines
    words = words[: kernels.surface_words(*arrays, excluded, values, words)]
    order = (sorting.sort_pairs(words, sorting.NO_TAGS, 32, threads)[0] >> np.uint64(32)).astype(
        np.int64
    )
    ranked = replace(tally.where(order), score=values[order])
    points = ranked.points(together=True)
    choice = single_threshold(points, goal)
    if choice[0] < 0:
        return Found(np.full(tally.levels, np.nan), 0, 0)
    value = ranked.score[points.entry[choice[0]]]
    # From where on what the surface says comes to this value, which is rounded.
    least = 0.5 * (float(value) + float(np.nextafter(value, np.float32(-math.inf))))
    thresholds = cut_thresholds(
        tally, lines, values, float(value), excluded, probability=probability
    )
    return Found(thresholds, *points.totals(choice), cut=least, gain=points.total_gain(choice))


def cut_thresholds(
    tally: Tally,
    lines: Floats,
    values: NDArray[np.float32],
    cut: float,
    excluded: int = -1,
    *,
    probability: bool = True,
) -> Floats:
    """Return the score from which on each level's line reaches a cut: -inf always, NaN never.

    It is ``(cut - a) / g`` for a line ``a + g s``, as a score; among the scores of the tally it parts
    exactly those whose value reaches the cut from those whose value does not.
    """
    limits = np.full((tally.levels, 2), np.nan)
    kernels.level_limits(tally.score, values, tally.level, tally.part, cut, excluded, limits)
    found = np.empty(tally.levels)
    for own, ((a, g), (lowest, highest)) in enumerate(zip(lines, limits, strict=True)):
        # It selects the lowest score that is to be selected, and not the one below.
        threshold = _as_score((cut - a) / g, probability)
        if not math.isnan(lowest) and not threshold <= lowest:
            threshold = lowest
        elif not math.isnan(highest) and threshold <= highest:
            threshold = lowest if not math.isnan(lowest) else math.nextafter(highest, math.inf)
        found[own] = threshold
    return found


def _as_score(s: float, probability: bool) -> float:
    """Return the score of a value of the regressor: clipped probabilities are all alike."""
    if not probability:
        return float(s)
    bound = math.log((1.0 - LEAST) / LEAST)
    if s <= -bound:
        return -math.inf
    return math.nan if s > bound else logistic(s)
