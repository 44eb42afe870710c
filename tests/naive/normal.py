"""Slow, obvious twins of the kernels of the normal distribution: series with hundreds of digits."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from functools import cache

#: A tail of 1e-300 is what 1/2 leaves.
_DIGITS = 330


def normal_density(z: float) -> float:
    """Return the density."""
    with localcontext() as context:
        context.prec = _DIGITS
        return float(_density(Decimal(z)))


def normal_cdf(z: float) -> float:
    """Return the distribution function: 1/2 + density (z + z^3/3 + z^5/(3 5) + ...)."""
    with localcontext() as context:
        context.prec = _DIGITS
        exact = Decimal(z)
        term = total = exact
        k = 3
        while abs(term) > abs(total).scaleb(-_DIGITS):
            term *= exact * exact / k
            total += term
            k += 2
        return float(Decimal(1) / 2 + _density(exact) * total)


def _density(z: Decimal) -> Decimal:
    return (-z * z / 2).exp() / (2 * _pi()).sqrt()


@cache
def _pi() -> Decimal:
    """Return pi by Machin's formula, 16 arctan(1/5) - 4 arctan(1/239)."""

    def arctan(one_over: int) -> Decimal:
        power = total = Decimal(1) / one_over
        for k in range(3, 2 * _DIGITS, 2):
            power /= -(one_over**2)
            total += power / k
        return total

    return 16 * arctan(5) - 4 * arctan(239)


def normal_quantile(p: float) -> float:
    """Return the quantile by bisection."""
    low, high = -40.0, 40.0
    if p > 0.5:  # 1 - p is exact there, and the lower tail does not round to 1
        return -normal_quantile(1 - p)
    for _ in range(200):
        middle = (low + high) / 2
        below = math.erfc(-middle / math.sqrt(2)) / 2 < p
        low, high = (middle, high) if below else (low, middle)
    return (low + high) / 2
