"""The Dirichlet-multinomial likelihood by definition, factor by factor."""

from __future__ import annotations

import math


def log_rising(x: float, n: int) -> tuple[float, float]:
    """Return ln [x (x+1) ... (x+n-1)] and its derivative in ln x."""
    return (
        math.fsum(math.log(x + j) for j in range(n)),
        x * math.fsum(1 / (x + j) for j in range(n)),
    )


def histogram_costs(
    probabilities: list[float], counts: list[int], log_strength: float
) -> tuple[float, float]:
    """Return the cost of one histogram and its derivative in ln alpha0."""
    a = math.exp(log_strength)
    cost, slope = log_rising(a, sum(counts))
    for p, y in zip(probabilities, counts, strict=True):
        if y:
            own, change = log_rising(a * p, y)
            cost, slope = cost - own, slope - change
    return cost, slope
