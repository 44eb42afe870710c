"""Sums without rounding: every finite float64, and every product of two, as integers.

A finite float64 is a whole multiple of 2^-1074, a product of two of them one of 2^-2148.  A *row of
limbs* holds a sum of such numbers: limb i, an int64, counts multiples of ``2^(32 i + base)``, where
`base` is chosen by the caller.  A number adds less than 2^32 to each of at most three limbs, so that
2^31 numbers can be added before a limb could overflow.  Integers add up to the same whatever their
order: rows of limbs made by several threads, or of several files, are simply added.

The idea of keeping all bits in wide fixed-point words is old (Kulisch, Computer arithmetic and
validity, 2008; Neal, Fast exact summation using small and large superaccumulators, 2015).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._jit import kernel

Bits = NDArray[np.int64]
Limbs = NDArray[Any]

#: 52 stored bits of a mantissa, and 32 and 27 bits of one.
_MANTISSA = (1 << 52) - 1
_LOW_32 = (1 << 32) - 1
_LOW_27 = (1 << 27) - 1
#: The exponent of the last bit of the smallest float64.
_LEAST = -1074


@kernel
def add_bits(limbs: NDArray[np.int64], place: int, mantissa: int, sign: int) -> None:
    """Add ``sign * mantissa * 2^place`` to a row of limbs whose base is 2^0.

    `mantissa` is at least 0 and below 2^55, `place` at least 0.
    """
    first, shift = place >> 5, place & 31
    limbs[first] += sign * ((mantissa << shift) & _LOW_32)
    limbs[first + 1] += sign * ((mantissa >> (32 - shift)) & _LOW_32)
    # In two steps: a shift by 64 is undefined.
    limbs[first + 2] += sign * ((mantissa >> 32) >> (32 - shift))


@kernel
def add_float(limbs: NDArray[np.int64], base: int, bits: int) -> None:
    """Add the finite float64 with the given bit pattern to a row of limbs."""
    exponent = (bits >> 52) & 2047
    mantissa = bits & _MANTISSA
    if exponent > 0:
        mantissa |= _MANTISSA + 1
        exponent -= 1
    if mantissa > 0:
        add_bits(limbs, exponent + _LEAST - base, mantissa, 1 | (bits >> 63))


@kernel
def add_product(limbs: NDArray[np.int64], base: int, first: int, second: int) -> None:
    """Add the exact product of two finite float64 (bit patterns) to a row of limbs."""
    high_place, low_place = (first >> 52) & 2047, (second >> 52) & 2047
    left, right = first & _MANTISSA, second & _MANTISSA
    if high_place > 0:
        left |= _MANTISSA + 1
        high_place -= 1
    if low_place > 0:
        right |= _MANTISSA + 1
        low_place -= 1
    if left == 0 or right == 0:
        return
    place = high_place + low_place + 2 * _LEAST - base
    sign = 1 | ((first ^ second) >> 63)
    # Mantissas of 53 bits in parts of 27 and 26: no partial product reaches 2^55.
    left_high, left_low = left >> 27, left & _LOW_27
    right_high, right_low = right >> 27, right & _LOW_27
    add_bits(limbs, place, left_low * right_low, sign)
    add_bits(limbs, place + 27, left_low * right_high + left_high * right_low, sign)
    add_bits(limbs, place + 54, left_high * right_high, sign)


@kernel
def sum_floats(bits: Bits, base: int, limbs: NDArray[np.int64]) -> None:
    """Add finite float64 values, given by their bit patterns, to a row of limbs."""
    for i in range(bits.size):
        add_float(limbs, base, bits[i])


@kernel
def sum_products(first: Bits, second: Bits, base: int, limbs: NDArray[np.int64]) -> None:
    """Add the exact products of two columns of finite float64 (bit patterns) to a row of limbs."""
    for i in range(first.size):
        add_product(limbs, base, first[i], second[i])


@kernel
def sum_by_code(bits: Bits, codes: NDArray[Any], base: int, limbs: Limbs) -> None:
    """Add each finite float64 (bit pattern) to the row of limbs that its code names.

    `limbs` has the shape (groups, width).
    """
    for i in range(bits.size):
        add_float(limbs[codes[i]], base, bits[i])


@kernel
def products_by_code(
    first: Bits, second: Bits, codes: NDArray[Any], base: int, limbs: Limbs
) -> None:
    """Add each exact product of two float64 to the row of limbs that its code names."""
    for i in range(first.size):
        add_product(limbs[codes[i]], base, first[i], second[i])


@kernel
def exponent_range(bits: Bits) -> tuple[int, int]:
    """Return the least and the largest exponent field of the nonzero values; (2048, -1) for none.

    2047 is the field of infinities and NaN.
    """
    low, high = 2048, -1
    for i in range(bits.size):
        if (bits[i] & 0x7FFFFFFFFFFFFFFF) != 0:
            exponent = (bits[i] >> 52) & 2047
            low = min(low, exponent)
            high = max(high, exponent)
    return low, high
