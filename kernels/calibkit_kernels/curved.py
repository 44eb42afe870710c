"""A logistic surface with squares: the sums of its Newton step."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._jit import kernel

Floats = NDArray[np.float64]
Counts = NDArray[Any]

#: Intercept, s, u, s u, s^2 and u^2.
TERMS = 6


@kernel
def curved_terms(s: float, u: float, scaling: Floats, out: Floats) -> None:
    """Write the regressors of a score and a rank, less their means and in units of their spreads.

    `scaling` has a row (mean, spread) for each regressor; a spread of 0 leaves the regressor out.
    """
    out[0], out[1], out[2] = 1.0, s, u
    out[3], out[4], out[5] = s * u, s * s, u * u
    for k in range(1, TERMS):
        mean, spread = scaling[k, 0], scaling[k, 1]
        out[k] = (out[k] - mean) / spread if spread > 0.0 else 0.0


@kernel
def curved_sums(
    s: Floats,
    u: Floats,
    count: Counts,
    positive: Counts,
    scaling: Floats,
    weights: Floats,
    out: Floats,
) -> None:
    """Write curvature (rows 0 to 5, the lower half), gradient and moments of a logistic fit.

    With x the regressors, p the fitted probability and n the rows of an entry, row 6 has the sums of
    ``(n p - positives) x`` and row 7 those of ``n x``; the diagonal of n x^2 is left in row 8.
    """
    terms = np.empty(TERMS)
    out[:] = 0.0
    for i in range(s.size):
        curved_terms(s[i], u[i], scaling, terms)
        value = 0.0
        for k in range(TERMS):
            value += weights[k] * terms[k]
        small = math.exp(-abs(value))
        p = 1.0 / (1.0 + small) if value >= 0.0 else small / (1.0 + small)
        rows = float(count[i])
        r, w = rows * p - float(positive[i]), rows * small / ((1.0 + small) * (1.0 + small))
        for k in range(TERMS):
            for j in range(k + 1):
                out[k, j] += w * terms[k] * terms[j]
            out[TERMS, k] += r * terms[k]
            out[TERMS + 1, k] += rows * terms[k]
            out[TERMS + 2, k] += rows * terms[k] * terms[k]


@kernel
def curved_values(s: Floats, u: Floats, scaling: Floats, weights: Floats, out: Floats) -> None:
    """Write the surface at pairs of score and rank."""
    terms = np.empty(TERMS)
    for i in range(s.size):
        curved_terms(s[i], u[i], scaling, terms)
        value = 0.0
        for k in range(TERMS):
            value += weights[k] * terms[k]
        out[i] = value
