"""Exact comparison of products of 64-bit counts, as the decision bounds need them.

``precision >= a/q`` is ``tp * q >= a * m``; with nine-digit bounds and large weights the products
pass 2^63.  A comparison in floating point decides all but the closest calls, two 64-bit halves
decide those.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ._jit import kernel

Int64s = NDArray[np.int64]
Bools = NDArray[np.bool_]

_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)


@kernel
def product_halves(a: int, b: int) -> tuple[np.uint64, np.uint64]:
    """Return the high and the low 64 bits of the product of two non-negative 64-bit integers."""
    first, second = np.uint64(a), np.uint64(b)
    a_low, a_high = first & _LOW, first >> _HALF
    b_low, b_high = second & _LOW, second >> _HALF
    low = a_low * b_low
    middle = a_high * b_low + (low >> _HALF)
    other = a_low * b_high + (middle & _LOW)
    high = a_high * b_high + (middle >> _HALF) + (other >> _HALF)
    return high, (other << _HALF) | (low & _LOW)


@kernel
def compare_products(a: int, b: int, c: int, d: int) -> int:
    """Return the sign of ``a * b - c * d`` for non-negative 64-bit integers, exactly."""
    left, right = float(a) * float(b), float(c) * float(d)
    # Six roundings at most stand between the floats and the products: 1e-14 covers them.
    if abs(left - right) > 1e-14 * (left + right):
        return 1 if left > right else -1
    left_high, left_low = product_halves(a, b)
    right_high, right_low = product_halves(c, d)
    if left_high != right_high:
        return 1 if left_high > right_high else -1
    if left_low != right_low:
        return 1 if left_low > right_low else -1
    return 0


@kernel
def ratio_at_least(numerators: Int64s, denominators: Int64s, a: int, q: int) -> Bools:
    """Return where ``numerator / denominator >= a / q``; an empty selection (0/0) meets it."""
    met = np.empty(numerators.size, np.bool_)
    for i in range(numerators.size):
        met[i] = compare_products(numerators[i], q, a, denominators[i]) >= 0
    return met


@kernel
def largest_ratio(numerators: Int64s, denominators: Int64s, least: int) -> int:
    """Return where the ratio is largest among entries whose numerator is at least `least`.

    The larger numerator wins a tie.  Entries with denominator 0 are passed over; -1 if none is left.
    """
    best = -1
    for i in range(numerators.size):
        if numerators[i] < least or denominators[i] <= 0:
            continue
        if best < 0:
            best = i
            continue
        sign = compare_products(
            numerators[i], denominators[best], numerators[best], denominators[i]
        )
        if sign > 0 or (sign == 0 and numerators[i] > numerators[best]):
            best = i
    return best
