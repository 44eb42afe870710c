"""Depth, leaf size and shrinkage by cross-validation, over one deep tree a fold and leaf size.

Growth is nested: the tree of depth d is the first d levels of any deeper one, so all depths are read
off the deepest, and a node has one map whatever the depth of the tree it is a leaf of.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calibkit.hetcal.maps import line_through, node_lines, shrunk
from calibkit.hetcal.payload import Growth
from calibkit.hetcal.rows import HetcalRows
from calibkit.hetcal.trees import Tree
from calibkit.simulate.streams import stream
from calibkit_kernels import leaf_maps as kernels

Floats = NDArray[np.float64]
Int64s = NDArray[np.int64]


@dataclass(frozen=True)
class Grid:
    """What is chosen from; one value each where the user chose."""

    depths: tuple[int, ...]
    leaf_sizes: tuple[int, ...]
    shrinkages: tuple[float, ...]

    @property
    def open(self) -> bool:
        """Whether there is anything to choose."""
        return len(self.depths) * len(self.leaf_sizes) * len(self.shrinkages) > 1


@dataclass(frozen=True)
class Choice:
    """What cross-validation chose, and what it saw.

    Attributes
    ----------
    max_depth, min_leaf, shrinkage
        The best.
    loss, pooled
        Mean log loss on held-out rows, and that of the pooled map there.
    by_depth
        The best loss of each depth.
    slope, intercept
        Of the map from held-out linear scores to labels.
    """

    max_depth: int
    min_leaf: int
    shrinkage: float
    loss: float
    pooled: float
    by_depth: dict[int, float]
    slope: float
    intercept: float


def deal_folds(rows: HetcalRows, folds: int, seed: int) -> NDArray[np.uint8]:
    """Return the fold of each row: equal shares at random, or those of a column of groups."""
    if rows.group is not None:
        return rows.group
    dealt = np.arange(rows.count) % folds
    return dealt[stream(seed, 0, 0).permutation(rows.count)].astype(np.uint8)


def choose(
    rows: HetcalRows,
    growth: Growth,
    grid: Grid,
    fold: NDArray[np.uint8],
    folds: int,
    threads: int,
) -> Choice:
    """Choose by the mean log loss on held-out rows; ties: shallower, larger leaf, more shrinkage.

    Parameters
    ----------
    rows
        Calibration rows.
    growth
        What trees are grown on: the same rows, of which a fold's own are then left out, or others.
    grid
        What to choose from.
    fold, folds
        The fold of each calibration row.
    threads
        How many folds are worked on at a time.
    """
    deepest = max(grid.depths)
    jobs = list(itertools.product(range(len(grid.leaf_sizes)), range(folds)))
    shape = (len(grid.leaf_sizes), len(grid.depths), len(grid.shrinkages))
    losses = np.zeros((folds, *shape))
    pooled = np.zeros(folds)
    linear = np.zeros((len(grid.leaf_sizes), rows.count)) if not grid.open else None
    shared: dict[int, Tree] = {}
    if growth.own is None:
        with ThreadPoolExecutor(threads) as pool:
            for place, size in enumerate(grid.leaf_sizes):
                shared[place] = growth.tree(growth.rules(deepest, size), pool, threads)

    def work(job: tuple[int, int]) -> None:
        size, part = job
        tree = shared.get(size) or growth.tree(
            growth.rules(deepest, grid.leaf_sizes[size]), rows=np.flatnonzero(fold != part)
        )
        held = fold == part
        found, together, scores = _judge(rows, tree, held, grid, growth.known)
        losses[part, size], pooled[part] = found, together
        if linear is not None:
            linear[size, held] = scores

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, jobs))
    total = losses.sum(axis=0)
    size, depth, weight = _best(total, grid)
    mass = float(rows.weight.sum())
    if linear is None:
        only = Grid((grid.depths[depth],), (grid.leaf_sizes[size],), (grid.shrinkages[weight],))
        if growth.own is not None:
            again = choose(rows, growth, only, fold, folds, threads)
            slope, intercept = again.slope, again.intercept
        else:
            slope, intercept = 1.0, 0.0
    else:
        slope, intercept = line_through(rows, linear[size], np.ones(rows.count, np.bool_))
    return Choice(
        grid.depths[depth],
        grid.leaf_sizes[size],
        grid.shrinkages[weight],
        float(total[size, depth, weight]) / mass,
        float(sum(pooled.tolist())) / mass,
        {value: float(total[:, place].min()) / mass for place, value in enumerate(grid.depths)},
        slope,
        intercept,
    )


def _best(total: Floats, grid: Grid) -> tuple[int, int, int]:
    """Return the places of the least loss: leaf size, depth, shrinkage."""
    best, found = np.inf, (0, 0, 0)
    for depth in range(len(grid.depths)):
        for size in reversed(range(len(grid.leaf_sizes))):
            for weight in reversed(range(len(grid.shrinkages))):
                if total[size, depth, weight] < best * (1.0 - 1e-12):
                    best, found = total[size, depth, weight], (size, depth, weight)
    return found


def _judge(
    rows: HetcalRows, tree: Tree, held: NDArray[np.bool_], grid: Grid, known: Sequence[int]
) -> tuple[Floats, float, Floats]:
    """Return summed losses on held-out rows by depth and shrinkage, the pooled one, the last scores."""
    ends = tree.routes(known).ends(rows.features.values)
    depth_of = np.array([node.depth for node in tree.nodes])
    lines = np.empty((len(tree.nodes), 4))
    below = []
    for depth in range(int(depth_of.max()) + 1):
        ancestors = tree.ancestors(depth)
        below.append(ancestors)
        leaf = np.where(held, np.int32(-1), ancestors[ends]).astype(np.int32)
        leaf[(leaf >= 0) & (depth_of[leaf] != depth)] = -1
        fitted = node_lines(rows, leaf, len(tree.nodes))
        lines[depth_of == depth] = fitted[depth_of == depth]
    places = np.flatnonzero(held)
    score, label, mass = rows.score[places], rows.label[places], rows.mass[places]
    out = np.empty((2, places.size))
    losses = np.empty((len(grid.depths), len(grid.shrinkages)))
    pooled_map = lines[0, :2].copy()
    for column, shrinkage in enumerate(grid.shrinkages):
        maps = shrunk(lines, pooled_map, shrinkage / rows.unit.size)
        for row, depth in enumerate(grid.depths):
            leaf = below[min(depth, len(below) - 1)][ends[places]]
            kernels.leaf_losses(score, label, mass, leaf, maps, out)
            losses[row, column] = kernels.sum_in_order(out[1])
    last = out[0].copy()
    root = np.zeros(places.size, np.int32)
    kernels.leaf_losses(score, label, mass, root, pooled_map[None], out)
    return losses, float(kernels.sum_in_order(out[1])), last
