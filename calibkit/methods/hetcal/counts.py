"""Calibration rows counted by node of a tree and range of scores, to compare candidates on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from calibkit.methods.hetcal.bins import group_starts
from calibkit.methods.hetcal.maps import by_leaf
from calibkit.methods.hetcal.rows import HetcalRows
from calibkit.methods.hetcal.trees import Tree
from calibkit_kernels import leaf_cells as kernels

Floats = NDArray[np.float64]
Int64s = NDArray[np.int64]
Rows = NDArray[np.bool_]

#: Ranges of scores: up to so many distinct scores each one is a range, beyond there are so many.
MOST_CELLS: Final = 2048


@dataclass(frozen=True)
class Cells:
    """Ranges of the scores: the mean score of each, and the range of each row."""

    score: Floats
    place: NDArray[np.uint16]


@dataclass(frozen=True)
class Counted:
    """What rows weigh, by node and range of scores; see `calibkit_kernels.leaf_cells`."""

    score: Floats
    places: Int64s
    cells: NDArray[np.int32]
    sums: Floats

    def lines(self, tree: Tree) -> Floats:
        """Return Platt's map of the known rows of each node: a, b, rows, positives."""
        parents = np.full(len(tree.nodes), -1, np.int32)
        for place, node in enumerate(tree.nodes):
            if node.feature >= 0:
                parents[[node.left, node.right]] = place
        lines = np.empty((len(tree.nodes), 4))
        kernels.fit_cell_lines(self.score, self.places, self.cells, self.sums, parents, lines)
        return lines


def cells_of(rows: HetcalRows) -> Cells:
    """Return the ranges of the scores, which rise or fall from row to row."""
    if rows.score[0] <= rows.score[-1]:
        starts = group_starts(rows.score, MOST_CELLS)[0]
    else:
        ends = rows.count - group_starts(rows.score[::-1], MOST_CELLS)[0]
        starts = np.append(0, ends[:0:-1])
    sizes = np.diff(np.append(starts, rows.count))
    first, last = rows.score[starts], rows.score[starts + sizes - 1]
    score = np.where(first == last, first, np.add.reduceat(rows.score, starts) / sizes)
    place = rows.arrays.empty(rows.count, np.uint16)
    place[:] = np.repeat(np.arange(sizes.size, dtype=np.uint16), sizes)
    return Cells(score, place)


def count_cells(
    rows: HetcalRows, cells: Cells, tree: Tree, used: Rows, held: Rows | None = None
) -> Counted:
    """Return what the rows of each node weigh, those that are learnt from and those held out."""
    order, spans = by_leaf(rows, rows.ends(tree), len(tree.nodes))
    codes = rows.arrays.empty(rows.count, np.uint16)
    for own in rows.blocks():
        code = 4 * cells.place[own] + rows.label[own]
        away = np.full(code.size, kernels.NEITHER, np.uint16)
        if held is not None:
            away = np.where(held[own], code + np.uint16(kernels.HELD), away)
        codes[own] = np.where(used[own], code, away)
    children = np.array([(node.left, node.right) for node in tree.nodes], np.int32)
    room = np.minimum(spans[:, 1] - spans[:, 0], cells.score.size)
    for place in range(len(tree.nodes) - 1, -1, -1):
        left, right = children[place]
        if left >= 0:
            room[place] = min(room[left] + room[right], cells.score.size)
    size, width = int(room.sum()), kernels.SQUARES + (2 if rows.options.sampled else 0)
    found = Counted(
        cells.score,
        np.empty((len(tree.nodes), 2), np.int64),
        rows.arrays.empty(size, np.int32),
        rows.arrays.empty((size, width), np.float64),
    )
    kernels.count_cells(
        order, spans, children, codes, rows.mass, found.places, found.cells, found.sums
    )
    return found
