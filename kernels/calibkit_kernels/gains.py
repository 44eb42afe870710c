"""Worths beside counts: what the rows of a tally's entries and of a level's prefixes are worth.

The arrays are those of `calibkit_kernels.tally`; a worth is a signed integer.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._jit import kernel

Floats = NDArray[Any]
Int64s = NDArray[np.int64]
Levels = NDArray[np.uint16]
Parts = NDArray[np.uint8]
Tags = NDArray[np.uint32]


@kernel
def group_gains(
    order: Tags,
    score: Floats,
    level: Levels,
    weight: Int64s,
    part: Parts,
    gain: Int64s,
    entries: int,
) -> Int64s:
    """Return the sum of `gain` over the rows of each entry that `group_weighted` makes."""
    sums = np.zeros(entries, np.int64)
    entry = -1
    last = 0
    for i in range(order.size):
        row = order[i]
        if weight[row] == 0:
            continue
        new = entry < 0 or score[row] != score[last] or level[row] != level[last]
        if not new and part.size:
            new = part[row] != part[last]
        if new:
            entry += 1
            last = row
        sums[entry] += gain[row]
    return sums


@kernel
def prefix_gains(
    score: Floats,
    level: Levels,
    gain: Int64s,
    part: Parts,
    excluded: int,
    entry: Int64s,
    offsets: Int64s,
    ends: Int64s,
) -> Int64s:
    """Return the sum of `gain` over each prefix that `prefix_points` found.

    `entry`, `offsets` (with the total at the end) and `ends` are its results and argument.
    """
    levels = ends.size
    gains = np.zeros(entry.size, np.int64)
    sums = np.zeros(levels, np.int64)
    current = offsets[:levels] - 1
    for i in range(score.size):
        if part.size and part[i] == excluded:
            continue
        own = level[i] if levels > 1 else 0
        sums[own] += gain[i]
        point = current[own]
        if point + 1 < ends[own] and entry[point + 1] == i:
            point += 1
            current[own] = point
        if point >= offsets[own] and score[entry[point]] == score[i]:
            gains[point] = sums[own]
    return gains
