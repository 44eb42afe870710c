"""Row weights as exact integers.

Sums of weights must not depend on the order of rows, and a bound must be compared exactly.  Weights
are therefore counted in units of a power of two: exactly where that makes all of them integers with
a sum below 2^53, else rounded to a unit so small that the rounding is below 1e-12 of the total.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import gcd
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T", int, float)


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

#: Reweighted rows together stay below this.
_MOST_UNITS = 2**60


@dataclass(frozen=True)
class ClassWeights:
    """How many units each unit of a positive and of a negative row counts as.

    Attributes
    ----------
    positive, negative
        At least 1 each.
    exact
        Whether they stand for the base rate without rounding.
    """

    positive: int = 1
    negative: int = 1
    exact: bool = True

    def weigh(self, selected: T, true_positives: T) -> tuple[T, T]:
        """Return all rows and positive rows in reweighted units."""
        hits = self.positive * true_positives
        return hits + self.negative * (selected - true_positives), hits

    def rows(self, selected: float, true_positives: float) -> tuple[float, float]:
        """Return what reweighted totals are without the weights: integers stay integers."""
        harm = selected - true_positives
        if isinstance(selected, int) and isinstance(true_positives, int):
            hits = true_positives // self.positive
            return hits + harm // self.negative, hits
        return true_positives / self.positive + harm / self.negative, true_positives / self.positive


#: Rows as they are.
AS_THEY_ARE = ClassWeights()


def at_prevalence(rows: int, positives: int, prevalence: Fraction | None) -> ClassWeights:
    """Return the weights at which positives are a given share of all.

    Parameters
    ----------
    rows, positives
        All rows and the positive ones, in units; both classes occur, else rows stay as they are.
    prevalence
        The share, above 0 and below 1; None leaves rows as they are.
    """
    negatives = rows - positives
    if prevalence is None or not positives or not negatives:
        return AS_THEY_ARE
    share = prevalence / (1 - prevalence) * Fraction(negatives, positives)
    positive, negative = share.numerator, share.denominator
    total = positive * positives + negative * negatives
    if total < _MOST_UNITS:
        return ClassWeights(positive, negative)
    shrink = -(-total // _MOST_UNITS)
    positive, negative = max(1, positive // shrink), max(1, negative // shrink)
    common = gcd(positive, negative)
    return ClassWeights(positive // common, negative // common, exact=False)


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
