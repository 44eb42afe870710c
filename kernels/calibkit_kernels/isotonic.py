"""Isotonic regression by pooling adjacent violators, exact in integers where rows are counted.

The pools of rows by falling score are the slopes of the least concave majorant of the points (rows,
positive rows) of the prefixes: their ends are its vertices (Barlow, Bartholomew, Bremner, Brunk,
Statistical inference under order restrictions, 1972).  Neighbours of equal rate are pooled, so that
the rates of successive pools fall strictly.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._jit import kernel
from .exact import compare_products

Counts = NDArray[Any]


@kernel
def pool_rates(
    count: Counts, positive: Counts, entries: NDArray[np.int64], exact: bool, out: Counts
) -> int:
    """Pool neighbours until rates fall strictly; return how many pools there are.

    Parameters
    ----------
    count, positive
        Rows and positive rows by falling score; pooling pools of stretches gives the pools of all.
    entries
        How many entries each stands for; empty: one.
    exact
        Whether these are integers, whose rates are compared exactly.
    out
        Room for as many rows as there are entries, three columns: rows, positive rows and entries
        of each pool.  Without the third one entries are not counted.
    """
    size = 0
    for i in range(count.size):
        out[size, 0], out[size, 1] = count[i], positive[i]
        if out.shape[1] > 2:
            out[size, 2] = entries[i] if entries.size else 1
        # The pool above is merged while its rate is not above ours.
        while size > 0:
            above, own = out[size - 1], out[size]
            if exact:
                products = int(above[1]), int(own[0]), int(own[1]), int(above[0])
                if compare_products(products[0], products[1], products[2], products[3]) > 0:
                    break
            elif above[1] * own[0] > own[1] * above[0]:
                break
            for c in range(out.shape[1]):
                above[c] += own[c]
            size -= 1
        size += 1
    return size
