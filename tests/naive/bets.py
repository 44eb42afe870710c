"""Bets by exact products of what each unit leaves of the capital."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np


def units_to_reach(
    first: np.ndarray,
    outside: np.ndarray,
    inside: np.ndarray,
    starts: np.ndarray,
    place: int,
    stake: float,
    goal: float,
) -> int:
    capital, wanted = Fraction(1), Fraction(math.exp(goal))
    for unit, (low, high) in enumerate(itertools.pairwise(starts)):
        chosen = np.where(first[low:high] <= place, inside[low:high], outside[low:high])
        capital *= 1 + Fraction(stake) * sum(map(Fraction, chosen.tolist()), Fraction(0))
        if capital >= wanted:
            return unit + 1
    return 0
