"""Bets on units of rows, one after the other, until the capital is large enough.

Whoever doubts that a boundary violates a bound bets on each unit (a row, or the rows of a group).  What
a unit pays for each unit of stake is at least -1, and at most 0 on average if the bound is violated; so
the capital is then a nonnegative supermartingale, which ever reaches ``1 / level`` with probability
`level` at most.

Source: I. Waudby-Smith, A. Ramdas, "Estimating means of bounded random variables by betting", Journal
of the Royal Statistical Society B 86 (2024); J. Ville, "Etude critique de la notion de collectif".
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ._jit import kernel

Int64s = NDArray[np.int64]
Floats = NDArray[np.float64]


@kernel
def units_to_reach(
    first: Int64s,
    outside: Floats,
    inside: Floats,
    starts: Int64s,
    place: int,
    stake: float,
    goal: float,
) -> int:
    """Return after how many units the capital first reaches ``exp(goal)``, 0 if it never does.

    Row i pays ``inside[i]`` if ``first[i] <= place``, the boundary selects it, else ``outside[i]``.
    Unit j has the rows from ``starts[j]`` to ``starts[j + 1]``; the last start is the number of rows.
    """
    capital = 0.0
    for unit in range(starts.size - 1):
        pays = 0.0
        for i in range(starts[unit], starts[unit + 1]):
            pays += inside[i] if first[i] <= place else outside[i]
        if pays != 0.0:
            capital += math.log1p(stake * pays)
            if capital >= goal:
                return unit + 1
    return 0
