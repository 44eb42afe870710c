"""Variance-adjusting debiasing by its definition, in rational arithmetic over rounded logits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

EPSILON = 1e-6


def link(value: float) -> float:
    """Return the logit of a probability moved into [EPSILON, 1 - EPSILON]."""
    p = min(max(value, EPSILON), 1.0 - EPSILON)
    return math.log(p / (1.0 - p))


def estimate(
    members: Sequence[Sequence[float]], weights: Sequence[float], first: int = 0
) -> tuple[Fraction, Fraction, Fraction]:
    """Return mean and variance of the first member, and the conditional variance.

    `members` are links, one list a member; replicates from `first` on differ about their means.
    """
    total = sum(map(Fraction, weights))
    means = [
        sum((Fraction(w) * Fraction(f) for w, f in zip(weights, member, strict=True)), Fraction(0))
        / total
        for member in members
    ]
    variance, within = Fraction(0), Fraction(0)
    for row, weight in enumerate(weights):
        gaps = [Fraction(members[j][row]) - means[j] for j in range(len(members))]
        variance += Fraction(weight) * gaps[0] ** 2
        own = gaps[first:]
        middle = sum(own, Fraction(0)) / len(own)
        within += Fraction(weight) * sum(((gap - middle) ** 2 for gap in own), Fraction(0))
    return means[0], variance / total, within / total / (len(members) - first - 1)
