"""Binomial tails by summing exact fractions, and bounds by halving an interval of them."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np


def log_probability(k: float, n: float, p: float, q: float) -> Decimal:
    """Return the log for the smaller of p and q, whose precision counts."""
    with localcontext() as context:
        context.prec = 60
        small = Fraction(min(p, q))
        exact_p = small if p < q else 1 - small
        chance = math.comb(int(n), int(k)) * exact_p ** int(k) * (1 - exact_p) ** int(n - k)
        return (Decimal(chance.numerator) / Decimal(chance.denominator)).ln()


def tail_fraction(a: float, b: float, x: float, y: float) -> float:
    """Return the same from the tail it stands for: I_x(a, b) = P(X >= a) of a + b - 1 trials."""
    n = int(a + b) - 1
    beta = Fraction(1, int(a) * math.comb(n, int(a)))
    tail = exact_upper_tail(int(a), n, Fraction(x))
    return float(tail * beta / (Fraction(x) ** int(a) * Fraction(y) ** int(b)))


def exact_upper_tail(k: int, n: int, p: Fraction) -> Fraction:
    chances = (math.comb(n, j) * p**j * (1 - p) ** (n - j) for j in range(max(k, 0), n + 1))
    return sum(chances, Fraction(0))


def upper_tail(k: int, n: int, p: float, q: float) -> float:
    return float(exact_upper_tail(k, n, Fraction(p) if p < q else 1 - Fraction(q)))


def lower_tail(k: int, n: int, p: float, q: float) -> float:
    return upper_tail(n - k, n, q, p)


def bound(successes: int, trials: int, level: float, upper: bool) -> float:
    if successes == (trials if upper else 0):
        return float(upper)
    low, high = Fraction(0), Fraction(1)
    for _ in range(100):
        p = (low + high) / 2
        tail = exact_upper_tail(successes + upper, trials, p)
        too_low = (1 - tail > Fraction(level)) if upper else (tail < Fraction(level))
        low, high = (p, high) if too_low else (low, p)
    return float(low)


def bounds(
    successes: np.ndarray, trials: np.ndarray, level: float, upper: bool, out: np.ndarray
) -> None:
    for i, (k, n) in enumerate(zip(successes.tolist(), trials.tolist(), strict=True)):
        out[i] = bound(k, n, level, upper) if n else float(upper)
