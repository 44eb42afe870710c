"""Rows counted by cells: each power of two of a column's values is cut into as many as it deserves."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._jit import kernel

Words = NDArray[np.uint64]
Counts = NDArray[np.int64]


@kernel
def count_cells(
    keys: Words,
    kind: NDArray[Any],
    times: Counts,
    units: Counts,
    starts: Counts,
    drops: Words,
    rows: Counts,
    sums: Counts,
) -> None:
    """Add rows to the counts of the cells that their keys lie in.

    Parameters
    ----------
    keys
        Bit patterns of float64 values, made to rise: 52 bits behind a power of two.
    kind
        What else tells rows apart: numbers below ``rows.shape[1]``.
    times, units
        How many rows each stands for (empty: one), and what they weigh together.
    starts, drops
        The first cell of each power of two, and how many of its 52 bits are cut.
    rows, sums
        Rows and weight, cells x kinds; without weights `sums` and `units` are empty.
    """
    behind = np.uint64((1 << 52) - 1)
    for i in range(keys.size):
        power = keys[i] >> np.uint64(52)
        cell = starts[power] + np.int64((keys[i] & behind) >> drops[power])
        rows[cell, kind[i]] += times[i] if times.size > 0 else np.int64(1)
        if sums.size > 0:
            sums[cell, kind[i]] += units[i]


@kernel
def list_cells(rows: Counts, cells: Counts, kind: NDArray[np.uint32]) -> None:
    """Write the cell and the kind of all counts that are not 0, in order."""
    place = 0
    for cell in range(rows.shape[0]):
        for own in range(rows.shape[1]):
            if rows[cell, own] != 0:
                cells[place], kind[place] = cell, own
                place += 1
