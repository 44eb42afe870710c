"""Logistic regression on several inputs: the sums of a Newton step."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ._jit import kernel
from .dense import dot

Floats = NDArray[np.float64]


@kernel
def newton_sums(
    inputs: Floats,
    label: Floats,
    times: Floats,
    weights: Floats,
    gradient: Floats,
    hessian: Floats,
) -> float:
    """Return minus the log-likelihood of ``P(label = 1) = expit(inputs @ weights)``.

    Adds to its gradient and to the lower half of its matrix of second derivatives.  Row i counts
    ``times[i]`` times; a label may be the share of positive rows among them.  Sums run in the order
    of the rows.
    """
    loss = 0.0
    for i in range(label.size):
        if times[i] == 0.0:
            continue
        link = dot(inputs[i], weights)
        small = math.exp(-abs(link))
        p = (1.0 if link >= 0.0 else small) / (1.0 + small)
        loss += times[i] * (math.log1p(small) + max(link, 0.0) - label[i] * link)
        slope = times[i] * (p - label[i])
        curve = times[i] * small / ((1.0 + small) * (1.0 + small))
        for k in range(weights.size):
            gradient[k] += slope * inputs[i, k]
            part = curve * inputs[i, k]
            for j in range(k + 1):
                hessian[k, j] += part * inputs[i, j]
    return loss
