"""Calibration metrics over a stretch of a tally: losses and bins.

A tally has its distinct probabilities by falling value, with rows (``count``) and positive rows
(``positive``) of each.  Sums run in this order, so they are functions of the tally alone.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._jit import kernel
from .maps import expit_of

Counts = NDArray[Any]
Floats = NDArray[Any]
Int64s = NDArray[np.int64]

#: Probabilities are moved this far inside (0, 1) before their logarithm is taken.
CLIP = 1e-15


@kernel
def expit(score: Floats, out: NDArray[np.float64]) -> None:
    """Write ``1 / (1 + exp(-score))``, also of infinite scores."""
    for i in range(score.size):
        out[i] = expit_of(float(score[i]))


@kernel
def loss_sums(probability: Floats, count: Counts, positive: Counts) -> tuple[float, float, float]:
    """Return the sums over rows of probability, logarithmic loss and squared error."""
    mass, log_loss, squares = 0.0, 0.0, 0.0
    for i in range(probability.size):
        p = float(probability[i])
        hits, misses = float(positive[i]), float(np.int64(count[i]) - np.int64(positive[i]))
        mass += (hits + misses) * p
        clipped = min(max(p, CLIP), 1.0 - CLIP)
        if hits > 0:
            log_loss -= hits * math.log(clipped)
            squares += hits * (1.0 - p) * (1.0 - p)
        if misses > 0:
            log_loss -= misses * math.log(1.0 - clipped)
            squares += misses * p * p
    return mass, log_loss, squares


@kernel
def entries_from(probability: Floats, edges: NDArray[np.float64], out: Int64s) -> None:
    """Write how many entries are at or above each edge."""
    for j in range(edges.size):
        low, high = 0, probability.size
        while low < high:
            middle = (low + high) // 2
            if float(probability[middle]) >= edges[j]:
                low = middle + 1
            else:
                high = middle
        out[j] = low


@kernel
def range_sums(
    probability: Floats, count: Counts, positive: Counts
) -> tuple[np.int64, np.int64, float]:
    """Return rows, positive rows and the sum of probabilities over rows."""
    rows, hits, mass = np.int64(0), np.int64(0), 0.0
    for i in range(probability.size):
        rows += count[i]
        hits += positive[i]
        mass += float(count[i]) * float(probability[i])
    return rows, hits, mass
