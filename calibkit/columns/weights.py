"""Row weights as exact integers.

Sums of weights must not depend on the order of rows, and a bound must be compared exactly.  Weights
are therefore counted in units of a power of two: exactly where that makes all of them integers with
a sum below 2^53, else rounded to a unit of about 2^-61 of their total.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TypeVar

import numpy as np
from msgspec import Struct

from calibkit.arrays import Floats, Int64s, Numbers

T = TypeVar("T", int, float)


class Unit(Struct, frozen=True):
    """The weight of one unit of a tally's counts: a power of two, 1.0 for rows and integer weights.

    Where it is `exact` the counts stand for the weights without rounding.
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

    def amounts(self, units: Int64s) -> Numbers:
        """Return numbers of units as rows or weights: integers for whole rows."""
        return units if self.size == 1.0 else units * self.size


#: The unit of unweighted rows.
ROW = Unit()

#: Reweighted rows together stay below this.
_MOST_UNITS = 2**60
#: Rounded weights together stay below this power of two.
_MOST_BITS = 62


class ClassWeights(Struct, frozen=True):
    """How many units each unit of a positive and of a negative row counts as.

    They are integers where they stand for the base rate exactly; else floats, and products are rounded.
    """

    positive: int | float = 1
    negative: int | float = 1

    @property
    def exact(self) -> bool:
        """Whether they stand for the base rate without rounding."""
        return isinstance(self.positive, int)

    def weigh(self, selected: T, true_positives: T) -> tuple[T, T]:
        """Return all rows and positive rows in reweighted units; integers stay integers."""
        hits = self.positive * true_positives
        harm = self.negative * (selected - true_positives)
        if isinstance(selected, int) and not self.exact:
            hits, harm = round(hits), round(harm)
        return hits + harm, hits  # type: ignore[return-value]

    def rows(self, selected: float, true_positives: float) -> tuple[float, float]:
        """Return what reweighted totals are without the weights: integers stay integers."""
        harm = selected - true_positives
        if not (isinstance(selected, int) and isinstance(true_positives, int)):
            hits = true_positives / self.positive
            return hits + harm / self.negative, hits
        if self.exact:
            whole = int(true_positives // self.positive)
            return whole + int(harm // self.negative), whole
        whole = round(true_positives / self.positive)
        return whole + round(harm / self.negative), whole

    def of(self, hits: Int64s, harm: Int64s) -> tuple[Int64s, ...]:
        """Return numbers of positive and of negative rows in reweighted units."""
        if self.exact:
            return hits * int(self.positive), harm * int(self.negative)
        return tuple(
            np.maximum(np.rint(amount * weight), amount > 0).astype(np.int64)
            for amount, weight in ((hits, self.positive), (harm, self.negative))
        )


#: Rows as they are.
AS_THEY_ARE = ClassWeights()


def at_prevalence(rows: int, positives: int, prevalence: Fraction | None) -> ClassWeights:
    """Return the weights at which positives are a share of all between 0 and 1.

    Without a share, or without rows (in units) of both classes, rows stay as they are.
    """
    negatives = rows - positives
    if prevalence is None or not positives or not negatives:
        return AS_THEY_ARE
    share = prevalence / (1 - prevalence) * Fraction(negatives, positives)
    positive, negative = share.numerator, share.denominator
    if positive * positives + negative * negatives < _MOST_UNITS:
        return ClassWeights(positive, negative)
    return ClassWeights(
        float(prevalence * _MOST_UNITS / positives),
        float((1 - prevalence) * _MOST_UNITS / negatives),
    )


def in_units(weight: Floats, kind: Numbers | None = None) -> tuple[Int64s, Unit]:
    """Return finite, non-negative weights as integer numbers of a common unit.

    `weight`: weights, at least one of them positive. `kind`: non-negative integers.  Where weights
    are rounded, sums over all rows of a kind are, rather than each weight for itself (see
    `carried`).

    Returns
    -------
    units, unit
        Integers whose sum stays below 2^53 where `unit` is exact, else between 2^60 and 2^62: a
        weight is then off by at most half a unit, so that any sum over n rows is off by less than
        n / 2^61 of the total weight.  A positive weight never becomes 0: below a unit it is one.
    """
    if float(weight.max()) * weight.size < 2**53:  # whole numbers are units as they are
        units = weight.astype(np.int64)
        if (units == weight).all():
            return units, ROW
    found = Weighed()
    found.add(weight)
    unit = found.unit
    if kind is None or unit.exact:
        return whole_units(weight, unit), unit
    return carried(weight, unit, np.arange(weight.size), kind), unit


class Weighed:
    """What tells the unit of the weights of rows, which may come in parts.

    The least power of two above all weights, `top`, and the greatest one that divides them all are
    known by their exponents; where no weight is positive `top` is -1075, below that of any float.
    """

    def __init__(self) -> None:
        from calibkit.numerics.sums import ExactSum  # which loads kernels: whole numbers do without

        self._rows, self._sum = 0, ExactSum()
        self.top, self._last = -1075, 1075

    def add(self, weight: Floats) -> None:
        """Add rows by their weights: finite, not negative."""
        self._rows += weight.size
        self._sum.add(weight)
        mantissa, exponent = np.frexp(weight[weight > 0])
        bits = (mantissa * 2.0**53).astype(np.int64)
        last = exponent - 53 + np.log2(bits & -bits).astype(np.int64)
        self.top = int(exponent.max(initial=self.top))
        self._last = int(last.min(initial=self._last))

    @property
    def unit(self) -> Unit:
        """The unit that `in_units` chooses; some weight is positive."""
        total, shift = self._sum.fraction, max(0, -self._last)
        if shift + self.top <= 53 and total * 2**shift < 2**53:
            return Unit(2.0**-shift)
        # First one with room if all rows weigh as much as the heaviest, then one for the true total;
        # 2^-1074 is the least float.
        shift = _MOST_BITS - self.top - self._rows.bit_length()
        rough = round(total * Fraction(2) ** shift) + self._rows
        shift = min(shift + max(0, _MOST_BITS - rough.bit_length()), 1074)
        return Unit(float(np.ldexp(1.0, -shift)), exact=False)


def whole_units(weight: Floats, unit: Unit) -> Int64s:
    """Return weights in units, each rounded for itself; a positive weight never becomes 0."""
    units = np.rint(np.ldexp(weight, 1 - math.frexp(unit.size)[1]))
    return np.maximum(units, weight > 0).astype(np.int64)


def carried(weight: Floats, unit: Unit, order: Numbers, kind: Numbers) -> Int64s:
    """Return rounded weights whose running sums are rounded, rather than each weight for itself.

    Roundings of many rows then do not add up: rows that are many times lighter than others keep
    their digits in sums over a range of scores.  The unit is the one, not exact, that `in_units` chose;
    sums run over the rows of each kind apart, in an order of their places.  The sum of the first rows
    of a kind is off by at most half a unit, besides what rows lighter than one unit gain, which are
    one, and does not depend on the order of those rows.
    """
    exact = np.ldexp(weight, 1 - math.frexp(unit.size)[1])
    units = exact.astype(np.int64)
    left = np.where(units > 0, exact - units, 0.0)
    fine = _MOST_BITS - weight.size.bit_length()
    order = order[np.argsort(kind[order], kind="stable")]
    for places in np.split(order, np.flatnonzero(np.diff(kind[order])) + 1):
        rest = np.cumsum(np.ldexp(left[places], fine).astype(np.int64))
        units[places] += np.diff((rest + (1 << fine - 1)) >> fine, prepend=0)
    return np.maximum(units, weight > 0)
