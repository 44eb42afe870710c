"""Logistic regression of weighted points: sums by definition, over single rows."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

TWINS = {
    "plane_sums": "logistic_sums",
    "thin_points": "neighbour_means",
}

Values = Sequence[float]


def logistic_sums(
    features: Sequence[Values], positive: Values, negative: Values, coefficients: Values
) -> tuple[float, list[float], list[list[float]]]:
    """Return loss, gradient and Hessian; the last coefficient is the intercept."""
    size = len(coefficients)
    loss, gradient, hessian = 0.0, [0.0] * size, [[0.0] * size for _ in range(size)]
    for i in range(len(positive)):
        row = [*(values[i] for values in features), 1.0]
        z = math.fsum(c * value for c, value in zip(coefficients, row, strict=True))
        q = 1.0 / (1.0 + math.exp(-z))
        loss += positive[i] * math.log1p(math.exp(-z)) + negative[i] * math.log1p(math.exp(z))
        for j in range(size):
            gradient[j] += (negative[i] * q - positive[i] * (1.0 - q)) * row[j]
            for k in range(size):
                hessian[j][k] += (positive[i] + negative[i]) * q * (1.0 - q) * row[j] * row[k]
    return loss, gradient, hessian


def smoothed_targets(positive: np.ndarray, negative: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return positive and negative weights under Platt's targets."""
    high = (positive.sum() + 1) / (positive.sum() + 2)
    low = 1 / (negative.sum() + 2)
    return high * positive + low * negative, (1 - high) * positive + (1 - low) * negative


def spread(x: Values, positive: Values, negative: Values) -> tuple[float, float]:
    """Return the mean and the standard deviation of the points that weigh something."""
    weight = np.add(positive, negative)
    kept = weight > 0
    values, weight = np.asarray(x)[kept], weight[kept]
    mean = math.fsum(values * weight) / math.fsum(weight)
    return mean, math.sqrt(math.fsum(weight * (values - mean) ** 2) / math.fsum(weight))


def is_separated(x: Values, positive: Values, negative: Values) -> bool:
    """Return whether a rising or a falling step between two points, or none, puts no row wrong."""
    ones = [value for value, weight in zip(x, positive, strict=True) if weight]
    zeros = [value for value, weight in zip(x, negative, strict=True) if weight]
    if not ones or not zeros:
        return True
    if len({*ones, *zeros}) == 1:
        return False
    rising = all(a <= b for a in zeros for b in ones)
    return rising or all(a >= b for a in zeros for b in ones)


def neighbour_means(values: Values, positive: Values, negative: Values, stride: int) -> list[float]:
    """Return the weighted mean of each run of neighbouring values."""
    found = []
    for start in range(0, len(values), stride):
        own = slice(start, start + stride)
        weight = np.add(positive[own], negative[own])
        found.append(float(np.dot(weight, values[own]) / weight.sum()) if weight.any() else 0.0)
    return found


def share_classes(
    count: Sequence[int], positive: Sequence[int], size: float, high: float, low: float
) -> list[tuple[float, float]]:
    """Return the positive and the negative weight of each point, row by row."""
    found = []
    for rows, hits in zip(count, positive, strict=True):
        shares = [high] * hits + [low] * (rows - hits)
        found.append((size * math.fsum(shares), size * math.fsum(1 - s for s in shares)))
    return found


def newton_sums(
    inputs: Sequence[Sequence[float]],
    label: Sequence[int],
    times: Sequence[int],
    weights: Sequence[float],
) -> tuple[float, list[float], list[list[float]]]:
    """Return minus the log-likelihood, its gradient and its second derivatives."""
    positive, negative = (
        [n * (y == own) for n, y in zip(times, label, strict=True)] for own in (1, 0)
    )
    columns = [*zip(*inputs, strict=True)]
    loss, gradient, hessian = logistic_sums(columns, positive, negative, [*weights, 0.0])
    return loss, gradient[:-1], [row[:-1] for row in hessian[:-1]]
