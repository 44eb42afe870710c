"""The evidence of a watch, written out row by row and start by start."""

from __future__ import annotations

import math
from typing import Any

#: The chance of selection, the label, and a weight if it is not 1.
Row = tuple[Any, ...]


def payoff(name: str, bound: float, chance: float, label: int, weight: float = 1.0) -> float:
    """Return what one row pays for a unit of stake."""
    if name == "precision":
        return weight * chance * (bound - label)
    if name == "recall":
        return weight * label * (bound - chance)
    return weight * (1 - label) * (chance - bound)


def weighted_values(name: str, rows: list[tuple[float, int, float]]) -> list[tuple[float, float]]:
    """Return weight and value of the rows that a rate is the weighted mean of."""
    if name == "precision":
        return [(weight * chance, float(label)) for chance, label, weight in rows if chance > 0]
    return [(weight, chance) for chance, label, weight in rows if label == (name == "recall")]


def e_values(
    name: str, bound: float, nights: list[list[Row]], fractions: list[float], largest: float = 1.0
) -> list[float]:
    """Return the e-process after each night; rows are their chance of selection and their label."""
    most = 1 / (largest * (bound if name == "fpr" else 1 - bound))
    speaking = {
        "precision": lambda c, y: c > 0,
        "recall": lambda c, y: y,
        "fpr": lambda c, y: not y,
    }
    counted, found = list[list[Row]](), list[float]()
    for night in nights:
        rows = [row for row in night if speaking[name](*row[:2])]
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


def interval(
    pairs: list[tuple[float, float]], rates: list[float], alpha: float
) -> tuple[float, float]:
    """Return the confidence sequence of the weighted mean of values, on a fine grid of candidates.

    `pairs` are weights, none of which may exceed 1, and values in [0, 1].
    """
    grid = [k / 20_000 for k in range(20_001)]
    kept = [[], []]  # type: list[list[float]]
    for mean in grid:
        values = sum(mean + weight * (value - mean) for weight, value in pairs)
        for side, sign in enumerate((1, -1)):
            mixed = sum(
                math.exp(
                    sign * rate * values - len(pairs) * math.log1p(mean * math.expm1(sign * rate))
                )
                for rate in rates
            ) / len(rates)
            if mixed < 2 / alpha:
                kept[side].append(mean)
    return min(kept[0]), max(kept[1])


def drift_e_values(
    fitted: list[int], nights: list[list[int]], firsts: list[float], kepts: list[float]
) -> list[float]:
    """Return the e-process against rows as those of the fit, row by row.

    `fitted` and the nights are rows by bin; each row is drawn from an urn and put back twice.  Rows
    are forgotten from night to night, of which only those with rows count.
    """
    whole = [rows + (place == 0) for place, rows in enumerate(fitted)]
    spoken, found = list[list[float]](), list[float]()
    for number, night in enumerate(nights):
        gains, before = list[float](), [past for past in nights[:number] if sum(past)]
        for first in firsts:
            for kept in kepts:
                null = [
                    own + sum(past[place] for past in before)
                    for place, own in enumerate(map(float, whole))
                ]
                urn = [
                    first * own / sum(whole)
                    + sum(
                        past[place] * kept ** (len(before) - back)
                        for back, past in enumerate(before)
                    )
                    for place, own in enumerate(whole)
                ]
                gain = 1.0
                for place, rows in enumerate(night):
                    for _ in range(rows):
                        gain *= urn[place] / sum(urn) / (null[place] / sum(null))
                        urn[place] += 1
                        null[place] += 1
                gains.append(gain)
        spoken += [gains] if sum(night) else []
        total = 1 / (len(spoken) + 1)
        for start in range(len(spoken)):
            each = [math.prod(column) for column in zip(*spoken[start:], strict=True)]
            total += sum(each) / len(each) / ((start + 1) * (start + 2))
        found.append(total)
    return found
