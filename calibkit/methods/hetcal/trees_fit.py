"""One tree, or the mean of a forest; depth, leaf size and shrinkage by cross-validation.

Growth is nested: the tree of depth d is the first d levels of any deeper one, so all depths are read
off the deepest, and a node has one map whatever the depth of the tree it is a leaf of.

The winner is not the least loss: of hundreds of candidates the luckiest always seems to gain.  A gain
over one map for all rows is discounted by its standard error, see `discounted`.
"""

from __future__ import annotations

import itertools
import math
from functools import partial
from typing import Final

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from calibkit.arrays import Bools, Floats, Int32s, Int64s, UInt8s, UInt16s, distinct_values
from calibkit.methods.hetcal.grow import Growth
from calibkit.methods.hetcal.maps import (
    Found,
    Maps,
    by_leaf,
    fit_maps,
    mean_loss,
    pooled_line,
)
from calibkit.methods.hetcal.model import CrossValidated, PartitionPart
from calibkit.methods.hetcal.rows import Folds, HetcalRows
from calibkit.methods.hetcal.trees import Tree, described_tree, group_starts
from calibkit.numerics.hashes import poisson_of_keys, stream
from calibkit.options.hetcal import DEPTHS, FOREST_LEAF_SIZES, LEAF_SIZES, SHRINKAGES, HetcalOptions
from calibkit.runtime.progress import steps
from calibkit.runtime.threads import in_order
from calibkit_kernels import leaves as kernels
from calibkit_kernels.metrics import expit

#: A candidate, by its place in each of: leaf sizes, depths, shrinkages.
Place = tuple[int, int, int]

#: Standard errors by which chance alone lifts the best of several hundred candidates.
LUCK = 3.0

#: Ranges of scores: up to so many distinct scores each one is a range, beyond there are so many.
MOST_CELLS: Final = 2048

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
    compared = (DEPTHS, LEAF_SIZES) if single else (FOREST_DEPTHS, FOREST_LEAF_SIZES)
    grid = Grid.of(options, *compared)
    place, checked = (0, 0 if single else len(grid.depths) - 1, 0), None
    line = np.array([1.0, 0.0])
    if folds is not None and single and (grid.open or growth.own):
        place, checked, line = choose(rows, growth, grid, folds, pooled, options.workers)
    elif folds is not None and grid.open:
        place, checked = choose_forest(rows, growth, grid, options, folds, pooled)
    depth, least, shrinkage = grid.at(place)

    def grown(number: int) -> tuple[Tree, Maps, Int32s]:
        if single:
            tree, drawn = growth.tree(depth, least, options.workers), None
        else:
            tree, drawn = _tree(growth, options.seed, number, depth, least)
        leaf, leaves = rows.leaves(tree)
        used = leaf
        if growth.own and drawn is not None:
            used = rows.made(lambda own: np.where(drawn[own] > 0, -1, leaf[own]), np.int32)
        maps = fit_maps(rows, used, leaves, pooled, shrinkage, options.map)
        if single and growth.own and options.map in ("platt", "beta") and leaves > 1:
            maps = maps.composed(*line)
        return tree, maps, leaf

    count, threads = (1, 1) if single else (options.trees or TREES, options.workers)
    probability = rows.made(lambda own: 0.0)
    parts, first = list[PartitionPart](), np.empty(0, np.int32)
    for tree, maps, leaf in steps(in_order(threads, grown, range(count)), count, "trees grown"):
        first = leaf if not parts else first
        for own in rows.blocks():
            probability[own] += maps.probabilities(rows.score[own], leaf[own])
        nodes = described_tree(tree, growth.rows.features, growth.rows.size)
        parts.append(PartitionPart(tree=nodes, maps=maps.described(rows, range(len(maps.lines)))))
    np.divide(probability, count, out=probability)
    return Found(parts, probability, first, depth, least, shrinkage, checked)


