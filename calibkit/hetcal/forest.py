"""Forests: trees on bootstrap rows and random features, the mean of their probabilities."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calibkit.hetcal.choose import Grid, best_place, discounted
from calibkit.hetcal.counts import cells_of, count_cells
from calibkit.hetcal.describe import described_tree
from calibkit.hetcal.folds import Folds
from calibkit.hetcal.grow import Subsets
from calibkit.hetcal.maps import Maps, fit_maps, pooled_lines
from calibkit.hetcal.model import CrossValidated, Line, PartitionPart
from calibkit.hetcal.payload import Growth
from calibkit.hetcal.rows import HetcalRows
from calibkit.hetcal.trees import Tree
from calibkit.maths.streams import stream
from calibkit.options.hetcal import FOREST_LEAF_SIZES, SHRINKAGES, HetcalOptions
from calibkit.summaries.draws import poisson_of_keys
from calibkit_kernels import forest
from calibkit_kernels import leaf_maps as kernels

Floats = NDArray[np.float64]
Counts = NDArray[np.uint8]
Ends = NDArray[np.int32]

#: Trees of a forest, and of each forest that cross-validation compares.
TREES = 100
TRIED_TREES = 20

#: Depths that cross-validation compares.
DEPTHS = (0, 2, 4, 6, 8)

_FEATURES = 2


@dataclass(frozen=True)
class Grower:
    """Makes the trees of a forest, each a function of the seed and its number."""

    growth: Growth
    seed: int

    def tree(self, number: int, max_depth: int, min_leaf: int) -> tuple[Tree, Counts]:
        """Return a tree and how often each row was drawn for it (Poisson, mean 1)."""
        counts = self.counts(number)
        rules = self.growth.rules(max_depth, min_leaf)
        return self.growth.tree(rules, counts=counts, subsets=self._subsets(number)), counts

    def counts(self, number: int) -> Counts:
        """Return how often each row is drawn for a tree."""
        rows = self.growth.rows
        counts = rows.arrays.empty(rows.count, np.uint8)
        for own in rows.blocks():
            counts[own] = poisson_of_keys(rows.key[own], self.seed, number)
        if not counts.any():
            counts[:] = 1
        return counts

    def _subsets(self, number: int) -> Subsets:
        """Return what draws the features of each node, level by level: a third, at least two."""
        features = len(self.growth.features.columns)
        kept = min(features, max(2, -(-features // 3)))
        random = stream(self.seed, _FEATURES, number)

        def draw(_: int, nodes: int) -> NDArray[np.bool_]:
            ranks = random.random((nodes, features)).argsort(axis=1, kind="stable")
            chosen = np.zeros((nodes, features), np.bool_)
            np.put_along_axis(chosen, ranks[:, :kept], True, axis=1)
            return chosen

        return draw


def forest_grid(options: HetcalOptions) -> Grid:
    """Return what depth, leaf size and shrinkage of a forest are chosen from."""
    return Grid(
        DEPTHS if options.max_depth is None else (options.max_depth,),
        FOREST_LEAF_SIZES if options.min_leaf is None else (options.min_leaf,),
        SHRINKAGES if options.shrinkage is None else (options.shrinkage,),
    )


Fit = tuple[
    list[PartitionPart], Line | None, Floats, Ends, int, int, float | None, CrossValidated | None
]


def fit(
    rows: HetcalRows, growth: Growth, options: HetcalOptions, folds: Folds | None, pooled: Floats
) -> Fit:
    """Return the partitions and maps of a forest; see `calibkit.hetcal.fit.Found`.

    Where it is grown on the rows themselves, the maps of a tree are fitted on those that it was not
    grown on (out of the bag).
    """
    grower = Grower(growth, options.seed)
    grid = forest_grid(options)
    depth, least, shrinkage = grid.depths[-1], grid.leaf_sizes[0], grid.shrinkages[0]
    checked = None
    if folds is not None and grid.open:
        depth, least, shrinkage, checked = _choose(rows, grower, grid, options, folds)
    count = options.trees or TREES

    def one(number: int) -> tuple[Tree, Maps, Ends]:
        tree, counts = grower.tree(number, depth, least)
        numbers = tree.leaves()
        leaf = rows.features.ends(tree, rows.arrays.empty(rows.count, np.int32))
        used = rows.arrays.empty(rows.count, np.int32)
        for own in rows.blocks():
            leaf[own] = numbers[leaf[own]]
            used[own] = np.where(counts[own] > 0, -1, leaf[own]) if growth.own else leaf[own]
        maps = fit_maps(rows, used, int(numbers.max()) + 1, pooled, shrinkage, options.map)
        return tree, maps, leaf

    probability = rows.arrays.empty(rows.count, np.float64)
    probability[:] = 0.0
    parts, first = list[PartitionPart](), np.empty(0, np.int32)
    with ThreadPoolExecutor(options.workers) as pool:
        for tree, maps, leaf in pool.map(one, range(count)):
            first = leaf if not parts else first
            for own in rows.blocks():
                probability[own] += maps.probabilities(rows.score[own], leaf[own])
            nodes = described_tree(tree, growth.rows.size, growth.features)
            parts.append(PartitionPart(tree=nodes, maps=maps.described(rows.unit, rows.size)))
    np.divide(probability, count, out=probability)
    return parts, None, probability, first, depth, least, shrinkage, checked


@dataclass(frozen=True)
class _Tried:
    """A tree that is tried: where rows end, how often they were drawn, and part x node x 4 lines."""

    tree: Tree
    ends: Ends
    counts: Counts
    lines: Floats


def _choose(
    rows: HetcalRows, grower: Grower, grid: Grid, options: HetcalOptions, folds: Folds
) -> tuple[int, int, float, CrossValidated]:
    """Choose depth, leaf size and shrinkage by the gain of small forests on held-out rows.

    The maps of a tree are fitted on the other parts, on counts by range of scores; without rows of
    their own to grow on, only the trees that did not draw a row judge it.
    """
    trees, parts = min(options.trees or TRIED_TREES, TRIED_TREES), folds.judged()
    shape = (len(grid.leaf_sizes), len(grid.depths), len(grid.shrinkages))
    sums, cells = np.zeros((*shape, 3)), cells_of(rows)
    alone = np.stack([pooled_lines(rows, folds.used(part))[:2] for part in parts])
    together = 0.0
    with ThreadPoolExecutor(options.workers) as pool:
        for place, size in enumerate(grid.leaf_sizes):

            def one(number: int, size: int = size) -> _Tried:
                tree, counts = grower.tree(number, max(grid.depths), size)
                fresh = np.equal(counts, 0) if grower.growth.own else np.ones(rows.count, np.bool_)
                lines = [
                    count_cells(rows, cells, tree, fresh & folds.used(part)).lines(tree)
                    for part in parts
                ]
                ends = rows.features.ends(tree, rows.arrays.empty(rows.count, np.int32))
                return _Tried(tree, ends, counts, np.stack(lines))

            tried = list(pool.map(one, range(trees)))

            def judge(own: slice, tried: list[_Tried] = tried) -> tuple[float, Floats]:
                return _judged(rows, own, tried, grid, folds, alone, grower.growth.own)

            found = list(pool.map(judge, rows.blocks()))
            together = sum(loss for loss, _ in found)
            sums[place] = sum(own for _, own in found)
    mass = float(rows.mass[folds.among(parts)].sum())
    best = best_place(discounted(sums[..., :2], mass), grid)
    losses = sums[..., 2] / mass
    checked = CrossValidated(
        pooled=together / mass,
        calibrated=float(losses[best]),
        folds=folds.count,
        by_depth={str(depth): float(losses[:, d].min()) for d, depth in enumerate(grid.depths)},
    )
    return grid.depths[best[1]], grid.leaf_sizes[best[0]], grid.shrinkages[best[2]], checked


def _judged(
    rows: HetcalRows,
    own: slice,
    tried: list[_Tried],
    grid: Grid,
    folds: Folds,
    alone: Floats,
    bagged: bool,
) -> tuple[float, Floats]:
    """Return the loss of some rows under the maps of all rows of other parts, and of the candidates.

    The latter as depth x shrinkage x 3: gain over the former, its square, loss.
    """
    score, label = rows.score[own], rows.label[own]
    # As many equal rows as a row weighs, or one that stands for as many.
    repeats = np.ones(score.size) if rows.options.sampled else rows.mass[own]
    places = np.searchsorted(folds.judged(), folds.part[own]).astype(np.int32)
    mass = np.where(folds.among(folds.judged())[own], rows.mass[own], 0.0)
    places[mass <= 0.0] = 0
    before, seen = np.empty(score.size), np.zeros(score.size)
    kernels.leaf_probabilities(score, places, alone, before)
    total = np.zeros((len(grid.depths), len(grid.shrinkages), score.size))
    for one in tried:
        fresh = np.equal(one.counts[own], 0) if bagged else np.ones(score.size, np.bool_)
        above = np.stack([one.tree.ancestors(depth) for depth in grid.depths])
        forest.add_probabilities(
            score, np.where(fresh, places, -1).astype(np.int32), one.ends[own], above, one.lines,
            np.array(grid.shrinkages), total,
        )  # fmt: skip
        seen += fresh
    losses, found = np.empty((2, score.size)), np.empty((*total.shape[:2], 3))
    kernels.probability_losses(before, label, mass, 1e-15, losses[0])
    for place in np.ndindex(total.shape[:2]):
        mean = np.where(seen > 0.0, total[place] / np.maximum(seen, 1.0), before)
        kernels.probability_losses(mean, label, mass, 1e-15, losses[1])
        kernels.paired_gains(losses[0], losses[1], np.where(mass > 0.0, repeats, 0.0), found[place])
        found[place][2] = kernels.sum_in_order(losses[1])
    return float(kernels.sum_in_order(losses[0])), found
