"""What intervals, bounds and certificates need: the normal distribution, binomial tails, bets.

The upper tail of a binomial variable is the regularised incomplete beta function at whole numbers,
``P(X >= k) = I_p(k, n - k + 1)``.  It is computed as the probability of `k` in Loader's saddle-point
form times a continued fraction, which is accurate for billions of trials (DiDonato, Morris, Algorithm
708: Significant digit computation of the incomplete beta function ratios, 1992).

Whoever doubts that a boundary violates a bound bets on each unit (a row, or the rows of a group).  What
a unit pays for each unit of stake is at least -1, and at most 0 on average if the bound is violated; so
the capital is then a nonnegative supermartingale, which ever reaches ``1 / level`` with probability
`level` at most (Waudby-Smith, Ramdas, Estimating means of bounded random variables by betting, 2024;
Ville, Etude critique de la notion de collectif, 1939).
"""

from __future__ import annotations

import math

from ._jit import kernel
from .arrays import Floats, Int64s

_ROOT_TWO, _ROOT_TWO_PI = math.sqrt(2.0), math.sqrt(2.0 * math.pi)
_LOG_ROOT_TWO_PI = 0.91893853320467267


@kernel
def normal_density(z: float) -> float:
    """Return the density of the standard normal distribution."""
    return math.exp(-0.5 * z * z) / _ROOT_TWO_PI


@kernel
def normal_cdf(z: float) -> float:
    """Return the probability that a standard normal variable is at most `z`; NaN for NaN."""
    return 0.5 * math.erfc(-z / _ROOT_TWO)


#: Stands in for a zero in a continued fraction.
_TINY = 1e-300


@kernel
def stirling_error(n: float) -> float:
    """Return ``log(n!)`` minus Stirling's formula ``(n + 1/2) log n - n + log(2 pi)/2``."""
    if n < 16.0:
        log_factorial = 0.0
        for k in range(2, int(n) + 1):
            log_factorial += math.log(k)
        if n == 0.0:
            return 0.0
        return log_factorial - ((n + 0.5) * math.log(n) - n + _LOG_ROOT_TWO_PI)
    square = n * n
    return (1.0 / 12 - (1.0 / 360 - (1.0 / 1260 - 1.0 / (1680 * square)) / square) / square) / n


@kernel
def deviance(x: float, mean: float) -> float:
    """Return ``x log(x / mean) + mean - x`` without cancellation near ``x = mean``."""
    if x == 0.0:
        return mean
    if abs(x - mean) < 0.1 * (x + mean):
        ratio = (x - mean) / (x + mean)
        result = (x - mean) * ratio
        term = 2.0 * x * ratio
        for j in range(1, 1000):
            term *= ratio * ratio
            previous = result
            result += term / (2 * j + 1)
            if result == previous:
                break
        return result
    return x * math.log(x / mean) + mean - x


@kernel
def log_probability(k: float, n: float, p: float, q: float) -> float:
    """Return the log of the binomial probability of `k` in `n`; `q` is ``1 - p``.

    Both are asked for because the smaller of the two carries the precision.
    """
    if k == 0.0:
        return n * (math.log1p(-p) if p < q else math.log(q))
    if k == n:
        return n * (math.log1p(-q) if q < p else math.log(p))
    spread = stirling_error(n) - stirling_error(k) - stirling_error(n - k)
    away = deviance(k, n * p) + deviance(n - k, n * q)
    return spread - away - 0.5 * math.log(k * ((n - k) / n)) - _LOG_ROOT_TWO_PI


@kernel
def tail_fraction(a: float, b: float, x: float, y: float) -> float:
    """Return ``I_x(a, b) B(a, b) / (x^a y^b)``; `y` is ``1 - x``.

    The continued fraction of DiDonato and Morris by Lentz's method; in it differences of large
    numbers come from `y`, which is precise.  It settles after about ``sqrt(max(a, b))`` steps where
    ``x < (a + 1) / (a + b + 2)``.
    """
    away = a * y - b * x + 1.0
    fraction = a * away / (a + 1.0)
    fraction = fraction if fraction > _TINY else _TINY
    c, d = fraction, 0.0
    for m in range(1, 1_000_000):
        step = a + 2.0 * m - 1.0
        top = (a + m - 1.0) / step * ((a + b + m - 1.0) / step) * m * (b - m) * x * x
        rest = m + m * (b - m) / step * x + (a + m) / (step + 2.0) * (away + m * (2.0 - x))
        d = rest + top * d
        d = 1.0 / (d if abs(d) > _TINY else _TINY)
        c = rest + top / c
        c = c if abs(c) > _TINY else _TINY
        fraction *= c * d
        if abs(c * d - 1.0) <= 2.3e-16:
            break
    return 1.0 / fraction


