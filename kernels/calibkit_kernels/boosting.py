"""One step of boosting on the log loss: gradients as integers, scores moved leaf by leaf."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ._jit import kernel
from .maps import expit_of

Int64s = NDArray[np.int64]
Floats = NDArray[np.float64]


@kernel
def label_loss(score: float, positive: bool) -> float:
    """Return the log loss of one label under a linear score, without overflow."""
    away = -score if positive else score
    if away > 0.0:
        return away + math.log1p(math.exp(-away))
    return math.log1p(math.exp(away))


@kernel
def newton_rows(
    score: Floats, label: NDArray[np.uint8], weight: Int64s, scale: float, out: Int64s
) -> None:
    """Write weight, gradient and Hessian of each row, the latter two in units of ``1 / scale``.

    The gradient is that of the log likelihood: label minus probability.
    """
    for i in range(score.size):
        p = expit_of(score[i])
        w = float(weight[i]) * scale
        out[i, 0] = weight[i]
        out[i, 1] = math.floor((float(label[i]) - p) * w + 0.5)
        out[i, 2] = math.floor(p * (1.0 - p) * w + 0.5)


@kernel
def leaf_sums(ends: NDArray[np.int32], payload: Int64s, out: Int64s) -> None:
    """Add the integer vectors of rows to the node each row ends in."""
    for i in range(ends.size):
        for c in range(payload.shape[1]):
            out[ends[i], c] += payload[i, c]


@kernel
def move_scores(score: Floats, ends: NDArray[np.int32], steps: Floats) -> None:
    """Apply the map ``a score + b`` of the node that each row ends in; `steps` holds (a, b)."""
    for i in range(score.size):
        score[i] = steps[ends[i], 0] * score[i] + steps[ends[i], 1]


@kernel
def total_loss(score: Floats, label: NDArray[np.uint8], weight: Int64s) -> float:
    """Return the weighted sum of the log losses of rows, in the order given."""
    loss = 0.0
    for i in range(score.size):
        if weight[i] > 0:
            loss += float(weight[i]) * label_loss(score[i], label[i] == 1)
    return loss