def _tree(
    growth: Growth, seed: int, number: int, max_depth: int, min_leaf: int
) -> tuple[Tree, UInt8s]:
    """Return the tree of a number, and how often each row was drawn for it (Poisson, mean 1).

    A node may use a third of the features, at least two.
    """
    rows = growth.rows
    counts = rows.made(lambda own: poisson_of_keys(rows.key[own], seed, number), np.uint8)
    if not counts.any():
        counts[:] = 1
    features = len(rows.features.columns)
    kept = min(features, max(2, -(-features // 3)))
    random = stream(seed, _FEATURES, number)

    def subsets(nodes: int) -> Bools:
        drawn = random.random((nodes, features)).argsort(axis=1, kind="stable")
        return drawn.argsort(axis=1) < kept

    return growth.tree(max_depth, min_leaf, counts=counts, subsets=subsets), counts


class Cells:
    """Rows by ranges of their scores, which rise or fall.

    `score` is the mean score of each range, `place` the range of each row.
    """

    def __init__(self, rows: HetcalRows) -> None:
        self.rows, rising = rows, rows.score[0] <= rows.score[-1]
        starts = group_starts(rows.score if rising else rows.score[::-1], MOST_CELLS)[0]
        if not rising:
            starts = np.append(0, rows.count - starts[:0:-1])
        sizes = np.diff(np.append(starts, rows.count))
        first, last = rows.score[starts], rows.score[starts + sizes - 1]
        self.score = np.where(first == last, first, np.add.reduceat(rows.score, starts) / sizes)
        self.place = rows.arrays.empty(rows.count, np.uint16)
        self.place[:] = np.repeat(np.arange(sizes.size, dtype=np.uint16), sizes)

    def counted(
        self, tree: Tree, used: Bools, held: Bools | None = None
    ) -> tuple[Floats, Int64s, Int32s, Floats, Floats]:
        """Return what the rows of each node weigh, by range: those learnt from, and those held out.

        These are the score of each range, then places, cells and sums as `kernels.count_cells`
        writes them, and Platt's map of the known rows of each node: a, b, rows, positives.
        """
        rows, count = self.rows, len(tree.nodes)
        order, spans = by_leaf(rows, rows.ends(tree), count)

        def code_of(own: slice) -> UInt16s:
            code = 4 * self.place[own] + rows.label[own]
            away = np.full(code.size, kernels.NEITHER, np.uint16)
            if held is not None:
                away = np.where(held[own], code + np.uint16(kernels.HELD), away)
            return np.where(used[own], code, away)

        codes = rows.made(code_of, np.uint16)
        children = np.array([(node.left, node.right) for node in tree.nodes], np.int32)
        room = np.minimum(spans[:, 1] - spans[:, 0], self.score.size)
        parents = np.full(count, -1, np.int32)
        for place in range(count - 1, -1, -1):
            left, right = children[place]
            if left >= 0:
                room[place] = min(room[left] + room[right], self.score.size)
                parents[[left, right]] = place
        size, width = int(room.sum()), kernels.SQUARES + (2 if rows.options.sampled else 0)
        places, lines = np.empty((count, 2), np.int64), np.empty((count, 4))
        cells = rows.arrays.empty(size, np.int32)
        sums = rows.arrays.empty((size, width), np.float64)
        kernels.count_cells(order, spans, children, codes, rows.mass, places, cells, sums)
        kernels.fit_cell_lines(self.score, places, cells, sums, parents, lines)
        return self.score, places, cells, sums, lines


class Grid(Struct, frozen=True):
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
        """Return what is told of the losses of all places, and of that of the pooled map."""
        return CrossValidated(
            pooled=pooled,
            calibrated=float(losses[best]),
            folds=len(folds.judged()),
            by_depth={str(depth): float(losses[:, d].min()) for d, depth in enumerate(self.depths)},
        )


def choose(
    rows: HetcalRows, growth: Growth, grid: Grid, folds: Folds, pooled: Floats, threads: int
) -> tuple[Place, CrossValidated, Floats]:
    """Choose by the discounted gain on held-out rows; ties: shallower, larger leaf, more shrinkage.

    Candidates are fitted and judged on counts by node and range of scores, the chosen one on rows.
    Returned are its place, what was seen, and the map from its held-out linear scores to labels.

    Trees are grown on the same rows, of which a part's own are then left out, or on others; `pooled` is
    the map of all rows.
    """
    deepest, parts = max(grid.depths), folds.judged()
    cells, sizes = Cells(rows) if grid.open else None, grid.leaf_sizes
    jobs = list(itertools.product(range(len(sizes)), range(len(parts))))
    gains = np.zeros((len(parts), len(sizes), len(grid.depths), len(grid.shrinkages), 2))
    shrinkages, trees = np.array(grid.shrinkages), dict[tuple[int, int], Tree]()
    shared = [] if growth.own else [growth.tree(deepest, size, threads) for size in sizes]

    def work(job: tuple[int, int]) -> None:
        size, part = job
        used, held = folds.used(parts[part]), folds.held(parts[part])
        tree = shared[size] if shared else growth.tree(deepest, sizes[size], used=used)
        trees[job] = tree
        if cells is None:  # what it gains chooses nothing
            return
        own = np.empty((len(tree.nodes), shrinkages.size, 2))
        kernels.cell_gains(*cells.counted(tree, used, held), shrinkages, own)
        leaves = [distinct_values(tree.ancestors(depth)[tree.ends()]) for depth in grid.depths]
        gains[part, size] = np.stack([own[nodes].sum(axis=0) for nodes in leaves])

    list(steps(in_order(threads, work, jobs), len(jobs), "trees tried"))
    kept, total = folds.among(parts), gains.sum(axis=0)
    mass = float(rows.mass[kept].sum())
    best = best_place(discounted(total, mass), grid)
    size, depth, weight = best
    linear = rows.arrays.empty((2, rows.count), np.float64)
    linear[:] = 0.0  # also for rows that nothing judges

    def judge(part: int) -> None:
        # Two scores of the rows held out: under the map of all rows used, and under the leaves'.
        tree = trees[size, part].pruned(grid.depths[depth])
        leaf, used = rows.ends(tree), folds.used(parts[part])
        whole = pooled_line(rows, used, pooled)
        known = rows.made(lambda own: np.where(used[own], leaf[own], -1), np.int32)
        maps = fit_maps(rows, known, len(tree.nodes), whole, grid.shrinkages[weight], "platt").lines
        held = folds.held(parts[part])
        for own in rows.blocks():
            here = np.flatnonzero(held[own]) + own.start
            score, mine = rows.score[here], leaf[here]
            linear[0, here] = whole[0] * score + whole[1]
            linear[1, here] = maps[mine, 0] * score + maps[mine, 1]

    list(in_order(threads, judge, range(len(parts))))
    alone, loss = (mean_loss(rows, own, kept) for own in linear)
    losses = alone - total[..., 0] / mass
    losses[best] = loss
    line = pooled_line(replace(rows, score=linear[1]), kept, (1.0, 0.0))
    return best, grid.seen(losses, best, alone, folds), line


def discounted(sums: Floats, mass: float) -> Floats:
    """Return what gains over the pooled map are worth: ``g - (3 s)^2 / max(g, 3 s)``.

    A mean gain g with standard error s that is many times s is worth almost all of it, one of 3 s
    nothing: as much is due to chance where the best of hundreds of candidates is taken.

    `sums` are candidates (any shape) x 2: sums of the gain and of its square over `mass` rows.
    """
    gain = sums[..., 0] / mass
    luck = LUCK * np.sqrt(np.maximum(sums[..., 1] / mass - gain * gain, 0.0) / mass)
    most = np.maximum(gain, luck)
    off = np.divide(luck * luck, most, out=np.zeros_like(luck), where=luck > 0.0)
    return np.asarray(gain - off)


def best_place(worth: Floats, grid: Grid) -> Place:
    """Return the place of what is worth most."""
    best, found = -np.inf, (0, 0, 0)
    sizes, weights = (range(len(own))[::-1] for own in (grid.leaf_sizes, grid.shrinkages))
    for depth, size, weight in itertools.product(range(len(grid.depths)), sizes, weights):
        if worth[size, depth, weight] > best + 1e-12:
            best, found = worth[size, depth, weight], (size, depth, weight)
    return found


class _Tried(Struct, frozen=True):
    """A tree that is tried: where rows end, which it did not draw, and part x node x 4 lines."""

    tree: Tree
    ends: Int32s
    fresh: Bools
    lines: Floats


def choose_forest(
    rows: HetcalRows,
    growth: Growth,
    grid: Grid,
    options: HetcalOptions,
    folds: Folds,
    pooled: Floats,
) -> tuple[Place, CrossValidated]:
    """Choose depth, leaf size and shrinkage by the gain of small forests on held-out rows.

    The maps of a tree are fitted on the other parts, on counts by range of scores; without rows of
    their own to grow on, only the trees that did not draw a row judge it.
    """
    trees, parts = min(options.trees or TRIED_TREES, TRIED_TREES), folds.judged()
    shape = len(grid.leaf_sizes), len(grid.depths), len(grid.shrinkages), 3
    sums, cells = np.zeros(shape), Cells(rows)
    alone = np.stack([pooled_line(rows, folds.used(part), pooled) for part in parts])
    together = 0.0
    for place, size in enumerate(grid.leaf_sizes):

        def one(number: int, size: int = size) -> _Tried:
            tree, counts = _tree(growth, options.seed, number, max(grid.depths), size)
            fresh = np.equal(counts, 0) if growth.own else np.ones(rows.count, np.bool_)
            lines = [cells.counted(tree, fresh & folds.used(part))[-1] for part in parts]
            # A tree that drew all rows of its parts has no line of its own.
            found = np.stack(lines)
            found[:, 0, :2] = np.where(found[:, 0, 2:3] > 0.0, found[:, 0, :2], alone)
            return _Tried(tree, rows.ends(tree), fresh, found)

        grown = in_order(options.workers, one, range(trees))
        tried = list(steps(grown, trees, "trees tried"))
        judge = partial(_forest_gains, rows, tried, grid, folds, alone)
        found = list(in_order(options.workers, judge, rows.blocks()))
        together = math.fsum(loss for loss, _ in found)
        sums[place] = sum(own for _, own in found)
    mass = float(rows.mass[folds.among(parts)].sum())
    best = best_place(discounted(sums[..., :2], mass), grid)
    return best, grid.seen(sums[..., 2] / mass, best, together / mass, folds)


def _forest_gains(
    rows: HetcalRows,
    tried: list[_Tried],
    grid: Grid,
    folds: Folds,
    alone: Floats,
    own: slice,
) -> tuple[float, Floats]:
    """Return the loss of some rows under the maps of all rows of other parts, and of the candidates.

    The latter as depth x shrinkage x 3: gain over the former, its square, loss.
    """
    score, label = rows.score[own], rows.label[own]
    # As many equal rows as a row weighs, or one that stands for as many; one of none has no loss.
    repeats = np.ones(score.size)
    if not rows.options.sampled:
        repeats = np.where(rows.mass[own] > 0.0, rows.mass[own], 1.0)
    places = np.searchsorted(folds.judged(), folds.part[own]).astype(np.int32)
    mass = np.where(np.isin(folds.part[own], folds.judged()), rows.mass[own], 0.0)
    places[mass <= 0.0] = 0
    before, seen = score.copy(), np.zeros(score.size)
    kernels.move_scores(before, places, alone)
    expit(before, before)
    total = np.zeros((len(grid.depths), len(grid.shrinkages), score.size))
    for one in tried:
        fresh = one.fresh[own]
        above = np.stack([one.tree.ancestors(depth) for depth in grid.depths])
        kernels.add_probabilities(
            score, np.where(fresh, places, -1).astype(np.int32), one.ends[own], above, one.lines,
            np.array(grid.shrinkages), total,
        )  # fmt: skip
        seen += fresh
    losses, found = np.empty((2, score.size)), np.empty((*total.shape[:2], 3))
    kernels.probability_losses(before, label, mass, losses[0])
    for place in np.ndindex(total.shape[:2]):
        mean = np.where(seen > 0.0, total[place] / np.maximum(seen, 1.0), before)
        kernels.probability_losses(mean, label, mass, losses[1])
        fall = losses[0] - losses[1]
        gain, square = np.add.reduce(fall), np.add.reduce(fall * fall / repeats)
        found[place] = gain, square, kernels.sum_in_order(losses[1])
    return float(kernels.sum_in_order(losses[0])), found