@kernel
def upper_tail(k: int, n: int, p: float, q: float) -> float:
    """Return ``P(X >= k)`` of `n` trials with success probability `p`; `q` is ``1 - p``."""
    if k <= 0:
        return 1.0
    if k > n or p <= 0.0:
        return 0.0
    if q <= 0.0:
        return 1.0
    a, b, total = float(k), float(n - k + 1), float(n)
    if p * (total + 3.0) < a + 1.0:
        return math.exp(log_probability(a, total, p, q)) * q * a * tail_fraction(a, b, p, q)
    rest = math.exp(log_probability(a - 1.0, total, p, q)) * p * b
    return 1.0 - rest * tail_fraction(b, a, q, p)


@kernel
def lower_tail(k: int, n: int, p: float, q: float) -> float:
    """Return ``P(X <= k)`` of `n` trials with success probability `p`; `q` is ``1 - p``."""
    return upper_tail(n - k, n, q, p)


@kernel
def bound(successes: int, trials: int, level: float, upper: bool) -> float:
    """Return the one-sided Clopper-Pearson bound whose error probability is at most `level`.

    The lower bound solves ``P(X >= successes) = level``, the upper one ``P(X <= successes) = level``:
    Newton's method on the log of the tail within a bracket that only shrinks.
    """
    if upper:
        if successes >= trials:
            return 1.0
    elif successes <= 0:
        return 0.0
    k, n, goal = float(successes), float(trials), math.log(level)
    low, high = 0.0, 1.0
    p = (k + 0.5) / (n + 1.0)
    for _ in range(200):
        q = 1.0 - p
        log_k = log_probability(k, n, p, q)
        if upper:
            tail = lower_tail(successes, trials, p, q)
            slope = -math.exp(log_k) * (n - k) / q
        else:
            tail = upper_tail(successes, trials, p, q)
            slope = math.exp(log_k) * k / p
        too_low = tail > level if upper else tail < level
        if too_low:
            low = p
        else:
            high = p
        guess = 0.5 * (low + high)
        if tail > 0.0 and slope != 0.0:
            newton = p - (math.log(tail) - goal) * tail / slope
            if low < newton < high:
                guess = newton
            elif newton == p:
                return p
        if abs(guess - p) <= 2e-16 * p or high - low <= 2e-16 * high:
            return guess
        p = guess
    return p


@kernel
def bounds(successes: Int64s, trials: Int64s, level: float, upper: bool, out: Floats) -> None:
    """Write the one-sided bound of each pair of counts; without trials 0 below and 1 above."""
    for i in range(successes.size):
        if trials[i] <= 0:
            out[i] = 1.0 if upper else 0.0
        else:
            out[i] = bound(successes[i], trials[i], level, upper)


@kernel
def units_to_reach(
    first: Int64s,
    outside: Floats,
    inside: Floats,
    starts: Int64s,
    place: int,
    stake: float,
    goal: float,
) -> int:
    """Return after how many units the capital first reaches ``exp(goal)``, 0 if it never does.

    Row i pays ``inside[i]`` if ``first[i] <= place``, the boundary selects it, else ``outside[i]``.
    Unit j has the rows from ``starts[j]`` to ``starts[j + 1]``; the last start is the number of rows.
    """
    capital = 0.0
    for unit in range(starts.size - 1):
        pays = 0.0
        for i in range(starts[unit], starts[unit + 1]):
            pays += inside[i] if first[i] <= place else outside[i]
        if pays != 0.0:
            capital += math.log1p(stake * pays)
            if capital >= goal:
                return unit + 1
    return 0
