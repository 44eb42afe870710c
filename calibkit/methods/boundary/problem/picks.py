"""The best of many totals by the canonical rules, for the goals that share a rule."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Int64s = NDArray[np.int64]
Bools = NDArray[np.bool_]


def most_hits(selected: Int64s, true_positives: Int64s, feasible: Bools) -> int:
    """Return the feasible totals with most positives, then fewest rows; -1 where none is."""
    hits = np.where(feasible, true_positives, -1)
    most = hits.max(initial=-1)
    if most < 0:
        return -1
    best = np.flatnonzero(hits == most)
    return int(best[np.argmin(selected[best])])


def most_expected(rows: Int64s, hits: Int64s, share: NDArray[np.float64]) -> int:
    """Return after how many groups to stop for most expected positives, then fewest rows.

    `share` is what may be taken of each group, negative where it cannot be reached; -1 is returned
    where no positive can be.
    """
    usable = np.flatnonzero(share >= 0.0)
    if usable.size == 0:
        return -1
    expected = hits[usable] + share[usable] * np.diff(hits)[usable]
    if not expected.max():
        return -1  # nothing has as many
    best = usable[expected >= expected.max() * (1 - 1e-12)]
    taken = rows[best] + share[best] * np.diff(rows)[best]
    return int(best[np.argmin(taken)])


def recall_ceiling(hits: float, positives: int, *, exact: bool) -> float:
    """Return a bound on true positives as a recall, rounded down to whole units if they are exact."""
    hits = min(hits, float(positives))
    if exact:
        hits = float(np.floor(hits * (1 + 1e-12) + 1e-9))
    return min(hits / positives, 1.0)
