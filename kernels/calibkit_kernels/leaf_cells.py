"""Rows counted by node of a tree and range of scores: what lines and losses are had from at once.

Rows are in score order, and ranges of it are *cells*.  A cell's rows count as rows of one score; where
each distinct score is a cell, nothing is lost.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ._jit import kernel
from .leaf_maps import fit_platt

Int64s = NDArray[np.int64]
Floats = NDArray[np.float64]
Cells = NDArray[np.int32]

#: The columns of a sum: negatives and positives that are learnt from, those that are held out, and
#: the squares of the latter where a row stands for as many as it weighs.
KNOWN, HELD, SQUARES = 0, 2, 4

#: The code of a row that is neither.
NEITHER = 65_535


@kernel
def count_cells(
    order: NDArray[np.int32],
    spans: Int64s,
    children: NDArray[np.int32],
    codes: NDArray[np.uint16],
    mass: Floats,
    places: Int64s,
    cells: Cells,
    sums: Floats,
) -> None:
    """Write the sums of the rows of each node, cell by cell, those of inner nodes too.

    Parameters
    ----------
    order, spans
        The rows by node without children, and which are a node's; see `leaf_maps.rows_by_leaf`.
    children
        Node x 2, after the node; -1: none.
    codes, mass
        Of each row: four times its cell, its first column (`KNOWN` or `HELD`) and its label added up,
        or `NEITHER`; and what it weighs.
    places
        Node x 2: gets where its entries begin and end.
    cells, sums
        Room for the entries: the cell, rising, and the sums of its rows.
    """
    filled = 0
    for node in range(spans.shape[0] - 1, -1, -1):
        places[node, 0] = filled
        if children[node, 0] < 0:
            for i in range(spans[node, 0], spans[node, 1]):
                row = order[i]
                if codes[row] == NEITHER:
                    continue
                cell, kind = codes[row] >> 2, codes[row] & 3
                if filled == places[node, 0] or cells[filled - 1] != cell:
                    cells[filled] = cell
                    sums[filled] = 0.0
                    filled += 1
                sums[filled - 1, kind] += mass[row]
                if kind >= HELD and sums.shape[1] > SQUARES:
                    sums[filled - 1, kind + SQUARES - HELD] += mass[row] * mass[row]
        else:
            left, right = children[node, 0], children[node, 1]
            filled = merge_cells(places[left], places[right], filled, cells, sums)
        places[node, 1] = filled


@kernel
def merge_cells(left: Int64s, right: Int64s, filled: int, cells: Cells, sums: Floats) -> int:
    """Write the entries of two nodes together from `filled` on; return where they end."""
    i, j = left[0], right[0]
    while i < left[1] or j < right[1]:
        first = j == right[1] or (i < left[1] and cells[i] <= cells[j])
        second = i == left[1] or (j < right[1] and cells[j] <= cells[i])
        cells[filled] = cells[i] if first else cells[j]
        for c in range(sums.shape[1]):
            sums[filled, c] = (sums[i, c] if first else 0.0) + (sums[j, c] if second else 0.0)
        i += int(first)
        j += int(second)
        filled += 1
    return filled


@kernel
def fit_cell_lines(
    score: Floats, places: Int64s, cells: Cells, sums: Floats, parents: Cells, out: Floats
) -> None:
    """Write Platt's map of each node as `leaf_maps.fit_leaf_lines` does, from known rows by cell.

    `score` is that of each cell; a fit starts from the line of the node's parent (-1: none), which
    stands before it.
    """
    most = 0
    for node in range(places.shape[0]):
        most = max(most, places[node, 1] - places[node, 0])
    x, ones, zeros, nothing = np.empty(most), np.empty(most), np.empty(most), np.full(2, math.nan)
    for node in range(places.shape[0]):
        size = 0
        for e in range(places[node, 0], places[node, 1]):
            if sums[e, KNOWN] + sums[e, KNOWN + 1] > 0.0:
                x[size] = score[cells[e]]
                zeros[size], ones[size] = sums[e, KNOWN], sums[e, KNOWN + 1]
                size += 1
        start = nothing if parents[node] < 0 else out[parents[node], :2]
        fit_platt(x[:size], ones[:size], zeros[:size], start, out[node])


@kernel
def cell_gains(
    score: Floats,
    places: Int64s,
    cells: Cells,
    sums: Floats,
    lines: Floats,
    shrinkages: Floats,
    out: Floats,
) -> None:
    """Write how much the loss of the held-out rows of each node falls from the first node's line.

    `lines` as `fit_cell_lines` writes them; `out` gets, node x shrinkage, the sum over rows of the fall
    under the node's line shrunk towards the first one, and the sum of squares.
    """
    extra = SQUARES - HELD if sums.shape[1] > SQUARES else 0
    out[:] = 0.0
    for node in range(places.shape[0]):
        for e in range(places[node, 0], places[node, 1]):
            zeros, ones = sums[e, HELD], sums[e, HELD + 1]
            if zeros + ones <= 0.0:
                continue
            s = score[cells[e]]
            before = lines[0, 0] * s + lines[0, 1]
            above = math.log1p(math.exp(-abs(before))) + max(before, 0.0)  # the loss of a negative
            for r in range(shrinkages.size):
                share = 0.0
                if lines[node, 2] > 0.0:
                    share = lines[node, 2] / (lines[node, 2] + shrinkages[r])
                z = before
                if share > 0.0:
                    z += share * (lines[node, 0] * s + lines[node, 1] - before)
                fall = above - math.log1p(math.exp(-abs(z))) - max(z, 0.0)
                gain = fall + z - before  # of a positive
                out[node, r, 0] += zeros * fall + ones * gain
                out[node, r, 1] += (
                    sums[e, HELD + extra] * fall * fall + sums[e, HELD + 1 + extra] * gain * gain
                )
