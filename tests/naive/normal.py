"""Slow, obvious twins of the kernels of the normal distribution."""

from __future__ import annotations

import math


def normal_density(z: float) -> float:
    """Return the density."""
    return math.exp(-z * z / 2) / math.sqrt(2 * math.pi)


def normal_cdf(z: float) -> float:
    """Return the distribution function, from the library's complementary error function."""
    return math.erfc(-z / math.sqrt(2)) / 2


def mills_ratio(z: float) -> float:
    """Return the upper tail over the density, by its continued fraction z + 1/(z + 2/(z + ...)."""
    if z < 1:
        return normal_cdf(-z) / normal_density(z)
    fraction = z
    for k in range(400, 0, -1):
        fraction = z + k / fraction
    return 1 / fraction


def normal_quantile(p: float) -> float:
    """Return the quantile by bisection."""
    low, high = -40.0, 40.0
    if p > 0.5:  # 1 - p is exact there, and the lower tail does not round to 1
        return -normal_quantile(1 - p)
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if normal_cdf(middle) < p else (low, middle)
    return (low + high) / 2
