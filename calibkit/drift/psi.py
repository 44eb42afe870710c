"""The population stability index, and how much of it chance explains.

Between shares e of the fitting rows and a of the new rows in bins, PSI = sum (a - e) ln(a / e), the
symmetrised Kullback-Leibler divergence (Jeffreys, An invariant form for the prior probability in
estimation problems, 1946).  Without drift it is about c times a chi-square variable with k degrees
of freedom, k one less than the number of bins and c = 1/N + 1/M for N new and M fitting rows
(Yurdakul, Statistical properties of population stability index, 2018).  So small files have a large
PSI by chance, and what it tells is by how much it exceeds that.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from calibkit.measures.result import Interval
from calibkit.numerics.distributions import critical_value

#: What an empty bin of the new rows counts as, lest the index be infinite.
_EMPTY = 0.5


@dataclass(frozen=True)
class Stability:
    """The index of one column, and what chance alone gives on average.

    `p_value` is the probability of shares that differ as much or more without drift, by Pearson's test
    of two samples (On the criterion, 1900).  `interval` is that of the index of all rows that such
    files might hold: what chance adds is taken off, and it reaches down to 0 wherever the test does not
    tell the samples apart.
    """

    value: float
    expected: float
    p_value: float
    interval: Interval


def stability(
    new: Sequence[float], reference: Sequence[float], sizes: tuple[float, float], confidence: float
) -> Stability:
    """Return the index between new rows and fitting rows, given their weight in each bin.

    Of `reference` all are positive, of `new` some; an empty bin counts as half a row.  `sizes` says of
    how many independent rows either is: N, M.
    """
    rows, fitted = sizes
    chance = 1.0 / rows + 1.0 / fitted
    total, whole = math.fsum(new), math.fsum(reference)
    old = [count / whole for count in reference]
    now = [max(count, _EMPTY * total / rows) / total for count in new]
    value = math.fsum((a - e) * math.log(a / e) for a, e in zip(now, old, strict=True))
    free = len(old) - 1
    plain = [count / total for count in new]
    p_value = chi_square_tail(_pearson(plain, old, rows, fitted), free)
    # Of samples alike the slopes themselves are noise: their variances have a mean of 4 k c^2.
    sloped = _variance(now, old, rows) + _variance(old, now, fitted) - 4.0 * free * chance**2
    steep = max(4.0 * chance, sloped / max(value, free * chance)) if free else 0.0
    low, high = _ends(value - free * chance, 2.0 * free * chance**2, steep, confidence)
    if p_value > (1.0 - confidence) / 2.0:
        low = 0.0
    return Stability(value, free * chance, p_value, Interval(low, high))


def _ends(excess: float, flat: float, steep: float, confidence: float) -> tuple[float, float]:
    """Return the values that an excess over chance does not rule out.

    At a value v the excess has mean v and variance ``flat + steep v``; an end is where it lies a
    critical value away, with the variance there (as Wilson's interval of a rate).
    """
    square = critical_value(confidence) ** 2
    centre = excess + 0.5 * square * steep
    half = math.sqrt(max(0.0, centre**2 - excess**2 + square * flat))
    low = centre - half if excess > 0.0 else 0.0
    return max(0.0, low), max(0.0, centre + half)


def _pearson(now: Sequence[float], old: Sequence[float], rows: float, fitted: float) -> float:
    """Return Pearson's statistic of two samples, given the shares of their bins."""
    both = [(rows * a + fitted * e) / (rows + fitted) for a, e in zip(now, old, strict=True)]
    apart = math.fsum((a - e) ** 2 / b for a, e, b in zip(now, old, both, strict=True))
    return apart * rows * fitted / (rows + fitted)


def _variance(own: Sequence[float], other: Sequence[float], rows: float) -> float:
    """Return the variance that one sample gives the index, by the delta method."""
    slopes = [math.log(a / b) + 1.0 - b / a for a, b in zip(own, other, strict=True)]
    mean = math.fsum(a * slope for a, slope in zip(own, slopes, strict=True))
    square = math.fsum(a * slope**2 for a, slope in zip(own, slopes, strict=True))
    return max(0.0, square - mean**2) / rows


def chi_square_tail(x: float, free: int) -> float:
    """Return the probability that a chi-square variable of `free` degrees of freedom exceeds `x`.

    With 0 degrees it is the constant 0.  By the recurrence from 1 or 2 degrees (Abramowitz and Stegun,
    Handbook of mathematical functions, 26.4.8), all of whose terms are positive.
    """
    if x <= 0.0:
        return 1.0
    if free == 0:
        return 0.0
    half = 0.5 * x
    odd = free % 2 == 1
    tail = math.erfc(math.sqrt(half)) if odd else math.exp(-half)
    for degrees in range(1 if odd else 2, free - 1, 2):
        order = 0.5 * degrees
        tail += math.exp(order * math.log(half) - half - math.lgamma(order + 1.0))
    return min(1.0, tail)
