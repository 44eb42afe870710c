"""Row weights as exact integers.

Sums of weights must not depend on the order of rows, and a bound must be compared exactly.  Weights
are therefore counted in units of a power of two: exactly where that makes all of them integers with
a sum below 2^53, else rounded to a unit so small that the rounding is below 1e-12 of the total.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Unit:
    """What one unit of a tally's counts is worth.

    Attributes
    ----------
    size
        The weight of one unit, a power of two (1.0 for rows and integer weights).
    exact
        Whether the integer counts stand for the weights without rounding.
    """

    size: float = 1.0
    exact: bool = True

    def amount(self, units: float) -> int | float:
        """Return a number of units as rows or weight: an integer for whole rows.

        An expected number of units, a float, stays one.
        """
        if isinstance(units, float):
            return units * self.size
        return int(units) if self.size == 1.0 else int(units) * self.size


#: The unit of unweighted rows.
ROW = Unit()


def in_units(weight: NDArray[np.float64]) -> tuple[NDArray[np.int64], Unit]:
    """Return finite, non-negative weights as integer numbers of a common unit.

    Parameters
    ----------
    weight
        Weights, at least one of them positive.

    Returns
    -------
    units, unit
        Integers whose sum stays below 2^53 where `unit` is exact, below 2^62 otherwise.  A positive
        weight never becomes 0.
    """
    mantissa, exponent = np.frexp(weight)
    bits = (mantissa * 2.0**53).astype(np.int64)
    lowest_bit = np.where(bits > 0, bits & -bits, 1)
    powers = np.where(bits > 0, exponent - 53 + np.log2(lowest_bit).astype(np.int64), 2**20)
    shift = max(0, -int(powers.min()))
    top = int(exponent[bits > 0].max())
    room = weight.size.bit_length()
    if shift + top <= 53:
        units = np.ldexp(weight, shift).astype(np.int64)
        if sum(int(part.sum()) for part in np.array_split(units, 1 + units.size // 512)) < 2**53:
            return units, Unit(2.0**-shift)
    shift = 62 - top - room
    units = np.maximum(np.rint(np.ldexp(weight, shift)), weight > 0).astype(np.int64)
    return units, Unit(float(np.ldexp(1.0, -shift)), exact=False)
