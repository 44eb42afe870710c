"""The Dirichlet-multinomial likelihood of label histograms, and its slope.

A histogram y of n votes under Dirichlet parameters a z, z on the simplex, costs

    ln [a (a+1) ... (a+n-1)] - sum_k ln [a z_k (a z_k + 1) ... (a z_k + y_k - 1)]

with the multinomial coefficient left out.  These rising factorials are products; a difference of
log-gamma functions would lose all digits where `a` is large.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ._jit import kernel

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
