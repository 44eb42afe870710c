"""Exact sums by rational arithmetic."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction

#: The kernels that work on bins, and what they add up.
TWINS = {
    "add_bits": "bins_value",
    "add_float": "exact_sum",
    "add_product": "exact_sum_products",
    "add_columns": "exact_group_sums",
    "sum_in_parts": "exact_sum",
    "exponent_range": "exponent_range",
    "split_squares": "square",
    "squares_about_mean": "squares_about_mean",
}


def bins_value(bins: Iterable[Sequence[int]], base: int) -> Fraction:
    """Return the number that bins stand for."""
    total = Fraction(0)
    for row, (low, high) in enumerate(bins):
        total += (int(low) + 2**32 * int(high)) * Fraction(2) ** (row + base)
    return total


def exact_sum(values: Iterable[float]) -> Fraction:
    """Return the sum of floats as a rational number."""
    return sum(map(Fraction, values), Fraction(0))


def exact_sum_products(first: Iterable[float], second: Iterable[float]) -> Fraction:
    """Return the sum of products of floats as a rational number."""
    return sum((Fraction(a) * Fraction(b) for a, b in zip(first, second, strict=True)), Fraction(0))


def exact_group_sums(values: Sequence[float], codes: Sequence[int], groups: int) -> list[Fraction]:
    """Return the sum of the values of each group."""
    return [
        exact_sum(value for value, code in zip(values, codes, strict=True) if code == group)
        for group in range(groups)
    ]


def exponent_range(values: Iterable[float]) -> tuple[int, int]:
    """Return the least and the largest exponent field of the nonzero values."""
    import struct

    fields = [
        (struct.unpack("<Q", struct.pack("<d", value))[0] >> 52) & 2047
        for value in values
        if value != 0
    ]
    return (min(fields), max(fields)) if fields else (2048, -1)


def square(value: float) -> Fraction:
    """Return a square as a rational number."""
    return Fraction(value) ** 2


def squares_about_mean(values: Sequence[float]) -> Fraction:
    """Return the sum of squares of floats about their mean, as a rational number."""
    mean = exact_sum(values) / len(values)
    return sum(((Fraction(value) - mean) ** 2 for value in values), Fraction(0))
