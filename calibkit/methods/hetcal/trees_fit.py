"""One tree, or the mean of a forest: trees on bootstrap rows and random features."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calibkit.methods.hetcal.choose import (
    Grid,
    Place,
    best_place,
    cells_of,
    choose,
    count_cells,
    discounted,
)
from calibkit.methods.hetcal.maps import Found, Maps, fit_maps, pooled_line
from calibkit.methods.hetcal.model import CrossValidated, PartitionPart
from calibkit.methods.hetcal.payload import Growth
from calibkit.methods.hetcal.rows import Folds, HetcalRows
from calibkit.methods.hetcal.trees import Tree
from calibkit.numerics.streams import poisson_of_keys, stream
from calibkit.options.hetcal import DEPTHS, FOREST_LEAF_SIZES, LEAF_SIZES, HetcalOptions
from calibkit_kernels import leaf_maps as kernels

Floats = NDArray[np.float64]
Counts = NDArray[np.uint8]
Ends = NDArray[np.int32]

#: Trees of a forest, and of each forest that cross-validation compares.
TREES = 100
TRIED_TREES = 20

#: Depths that cross-validation of a forest compares.
FOREST_DEPTHS = (0, 2, 4, 6, 8)

_FEATURES = 2


def fit(
    rows: HetcalRows, growth: Growth, options: HetcalOptions, folds: Folds | None, pooled: Floats
) -> Found:
    """Return the partition and maps of a tree, or those of a forest.

    Of one tree that is grown on the rows themselves, the maps are corrected by what held-out scores
    need; of a forest the maps of a tree are fitted on rows that it was not grown on (out of the bag).
    """
    single = options.partition == "tree"
    grid = Grid.of(options, DEPTHS, LEAF_SIZES)
    place, checked, line = (0, 0, 0), None, (1.0, 0.0)
    if not single:
        grid = Grid.of(options, FOREST_DEPTHS, FOREST_LEAF_SIZES)
        place = (0, len(grid.depths) - 1, 0)
    if folds is not None and single and (grid.open or growth.own):
        place, checked, line = choose(rows, growth, grid, folds, options.workers)
    elif folds is not None and grid.open:
        place, checked = _choose(rows, growth, grid, options, folds)
    depth, least, shrinkage = grid.at(place)

    def mapped(tree: Tree, drawn: Counts | None = None) -> tuple[Tree, Maps, Ends]:
        leaf, leaves = rows.leaves(tree)
        used = leaf
        if growth.own and drawn is not None:
            used = rows.arrays.empty(rows.count, np.int32)
            for own in rows.blocks():
                used[own] = np.where(drawn[own] > 0, -1, leaf[own])
        maps = fit_maps(rows, used, leaves, pooled, shrinkage, options.map)
        if single and growth.own and options.map in ("platt", "beta") and leaves > 1:
            maps = maps.composed(*line)
        return tree, maps, leaf

    def one(number: int) -> tuple[Tree, Maps, Ends]:
        return mapped(*_tree(growth, options.seed, number, depth, least))

    count = 1 if single else options.trees or TREES
    probability = rows.arrays.empty(rows.count, np.float64)
    probability[:] = 0.0
    parts, first = list[PartitionPart](), np.empty(0, np.int32)
    with ThreadPoolExecutor(options.workers) as pool:
        if single:
            grown = iter([mapped(growth.tree(depth, least, pool, options.workers))])
        else:
            grown = pool.map(one, range(count))
        for tree, maps, leaf in grown:
            first = leaf if not parts else first
            for own in rows.blocks():
                probability[own] += maps.probabilities(rows.score[own], leaf[own])
            parts.append(PartitionPart(tree=growth.described(tree), maps=maps.described(rows)))
    np.divide(probability, count, out=probability)
    return Found(parts, probability, first, depth, least, shrinkage, checked)


def _tree(
    growth: Growth, seed: int, number: int, max_depth: int, min_leaf: int
) -> tuple[Tree, Counts]:
    """Return the tree of a number, and how often each row was drawn for it (Poisson, mean 1).

    A node may use a third of the features, at least two.
    """
    rows = growth.rows
    counts = rows.arrays.empty(rows.count, np.uint8)
    for own in rows.blocks():
        counts[own] = poisson_of_keys(rows.key[own], seed, number)
    if not counts.any():
        counts[:] = 1
    features = len(rows.features.columns)
    kept = min(features, max(2, -(-features // 3)))
    random = stream(seed, _FEATURES, number)

    def subsets(nodes: int) -> NDArray[np.bool_]:
        ranks = random.random((nodes, features)).argsort(axis=1, kind="stable")
        chosen = np.zeros((nodes, features), np.bool_)
        np.put_along_axis(chosen, ranks[:, :kept], True, axis=1)
        return chosen

    return growth.tree(max_depth, min_leaf, counts=counts, subsets=subsets), counts


@dataclass(frozen=True)
class _Tried:
    """A tree that is tried: where rows end, how often they were drawn, and part x node x 4 lines."""

    tree: Tree
    ends: Ends
    counts: Counts
    lines: Floats


def _choose(
    rows: HetcalRows, growth: Growth, grid: Grid, options: HetcalOptions, folds: Folds
) -> tuple[Place, CrossValidated]:
    """Choose depth, leaf size and shrinkage by the gain of small forests on held-out rows.

    The maps of a tree are fitted on the other parts, on counts by range of scores; without rows of
    their own to grow on, only the trees that did not draw a row judge it.
    """
    trees, parts = min(options.trees or TRIED_TREES, TRIED_TREES), folds.judged()
    shape = (len(grid.leaf_sizes), len(grid.depths), len(grid.shrinkages))
    sums, cells = np.zeros((*shape, 3)), cells_of(rows)
    alone = np.stack([pooled_line(rows, folds.used(part)) for part in parts])
    together = 0.0
    with ThreadPoolExecutor(options.workers) as pool:
        for place, size in enumerate(grid.leaf_sizes):

            def one(number: int, size: int = size) -> _Tried:
                tree, counts = _tree(growth, options.seed, number, max(grid.depths), size)
                fresh = np.equal(counts, 0) if growth.own else np.ones(rows.count, np.bool_)
                lines = [
                    count_cells(rows, cells, tree, fresh & folds.used(part)).lines(tree)
                    for part in parts
                ]
                return _Tried(tree, rows.ends(tree), counts, np.stack(lines))

            tried = list(pool.map(one, range(trees)))

            def judge(own: slice, tried: list[_Tried] = tried) -> tuple[float, Floats]:
                return _judged(rows, own, tried, grid, folds, alone, growth.own)

            found = list(pool.map(judge, rows.blocks()))
            together = sum(loss for loss, _ in found)
            sums[place] = sum(own for _, own in found)
    mass = float(rows.mass[folds.among(parts)].sum())
    best = best_place(discounted(sums[..., :2], mass), grid)
    return best, grid.seen(sums[..., 2] / mass, best, together / mass, folds)


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
        kernels.add_probabilities(
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
