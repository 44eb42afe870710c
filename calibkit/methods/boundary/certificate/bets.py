"""Tests of a certificate by betting, where rows are neither alike nor alone: weights, values, groups.

A figure is a ratio of sums over units, a unit being a row or the rows of a group: precision >= P says
that ``sum w (y - P)`` over the selected rows is at least 0 on average.  What a unit adds to that sum is
bounded only if weights, values and groups are, and that is an assumption; the rest is a bet on each
unit, see `calibkit_kernels.bets`.  What is staked at a boundary comes from the part that fits.  The
units follow each other at random, by hashes that depend on the seed: rows may come in any order.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import log, sqrt

import numpy as np
from numpy.typing import NDArray

from calibkit.methods.boundary.certificate.tests import Quantity
from calibkit_kernels.bets import units_to_reach

Floats = NDArray[np.float64]
Int64s = NDArray[np.int64]

#: The highest share of the capital that one unit may lose.
_MOST = 0.9
#: The signal at which a bet is as likely to be won as not, in units of ``sqrt(2 log(1 / level))``: that
#: of a Brownian motion whose stake suits this drift.
_EVEN = 0.81


@dataclass(frozen=True)
class Units:
    """What rows pay, in the order of the bets.

    Attributes
    ----------
    first
        The first boundary of the path that selects each row.
    outside, inside
        What a row pays while it is not selected, and when it is, in units of the largest loss.
    starts
        Where each unit begins, and the number of rows.
    """

    first: Int64s
    outside: Floats
    inside: Floats
    starts: Int64s

    def moments(self, places: int) -> tuple[Floats, Floats]:
        """Return the sums over the units of what each boundary pays, and of its squares."""
        unit = np.repeat(np.arange(self.starts.size - 1), np.diff(self.starts))
        order = np.lexsort((self.first, unit))
        change = (self.inside - self.outside)[order]
        base = np.bincount(unit, self.outside, self.starts.size - 1)
        run = np.cumsum(change)
        start = np.append(0.0, run)[self.starts[:-1]]
        after = run + (base - start)[unit]
        found = np.zeros((2, places + 1))
        np.add.at(found[0], self.first[order], change)
        np.add.at(found[1], self.first[order], after**2 - (after - change) ** 2)
        found = np.cumsum(found, axis=1)[:, :places]
        return found[0] + base.sum(), found[1] + float(base @ base)


def pays(
    quantity: Quantity, label: NDArray[np.uint8], amount: Floats, largest: float
) -> tuple[Floats, Floats]:
    """Return what rows pay outside and inside a selection, in units of the largest loss.

    Parameters
    ----------
    quantity
        What is bet on.
    label
        The labels of the rows.
    amount
        How much each row counts: its weight, for a recall of values times its value.
    largest
        The most that the rows of a unit may count for together.
    """
    bound = float(quantity.bound)
    sign, loss = (1.0, bound) if quantity.at_least else (-1.0, 1.0 - bound)
    amount = amount / (largest * (loss or 1.0))
    if quantity.name == "precision":
        return np.zeros(amount.size), amount * (label - bound)
    if quantity.name == "recall":
        amount = amount * label
    elif quantity.name == "fpr":
        amount = amount * (1 - label)
    return -sign * amount * bound, sign * amount * (1.0 - bound)


@dataclass(frozen=True)
class Bets:
    """Tests of one figure by betting.

    Attributes
    ----------
    fitting, testing
        The units of the two parts.
    places
        How many boundaries the path has.
    level
        The error probability of the first tests.
    """

    fitting: Units
    testing: Units
    places: int
    level: float

    @cached_property
    def _moments(self) -> tuple[Floats, Floats]:
        """What each boundary is expected to pay a unit, and the expected square of that."""
        sums, squares = self.fitting.moments(self.places)
        units = max(self.fitting.starts.size - 1, 1)
        largest = max(np.abs(self.fitting.inside).max(initial=0.0), 1e-12)
        return sums / units, (squares + largest**2) / units

    @property
    def _size(self) -> int:
        return int(self.testing.starts.size - 1)

    @cached_property
    def signals(self) -> Floats:
        """By how many standard errors each boundary is expected to keep the bound."""
        mean, square = self._moments
        found: Floats = mean * np.sqrt(self._size / square)
        return found

    @property
    def wanted(self) -> Floats:
        """At how many standard errors a first test is as likely to reject as not."""
        return np.full(self.places, _EVEN * sqrt(-2.0 * log(self.level)))

    @cached_property
    def stakes(self) -> Floats:
        """What is staked: enough to win soon where a boundary pays, else just by the last unit."""
        mean, square = self._moments
        least = np.sqrt(-2.0 * log(self.level) / (square * max(self._size, 1)))
        found: Floats = np.clip(np.maximum(mean / square, least), 0.0, _MOST)
        return found

    def rejects(self, place: int, level: float) -> bool:
        """Return whether the violation of the bound is rejected for a boundary."""
        units = self.testing
        arrays = units.first, units.outside, units.inside, units.starts
        stake = float(self.stakes[place])
        return units_to_reach(*arrays, place, stake, -log(level)) > 0


def in_order(units: Units, keys: NDArray[np.uint64], groups: NDArray[np.uint64] | None) -> Units:
    """Return rows in the order of their random keys, those of a group together as one unit."""
    order = np.argsort(keys, kind="stable") if groups is None else np.lexsort((keys, groups))
    starts = np.arange(keys.size + 1)
    if groups is not None:
        ordered = groups[order]
        starts = np.append(np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1])), keys.size)
    return replace(
        units,
        first=units.first[order],
        outside=units.outside[order],
        inside=units.inside[order],
        starts=starts.astype(np.int64),
    )
