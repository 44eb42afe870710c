"""Sums over label histograms, bin by bin: what every metric of rater agreement is made of.

A sum must not depend on the order of rows, so each term is rounded to a whole number of
2^-60 and added as an integer in two limbs.  Terms lie in [-1, 1]; up to 2^31 rows fit.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ._jit import kernel

#: What one unit of a fixed-point term is worth: 2^-60.
UNITS_PER_ONE = 2.0**60

_LOW_LIMB = np.int64(0xFFFFFFFF)
_LIMB_BITS = np.int64(32)


@kernel
def bin_of(value: float, edges: NDArray[np.float64]) -> int:
    """Return how many of the inner edges (``edges[1:]``, rising) a value in [0, 1] reaches."""
    place = min(int(value * edges.size), edges.size - 1)
    while place + 1 < edges.size and edges[place + 1] <= value:
        place += 1
    while edges[place] > value:
        place -= 1
    return place


@kernel
def fixed(value: float) -> int:
    """Return a term in [-1, 1] as a whole number of 2^-60."""
    return math.floor(value * UNITS_PER_ONE + 0.5)


@kernel
def add_bin_sums(
    prediction: NDArray[np.float64],
    label: NDArray[np.float64],
    excess: NDArray[np.float64],
    edges: NDArray[np.float64],
    sums: NDArray[np.int64],
) -> None:
    """Add rows to the sums of each target and bin of its prediction.

    Parameters
    ----------
    prediction, label, excess
        Rows x targets: predicted probability, mean label, and how much the square of the mean
        label exceeds an unbiased estimate; all in [0, 1].
    edges
        0 and the inner edges of the bins.
    sums
        Targets x bins x 11: rows, then two limbs (high, low) each of label, prediction, squared
        label, squared difference, excess.
    """
    terms = np.empty(5, np.float64)
    for i in range(prediction.shape[0]):
        for k in range(prediction.shape[1]):
            p, y = prediction[i, k], label[i, k]
            terms[0] = y
            terms[1] = p
            terms[2] = y * y
            terms[3] = (y - p) * (y - p)
            terms[4] = excess[i, k]
            cell = sums[k, bin_of(p, edges)]
            cell[0] += 1
            for q in range(5):
                units = np.int64(fixed(terms[q]))
                cell[1 + 2 * q] += units >> _LIMB_BITS
                cell[2 + 2 * q] += units & _LOW_LIMB


@kernel
def calibration_influence(
    prediction: NDArray[np.float64],
    label: NDArray[np.float64],
    edges: NDArray[np.float64],
    gaps: NDArray[np.float64],
    out: NDArray[np.float64],
) -> None:
    """Add to each row what it contributes to the calibration loss to first order.

    With g the mean difference of label and prediction in the row's bin and d the row's own, the
    loss of a target moves by ``2 g d - g^2``; summed over the targets.  `gaps` is targets x bins.
    """
    for i in range(prediction.shape[0]):
        total = 0.0
        for k in range(prediction.shape[1]):
            p = prediction[i, k]
            gap = gaps[k, bin_of(p, edges)]
            total += 2.0 * gap * (label[i, k] - p) - gap * gap
        out[i] += total
