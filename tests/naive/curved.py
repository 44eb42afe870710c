"""The curved logistic surface, row by row."""

from __future__ import annotations

import math

import numpy as np


def curved_terms(s: float, u: float, scaling: np.ndarray, out: np.ndarray) -> None:
    raw = [1.0, s, u, s * u, s * s, u * u]
    for k, value in enumerate(raw):
        mean, spread = scaling[k]
        out[k] = value if k == 0 else (value - mean) / spread if spread > 0 else 0.0


def _regressors(s: np.ndarray, u: np.ndarray, scaling: np.ndarray) -> np.ndarray:
    rows = np.empty((s.size, 6))
    for i in range(s.size):
        curved_terms(float(s[i]), float(u[i]), scaling, rows[i])
    return rows


def curved_sums(
    s: np.ndarray,
    u: np.ndarray,
    count: np.ndarray,
    positive: np.ndarray,
    scaling: np.ndarray,
    weights: np.ndarray,
    out: np.ndarray,
) -> None:
    x = _regressors(s, u, scaling)
    p = np.array([1 / (1 + math.exp(-value)) for value in x @ weights])
    out[:] = 0.0
    out[:6] = np.tril(x.T @ (x * (count * p * (1 - p))[:, None]))
    out[6] = x.T @ (count * p - positive)
    out[7], out[8] = x.T @ count, (x * x).T @ count


def curved_values(
    s: np.ndarray, u: np.ndarray, scaling: np.ndarray, weights: np.ndarray, out: np.ndarray
) -> None:
    out[:] = _regressors(s, u, scaling) @ weights
