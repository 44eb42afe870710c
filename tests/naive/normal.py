"""Twins of the kernels of the normal distribution, by the functions of the standard library."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext


def normal_density(z: float) -> float:
    """Return the density, of an exponent that is not rounded."""
    with localcontext(prec=60):
        return float((-(Decimal(z) ** 2) / 2).exp()) / math.sqrt(2 * math.pi)


def normal_cdf(z: float) -> float:
    """Return the distribution function."""
    return math.erfc(-z / math.sqrt(2)) / 2


def normal_quantile(p: float) -> float:
    """Return the quantile by bisection."""
    low, high = -40.0, 40.0
    if p > 0.5:  # 1 - p is exact there, and the lower tail does not round to 1
        return -normal_quantile(1 - p)
    for _ in range(200):
        middle = (low + high) / 2
        below = normal_cdf(middle) < p
        low, high = (middle, high) if below else (low, middle)
    return (low + high) / 2
