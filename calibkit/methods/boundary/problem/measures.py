"""Measures of a confusion matrix as goals without a bound.

With T true positives among M selected rows, P positives and N negatives in all, every measure here
rises with T and falls with M.  Its best value under the concave hull of all reachable (M, T) is thus
on the hull, and for all but the G-mean at a vertex of it: linear and linear-fractional measures are
monotone along an edge, the others quasi-convex (Singh, Khim, Optimal binary classification beyond
accuracy, section on deterministic thresholds).  A vertex is a boundary, so it is the optimum.

Ratios 0/0 count as 0, and values within 1e-12 as equal: the one with fewer selected rows is taken.
"""

from __future__ import annotations

from fractions import Fraction
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from calibkit.methods.boundary.problem.goals import CountGoal, Totals
from calibkit.numerics.bounds import Bound
from calibkit.numerics.confusion import OBJECTIVES, Cells
from calibkit.numerics.knapsack import Window

Int64s = NDArray[np.int64]
Floats = NDArray[np.float64]

#: Values this close are ties.
TIE = 1e-12


class Measure(CountGoal):
    """Maximise a measure, or minimise a cost, without a bound.

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
        found: Floats = self.kind.formula(cells, *map(float, self.parameters))
        return found

    def pick(self, selected: Int64s, true_positives: Int64s, gain: Int64s | None = None) -> int:
        """Return the totals of the best value, of ties the one with fewest rows."""
        if selected.size == 0:
            return -1
        values = self.kind.sign * self.reported(selected, true_positives)
        best = np.flatnonzero(values >= values.max() - TIE)
        return int(best[np.argmin(selected[best])])

    def whole_blocks(self, selected: Int64s, true_positives: Int64s) -> tuple[int, int | None]:
        """Take blocks up to the best vertex of the hull, none included."""
        rows, hits = np.append(0, selected), np.append(0, true_positives)
        taken = self.pick(rows, hits)
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
        values = self.kind.sign * self.reported(at_rows, at_hits)
        best = np.flatnonzero(values >= values.max() - TIE)
        taken = int(best[np.argmin(at_rows[best])])
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
