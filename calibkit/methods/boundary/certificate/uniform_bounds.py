"""Uniform bounds on confusion matrices: what holds for every threshold at once, on any data.

They are loose: with 10,000 rows an entry may still be off by .11 (at delta = .05).
Cross-validation and a test file say far more about one boundary.  (Singh, Khim, Optimal binary
classification beyond accuracy, Lemma 6 and Corollary 8.)
"""

from __future__ import annotations

from math import log, sqrt

import numpy as np

from calibkit.numerics.confusion import MEASURES


def confusion_deviation(rows: int, delta: float) -> float:
    """Return how far the confusion matrix of any threshold may be from the true one.

    With probability at least ``1 - delta`` every entry (a share of all rows) of the empirical
    matrix, for every threshold and probability at it, is within
    ``sqrt(8 / n * log(32 (2 n + 1) / delta))`` of its expectation; the lemma states twice as much,
    which its proof does not need.
    """
    return sqrt(8.0 / rows * log(32.0 * (2.0 * rows + 1.0) / delta))


def slope_at(measure: str, *parameters: float, cells: tuple[float, ...]) -> float:
    """Return how fast a measure changes with the largest change of an entry, near a matrix.

    The sum of the absolute derivatives by the shares of all rows.  `measure` is a key of
    `calibkit.numerics.confusion.MEASURES`, with its parameters; `cells` are true and false positives,
    false and true negatives.
    """
    slopes = MEASURES[measure].slopes(cells, *parameters)
    return float(np.abs(slopes).sum()) * sum(cells)


def regret_bound(lipschitz: float, rows: int, delta: float) -> float:
    """Return how far a measure may be from its optimum (Corollary 8).

    ``2 L sqrt(8 / n log(32 (2 n + 1) / delta))``, where scores rank as the true probabilities do; the 2
    comes from two uses of the lemma.
    """
    return 2.0 * lipschitz * confusion_deviation(rows, delta)
