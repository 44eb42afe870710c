"""Confidence intervals: normal ones, and the exact ones of Clopper and Pearson for a probability.

The latter hold for every sample size and every probability (Clopper, Pearson, The use of confidence or
fiducial limits illustrated in the case of the binomial, Biometrika 26, 1934).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from calibkit.arrays import Floats
from calibkit_kernels.distributions import bounds


def normal_quantile(p: float) -> float:
    """Return the z that a standard normal variable stays below with probability `p` in [0, 1]."""
    from statistics import NormalDist  # loads much, and few commands need it

    return NormalDist().inv_cdf(p) if 0.0 < p < 1.0 else math.copysign(math.inf, p - 0.5)


def critical_value(confidence: float) -> float:
    """Return how many standard errors a two-sided interval reaches to either side: 1.96 for 0.95."""
    return -normal_quantile((1.0 - confidence) / 2.0)


def interval(successes: ArrayLike, trials: ArrayLike, confidence: float) -> tuple[Floats, Floats]:
    """Return the exact two-sided interval: each side wrong with at most half of the remainder."""
    each = 0.5 + 0.5 * confidence
    low, high = (one_sided(successes, trials, each, upper=upper) for upper in (False, True))
    return low, high


def one_sided(successes: ArrayLike, trials: ArrayLike, confidence: float, *, upper: bool) -> Floats:
    """Return the exact one-sided bound of a success probability, at a confidence above 0 and below 1.

    Counts are whole numbers, ``0 <= successes <= trials``, in arrays of shapes that fit together.  The
    lower bound is the largest p such that ``P(X >= successes) <= 1 - confidence`` for a binomial
    variable X of success probability p; 0 without a success.  The upper one mirrors it; it is 1 where
    every trial is a success, and without trials.
    """
    hits, rows = np.broadcast_arrays(np.asarray(successes, np.int64), np.asarray(trials, np.int64))
    out = np.empty(hits.shape)
    bounds(hits.flatten(), rows.flatten(), 1.0 - confidence, upper, out.reshape(-1))
    return out
