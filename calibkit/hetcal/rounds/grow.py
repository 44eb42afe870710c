"""Growing trees from sums: the trees of all parts and leaf sizes together, which share what they can.

A node stands for the rows of one tree or of several that have not gone apart yet.  What it needs is
its histogram; a split, and which trees follow it, is then known, as `calibkit.hetcal.grow` has it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from calibkit.hetcal.features import Features
from calibkit.hetcal.grow import Rules, midpoint, sides_of
from calibkit.hetcal.payload import Vectors, vectors_of
from calibkit.hetcal.rounds.known import EVERYONE, Edges, Fork, Known, Spot, grid_of
from calibkit.hetcal.spec import HetcalSpec
from calibkit.hetcal.trees import Node, Tree
from calibkit_kernels import rounds as kernels
from calibkit_kernels import tree as splits

Floats = NDArray[np.float64]
Int64s = NDArray[np.int64]
Places = NDArray[np.int32]
T = TypeVar("T")

#: Bins of all histograms of a round together, at most, unless one histogram alone has more; where a
#: bin has more than two sums, so many fewer.
MOST_CELLS: Final = 1 << 20


@dataclass(frozen=True)
class Bins:
    """The bins of all features, side by side.

    Attributes
    ----------
    lows, highs
        The least and the greatest value in each bin of each feature (of a category its number).
    kinds
        Whether each feature is a category.
    starts
        Where the bins of each feature begin; each has one more, for missing values.
    """

    lows: tuple[Floats, ...]
    highs: tuple[Floats, ...]
    kinds: tuple[bool, ...]
    starts: Int64s

    @property
    def cells(self) -> int:
        """How many bins there are in all."""
        return int(self.starts[-1])

    def codes(self, features: Features) -> NDArray[np.uint16]:
        """Return the bin of each row, feature by feature."""
        found = np.empty(features.values.shape, np.uint16)
        for place, lows in enumerate(self.lows):
            splits.bin_codes(features.values[place], lows, found[place])
        return found

    def take(self, feature: int, values: Int64s) -> Int64s:
        """Return what belongs to one feature, of values side by side."""
        return values[self.starts[feature] : self.starts[feature + 1]]

    def some(self, features: Int64s) -> Bins:
        """Return the bins of some features, which rise."""
        chosen = features.tolist()
        starts = np.append(0, np.cumsum(np.diff(self.starts)[features]))
        lows, highs = (tuple(of[place] for place in chosen) for of in (self.lows, self.highs))
        return Bins(lows, highs, tuple(self.kinds[place] for place in chosen), starts)


def bins_of(known: Known) -> Bins:
    """Return the bins of all features that a plan knows."""
    return side_by_side(known.edges, known.categories)


def side_by_side(all_edges: Sequence[Edges], categories: Sequence[list[str] | None]) -> Bins:
    """Return the bins of some features: edges of numbers, the names of categories."""
    lows, highs = [], []
    for edges, names in zip(all_edges, categories, strict=True):
        numbers = None if names is None else np.arange(float(len(names)))
        lows.append(np.array(edges.lows, np.float64) if numbers is None else numbers)
        top = edges.highs or edges.lows
        highs.append(np.array(top, np.float64) if numbers is None else numbers)
    starts = np.cumsum([0, *(low.size + 1 for low in lows)])
    kinds = tuple(names is not None for names in categories)
    return Bins(tuple(lows), tuple(highs), kinds, starts)


def open_nodes(known: Known, sums: int) -> list[int]:
    """Return the nodes whose histograms the next round sums: as many as there is room for.

    `sums`: how many numbers a histogram has.
    """
    room = max(1, 2 * MOST_CELLS // sums)
    return [place for place, node in enumerate(known.nodes) if node.open][:room]


def vectors_in(known: Known, spec: HetcalSpec) -> Vectors:
    """Return how rows become the vectors that trees grow on: as in a fit in memory."""
    seen = known.rows
    return vectors_of(spec.criterion, seen.low, seen.high, seen.rows, seen.weight, seen.unit)


def first_nodes(parts: Iterable[int], sizes: int) -> list[Spot]:
    """Return the roots: of the trees of all rows, and of those that judge each part."""
    return [Spot(part, 0, list(range(sizes))) for part in (EVERYONE, *parts)]


def split_node(
    known: Known, node: Spot, hist: Int64s, bins: Bins, spec: HetcalSpec, sizes: Sequence[int]
) -> list[Spot]:
    """Write the forks of a node by its histogram; return the children, which are to follow.

    Parameters
    ----------
    known, node
        The trees, and a node whose rows and positives are known.
    hist
        Bin x sum; see `Vectors.of`.
    bins, spec, sizes
        The bins; what is fitted; the leaf sizes.
    """
    node.open = False
    deepest = max(grid_of(spec).depths)
    found: dict[tuple[float, ...], Fork] = {}
    children: list[Spot] = []
    if node.depth >= deepest or node.hits in (0, node.rows):
        return children
    total, vectors = bins.take(0, hist).sum(axis=0), vectors_in(known, spec)
    for size in node.sizes:
        if node.rows < 2 * sizes[size]:
            continue
        rules = vectors.rules(deepest, sizes[size])
        hists = [(feature, bins.take(feature, hist)) for feature in range(len(bins.lows))]
        best = best_split(hists, bins, total, rules)
        if best is None:
            continue
        feature, split = best
        like = (float(feature), *split.tolist())
        if like in found:
            found[like].sizes.append(size)
            continue
        own = bins.take(feature, hist)
        fork = fork_of(feature, split, own, bins, rules)
        fork.sizes.append(size)
        found[like] = fork
        fork.left = len(known.nodes) + len(children)
        fork.right = fork.left + 1
        rows, hits = left_sums(fork, int(split[splits.LOW]), own)[:2].tolist()
        # Both children share the list of sizes with the fork while it grows.
        for count, positives in ((rows, hits), (node.rows - rows, node.hits - hits)):
            children.append(Spot(node.part, node.depth + 1, fork.sizes, count, positives))
    node.forks = list(found.values())
    for child in children:
        hopeless = all(child.rows < 2 * sizes[size] for size in child.sizes)
        pure = child.hits in (0, child.rows)
        child.open = not (hopeless or pure or child.depth >= deepest)
    return children


def best_split(
    hists: Sequence[tuple[int, Int64s]], bins: Bins, total: Int64s, rules: Rules
) -> tuple[int, Floats] | None:
    """Return the feature and the split that bring the most; `hists`: features that may be used."""
    found = np.full((len(hists), 1, splits.SPLIT_WIDTH), splits.NONE)
    for (feature, own), best in zip(hists, found[:, 0], strict=True):
        ranks = np.empty(len(own), np.int64)
        size = bins.lows[feature].size
        used = splits.scan_order(own, size, bins.kinds[feature], rules.array(), ranks)
        splits.best_cut(own, ranks[:used], own[size], total, rules.array(), best)
    chosen = np.full(1, -1, np.int64)
    splits.choose_splits(found, total[None], rules.kind, chosen)
    place = int(chosen[0])
    return None if place < 0 else (hists[place][0], found[place, 0])


def fork_of(feature: int, split: Floats, hist: Int64s, bins: Bins, rules: Rules) -> Fork:
    """Return the fork of a split of a feature, whose bins are `hist`."""
    fork = Fork([], feature, float(split[splits.GAIN]), bool(split[splits.MISSING_LEFT]), -1, -1)
    low, high = int(split[splits.LOW]), int(split[splits.HIGH])
    if bins.kinds[feature]:
        fork.categories = sides_of(hist, low, rules)
    elif high >= 0:
        fork.cut = midpoint(bins.highs[feature][low], bins.lows[feature][high])
    return fork


def left_sums(fork: Fork, low: int, hist: Int64s) -> Int64s:
    """Return the sums of the rows that go left at a fork: what the split says of them is rounded."""
    if fork.categories is not None:
        left = hist[fork.categories[0]]
    else:
        left = hist[:-1] if fork.cut is None else hist[: low + 1]
    sums: Int64s = left.sum(axis=0) + hist[-1] * fork.missing_left
    return sums


def tree_of(known: Known, root: int, size: int, depth: int) -> tuple[Tree, list[int]]:
    """Return the tree of a leaf size cut off at a depth, and which spot each of its nodes is."""
    made, spots = list[Node](), list[int]()

    def visit(place: int) -> int:
        spot, own = known.nodes[place], len(made)
        made.append(Node(*(spot.grown or (spot.rows, spot.hits)), spot.depth))
        spots.append(place)
        fork = next((one for one in spot.forks if size in one.sizes), None)
        if fork is not None and spot.depth < depth:
            node = made[own]
            node.feature, node.gain, node.missing_left = fork.feature, fork.gain, fork.missing_left
            node.cut = math.nan if fork.cut is None else fork.cut
            node.categories = fork.categories
            node.left = visit(fork.left)
            node.right = visit(fork.right)
        return own

    visit(root)
    return Tree(made), spots


class Shared:
    """Threads that share the work on a block."""

    def __init__(self, pool: ThreadPoolExecutor, threads: int) -> None:
        self.pool, self.threads = pool, threads

    def over(self, count: int, work: Callable[[Int64s], None]) -> None:
        """Do some work on all of so many things, every so many of them in each thread."""
        self.each(count, work)

    def each(self, count: int, work: Callable[[Int64s], T]) -> list[T]:
        """Do the same, and return what each thread returns."""
        parts = min(self.threads, count)
        return list(self.pool.map(work, [np.arange(start, count, parts) for start in range(parts)]))


@dataclass(frozen=True)
class Visits:
    """How rows come to the nodes that a round asks for; see `calibkit_kernels.rounds.visit_rows`.

    Attributes
    ----------
    wanted
        These nodes.
    nodes, forks, cuts, sides
        The trees.
    """

    wanted: list[int]
    nodes: Int64s
    forks: Int64s
    cuts: Floats
    sides: NDArray[np.uint8]

    def rows(
        self, features: Features, part: NDArray[np.uint8], shared: Shared
    ) -> tuple[Int64s, Places]:
        """Return where the rows of each node that is wanted stand, and rows: more than these."""
        roots = np.flatnonzero(self.nodes[:, kernels.BEGINS])
        found = list[tuple[Int64s, Places]]()

        def visit(own: Int64s) -> None:
            # The nodes of different roots are different ones: each thread has its own places.
            nodes = self.nodes.copy()
            nodes[np.setdiff1d(roots, roots[own]), kernels.BEGINS] = kernels.NONE
            spans = np.empty((len(nodes), 2), np.int64)
            trees = nodes, self.forks, self.cuts, self.sides
            found.append((spans, kernels.visit_rows(features.values, part, *trees, spans)))

        shared.over(roots.size, visit)
        every, start = np.zeros((len(self.nodes), 2), np.int64), 0
        for spans, rows in found:
            every += np.where(spans[:, 1:] > 0, spans + start, 0)
            start += rows.size
        return every[self.wanted], np.concatenate([rows for _, rows in found])


def visits_of(known: Known, wanted: Iterable[int], begins: int) -> Visits:
    """Return how rows come to some nodes.

    Parameters
    ----------
    known, wanted
        The trees, and the nodes.
    begins
        `calibkit_kernels.rounds.OTHERS`: with the rows a tree is grown on, `OWN`: with those left out.
    """
    others = kernels.OTHERS if known.times is None else kernels.EARLIER
    asked = sorted(wanted)
    nodes = np.zeros((len(known.nodes), kernels.NODE_WIDTH), np.int64)
    nodes[:, kernels.FORK] = -1
    needed = np.zeros(len(nodes), np.bool_)
    needed[asked] = True
    forks: list[list[int]] = []
    cuts: list[float] = []
    sides: list[int] = []
    for place in reversed(range(len(known.nodes))):  # children stand after their parents
        spot = known.nodes[place]
        if spot.depth == 0:
            own = others if begins == kernels.OTHERS and spot.part != EVERYONE else begins
            nodes[place, kernels.BEGINS], nodes[place, kernels.PART] = own, spot.part
        for fork in spot.forks:
            if not (needed[fork.left] or needed[fork.right]):
                continue
            needed[place] = True
            children = [one if needed[one] else -1 for one in (fork.left, fork.right)]
            start = -1
            if fork.categories is not None:
                start = len(sides)
                sides += _table(fork, len(known.categories[fork.feature] or ()))
            following = int(nodes[place, kernels.FORK])
            nodes[place, kernels.FORK] = len(forks)
            forks.append([fork.feature, *children, fork.missing_left, start, following])
            cuts.append(math.inf if fork.cut is None else fork.cut)
    return Visits(
        asked,
        nodes,
        np.array(forks, np.int64).reshape(-1, kernels.FORK_WIDTH),
        np.array(cuts, np.float64),
        np.array(sides, np.uint8),
    )


def _table(fork: Fork, count: int) -> list[int]:
    """Return which categories go left; those that the node has not seen, with missing values."""
    assert fork.categories is not None
    found = [int(fork.missing_left)] * count
    for code in fork.categories[0]:
        found[code] = 1
    for code in fork.categories[1]:
        found[code] = 0
    return found


def leaves_of(known: Known, root: int, size: int, depth: int) -> list[int]:
    """Return the nodes that are the leaves of a tree cut off at a depth, from left to right."""
    tree, spots = tree_of(known, root, size, depth)
    return [spot for node, spot in zip(tree.nodes, spots, strict=True) if node.feature < 0]
