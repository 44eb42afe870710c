"""What a boundary is to reach: what is maximised, and subject to which bound.

A goal looks at a boundary's totals only: selected rows M and true positives T, both in units of
weight, and where rows have values or costs of their own at what these sum up to, the *gain*.  With
values the recall is the share of the positive rows' values that is caught, while the other bounds
still count rows.  With the bound fixed, each `CountGoal` is linear along the direction ``T - c M``,
which is what the exact search needs of it (see `calibkit.methods.boundary.solvers.exact`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from copy import copy
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Self

import numpy as np
from numpy.typing import NDArray

from calibkit.columns.weights import AS_THEY_ARE, ROW, ClassWeights, Unit
from calibkit.numerics.bounds import Bound
from calibkit.numerics.knapsack import Window

Int64s = NDArray[np.int64]


@dataclass(frozen=True)
class Totals:
    """What all rows hold, in units of weight.

    `row_units` is how many units a weight of 1 has, `classes` what the classes were reweighted by,
    `gain` what all rows are worth, losses apart, in `gain_unit`, where that counts too.
    """

    rows: int
    positives: int
    exact: bool = True
    row_units: Fraction = Fraction(1)
    classes: ClassWeights = AS_THEY_ARE
    gain: int = 0
    gain_unit: Unit = ROW

    def share_of(self, number: Bound) -> Fraction:
        """Return the share of the rows that a number of them is; below 1 it is a share already."""
        found = Fraction(number.numerator, number.denominator)
        return found if found < 1 else found * self.row_units / max(self.rows, 1)

    def reweighted(self, classes: ClassWeights) -> Totals:
        """Return the totals with rows counted by the weights of their class."""
        rows, positives = classes.weigh(self.rows, self.positives)
        units = self.row_units * Fraction(rows, self.rows or 1)
        exact = self.exact and classes.exact
        return replace(
            self, rows=rows, positives=positives, exact=exact, row_units=units, classes=classes
        )


class Goal(ABC):
    """What a boundary is to reach, for rows with given totals."""

    #: The figure that is maximised, and the one that is bounded ("" where none is).
    maximised: str
    bounded: str = ""
    #: What all rows hold.
    totals: Totals
    #: Whether it looks at what rows are worth, beside their numbers.
    uses_gain = False

    @property
    def alone(self) -> Goal:
        """The same without what it asks of segments."""
        return self

    def of(self, totals: Totals) -> Self:
        """Return the same goal for other rows."""
        found = copy(self)
        found.totals = totals
        found.prepare()
        return found

    def prepare(self) -> None:  # noqa: B027 (of some goals nothing does)
        """Work out what depends on the totals."""

    def pick(self, selected: Int64s, true_positives: Int64s, gain: Int64s | None = None) -> int:
        """Return the best of some totals by the canonical rule, or -1 where none meets the bound.

        `gain` is what the rows are worth; it is looked at where `uses_gain` is set.
        """
        raise NotImplementedError(f"{self.maximised} depends on more than one selection of rows")

    @abstractmethod
    def value(self, selected: float, hits: float, gain: float = 0, *more: float) -> float | None:
        """Return the objective of totals, which may be expected ones; None where undefined.

        `more` are rows and positive rows that are reviewed, of three-way decisions.
        """

    def recall(self, true_positives: float, gain: float = 0) -> float | None:
        """Return the recall of totals; None without positives."""
        return true_positives / self.totals.positives if self.totals.positives else None

    def met(self, selected: int, true_positives: int, gain: int = 0, *reviewed: float) -> bool:
        """Return whether totals meet the bound, in exact arithmetic; True where there is none."""
        return True


class CountGoal(Goal):
    """A goal that looks at the numbers of rows and positive rows alone: the two sums of `exact`."""

    #: Whether the optimum is always a vertex of the concave hull of all reachable totals.
    at_vertex = False

    def slope(self, selected: int, true_positives: int) -> float:
        """Return the slope at which the relaxation is exact where no block is at the margin."""
        return 0.0

    @abstractmethod
    def whole_blocks(self, selected: Int64s, true_positives: Int64s) -> tuple[int, int | None]:
        """Return how many blocks of the relaxation are taken whole, and the one at the margin.

        The arguments are cumulative totals over the blocks of all levels by falling rate.  The
        second value is None where no block is left: then rows cost nothing at the margin.
        """

    @abstractmethod
    def budget(self, best: float, slope: float, selected: int, true_positives: int) -> float:
        """Return the loss that any choice at least as good as the given one can have at most.

        `best` is the largest value of ``T - slope * M``.
        """

    @abstractmethod
    def window(self, best: float, slope: float, budget: float) -> Window:
        """Return what holds of every choice that meets the bound and whose `budget` is no larger."""

    @abstractmethod
    def ceiling(self, best: float, slope: float) -> float:
        """Return an upper bound of the objective over all choices."""

    def compared(self, totals: Int64s) -> Int64s:
        """Return what of totals (selected, true positives) is to be small, and what large.

        Of two choices the one that is as good in both can take the place of the other.
        """
        return totals

    @abstractmethod
    def mix(self, rows: Int64s, hits: Int64s) -> tuple[int, Fraction]:
        """Return how many groups of rows to take whole, and what share of the next one.

        The arguments are cumulative totals of the groups, from 0 for none.  The totals of a mixture
        are expected ones; of equal objectives the one with fewest rows is returned, ``(0, 0)``
        where nothing that selects a row is feasible.
        """


class LeastCost(Goal):
    """Minimise the costs of single rows: a positive that is missed, a negative that is selected.

    `totals.gain` is what all positives cost if none is selected; the gain of a selection is what it
    saves of that.
    """

    uses_gain = True

    def __init__(self, name: str, totals: Totals) -> None:
        self.maximised, self.totals = name, totals

    def pick(self, selected: Int64s, true_positives: Int64s, gain: Int64s | None = None) -> int:
        """Return the totals that save most, of equal ones those with fewest rows."""
        assert gain is not None
        best = np.flatnonzero(gain == gain.max())
        return int(best[np.argmin(selected[best])])

    def value(self, selected: float, hits: float, gain: float = 0, *more: float) -> float | None:
        """Return the cost a row."""
        cost = (self.totals.gain - gain) * self.totals.gain_unit.size
        rows = self.totals.rows / float(self.totals.row_units)
        return cost / rows if rows else None
