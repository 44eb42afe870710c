"""Uniform bounds on confusion matrices: what holds for every threshold at once, on any data.

They are loose: with 10,000 rows an entry may still be off by .11 (at delta = .05).
Cross-validation and a test file say far more about one boundary.  (Singh, Khim, Optimal binary
classification beyond accuracy, Lemma 6 and Corollary 8.)
"""

from __future__ import annotations

from math import log, sqrt

import numpy as np

from calibkit.errors import UsageError
from calibkit.numerics.confusion import MEASURES


def confusion_deviation(rows: int, delta: float) -> float:
    """Return how far the confusion matrix of any threshold may be from the true one.

    With probability at least ``1 - delta`` every entry (a share of all rows) of the empirical
    matrix, for every threshold and probability at it, is within
    ``sqrt(8 / n * log(32 (2 n + 1) / delta))`` of its expectation; the lemma states twice as much,
    which its proof does not need.

    `rows`: n, at least 1. `delta`: the probability that the bound fails, in (0, 1). Raises
    `UsageError` for others.
    """
    if rows < 1:
        raise UsageError(f"a bound needs at least one row; got {rows}.")
    if not 0.0 < delta < 1.0:
        raise UsageError(f"delta is {delta}; a probability between 0 and 1 is expected.")
    return sqrt(8.0 / rows * log(32.0 * (2.0 * rows + 1.0) / delta))


def slope_at(measure: str, *parameters: float, cells: tuple[float, ...]) -> float:
    """Return how fast a measure changes with the largest change of an entry, near a matrix.

    The sum of the absolute derivatives by the shares of all rows.  `measure` is a key of
    `calibkit.numerics.confusion.MEASURES`, with its parameters; `cells` are true and false positives,
    false and true negatives.
    """
    slopes = MEASURES[measure].slopes(cells, *parameters)
    return float(np.abs(slopes).sum()) * sum(cells)


def regret_bound(
    lipschitz: float,
    rows: int,
    delta: float,
    *,
    margin_constant: float,
    margin_exponent: float,
    regression_error: float,
) -> float:
    """Return how far a measure may be from its optimum (Corollary 8).

    ``L (C e^b + 2 sqrt(8 / n log(32 (2 n + 1) / delta)))``: e is the largest error of the estimated
    probabilities, C and b the constants of the margin condition; the 2 comes from two uses of the
    lemma.
    """
    plugged: float = margin_constant * regression_error**margin_exponent
    return lipschitz * (plugged + 2.0 * confusion_deviation(rows, delta))
