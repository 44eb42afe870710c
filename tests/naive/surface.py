"""Logistic surfaces row by row: plain Newton on a design matrix, cuts by trying every value."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

CLIP = 1e-6

#: The sums of a fit and its step are twins of the fit, the values in order one of the cuts.
TWINS = {
    "moment_sums": "fit",
    "surface_sums": "fit",
    "surface_keys": "value",
    "cell_sums": "cuts",
    "level_limits": "limits",
}


def regressor(score: float, probability: bool) -> float:
    """Return the logit of a clipped probability, or the score as it is."""
    if not probability:
        return score
    p = min(max(score, CLIP), 1 - CLIP)
    return math.log(p / (1 - p))


def fit(
    score: np.ndarray, rank: np.ndarray, label: np.ndarray, weight: np.ndarray, scale: str
) -> np.ndarray:
    """Return intercept, score, uncertainty and product: zeros for what had to be dropped."""
    s = np.array([regressor(float(one), scale == "probability") for one in score])
    columns = {1: s, 2: rank, 3: s * rank}
    if scale == "raw":  # the product is one of the standardised score
        centre = np.average(s, weights=weight)
        spread = math.sqrt(np.average((s - centre) ** 2, weights=weight))
        columns[1] = (s - centre) / (spread or 1.0)
        columns[3] = columns[1] * rank
    for kept in ((1, 2, 3), (1, 2), (1,)):
        design = np.stack([columns[k] for k in kept], axis=1)
        mean = np.average(design, axis=0, weights=weight)
        spread_of = np.sqrt(np.average((design - mean) ** 2, axis=0, weights=weight))
        if (spread_of <= 1e-12).any() or label.min() == label.max():
            continue
        standard = np.column_stack([np.ones(len(s)), (design - mean) / spread_of])
        w = newton(standard, label, weight)
        found = np.zeros(4)
        found[list(kept)] = w[1:] / spread_of
        found[0] = w[0] - (w[1:] * mean / spread_of).sum()
        if scale == "raw":
            found[0] -= found[1] * centre / spread
            found[2] -= found[3] * centre / spread
            found[[1, 3]] /= spread
        if found[1] > 0 and found[1] + found[3] > 0:
            return found
    return np.array([0.0, 1.0, 0.0, 0.0])


def newton(
    design: np.ndarray, label: np.ndarray, weight: np.ndarray, ridge: float = 1.0
) -> np.ndarray:
    """Return the weights of least mean log loss plus the squares of all but the first over 2 n."""
    n = weight.sum()
    penalty = ridge * np.eye(design.shape[1]) / n
    penalty[0, 0] = 0.0
    rate = (weight * label).sum() / n
    w = np.zeros(design.shape[1])
    w[0] = math.log(rate / (1 - rate))

    def loss(w: np.ndarray) -> float:
        value = design @ w
        each = np.logaddexp(0.0, value) - label * value
        return float((weight * each).sum() / n + w @ penalty @ w / 2)

    for _ in range(100):
        p = 1 / (1 + np.exp(-design @ w))
        gradient = design.T @ (weight * (p - label)) / n + penalty @ w
        curvature = (design * (weight * p * (1 - p))[:, None]).T @ design / n + penalty
        step = np.linalg.solve(curvature, gradient)
        while loss(w - step) > loss(w) + 1e-15 and abs(step).max() > 1e-12:
            step = step / 2
        w = w - step
        if abs(step).max() < 1e-12:
            break
    return w


def value(coefficients: Sequence[float], s: float, rank: float) -> float:
    """Return the surface at a row, as a single float."""
    intercept, score, uncertainty, product = coefficients
    return float(np.float32((intercept + uncertainty * rank) + (score + product * rank) * s))


def cuts(
    values: Sequence[float], count: Sequence[int], positive: Sequence[int]
) -> dict[float, tuple[int, int]]:
    """Return rows and positive rows from each value up, for values that hold a positive row."""
    found = {}
    for cut in sorted(set(values), reverse=True):
        here = [k for k, v in enumerate(values) if v == cut]
        above = [k for k, v in enumerate(values) if v >= cut]
        if any(positive[k] for k in here):
            found[cut] = (sum(count[k] for k in above), sum(positive[k] for k in above))
    return found


def limits(
    score: Sequence[float], values: Sequence[float], level: Sequence[int], levels: int, cut: float
) -> list[tuple[float, float]]:
    """Return the lowest score at a cut or above and the highest below it, NaN for none."""
    found = []
    for own in range(levels):
        reach = [s for s, v, k in zip(score, values, level, strict=True) if k == own and v >= cut]
        miss = [s for s, v, k in zip(score, values, level, strict=True) if k == own and v < cut]
        found.append((min(reach, default=math.nan), max(miss, default=math.nan)))
    return found
