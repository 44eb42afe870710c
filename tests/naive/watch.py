"""The evidence of a watch, written out row by row and start by start."""

from __future__ import annotations

import math

Row = tuple[float, int]


def payoff(name: str, bound: float, chance: float, label: int) -> float:
    """Return what one row pays for a unit of stake."""
    if name == "precision":
        return chance * (bound - label)
    if name == "recall":
        return label * (bound - chance)
    return (1 - label) * (chance - bound)


def e_values(
    name: str, bound: float, nights: list[list[Row]], fractions: list[float]
) -> list[float]:
    """Return the e-process after each night; rows are their chance of selection and their label."""
    most = 1 / (bound if name == "fpr" else 1 - bound)
    speaking = {
        "precision": lambda c, y: c > 0,
        "recall": lambda c, y: y,
        "fpr": lambda c, y: not y,
    }
    counted, found = list[list[Row]](), list[float]()
    for night in nights:
        rows = [row for row in night if speaking[name](*row)]
        counted += [rows] if rows else []
        total = 1 / (len(counted) + 1)
        for start in range(len(counted)):
            weight = 1 / ((start + 1) * (start + 2))
            bets = [
                math.prod(
                    1 + fraction * most * payoff(name, bound, *row)
                    for own in counted[start:]
                    for row in own
                )
                for fraction in fractions
            ]
            total += weight * sum(bets) / len(bets)
        found.append(total)
    return found


def interval(values: list[float], rates: list[float], alpha: float) -> tuple[float, float]:
    """Return the confidence sequence of the mean of values in [0, 1], on a fine grid of candidates."""
    grid = [k / 20_000 for k in range(20_001)]
    kept = [[], []]  # type: list[list[float]]
    for side, sign in enumerate((1, -1)):
        for mean in grid:
            mixed = sum(
                math.exp(
                    sign * rate * sum(values)
                    - len(values) * math.log1p(mean * math.expm1(sign * rate))
                )
                for rate in rates
            ) / len(rates)
            if mixed < 2 / alpha:
                kept[side].append(mean)
    return min(kept[0]), max(kept[1])
