"""Sums that no order of rows, no number of threads and no cut into batches can change.

`exact_sum` and its kin return the float64 nearest to the true sum of their arguments.  An
`ExactSum` keeps the true sum itself, so that sums of parts merge into the sum of the whole.

Sums over a tally are taken in blocks, which are cut at fixed places: a kernel sums each in score order,
and the sums of blocks are added exactly (`math.fsum`).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from fractions import Fraction
from typing import Any

import numpy as np
from msgspec import Struct

from calibkit.arrays import Floats, Int64s, Numbers, blocks
from calibkit_kernels.sums import NO_CODES, add_columns, exponent_range, sum_in_parts

#: Entries of a block of a tally: enough to hide the call, and few, to balance four threads.
BLOCK = 131_072
#: Fewer entries than this take less time than threads do to start.
_FEW = 16_384
#: The exponents of the last bits of the smallest float64 and of the smallest product of two.
LEAST_FLOAT, LEAST_PRODUCT = -1074, -2148
#: The exponent of the field 0 and of the field 1 of a float64; each further field is one more.
_FIRST_FIELD = 1
_NOT_FINITE = 2047
#: A product is added in three parts, the last so many rows above the first.
_PRODUCT_PARTS = 54
#: Numbers that bins take for certain before they are emptied into a Python integer.
_MOST_ADDED = 1 << 30
#: What is added in three parts has bins of at most so many rows, and numbers of a part so many bits;
#: of so many numbers a part does not overflow, and of such a base no sum on the way to it.
_WIDEST, _PART_BITS, _MOST_IN_PARTS, _HIGHEST_BASE = 70, 41, 1 << 22, 800
#: The second column of a plain sum.
NO_FACTORS = np.empty(0, np.int64)


class ExactSum(Struct):
    """A sum of float64 values and of products of two, without any rounding.

    Adding is commutative and associative to the last bit: the sum of the whole is the merged sum
    of its parts, however it was cut and in whatever order.

    Examples
    --------
    >>> total = ExactSum()
    >>> total.add(np.array([1e100, 1.0, -1e100]))
    >>> total.value
    1.0
    """

    units: int = 0  # the sum as a whole number of 2^-2148, the unit of the smallest product

    def add(self, values: Numbers, times: Numbers | None = None) -> None:
        """Add finite values, of any float or integer type that float64 holds; with `times` products.

        Raises `ValueError` for an infinity or NaN, or columns of different lengths.
        """
        base, (total,) = _sums_of(values, times)
        self.units += total << (base - LEAST_PRODUCT)

    def merge(self, *others: ExactSum) -> ExactSum:
        """Return the sum of all."""
        return ExactSum(sum((other.units for other in others), self.units))

    @property
    def value(self) -> float:
        """The float64 nearest to the sum (ties to even)."""
        return nearest_float(self.fraction)

    @property
    def fraction(self) -> Fraction:
        """The sum itself, for further exact arithmetic."""
        return Fraction(self.units, 1 << -LEAST_PRODUCT)


def exact_sum(values: Numbers, times: Numbers | None = None) -> float:
    """Return the float64 nearest to the true sum of finite values; 0.0 for none.

    With `times` it is the sum of the products of two columns, value by value.  Raises `ValueError` for
    an infinity or NaN, or columns of different lengths.
    """
    total = ExactSum()
    total.add(values, times)
    return total.value


def exact_group_sums(
    values: Numbers, codes: Numbers, groups: int, *, times: Numbers | None = None
) -> Floats:
    """Return the float64 nearest to the true sum of the finite values of each group, 0 for none.

    `codes` has the group of each value, from 0 to ``groups - 1``.  With `times` the sums are those of
    the products ``values * times``.  Raises `ValueError` for an infinity or NaN, or columns of
    different lengths.
    """
    found = group_fractions(values, codes, groups, times=times)
    return np.array([nearest_float(total) for total in found])


def group_fractions(
    values: Numbers, codes: Numbers, groups: int, *, times: Numbers | None = None
) -> list[Fraction]:
    """Return the true sums of `exact_group_sums` themselves."""
    if codes.size != values.size:
        raise ValueError(f"{values.size} values but {codes.size} codes")
    base, totals = _sums_of(values, times, codes, groups)
    unit = Fraction(1 << base) if base >= 0 else Fraction(1, 1 << -base)
    return [total * unit for total in totals]


def _sums_of(
    values: Numbers, times: Numbers | None, codes: Numbers = NO_CODES, groups: int = 1
) -> tuple[int, list[int]]:
    """Return the exponent of a unit, and the sum of each group in units of it."""
    columns = _checked(values, times)
    base, width = _window(columns)
    first, second = (*columns, NO_FACTORS)[:2]
    if times is None and groups == 1 and width <= _WIDEST and base <= _HIGHEST_BASE:
        units = [math.ldexp(1.5, base + 52 + part * _PART_BITS) for part in range(3)]
        parts = added(
            [sum_in_parts(first[own], *units) for own in blocks(first.size, _MOST_IN_PARTS)]
        )
        return base, [sum(part << place * _PART_BITS for place, part in enumerate(parts))]
    totals = [0] * groups
    for own in blocks(first.size, _MOST_ADDED):
        bins = np.zeros((groups, width, 2), np.int64)
        add_columns(first[own], second[own], codes[own], base, bins)
        totals = [total + bins_total(part) for total, part in zip(totals, bins, strict=True)]
    return base, totals


def bins_total(bins: Int64s) -> int:
    """Return the number that bins of shape (width, 2) hold, in units of their base."""
    rows = np.flatnonzero(bins[:, 0] | bins[:, 1])
    parts = zip(rows.tolist(), bins[rows].tolist(), strict=True)
    return sum(((high << 32) + low) << row for row, (low, high) in parts)


def nearest_float(number: Fraction) -> float:
    """Return the float64 nearest to a number (ties to even); infinite beyond the largest."""
    try:
        return number.numerator / number.denominator
    except OverflowError:
        return float("inf") if number > 0 else float("-inf")


def _checked(values: Numbers, times: Numbers | None) -> tuple[Int64s, ...]:
    """Return the bit patterns of one or two columns of float64."""
    columns = (values,) if times is None else (values, times)
    if any(column.size != columns[0].size for column in columns):
        sizes = " and ".join(str(column.size) for column in columns)
        raise ValueError(f"columns of different lengths: {sizes}")
    return tuple(
        np.ascontiguousarray(column, dtype=np.float64).reshape(-1).view(np.int64)
        for column in columns
    )


def _window(columns: tuple[Int64s, ...]) -> tuple[int, int]:
    """Return the base and the width of bins that hold all values, or all products."""
    base, width = 0, 1 if len(columns) == 1 else _PRODUCT_PARTS
    for column in columns:
        low, high = map(int, exponent_range(column))
        if high == _NOT_FINITE:
            raise ValueError("a sum over an infinity or NaN is not defined")
        # Numbers of field 0 have the exponent of field 1; zeros only have none.
        high = max(high, _FIRST_FIELD)
        low = min(max(low, _FIRST_FIELD), high)
        base += LEAST_FLOAT + low - _FIRST_FIELD
        width += high - low + 1
    return base, width


def cut(low: int, high: int) -> list[slice]:
    """Return the blocks of a stretch of a tally."""
    edges = [low, *range((low // BLOCK + 1) * BLOCK, high, BLOCK), high]
    return [slice(first, last) for first, last in itertools.pairwise(edges) if last > first]


def each_block(
    kernel: Callable[..., Any],
    arrays: Sequence[Numbers],
    blocks: Sequence[slice],
    threads: int,
    given: Iterable[tuple[Any, ...]] | None = None,
    pool: Executor | None = None,
) -> list[Any]:
    """Return what a kernel gives for each block of some arrays, in the order of the blocks.

    `given` has what the kernel takes besides, for each block; `pool` the threads, where they wait.
    """
    more = [()] * len(blocks) if given is None else list(given)
    cuts = [
        (*(array[block] for array in arrays), *rest)
        for block, rest in zip(blocks, more, strict=True)
    ]
    few = sum(block.stop - block.start for block in blocks) < _FEW
    if threads == 1 or len(blocks) < 2 or few:
        return list(itertools.starmap(kernel, cuts))
    if pool is not None:
        return list(pool.map(kernel, *zip(*cuts, strict=True)))
    with ThreadPoolExecutor(min(threads, len(blocks))) as own:
        return list(own.map(kernel, *zip(*cuts, strict=True)))


def added(results: Sequence[Sequence[Any]]) -> tuple[Any, ...]:
    """Return the sums of the columns of some results: integers and floats, both exactly.

    What Python's own `sum` makes of floats depends on its version.
    """
    return tuple(
        sum(map(int, column))
        if all(isinstance(one, int | np.integer) for one in column)
        else math.fsum(column)
        for column in zip(*results, strict=True)
    )
