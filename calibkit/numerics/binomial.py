"""Exact confidence bounds for a probability from counts of successes (Clopper and Pearson).

They hold for every sample size and every probability: the chance that a one-sided bound is wrong is
at most ``1 - confidence``.

Source: C. J. Clopper, E. S. Pearson, "The use of confidence or fiducial limits illustrated in the
case of the binomial", Biometrika 26 (1934).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibkit_kernels import binomial as kernels

Floats = NDArray[np.float64]


def lower_bound(successes: ArrayLike, trials: ArrayLike, confidence: float) -> Floats:
    """Return the exact one-sided lower bound of a success probability.

    Parameters
    ----------
    successes, trials
        Whole numbers with ``0 <= successes <= trials``; arrays of shapes that fit together.
    confidence
        Above 0, below 1.

    Returns
    -------
    The largest p such that ``P(X >= successes) <= 1 - confidence`` for a binomial variable X of
    success probability p; 0 without a success.

    Raises
    ------
    ValueError
        For numbers outside these ranges.
    """
    return _bounds(successes, trials, confidence, upper=False)


def upper_bound(successes: ArrayLike, trials: ArrayLike, confidence: float) -> Floats:
    """Return the exact one-sided upper bound of a success probability; see `lower_bound`.

    It is 1 where every trial is a success, and without trials.
    """
    return _bounds(successes, trials, confidence, upper=True)


def interval(successes: ArrayLike, trials: ArrayLike, confidence: float) -> tuple[Floats, Floats]:
    """Return the exact two-sided interval: each side wrong with at most half of the remainder."""
    each = 0.5 + 0.5 * confidence
    return lower_bound(successes, trials, each), upper_bound(successes, trials, each)


def _bounds(successes: ArrayLike, trials: ArrayLike, confidence: float, *, upper: bool) -> Floats:
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"confidence is {confidence}; expected a number between 0 and 1")
    hits, rows = np.broadcast_arrays(_whole(successes), _whole(trials))
    if ((hits < 0) | (hits > rows)).any():
        raise ValueError("successes lie between 0 and trials")
    out = np.empty(hits.shape)
    kernels.bounds(hits.flatten(), rows.flatten(), 1.0 - confidence, upper, out.reshape(-1))
    return out


def _whole(counts: ArrayLike) -> NDArray[np.int64]:
    given = np.asarray(counts)
    whole = given.astype(np.int64)
    if not np.array_equal(whole, given):
        raise ValueError("successes and trials are whole numbers")
    return whole
