"""What a boundary is to reach: what is maximised, and subject to which bound.

A goal looks at a boundary's totals only: selected rows M and true positives T, both in units of
weight, and where rows have values or costs of their own at what these sum up to, the *gain*.  With
values the recall is the share of the positive rows' values that is caught, while the other bounds
still count rows.  With the bound fixed, each `CountGoal` is linear along the direction ``T - c M``,
which is what the exact search needs of it (see `calibkit.methods.boundary.solvers.prefixes`).

Goals with a bound stand in `calibkit.methods.boundary.problem.bounded`, those without one here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from copy import copy
from fractions import Fraction
from math import sqrt
from typing import Self

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from calibkit.arrays import Floats, Int64s
from calibkit.columns.weights import AS_THEY_ARE, ROW, ClassWeights, Unit
from calibkit.numerics.bounds import Bound
from calibkit.numerics.confusion import OBJECTIVES, Cells
from calibkit.numerics.knapsack import Window
from calibkit.summaries.tally import Tally

#: Values of a measure this close are ties.
TIE = 1e-12


class Totals(Struct, frozen=True):
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
        found = number.fraction
        return found if found < 1 else found * self.row_units / max(self.rows, 1)

    def reweighted(self, classes: ClassWeights) -> Totals:
        """Return the totals with rows counted by the weights of their class."""
        rows, positives = classes.weigh(self.rows, self.positives)
        units = self.row_units * Fraction(rows, self.rows or 1)
        exact = self.exact and classes.exact
        return replace(
            self, rows=rows, positives=positives, exact=exact, row_units=units, classes=classes
        )


def tally_totals(tally: Tally) -> Totals:
    """Return rows, positive rows and what rows are worth of a tally, in units."""
    rows, positives = (int(total) for total in tally.level_totals[:, 1:].sum(axis=0))
    gain = int(tally.worth.sum()) if tally.worth.size else 0
    units, hits = (int(total) for total in tally.classes.rows(rows, positives))
    row_units = 1 / Fraction(tally.unit.size)
    found = Totals(units, hits, tally.unit.exact, row_units, gain=gain, gain_unit=tally.gain_unit)
    if tally.classes == AS_THEY_ARE:
        return found
    return replace(found.reweighted(tally.classes), rows=rows, positives=positives)


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

    def room(self, selected: Int64s, positive: Int64s) -> Int64s:
        """Return how many more rows, all of them positive, may be selected beside some."""
        return positive

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


class Measure(CountGoal):
    """Maximise a measure of a confusion matrix, or minimise a cost, without a bound.

    With T true positives among M selected rows, P positives and N negatives in all, every measure here
    rises with T and falls with M.  Its best value under the concave hull of all reachable (M, T) is
    thus on the hull, and for all but the G-mean at a vertex of it: linear and linear-fractional
    measures are monotone along an edge, the others quasi-convex (Singh, Khim, Optimal binary
    classification beyond accuracy, section on deterministic thresholds).  A vertex is a boundary, so it
    is the optimum.  Ratios 0/0 count as 0.

    `name`: a key of `OBJECTIVES`; `parameters`: its parameters, in the order of
    `ConfusionMeasure.parameters`; `totals`: what all rows hold.
    """

    def __init__(self, name: str, parameters: tuple[Bound, ...], totals: Totals) -> None:
        self.name, self.parameters, self.totals = name, parameters, totals
        self.kind = OBJECTIVES[name]
        self.maximised = ":".join([name, ",".join(map(str, parameters))]).rstrip(":")
        self.at_vertex = name != "gmean"

    def reported(self, selected: Int64s | Floats, true_positives: Int64s | Floats) -> Floats:
        """Return the measure of some totals, with the sign a user expects."""
        fp = selected - true_positives
        fn = self.totals.positives - true_positives
        tn = (self.totals.rows - self.totals.positives) - fp
        # Units beyond 2^53 are rounded only now: what is left of all of them is 0.  Shares of a
        # group may leave a little less.
        tp, fp, fn, tn = (
            np.maximum(cell.astype(np.float64), 0.0) for cell in (true_positives, fp, fn, tn)
        )
        return self.formula(Cells(tp, fp, fn, tn))

    def formula(self, cells: Cells) -> Floats:
        """Return the measure of confusion counts."""
        return self.kind.formula(cells, *map(float, self.parameters))

    def pick(self, selected: Int64s, true_positives: Int64s, gain: Int64s | None = None) -> int:
        """Return the totals of the best value, of ties the one with fewest rows."""
        return self._best(selected, true_positives) if selected.size else -1

    def _best(self, rows: Int64s | Floats, hits: Int64s | Floats) -> int:
        values = self.kind.sign * self.reported(rows, hits)
        best = np.flatnonzero(values >= values.max() - TIE)
        return int(best[np.argmin(rows[best])])

    def whole_blocks(self, selected: Int64s, true_positives: Int64s) -> tuple[int, int | None]:
        """Take blocks up to the best vertex of the hull, none included."""
        taken = self._best(np.append(0, selected), np.append(0, true_positives))
        return taken, taken - 1 if self.at_vertex and taken else None

    def value(self, selected: float, hits: float, gain: float = 0, *more: float) -> float | None:
        """Return the measure."""
        return float(self.reported(np.array([selected]), np.array([hits]))[0])

    def mix(self, rows: Int64s, hits: Int64s) -> tuple[int, Fraction]:
        """Take whole groups; only the G-mean may be largest within one.

        There its square is a concave parabola in the share: ``(T + a p) (N - F - b p)`` for a group
        of a positives and b negatives.
        """
        shares = np.zeros(rows.size)
        at_rows, at_hits = rows.astype(np.float64), hits.astype(np.float64)
        if not self.at_vertex:
            gain, harm = np.diff(at_hits), np.diff(at_rows) - np.diff(at_hits)
            free = (self.totals.rows - self.totals.positives) - (at_rows - at_hits)[:-1]
            area = 2.0 * gain * harm
            top = np.divide(
                gain * free - harm * at_hits[:-1], area, out=np.zeros(area.size), where=area > 0.0
            )
            shares[:-1] = np.where((top > 0.0) & (top < 1.0), top, 0.0)
            at_rows[:-1] += shares[:-1] * np.diff(rows)
            at_hits[:-1] += shares[:-1] * gain
        # Units beyond 2^53 count as they are where no share is taken: selecting all leaves nothing.
        taken = self._best(at_rows, at_hits) if shares.any() else self._best(rows, hits)
        return taken, Fraction(float(shares[taken]))

    # The G-mean's optimum may lie within the hull.  Its square times P N is T (N - F) with F = M - T
    # false positives, and ``T - c M = (1 - c) T - c F``: among boundaries with T (N - F) >= v that
    # is smallest, 2 sqrt((1 - c) c v) - c N, where the level curve touches a line of slope c.

    def slope(self, selected: int, true_positives: int) -> float:
        """Return the slope dT/dM of the G-mean's level curve at some totals."""
        free = self.totals.rows - self.totals.positives - selected + true_positives
        return true_positives / (free + true_positives) if true_positives else 0.5

    def budget(self, best: float, slope: float, selected: int, true_positives: int) -> float:
        """See `Goal.budget`: at a vertex nothing is lost."""
        if self.at_vertex:
            return 0.0
        negatives = self.totals.rows - self.totals.positives
        product = float(true_positives) * float(negatives - selected + true_positives)
        touched = 2 * sqrt((1 - slope) * slope * product) - slope * negatives
        return max(0.0, best - touched)

    def window(self, best: float, slope: float, budget: float) -> Window:
        """See `Goal.window`: nothing is known beyond the loss."""
        return Window(1.0, 0.0, -np.inf, np.inf)

    def ceiling(self, best: float, slope: float) -> float:
        """Return the G-mean at which the level curve touches the best line."""
        positives = self.totals.positives
        negatives = self.totals.rows - positives
        area = float(positives) * float(negatives)
        if area == 0.0 or not 0.0 < slope < 1.0:
            return 1.0
        square = (best + slope * negatives) ** 2 / (4 * slope * (1 - slope)) / area
        return min(1.0, sqrt(max(0.0, square)))
