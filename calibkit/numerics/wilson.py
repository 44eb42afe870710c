"""The score interval of a rate, without arrays: what is only shown need not load them."""

from __future__ import annotations

import math


def score_limits(rate: float, rows: float, reach: float) -> tuple[float, float]:
    """Return the score interval of a rate (Wilson, Probable inference, 1927).

    Parameters
    ----------
    rate, rows
        A share in [0, 1], and of how many independent rows it is, not necessarily whole.
    reach
        Standard errors to either side: 1.96 for 95 %.
    """
    square = reach**2 / rows
    centre = (rate + 0.5 * square) / (1.0 + square)
    half = math.sqrt(square * (rate * (1.0 - rate) + 0.25 * square)) / (1.0 + square)
    low = 0.0 if rate == 0.0 else max(0.0, centre - half)
    return low, 1.0 if rate == 1.0 else min(1.0, centre + half)
