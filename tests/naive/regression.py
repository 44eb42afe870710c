"""Logistic regression by its definition."""

from __future__ import annotations

import math
from collections.abc import Sequence


def newton_sums(
    inputs: Sequence[Sequence[float]],
    label: Sequence[int],
    times: Sequence[int],
    weights: Sequence[float],
) -> tuple[float, list[float], list[list[float]]]:
    """Return minus the log-likelihood, its gradient and its second derivatives."""
    links = [math.fsum(x * w for x, w in zip(row, weights, strict=True)) for row in inputs]
    chances = [1.0 / (1.0 + math.exp(-link)) for link in links]
    loss = -math.fsum(
        n * math.log(p if y else 1.0 - p) for n, y, p in zip(times, label, chances, strict=True)
    )
    rows = list(zip(inputs, label, times, chances, strict=True))
    size = range(len(weights))
    gradient = [math.fsum(n * (p - y) * row[k] for row, y, n, p in rows) for k in size]
    hessian = [
        [math.fsum(n * p * (1.0 - p) * row[k] * row[j] for row, _, n, p in rows) for j in size]
        for k in size
    ]
    return loss, gradient, hessian
