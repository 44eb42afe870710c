"""Sums over label histograms, bin by bin, of which metrics of rater agreement are made; likelihoods.

A sum must not depend on the order of rows, so each term is rounded to a whole number of
2^-60 and added as an integer in two limbs.  Terms lie in [-1, 1]; up to 2^31 rows fit.

The Dirichlet-multinomial likelihood: a histogram y of n votes under Dirichlet parameters a z, z on the
simplex, costs

    ln [a (a+1) ... (a+n-1)] - sum_k ln [a z_k (a z_k + 1) ... (a z_k + y_k - 1)]

with the multinomial coefficient left out.  These rising factorials are products; a difference of
log-gamma functions would lose all digits where `a` is large.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ._jit import kernel

#: What one unit of a fixed-point term is worth: 2^-60.
UNITS_PER_ONE = 2.0**60

_LOW_LIMB = np.int64(0xFFFFFFFF)
_LIMB_BITS = np.int64(32)


@kernel
def bin_of(value: float, edges: NDArray[np.float64]) -> int:
    """Return how many of the inner edges (``edges[1:]``, rising) a value in [0, 1] reaches."""
    place = min(int(value * edges.size), edges.size - 1)
    while place + 1 < edges.size and edges[place + 1] <= value:
        place += 1
    while edges[place] > value:
        place -= 1
    return place


@kernel
def fixed(value: float) -> int:
    """Return a term in [-1, 1] as a whole number of 2^-60."""
    return math.floor(value * UNITS_PER_ONE + 0.5)


@kernel
def add_bin_sums(
    prediction: NDArray[np.float64],
    label: NDArray[np.float64],
    excess: NDArray[np.float64],
    edges: NDArray[np.float64],
    sums: NDArray[np.int64],
) -> None:
    """Add rows to the sums of each target and bin of its prediction.

    Parameters
    ----------
    prediction, label, excess
        Rows x targets: predicted probability, mean label, and how much the square of the mean
        label exceeds an unbiased estimate; all in [0, 1].
    edges
        0 and the inner edges of the bins.
    sums
        Targets x bins x 11: rows, then two limbs (high, low) each of label, prediction, squared
        label, squared difference, excess.
    """
    terms = np.empty(5, np.float64)
    for i in range(prediction.shape[0]):
        for k in range(prediction.shape[1]):
            p, y = prediction[i, k], label[i, k]
            terms[0] = y
            terms[1] = p
            terms[2] = y * y
            terms[3] = (y - p) * (y - p)
            terms[4] = excess[i, k]
            cell = sums[k, bin_of(p, edges)]
            cell[0] += 1
            for q in range(5):
                units = np.int64(fixed(terms[q]))
                cell[1 + 2 * q] += units >> _LIMB_BITS
                cell[2 + 2 * q] += units & _LOW_LIMB


#: Factors up to which a rising factorial is multiplied out; beyond, Stirling's series.
_MULTIPLIED = 12
#: Where Stirling's series, cut after 1/x^9, is exact to rounding.
_LARGE = 16.0


@kernel
def _stirling_rest(x: float) -> float:
    """Return what Stirling's series adds to ln Gamma(x) for x >= 16."""
    r = 1.0 / x
    s = r * r
    return r * (
        1.0 / 12.0 - s * (1.0 / 360.0 - s * (1.0 / 1260.0 - s * (1.0 / 1680.0 - s / 1188.0)))
    )


@kernel
def _digamma_rest(x: float) -> float:
    """Return digamma(x) - ln(x) for x >= 16."""
    r = 1.0 / x
    s = r * r
    return -0.5 * r - s * (
        1.0 / 12.0 - s * (1.0 / 120.0 - s * (1.0 / 252.0 - s * (1.0 / 240.0 - s / 132.0)))
    )


@kernel
def log_rising(x: float, n: int) -> tuple[float, float]:
    """Return ln [x (x+1) ... (x+n-1)] for x > 0, and its derivative in ln x."""
    if n == 0:
        return 0.0, 0.0
    log, slope, low = 0.0, 0.0, x
    left = n
    while left > 0 and (left <= _MULTIPLIED or low < _LARGE):
        product, rational, taken = 1.0, 0.0, 0
        while left > 0 and taken < _MULTIPLIED and (left <= _MULTIPLIED or low < _LARGE):
            if not 1e-280 < product * low < 1e280:
                break
            # (p / q)' as a running numerator: one division a dozen factors instead of one each.
            rational = rational * low + product
            product *= low
            low += 1.0
            left -= 1
            taken += 1
        if taken == 0:  # a factor too small or too large to be multiplied with others
            log += math.log(low)
            slope += 1.0 / low
            low += 1.0
            left -= 1
        else:
            log += math.log(product)
            slope += rational / product
    if left > 0:
        high = low + left
        grown = math.log1p(left / low)
        log += left * math.log(high) + (low - 0.5) * grown - left
        log += _stirling_rest(high) - _stirling_rest(low)
        slope += grown + _digamma_rest(high) - _digamma_rest(low)
    return log, x * slope


@kernel
def histogram_costs(
    probabilities: NDArray[np.float64],
    counts: NDArray[np.int64],
    log_strength: NDArray[np.float64],
    cost: NDArray[np.float64],
    slope: NDArray[np.float64],
) -> None:
    """Fill in what each histogram costs, and the derivative in the logarithm of its strength.

    Parameters
    ----------
    probabilities, counts
        Rows x classes: probabilities, positive where a class has votes; votes.
    log_strength
        ln alpha0 of each row, between -700 and 700.
    """
    for i in range(counts.shape[0]):
        strength, votes = math.exp(log_strength[i]), np.int64(0)
        lost, fallen = 0.0, 0.0
        for k in range(counts.shape[1]):
            y = counts[i, k]
            if y > 0:
                votes += y
                one, change = log_rising(strength * probabilities[i, k], int(y))
                lost += one
                fallen += change
        whole, rise = log_rising(strength, int(votes))
        cost[i] = whole - lost
        slope[i] = rise - fallen
