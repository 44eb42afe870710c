"""Rows over classes: linear scores, softmax, what votes cost, and the sums that follow from them.

Sums of floats run over fixed blocks of rows, in row order, so that they do not depend on threads.

Sums over label histograms by bin must not depend on the order of rows, so each term is rounded to a
whole number of 2^-60 and added as an integer in two limbs.  Terms lie in [-1, 1]; up to 2^31 rows fit.

The Dirichlet-multinomial likelihood: a histogram y of n votes under Dirichlet parameters a z, z on the
simplex, costs

    ln [a (a+1) ... (a+n-1)] - sum_k ln [a z_k (a z_k + 1) ... (a z_k + y_k - 1)]

with the multinomial coefficient left out.  These rising factorials are products; a difference of
log-gamma functions would lose all digits where `a` is large.
"""

from __future__ import annotations

import math

import numpy as np

from ._jit import kernel
from .arrays import Floats, Int64s

#: Rows whose sums are taken together before they join the total.
BLOCK_ROWS = 4096
#: Stands for factors where sums are of the values themselves.
NO_ROWS = np.empty((0, 0))


@kernel
def dot(a: Floats, b: Floats) -> float:
    """Return the sum of products of two vectors, in order."""
    total = 0.0
    for j in range(a.size):
        total += a[j] * b[j]
    return total


@kernel
def affine_rows(inputs: Floats, weights: Floats, intercept: Floats, out: Floats) -> None:
    """Fill rows x outputs with ``inputs @ weights.T + intercept``; weights are outputs x inputs."""
    for i in range(inputs.shape[0]):
        for k in range(weights.shape[0]):
            total = intercept[k]
            for j in range(inputs.shape[1]):
                total += inputs[i, j] * weights[k, j]
            out[i, k] = total


@kernel
def outer_sums(left: Floats, right: Floats, out: Floats) -> None:
    """Fill left columns x right columns with the sums over rows of their products."""
    out[:] = 0.0
    block = np.empty_like(out)
    for start in range(0, left.shape[0], BLOCK_ROWS):
        block[:] = 0.0
        for i in range(start, min(start + BLOCK_ROWS, left.shape[0])):
            for k in range(left.shape[1]):
                factor = left[i, k]
                for j in range(right.shape[1]):
                    block[k, j] += factor * right[i, j]
        out += block


@kernel
def column_sums(left: Floats, right: Floats, out: Floats) -> None:
    """Fill one number a column: the sum over rows, of products with equal columns if there are some.

    Without factors `right` is `NO_ROWS`.
    """
    out[:] = 0.0
    block = np.empty_like(out)
    for start in range(0, left.shape[0], BLOCK_ROWS):
        block[:] = 0.0
        for i in range(start, min(start + BLOCK_ROWS, left.shape[0])):
            for k in range(left.shape[1]):
                block[k] += left[i, k] * right[i, k] if right.size else left[i, k]
        out += block


@kernel
def softmax_rows(scores: Floats, out: Floats) -> None:
    """Fill in the softmax of each row."""
    for i in range(scores.shape[0]):
        top, mass = scores[i, 0], 0.0
        for k in range(scores.shape[1]):
            top = max(top, scores[i, k])
        for k in range(scores.shape[1]):
            out[i, k] = math.exp(scores[i, k] - top)
            mass += out[i, k]
        for k in range(scores.shape[1]):
            out[i, k] /= mass


@kernel
def softmax_residuals(scores: Floats, counts: Int64s, residual: Floats) -> float:
    """Return the cost of votes under softmax probabilities; fill in its derivative in the scores.

    The cost is minus the sum over rows and classes of votes times ln softmax(scores); the residual
    of a row with n votes is n softmax(scores) - votes.
    """
    total = 0.0
    for start in range(0, scores.shape[0], BLOCK_ROWS):
        block = 0.0
        for i in range(start, min(start + BLOCK_ROWS, scores.shape[0])):
            top, mass, votes = scores[i, 0], 0.0, np.int64(0)
            for k in range(scores.shape[1]):
                top = max(top, scores[i, k])
                votes += counts[i, k]
            for k in range(scores.shape[1]):
                residual[i, k] = math.exp(scores[i, k] - top)
                mass += residual[i, k]
            log_mass = math.log(mass)
            for k in range(scores.shape[1]):
                y = counts[i, k]
                residual[i, k] = votes * (residual[i, k] / mass) - y
                if y > 0:
                    block -= y * (scores[i, k] - top - log_mass)
        total += block
    return total


#: What one unit of a fixed-point term is worth: 2^-60.
UNITS_PER_ONE = 2.0**60
_LOW_LIMB = np.int64(0xFFFFFFFF)
_LIMB_BITS = np.int64(32)


@kernel
def bin_of(value: float, edges: Floats) -> int:
    """Return how many of the inner edges (``edges[1:]``, rising) a value in [0, 1] reaches."""
    place = min(int(value * edges.size), edges.size - 1)
    while place + 1 < edges.size and edges[place + 1] <= value:
        place += 1
    while edges[place] > value:
        place -= 1
    return place


@kernel
def add_bin_sums(
    prediction: Floats, label: Floats, excess: Floats, edges: Floats, sums: Int64s
) -> None:
    """Add rows to the sums of each target and bin of its prediction.

    `edges` are 0 and the inner edges of the bins.

    Rows x targets are the predicted probability, the mean label, and how much the square of the mean
    label exceeds an unbiased estimate; all in [0, 1].  `sums`, targets x bins x 11, have the rows, then
    two limbs (high, low) each of label, prediction, squared label, squared difference, excess.
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
                units = np.int64(math.floor(terms[q] * UNITS_PER_ONE + 0.5))
                cell[1 + 2 * q] += units >> _LIMB_BITS
                cell[2 + 2 * q] += units & _LOW_LIMB


#: Factors up to which a rising factorial is multiplied out; beyond, Stirling's series.
_MULTIPLIED = 12
#: The product of so many factors between these is a normal number.
_SMALLEST, _GREATEST = 1e-20, 1e20
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
    probabilities: Floats, counts: Int64s, log_strength: Floats, cost: Floats, slope: Floats
) -> None:
    """Fill in what each histogram costs, and the derivative in the logarithm of its strength.

    Probabilities (positive where a class has votes) and votes are rows x classes; `log_strength` is ln
    alpha0 of each row, between -700 and 700.
    """
    for i in range(counts.shape[0]):
        strength, votes = math.exp(log_strength[i]), np.int64(0)
        lost, fallen = 0.0, 0.0
        # The first few factors of all classes together, as in `log_rising`: they share a logarithm.
        product, rational = 1.0, 0.0
        for k in range(counts.shape[1]):
            y, x = counts[i, k], strength * probabilities[i, k]
            votes += y
            if votes <= _MULTIPLIED and _SMALLEST < x < _GREATEST:
                for place in range(y):
                    factor = x + place
                    rational = rational * factor + product * x
                    product *= factor
            elif y > 0:
                one, change = log_rising(x, int(y))
                lost += one
                fallen += change
        whole, rise = log_rising(strength, int(votes))
        cost[i] = whole - lost - math.log(product)
        slope[i] = rise - fallen - rational / product
