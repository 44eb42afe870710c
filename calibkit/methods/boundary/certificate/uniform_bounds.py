"""Uniform bounds on confusion matrices: what holds for every threshold at once, on any data.

They are loose: with 10,000 rows an entry may still be off by .11 (at delta = .05).
Cross-validation and a test file say far more about one boundary.  (Singh, Khim, Optimal binary
classification beyond accuracy, Lemma 6 and Corollary 8; Lipschitz constants with the errata of
Example 26.)
"""

from __future__ import annotations

from math import log, sqrt

import numpy as np

from calibkit.errors import UsageError
from calibkit.numerics.confusion import MEASURES


def confusion_deviation(rows: int, delta: float, *, as_printed: bool = False) -> float:
    """Return how far the confusion matrix of any threshold may be from the true one.

    With probability at least ``1 - delta`` every entry (a share of all rows) of the empirical
    matrix, for every threshold and probability at it, is within
    ``sqrt(8 / n * log(32 (2 n + 1) / delta))`` of its expectation.

    Parameters
    ----------
    rows
        n, at least 1.
    delta
        The probability that the bound fails, in (0, 1).
    as_printed
        Twice the bound, as the lemma states it; its proof gives it without the factor.

    Raises
    ------
    UsageError
        No rows, or a delta outside (0, 1).
    """
    if rows < 1:
        raise UsageError(f"a bound needs at least one row; got {rows}.")
    if not 0.0 < delta < 1.0:
        raise UsageError(f"delta is {delta}; a probability between 0 and 1 is expected.")
    deviation = sqrt(8.0 / rows * log(32.0 * (2.0 * rows + 1.0) / delta))
    return 2.0 * deviation if as_printed else deviation


def lipschitz_constant(measure: str, *, positive_rate: float = 1.0, beta: float = 1.0) -> float:
    """Return how fast a measure can change with the largest change of an entry.

    Parameters
    ----------
    measure
        ``accuracy``, ``weighted-accuracy``, ``recall``, ``f1`` or ``fbeta``.
    positive_rate
        The true share of positives P.  The constants of recall and F hold on matrices with a
        positive rate of at least P / 2; an empirical one has it with probability at least
        ``1 - exp(-n P / 8)``.
    beta
        Of ``fbeta``.

    Raises
    ------
    UsageError
        A measure without such a constant.
    """
    square = beta * beta if measure == "fbeta" else 1.0
    constants = {
        "accuracy": 2.0,
        "weighted-accuracy": 1.0,
        "recall": 2.0 / positive_rate,
        "f1": 4.0 / positive_rate,
        "fbeta": 2.0 * (1.0 + square) / (square * positive_rate),
    }
    if measure not in constants:
        raise UsageError(f"no Lipschitz constant of {measure!r}; known: {', '.join(constants)}.")
    return constants[measure]


def slope_at(measure: str, *parameters: float, cells: tuple[float, ...]) -> float:
    """Return how fast a measure changes with the largest change of an entry, near a matrix.

    The sum of the absolute derivatives by the shares of all rows: to first order what
    `lipschitz_constant` is for matrices far away, and for every measure.

    Parameters
    ----------
    measure, parameters
        A key of `calibkit.numerics.confusion.MEASURES`, and its parameters.
    cells
        True and false positives, false and true negatives.
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
