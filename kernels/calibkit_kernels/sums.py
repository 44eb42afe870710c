"""Sums without rounding: every finite float64, and every product of two, as integers.

A finite float64 is a whole multiple of 2^-1074, a product of two of them one of 2^-2148.  *Bins*, an
int64 array of shape (width, 2), hold a sum of such numbers: row i counts multiples of ``2^(i +
base)``, its first column in ones, its second in 2^32; the caller chooses `base`.  A number adds less
than 2^32 to a column, so that 2^31 numbers can be added before one could overflow.  Integers add up
to the same whatever their order: the bins of several threads, or of several files, are simply added.

The idea of keeping all bits is old (Kulisch, Computer arithmetic and validity, 2008; Neal, Fast
exact summation using small and large superaccumulators, 2015).
"""

from __future__ import annotations

import numpy as np

from ._jit import kernel
from .arrays import Floats, Int64s, Numbers

#: Stands for the codes of one group.
NO_CODES = np.empty(0, np.uint8)

#: The stored bits of a mantissa, and the low 32 and 27 bits of one.
_MANTISSA = (1 << 52) - 1
_LOW_32 = (1 << 32) - 1
_LOW_27 = (1 << 27) - 1
#: The exponent of the last bit of the smallest float64.
_LEAST = -1074
#: By it a float64 is split into two halves of 26 bits.
_SPLITTER = 134217729.0


@kernel
def add_bits(bins: Int64s, place: int, mantissa: int, sign: int) -> None:
    """Add ``mantissa * 2^place`` to bins of base 0, negated where `sign` is -1 and not 0.

    `mantissa` is at least 0 and below 2^55, `place` at least 0.
    """
    row = np.uint64(place)  # unsigned: no look at negative places
    bins[row, np.uint64(0)] += ((mantissa & _LOW_32) ^ sign) - sign
    bins[row, np.uint64(1)] += ((mantissa >> 32) ^ sign) - sign


@kernel
def add_float(bins: Int64s, base: int, bits: int) -> None:
    """Add the finite float64 of a bit pattern to bins."""
    exponent = (bits >> 52) & 2047
    mantissa = bits & _MANTISSA
    if exponent > 0:
        mantissa |= _MANTISSA + 1
        exponent -= 1
    if mantissa > 0:
        add_bits(bins, exponent + _LEAST - base, mantissa, bits >> 63)


@kernel
def add_product(bins: Int64s, base: int, first: int, second: int) -> None:
    """Add the product of two finite float64, given by their bit patterns, to bins."""
    left_exponent, right_exponent = (first >> 52) & 2047, (second >> 52) & 2047
    left, right = first & _MANTISSA, second & _MANTISSA
    if left_exponent > 0:
        left |= _MANTISSA + 1
        left_exponent -= 1
    if right_exponent > 0:
        right |= _MANTISSA + 1
        right_exponent -= 1
    if left == 0 or right == 0:
        return
    place = left_exponent + right_exponent + 2 * _LEAST - base
    sign = (first ^ second) >> 63
    # Mantissas of 53 bits in parts of 27 and 26: no partial product reaches 2^55.
    left_high, left_low = left >> 27, left & _LOW_27
    right_high, right_low = right >> 27, right & _LOW_27
    add_bits(bins, place, left_low * right_low, sign)
    add_bits(bins, place + 27, left_low * right_high + left_high * right_low, sign)
    add_bits(bins, place + 54, left_high * right_high, sign)


@kernel
def add_columns(first: Int64s, second: Int64s, codes: Numbers, base: int, bins: Int64s) -> None:
    """Add the finite float64 values of a column, or its products with a second one, to bins.

    Columns are bit patterns; `second` is empty where there is one.  `bins`, groups x width x 2, are
    those of the codes; without codes the first.
    """
    for i in range(first.size):
        own = bins[codes[i] if codes.size else 0]
        if second.size:
            add_product(own, base, first[i], second[i])
        else:
            add_float(own, base, first[i])


@kernel
def sum_in_parts(
    bits: Int64s, low: float, middle: float, high: float
) -> tuple[np.int64, np.int64, np.int64]:
    """Return three whole numbers that together are the sum of finite float64, given by their bits.

    The first counts multiples of ``2^p``, for `low` = ``1.5 * 2^(p + 52)``, the others those of the
    units of `middle` and `high`, each of 41 bits more.  All values are multiples of ``2^p``, below
    ``2^(p + 122)``, and at most 2^22: what is added to one of the three is at most 2^40.

    A number that is far larger rounds what is added to it to multiples of its last bit, and shows in
    its own bits how many they are (Demmel and Nguyen, "Parallel reproducible summation", 2015).
    """
    ones, fine, coarse = np.int64(0), np.int64(0), np.int64(0)
    own_low, own_middle = np.float64(low).view(np.int64), np.float64(middle).view(np.int64)
    own_high = np.float64(high).view(np.int64)
    for i in range(bits.size):
        value = np.int64(bits[i]).view(np.float64)
        near = value + high
        coarse += np.float64(near).view(np.int64) - own_high
        value -= near - high
        near = value + middle
        fine += np.float64(near).view(np.int64) - own_middle
        value -= near - middle
        ones += np.float64(value + low).view(np.int64) - own_low
    return ones, fine, coarse


@kernel
def exponent_range(bits: Int64s) -> tuple[int, int]:
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


@kernel
def split_squares(values: Floats, square: Floats, rest: Floats) -> None:
    """Write two numbers for each value that together are its square, without rounding.

    Dekker, "A floating-point technique for extending the available precision" (1971), section 5.
    """
    for i in range(values.size):
        value = values[i]
        high = _SPLITTER * value - (_SPLITTER * value - value)
        low = value - high
        square[i] = value * value
        rest[i] = ((high * high - square[i]) + 2.0 * high * low) + low * low


@kernel
def squares_about_mean(values: Floats, out: Floats) -> None:
    """Write the sum of squares of each column about its mean, added row by row."""
    rows, columns = values.shape
    for i in range(columns):
        mean, total = values[0, i], 0.0
        for j in range(1, rows):
            mean += values[j, i]
        mean /= rows
        for j in range(rows):
            total += (values[j, i] - mean) * (values[j, i] - mean)
        out[i] = total
