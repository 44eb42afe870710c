"""Confidence intervals: normal ones, and the exact ones of Clopper and Pearson for a probability.

The latter hold for every sample size and every probability (Clopper, Pearson, The use of confidence or
fiducial limits illustrated in the case of the binomial, Biometrika 26, 1934).
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np
from numpy.typing import ArrayLike

from calibkit.arrays import Floats
from calibkit.numerics.solve import rising_root
from calibkit_kernels.distributions import bounds

#: Degrees of freedom up to which Student's distribution function is summed.
_SUMMED = 1_000


def normal_quantile(p: float) -> float:
    """Return the z that a standard normal variable stays below with probability `p` in [0, 1]."""
    from statistics import NormalDist  # loads much, and few commands need it

    return NormalDist().inv_cdf(p) if 0.0 < p < 1.0 else math.copysign(math.inf, p - 0.5)


def critical_value(confidence: float) -> float:
    """Return how many standard errors a two-sided interval reaches to either side: 1.96 for 0.95."""
    return -normal_quantile((1.0 - confidence) / 2.0)


@cache
def student_value(confidence: float, free: int) -> float:
    """Return the same by Student's law with so many degrees of freedom, at least 1.

    Up to a thousand by its distribution function, a finite sum in the angle whose tangent is t over
    the root of the degrees of freedom; beyond by its expansion about the normal law.  (Abramowitz and
    Stegun, Handbook of mathematical functions, 26.7.3 to 26.7.5.)
    """
    if free > _SUMMED:
        z = critical_value(confidence)
        first = (z**3 + z) / 4.0
        second = (5.0 * z**5 + 16.0 * z**3 + 3.0 * z) / 96.0
        third = (3.0 * z**7 + 19.0 * z**5 + 17.0 * z**3 - 15.0 * z) / 384.0
        return z + first / free + second / free**2 + third / free**3

    def excess(angle: float) -> float:
        cosine, total = math.cos(angle), 0.0
        term = cosine if free % 2 else 1.0
        for k in range(3 if free % 2 else 2, free + 1, 2):
            total += term
            term *= cosine * cosine * (k - 1) / k
        within = math.sin(angle) * total
        return ((angle + within) * 2.0 / math.pi if free % 2 else within) - confidence

    return math.tan(rising_root(excess, 0.0, math.pi / 2.0)) * math.sqrt(free)


def interval(successes: ArrayLike, trials: ArrayLike, confidence: float) -> tuple[Floats, Floats]:
    """Return the exact two-sided interval: each side wrong with at most half of the remainder.

    Counts are whole numbers, ``0 <= successes <= trials``, in arrays of shapes that fit together.  The
    lower end is the largest p such that ``P(X >= successes)`` is at most that half for a binomial
    variable X of success probability p; 0 without a success.  The upper one mirrors it; it is 1 where
    every trial is a success, and without trials.
    """
    hits, rows = np.broadcast_arrays(np.asarray(successes, np.int64), np.asarray(trials, np.int64))
    ends, wrong = np.empty((2, hits.size)), 1.0 - (0.5 + 0.5 * confidence)
    for upper, out in enumerate(ends):
        bounds(hits.flatten(), rows.flatten(), wrong, bool(upper), out)
    low, high = (out.reshape(hits.shape) for out in ends)
    return low, high
