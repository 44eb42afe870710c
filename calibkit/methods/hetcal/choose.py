"""Depth, leaf size and shrinkage by cross-validation, over one deep tree a fold and leaf size.

Growth is nested: the tree of depth d is the first d levels of any deeper one, so all depths are read
off the deepest, and a node has one map whatever the depth of the tree it is a leaf of.

The winner is not the least loss: of hundreds of candidates the luckiest always seems to gain.  A gain
over one map for all rows is discounted by its standard error, see `discounted`.
"""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from calibkit.methods.hetcal.bins import group_starts
from calibkit.methods.hetcal.maps import (
    by_leaf,
    leaf_lines,
    line_through,
    mean_loss,
    pooled_line,
    shrunk,
)
from calibkit.methods.hetcal.model import CrossValidated
from calibkit.methods.hetcal.payload import Growth
from calibkit.methods.hetcal.rows import Folds, HetcalRows
from calibkit.methods.hetcal.trees import Tree
from calibkit.options.hetcal import SHRINKAGES, HetcalOptions
from calibkit_kernels import leaf_cells as kernels

Floats = NDArray[np.float64]
Int64s = NDArray[np.int64]
Rows = NDArray[np.bool_]

#: A candidate, by its place in each of: leaf sizes, depths, shrinkages.
Place = tuple[int, int, int]

#: Standard errors by which chance alone lifts the best of several hundred candidates.
LUCK = 3.0

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


@dataclass(frozen=True)
class Grid:
    """What is chosen from; one value each where the user chose."""

    depths: tuple[int, ...]
    leaf_sizes: tuple[int, ...]
    shrinkages: tuple[float, ...]

    @classmethod
    def of(
        cls, options: HetcalOptions, depths: tuple[int, ...], leaf_sizes: tuple[int, ...]
    ) -> Grid:
        """Return what the user left open, and what was chosen."""
        return cls(
            depths if options.max_depth is None else (options.max_depth,),
            leaf_sizes if options.min_leaf is None else (options.min_leaf,),
            SHRINKAGES if options.shrinkage is None else (options.shrinkage,),
        )

    @property
    def open(self) -> bool:
        """Whether there is anything to choose."""
        return len(self.depths) * len(self.leaf_sizes) * len(self.shrinkages) > 1

    def at(self, place: Place) -> tuple[int, int, float]:
        """Return depth, leaf size and shrinkage at a place."""
        size, depth, weight = place
        return self.depths[depth], self.leaf_sizes[size], self.shrinkages[weight]

    def seen(self, losses: Floats, best: Place, pooled: float, folds: Folds) -> CrossValidated:
        """Return what cross-validation saw: the losses of all places, the best, the pooled map."""
        return CrossValidated(
            pooled=pooled,
            calibrated=float(losses[best]),
            folds=folds.count,
            by_depth={str(depth): float(losses[:, d].min()) for d, depth in enumerate(self.depths)},
        )


def choose(
    rows: HetcalRows, growth: Growth, grid: Grid, folds: Folds, threads: int
) -> tuple[Place, CrossValidated, tuple[float, float]]:
    """Choose by the discounted gain on held-out rows; ties: shallower, larger leaf, more shrinkage.

    Candidates are fitted and judged on counts by node and range of scores, the chosen one on rows.
    Returned are its place, what was seen, and the map from its held-out linear scores to labels.

    Parameters
    ----------
    rows
        Calibration rows.
    growth
        What trees are grown on: the same rows, of which a part's own are then left out, or others.
    grid
        What to choose from.
    folds
        How the calibration rows are dealt.
    threads
        How many parts are worked on at a time.
    """
    deepest, parts = max(grid.depths), folds.judged()
    cells, sizes = cells_of(rows), grid.leaf_sizes
    jobs = list(itertools.product(range(len(sizes)), range(len(parts))))
    gains = np.zeros((len(parts), len(sizes), len(grid.depths), len(grid.shrinkages), 2))
    trees: dict[tuple[int, int], Tree] = {}
    with ThreadPoolExecutor(threads) as pool:
        if not growth.own:
            for size, part in jobs:
                trees[size, part] = trees.get((size, 0)) or growth.tree(
                    deepest, sizes[size], pool, threads
                )

        def work(job: tuple[int, int]) -> None:
            size, part = job
            used, held = folds.used(parts[part]), folds.held(parts[part])
            if growth.own:
                trees[job] = growth.tree(deepest, sizes[size], used=used)
            found = count_cells(rows, cells, trees[job], used, held)
            gains[part, size] = _gains(found, trees[job], grid)

        list(pool.map(work, jobs))
        kept, total = folds.among(parts), gains.sum(axis=0)
        mass = float(rows.mass[kept].sum())
        best = best_place(discounted(total, mass), grid)
        size, depth, weight = best
        linear = rows.arrays.empty((2, rows.count), np.float64)
        linear[:] = 0.0  # also for rows that nothing judges

        def judge(part: int) -> None:
            tree = trees[size, part].pruned(grid.depths[depth])
            _judge(rows, tree, folds, parts[part], grid.shrinkages[weight], linear)

        list(pool.map(judge, range(len(parts))))
    pooled, loss = (mean_loss(rows, own, kept) for own in linear)
    losses = pooled - total[..., 0] / mass
    losses[best] = loss
    line = line_through(rows, linear[1], kept)
    return best, grid.seen(losses, best, pooled, folds), line


