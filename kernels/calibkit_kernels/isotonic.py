"""Isotonic regression by pooling adjacent violators, exact in integers where rows are counted.

The pools of rows by falling score are the slopes of the least concave majorant of the points (rows,
positive rows) of the prefixes: their ends are its vertices (Barlow, Bartholomew, Bremner, Brunk,
Statistical inference under order restrictions, 1972).  Neighbours of equal rate are pooled, so that
the rates of successive pools fall strictly.

Venn-Abers tables are the isotonic fit at every score with one positive row added there.  V. Vovk,
I. Petej and V. Fedorova, Large-scale probabilistic predictors with and without guarantees of validity
(2015), fill such tables by geometry on the cumulative sum diagram.  Here the fit with a row added at
group i is the slope at which two lower hulls have a common tangent: that of the prefixes that end
before the group, and that of the others, moved by the added row.  The slope never falls from one group
to the next, so both points of contact only move to the right, and all groups together take linear
time.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._jit import kernel
from .exact import compare_products

Counts = NDArray[Any]
Int64s = NDArray[np.int64]


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


@kernel
def next_corners(rows: Int64s, hits: Int64s, out: Int64s) -> None:
    """Write, for each prefix, the next corner of the lower hull of this prefix and all longer ones.

    `rows` (strictly rising) and `hits` are cumulative, from the empty prefix on; the longest prefix
    has no next corner: its own number.
    """
    last = rows.size - 1
    out[last] = last
    for i in range(last - 1, -1, -1):
        corner = i + 1
        while corner < last:
            after = out[corner]
            if (
                compare_products(
                    hits[corner] - hits[i],
                    rows[after] - rows[corner],
                    hits[after] - hits[corner],
                    rows[corner] - rows[i],
                )
                < 0
            ):
                break
            corner = after
        out[i] = corner


@kernel
def added_row_fits(
    rows: Int64s,
    hits: Int64s,
    corners: Int64s,
    weight: int,
    complement: bool,
    out: NDArray[np.float64],
) -> None:
    """Write the isotonic (rising) fit at each group with a positive row added to it.

    Parameters
    ----------
    rows, hits
        Cumulative rows and positive rows of the groups, from 0 on: one more than there are groups.
    corners
        See `next_corners`.
    weight
        What the added row weighs, in the units of `rows`.
    complement
        Write 1 minus the fit instead, rounded once.
    """
    groups = rows.size - 1
    stack = np.empty(groups + 1, np.int64)  # the lower hull of the prefixes before group i
    size, left, right = 0, 0, 0
    rise, run = np.int64(0), np.int64(1)  # the slope found last
    for i in range(groups):
        while size > 1:
            top, before = stack[size - 1], stack[size - 2]
            if (
                compare_products(
                    hits[top] - hits[before],
                    rows[i] - rows[top],
                    hits[i] - hits[top],
                    rows[top] - rows[before],
                )
                < 0
            ):
                break
            size -= 1
        stack[size] = i
        size += 1
        left = min(left, size - 1)
        right = max(right, i + 1)
        while True:
            # The edges after both points of contact: the slope grows until neither is passed.
            u, v = stack[left], right
            w = corners[v]
            after_rise, after_run, on_right = np.int64(1), np.int64(0), True
            if w > v:
                after_rise, after_run = hits[w] - hits[v], rows[w] - rows[v]
            if left + 1 < size:
                top = stack[left + 1]
                up, along = hits[top] - hits[u], rows[top] - rows[u]
                if compare_products(up, int(after_run), int(after_rise), along) < 0:
                    after_rise, after_run, on_right = up, along, False
            tangent_rise = hits[v] - hits[u] + weight
            tangent_run = rows[v] - rows[u] + weight
            passed = compare_products(int(after_rise), int(run), int(rise), int(after_run)) <= 0
            if not passed:
                ends = int(after_rise), int(after_run)
                passed = compare_products(tangent_rise, ends[1], ends[0], tangent_run) > 0
            if not passed:
                break
            if on_right:
                right = w
            else:
                left += 1
        rise, run = tangent_rise, tangent_run
        out[i] = float(run - rise) / float(run) if complement else float(rise) / float(run)
