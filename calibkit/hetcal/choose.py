"""Depth, leaf size and shrinkage by cross-validation, over one deep tree a fold and leaf size.

Growth is nested: the tree of depth d is the first d levels of any deeper one, so all depths are read
off the deepest, and a node has one map whatever the depth of the tree it is a leaf of.

The winner is not the least loss: of hundreds of candidates the luckiest always seems to gain.  A gain
over one map for all rows is discounted by its standard error, see `discounted`.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calibkit.hetcal.folds import Folds
from calibkit.hetcal.maps import line_through, node_lines, shrunk
from calibkit.hetcal.payload import Growth
from calibkit.hetcal.rows import HetcalRows
from calibkit.hetcal.trees import Tree
from calibkit_kernels import leaf_maps as kernels

Floats = NDArray[np.float64]
Int64s = NDArray[np.int64]

#: Standard errors by which chance alone lifts the best of several hundred candidates.
LUCK = 3.0


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


@dataclass(frozen=True)
class Judged:
    """Sums over the held-out rows of a part.

    Attributes
    ----------
    pooled
        Of the losses of the pooled map.
    gains
        Depth x shrinkage x 2: of how much each candidate lowers the loss, and of the squares.
    linear
        The scores of the last candidate.
    """

    pooled: float
    gains: Floats
    linear: Floats


def choose(rows: HetcalRows, growth: Growth, grid: Grid, folds: Folds, threads: int) -> Choice:
    """Choose by the discounted gain on held-out rows; ties: shallower, larger leaf, more shrinkage.

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
    jobs = list(itertools.product(range(len(grid.leaf_sizes)), parts))
    shape = (len(grid.leaf_sizes), len(grid.depths), len(grid.shrinkages), 2)
    gains = np.zeros((len(parts), *shape))
    pooled = np.zeros(len(parts))
    linear = np.zeros(0 if grid.open else rows.count)
    shared: dict[int, Tree] = {}
    if not growth.own:
        with ThreadPoolExecutor(threads) as pool:
            for place, size in enumerate(grid.leaf_sizes):
                shared[place] = growth.tree(growth.rules(deepest, size), pool, threads)

    def work(job: tuple[int, int]) -> None:
        size, part = job
        used, held = folds.used(part), folds.held(part)
        tree = shared.get(size) or growth.tree(
            growth.rules(deepest, grid.leaf_sizes[size]), rows=np.flatnonzero(used)
        )
        judged = _judge(rows, tree, used, held, grid, growth.known)
        place = parts.index(part)
        gains[place, size], pooled[place] = judged.gains, judged.pooled
        if not grid.open:
            linear[held] = judged.linear

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, jobs))
    kept = folds.among(parts)
    total, together = gains.sum(axis=0), float(pooled.sum())
    mass = float(rows.weight[kept].sum()) * rows.size
    size, depth, weight = best_place(discounted(total, mass), grid)
    slope, intercept = 1.0, 0.0
    if not grid.open:
        slope, intercept = line_through(rows, linear, kept)
    elif growth.own:
        only = Grid((grid.depths[depth],), (grid.leaf_sizes[size],), (grid.shrinkages[weight],))
        again = choose(rows, growth, only, folds, threads)
        slope, intercept = again.slope, again.intercept
    losses = (together - total[..., 0]) / mass
    return Choice(
        grid.depths[depth],
        grid.leaf_sizes[size],
        grid.shrinkages[weight],
        float(losses[size, depth, weight]),
        together / mass,
        {value: float(losses[:, place].min()) for place, value in enumerate(grid.depths)},
        slope,
        intercept,
    )


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


def best_place(worth: Floats, grid: Grid) -> tuple[int, int, int]:
    """Return the places of what is worth most: leaf size, depth, shrinkage."""
    best, found = -np.inf, (0, 0, 0)
    for depth in range(len(grid.depths)):
        for size in reversed(range(len(grid.leaf_sizes))):
            for weight in reversed(range(len(grid.shrinkages))):
                if worth[size, depth, weight] > best + 1e-12:
                    best, found = worth[size, depth, weight], (size, depth, weight)
    return found


def _judge(
    rows: HetcalRows,
    tree: Tree,
    used: NDArray[np.bool_],
    held: NDArray[np.bool_],
    grid: Grid,
    known: Sequence[int],
) -> Judged:
    """Fit the maps of all nodes on the rows used, and judge every candidate on those held out."""
    ends = tree.routes(known).ends(rows.features.values)
    lines, below = _all_lines(rows, tree, ends, used, grid.depths)
    places = np.flatnonzero(held)
    score, label, mass = rows.score[places], rows.label[places], rows.mass[places]
    out, alone = np.empty((2, places.size)), np.empty((2, places.size))
    pooled_map = lines[0, :2].copy()
    root = np.zeros(places.size, np.int32)
    kernels.leaf_losses(score, label, mass, root, pooled_map[None], alone)
    gains = np.empty((len(grid.depths), len(grid.shrinkages), 2))
    repeats = rows.repeats[places]
    for column, shrinkage in enumerate(grid.shrinkages):
        maps = shrunk(lines, pooled_map, shrinkage)
        for row, depth in enumerate(grid.depths):
            leaf = below[depth][ends[places]]
            kernels.leaf_losses(score, label, mass, leaf, maps, out)
            kernels.paired_gains(alone[1], out[1], repeats, gains[row, column])
    return Judged(float(kernels.sum_in_order(alone[1])), gains, out[0].copy())


def _all_lines(
    rows: HetcalRows,
    tree: Tree,
    ends: NDArray[np.int32],
    used: NDArray[np.bool_],
    depths: Sequence[int],
) -> tuple[Floats, dict[int, NDArray[np.int32]]]:
    """Return the map of each node that is a leaf at some depth, and the leaf above each node there.

    The first node's map is that of all rows used.
    """
    lines = np.empty((len(tree.nodes), 4))
    known = np.zeros(len(tree.nodes), np.bool_)
    below = {depth: tree.ancestors(depth) for depth in depths}
    for ancestors in (tree.ancestors(0), *below.values()):
        leaf = np.where(used, ancestors[ends], np.int32(-1)).astype(np.int32)
        leaf[known[leaf]] = -1  # a branch may end above the depth
        fitted = node_lines(rows, leaf, len(tree.nodes))
        fresh = np.unique(ancestors)
        fresh = fresh[~known[fresh]]
        lines[fresh], known[fresh] = fitted[fresh], True
    return lines, below
