"""Forests: trees on bootstrap rows and random features, the mean of their probabilities."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calibkit.hetcal.choose import Grid, best_place, discounted
from calibkit.hetcal.describe import described_tree
from calibkit.hetcal.folds import Folds
from calibkit.hetcal.grow import Subsets
from calibkit.hetcal.maps import (
    Maps,
    fit_maps,
    gain_of_probabilities,
    loss_of_probabilities,
    node_lines,
    shrunk,
)
from calibkit.hetcal.model import CrossValidated, Line, PartitionPart
from calibkit.hetcal.payload import Growth
from calibkit.hetcal.rows import HetcalRows
from calibkit.hetcal.spec import FOREST_LEAF_SIZES, SHRINKAGES, HetcalSpec
from calibkit.hetcal.trees import Tree
from calibkit.simulate.streams import stream
from calibkit_kernels import leaf_maps as kernels

Floats = NDArray[np.float64]
Int64s = NDArray[np.int64]
Ends = NDArray[np.int32]

#: Trees of a forest, and of each forest that cross-validation compares.
TREES = 100
TRIED_TREES = 20

#: Depths that cross-validation compares.
DEPTHS = (0, 2, 4, 6, 8)

_BOOTSTRAP, _FEATURES = 1, 2


@dataclass(frozen=True)
class Grower:
    """Makes the trees of a forest, each a function of the seed and its number."""

    growth: Growth
    seed: int

    def tree(self, number: int, max_depth: int, min_leaf: int) -> tuple[Tree, Int64s]:
        """Return a tree and how often each row was drawn for it (Poisson, mean 1)."""
        counts = self.counts(number)
        rules = self.growth.rules(max_depth, min_leaf)
        return self.growth.tree(rules, counts=counts, subsets=self._subsets(number)), counts

    def counts(self, number: int) -> Int64s:
        """Return how often each row is drawn for a tree."""
        random = stream(self.seed, _BOOTSTRAP, number)
        counts = np.asarray(random.poisson(1.0, self.growth.payload.shape[0]), np.int64)
        if not counts.any():
            counts[:] = 1
        return counts

    def _subsets(self, number: int) -> Subsets:
        """Return what draws the features of each node, level by level."""
        features = self.growth.binned.codes.shape[0]
        random = feature_stream(self.seed, number)

        def draw(_: int, nodes: int) -> NDArray[np.bool_]:
            return some_features(random, nodes, features)

        return draw


def feature_stream(seed: int, number: int) -> np.random.Generator:
    """Return the random numbers that choose the features of the nodes of a tree."""
    return stream(seed, _FEATURES, number)


def some_features(random: np.random.Generator, nodes: int, features: int) -> NDArray[np.bool_]:
    """Return a third of the features, at least two, for each of the next nodes of a tree.

    Nodes come level by level, from left to right; each takes as many random numbers as there are
    features, so that it does not matter how many are asked for at a time.
    """
    kept = min(features, max(2, -(-features // 3)))
    ranks = random.random((nodes, features)).argsort(axis=1, kind="stable")
    chosen = np.zeros((nodes, features), np.bool_)
    np.put_along_axis(chosen, ranks[:, :kept], True, axis=1)
    return chosen


def forest_grid(spec: HetcalSpec) -> Grid:
    """Return what depth, leaf size and shrinkage of a forest are chosen from."""
    return Grid(
        DEPTHS if spec.max_depth is None else (spec.max_depth,),
        FOREST_LEAF_SIZES if spec.min_leaf is None else (spec.min_leaf,),
        SHRINKAGES if spec.shrinkage is None else (spec.shrinkage,),
    )


Fit = tuple[
    list[PartitionPart], Line | None, Floats, Ends, int, int, float | None, CrossValidated | None
]


def fit(
    rows: HetcalRows, growth: Growth, spec: HetcalSpec, folds: Folds | None, pooled: Floats
) -> Fit:
    """Return the partitions and maps of a forest; see `calibkit.hetcal.fit.Found`.

    Where it is grown on the rows themselves, the maps of a tree are fitted on those that it was not
    grown on (out of the bag).
    """
    grower = Grower(growth, spec.seed)
    grid = forest_grid(spec)
    depth, least, shrinkage = grid.depths[-1], grid.leaf_sizes[0], grid.shrinkages[0]
    checked = None
    if folds is not None and grid.open:
        depth, least, shrinkage, checked = _choose(rows, grower, grid, spec, folds)
    count = spec.trees or TREES

    def one(number: int) -> tuple[Tree, Maps, Ends]:
        tree, counts = grower.tree(number, depth, least)
        numbers = tree.leaves()
        leaf = numbers[tree.routes(growth.known).ends(rows.features.values)]
        used = np.where(counts > 0, -1, leaf) if growth.own else leaf.astype(np.int32)
        maps = fit_maps(rows, used, int(numbers.max()) + 1, pooled, shrinkage, spec.map)
        return tree, maps, leaf

    with ThreadPoolExecutor(spec.threads) as pool:
        made = list(pool.map(one, range(count)))
    total = np.zeros(rows.count)
    for _, maps, leaf in made:
        total += maps.probabilities(rows.score, leaf)
    parts = [
        PartitionPart(
            tree=described_tree(tree, growth.weight_unit, growth.features),
            maps=maps.described(rows.unit, rows.size),
        )
        for tree, maps, _ in made
    ]
    return parts, None, total / count, made[0][2], depth, least, shrinkage, checked


def _choose(
    rows: HetcalRows, grower: Grower, grid: Grid, spec: HetcalSpec, folds: Folds
) -> tuple[int, int, float, CrossValidated]:
    """Choose depth, leaf size and shrinkage by the gain of small forests on held-out rows.

    The maps of a tree are fitted on the other parts; without rows of their own to grow on, only the
    trees that did not draw a row judge it.
    """
    trees = min(spec.trees or TRIED_TREES, TRIED_TREES)
    judged = folds.among(folds.judged())
    own, everyone = grower.growth.own, np.ones(rows.count, np.bool_)
    alone, seen = _pooled_held_out(rows, folds), np.zeros(rows.count)
    shape = (len(grid.leaf_sizes), len(grid.depths), len(grid.shrinkages))
    gains, losses = np.empty((*shape, 2)), np.empty(shape)
    for place, size in enumerate(grid.leaf_sizes):

        def one(number: int, size: int = size) -> tuple[Floats, NDArray[np.bool_]]:
            tree, counts = grower.tree(number, max(grid.depths), size)
            eligible = np.equal(counts, 0) if own else everyone
            return _held_out(rows, tree, eligible, folds, grid, grower.growth), eligible

        with ThreadPoolExecutor(spec.threads) as pool:
            found = list(pool.map(one, range(trees)))
        total = np.zeros_like(found[0][0])
        seen[:] = 0.0
        for probability, eligible in found:
            total += probability
            seen += eligible
        mean = np.where(seen > 0.0, total / np.maximum(seen, 1.0), alone)
        for d, r in np.ndindex(*shape[1:]):
            gains[place, d, r] = gain_of_probabilities(rows, alone, mean[d, r], judged)
            losses[place, d, r] = loss_of_probabilities(rows, mean[d, r], judged)
    together = loss_of_probabilities(rows, alone, judged)
    best = best_place(discounted(gains, float(rows.mass[judged].sum())), grid)
    by_depth = {str(depth): float(losses[:, d].min()) for d, depth in enumerate(grid.depths)}
    checked = CrossValidated(
        pooled=together, calibrated=float(losses[best]), folds=folds.count, by_depth=by_depth
    )
    return grid.depths[best[1]], grid.leaf_sizes[best[0]], grid.shrinkages[best[2]], checked


def _pooled_held_out(rows: HetcalRows, folds: Folds) -> Floats:
    """Return the probability of each row by the map of all rows it may be judged by, else 0.5."""
    out = np.full(rows.count, 0.5)
    for part in folds.judged():
        held = np.flatnonzero(folds.held(part))
        leaf = np.where(folds.used(part), 0, -1).astype(np.int32)
        line = node_lines(rows, leaf, 1)[:, :2].copy()
        found = np.empty(held.size)
        kernels.leaf_probabilities(rows.score[held], np.zeros(held.size, np.int32), line, found)
        out[held] = found
    return out


def _held_out(
    rows: HetcalRows,
    tree: Tree,
    eligible: NDArray[np.bool_],
    folds: Folds,
    grid: Grid,
    growth: Growth,
) -> Floats:
    """Return depth x shrinkage x row: the probability by maps of other folds, 0 if not eligible."""
    ends = tree.routes(growth.known).ends(rows.features.values)
    depth_of = np.array([node.depth for node in tree.nodes])
    out = np.zeros((len(grid.depths), len(grid.shrinkages), rows.count))
    for part in folds.judged():
        places = np.flatnonzero(eligible & folds.held(part))
        for d, depth in enumerate(grid.depths):
            below = tree.ancestors(min(depth, int(depth_of.max())))[ends]
            leaf = np.where(eligible & folds.used(part), below, -1).astype(np.int32)
            lines = node_lines(rows, leaf, len(tree.nodes))
            root = np.where(leaf >= 0, 0, -1).astype(np.int32)
            together = node_lines(rows, root, 1)[0, :2]
            for r, shrinkage in enumerate(grid.shrinkages):
                maps = shrunk(lines, together, shrinkage)
                found = np.empty(places.size)
                kernels.leaf_probabilities(rows.score[places], below[places], maps, found)
                out[d, r, places] = found
    return out