def discounted(sums: Floats, mass: float) -> Floats:
    """Return what gains over the pooled map are worth: ``g - (3 s)^2 / max(g, 3 s)``.

    A mean gain g with standard error s that is many times s is worth almost all of it, one of 3 s
    nothing: as much is due to chance where the best of hundreds of candidates is taken.

    Parameters
    ----------
    sums
        Candidates (any shape) x 2: sums over rows of the gain and of its square.
    mass
        How many rows there are.
    """
    gain = sums[..., 0] / mass
    luck = LUCK * np.sqrt(np.maximum(sums[..., 1] / mass - gain * gain, 0.0) / mass)
    most = np.maximum(gain, luck)
    off = np.divide(luck * luck, most, out=np.zeros_like(luck), where=luck > 0.0)
    return np.asarray(gain - off)


def best_place(worth: Floats, grid: Grid) -> Place:
    """Return the place of what is worth most."""
    best, found = -np.inf, (0, 0, 0)
    for depth in range(len(grid.depths)):
        for size in reversed(range(len(grid.leaf_sizes))):
            for weight in reversed(range(len(grid.shrinkages))):
                if worth[size, depth, weight] > best + 1e-12:
                    best, found = worth[size, depth, weight], (size, depth, weight)
    return found


def _gains(found: Counted, tree: Tree, grid: Grid) -> Floats:
    """Return the sums of gains and of their squares, depth x shrinkage x 2, over held-out rows."""
    lines = found.lines(tree)
    shrinkages = np.array(grid.shrinkages)
    gains = np.empty((len(tree.nodes), shrinkages.size, 2))
    kernels.cell_gains(found.score, found.places, found.cells, found.sums, lines, shrinkages, gains)
    leaves = [np.unique(tree.ancestors(depth)[tree.ends()]) for depth in grid.depths]
    return np.stack([gains[nodes].sum(axis=0) for nodes in leaves])


def _judge(
    rows: HetcalRows, tree: Tree, folds: Folds, part: int, shrinkage: float, linear: Floats
) -> None:
    """Fit the maps of a tree on the rows used, and write the scores of those held out: 2 x row.

    The first under the map of all rows used, the second under those of the leaves.
    """
    leaf, held, used = rows.ends(tree), folds.held(part), folds.used(part)
    pooled = pooled_line(rows, used)
    known = rows.arrays.empty(rows.count, np.int32)
    for own in rows.blocks():
        known[own] = np.where(used[own], leaf[own], -1)
    starts = np.tile(pooled, (len(tree.nodes), 1))
    lines = leaf_lines(rows, *by_leaf(rows, known, len(tree.nodes)), starts)
    maps = shrunk(lines, pooled, shrinkage)
    for own in rows.blocks():
        here = np.flatnonzero(held[own]) + own.start
        score, mine = rows.score[here], leaf[here]
        linear[0, here] = pooled[0] * score + pooled[1]
        linear[1, here] = maps[mine, 0] * score + maps[mine, 1]
