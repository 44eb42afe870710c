"""The standard error of a figure of rows that stand for several rows each.

A weight that says for how many rows one row stands makes a figure a ratio of weighted sums.  Its
error to first order is that of the sum of the rows' influences: a row's weight times the derivative
of the figure by the weight in the row's cell of the confusion matrix (Särndal, Swensson, Wretman,
Model assisted survey sampling, 1992, section 5.5).  So the sums of squared weights in the cells are
all it takes.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from calibkit.methods.boundary.problem.goals import Goal
from calibkit.methods.boundary.problem.measures import Measure
from calibkit.numerics.confusion import Cells

Floats = NDArray[np.float64]

#: Step of the derivatives, as a share of the whole weight.
_STEP = 1e-6


def linearised_error(
    goal: Goal, cells: Floats, squares: Floats, prevalence: float | None
) -> float | None:
    """Return the standard error of a goal's objective.

    `goal`: what the objective is; it counts rows; `cells`, `squares`: weight, and sum of squared
    weights, of true positives, false positives, false negatives and true negatives; `prevalence`: the
    base rate to which the classes are reweighted, if they are.

    The error is None where the objective is undefined.
    """
    step = _STEP * float(cells.sum())
    variance = 0.0
    for place in range(4):
        if squares[place] == 0.0:
            continue
        moved = np.zeros(4)
        moved[place] = min(step, float(cells[place]))
        above = _objective(goal, cells + moved, prevalence)
        below = _objective(goal, cells - moved, prevalence)
        if above is None or below is None:
            return None
        slope = (above - below) / (2 * float(moved[place]))
        variance += slope * slope * float(squares[place])
    return math.sqrt(variance)


def _objective(goal: Goal, cells: Floats, prevalence: float | None) -> float | None:
    """Return the objective of a confusion matrix."""
    tp, fp, fn, tn = (float(cell) for cell in cells)
    if prevalence is not None and tp + fn > 0.0 and fp + tn > 0.0:
        positive, negative = prevalence / (tp + fn), (1.0 - prevalence) / (fp + tn)
        tp, fn, fp, tn = tp * positive, fn * positive, fp * negative, tn * negative
    if isinstance(goal, Measure):
        return float(goal.formula(Cells(*np.array([[tp], [fp], [fn], [tn]])))[0])
    whole = tp + fn if goal.maximised == "recall" else tp + fp
    return tp / whole if whole else None
