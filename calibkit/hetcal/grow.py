"""Growing a tree: level by level, the features of a level shared among threads."""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calibkit.hetcal.features import Binned
from calibkit.hetcal.trees import Node, Tree
from calibkit_kernels import criteria
from calibkit_kernels import tree as kernels

Floats = NDArray[np.float64]
Int64s = NDArray[np.int64]

CRITERIA = {"gini": criteria.GINI, "entropy": criteria.ENTROPY, "auc": criteria.AUC}

#: Fewer row visits a level than this are not worth a second thread.
_SHARED_VISITS = 200_000

#: Histograms are kept from level to level up to this many numbers.
_MOST_KEPT = 1 << 23


@dataclass(frozen=True)
class Rules:
    """When and how nodes are split.

    Attributes
    ----------
    kind
        The criterion, one of `calibkit_kernels.criteria`.
    max_depth, min_leaf
        Of the tree; least count of a leaf.
    unit, second
        The unit of the sums, of scores and squared scores (`AUC`) or of gradients (`NEWTON`); the
        variance up to which there is none (`AUC`), or the ridge (`NEWTON`).
    """

    kind: int
    max_depth: int
    min_leaf: int
    unit: float = 1.0
    second: float = 1.0

    def array(self) -> Floats:
        """Return the rules as kernels take them."""
        return np.array([self.kind, self.min_leaf, self.unit, self.second], np.float64)


#: Tells which features a level may use: nodes x features, or None for all.
Subsets = Callable[[int, int], NDArray[np.bool_]]


def grow(
    binned: Binned,
    payload: Int64s,
    rules: Rules,
    pool: Executor | None = None,
    threads: int = 1,
    subsets: Subsets | None = None,
    order: NDArray[np.int32] | None = None,
    *,
    steady: bool = False,
) -> tuple[Tree, NDArray[np.int32]]:
    """Grow a tree greedily.

    Parameters
    ----------
    binned
        The features.
    payload
        The integer vector of each row; see `calibkit_kernels.criteria.split_gain`.
    rules
        When and how to split.
    pool, threads
        Where several threads share the features of a level.
    subsets
        Called with the depth and the number of its nodes: the features each may use.
    order
        The rows to grow on; None: all with a count.
    steady
        Whether all nodes may use the same features, so that histograms can be had as differences.

    Returns
    -------
    tree, ends
        The tree, its nodes level by level, and the leaf node of each row (-1: not grown on).

    Notes
    -----
    A node is split by the largest gain (ties: the first feature, the lowest cut), unless it is at
    the largest depth, pure, or no split with enough rows on both sides has a gain above 1e-12 a row.
    """
    if order is None:
        order = np.flatnonzero(payload[:, 0]).astype(np.int32)
    growing = _Growing(binned, payload, rules, order, steady)
    places = [0]
    spans = np.array([[0, order.size]], np.int64)
    for depth in range(rules.max_depth + 1):
        totals = growing.add_level(len(places), spans, depth)
        allowed = None if subsets is None else subsets(depth, len(places))
        splits = growing.search(spans, totals, depth, allowed, pool, threads)
        places, spans = growing.split_level(places, spans, splits, totals)
        if not places:
            break
    return growing.tree, growing.ends


class _Growing:
    """A tree as it grows: its rows, always those of a node side by side."""

    def __init__(
        self,
        binned: Binned,
        payload: Int64s,
        rules: Rules,
        order: NDArray[np.int32],
        steady: bool,
    ) -> None:
        self.binned, self.payload, self.rules, self.order = binned, payload, rules, order
        self.spare = np.empty_like(order)
        self.gathered = np.empty((order.size, payload.shape[1]), np.int64)
        self.tree = Tree()
        self.ends = np.full(payload.shape[0], -1, np.int32)
        most = int(binned.bins[:, 0].max(initial=0)) + 1
        shape = (binned.codes.shape[0], 2 << max(rules.max_depth - 1, 0), most, payload.shape[1])
        if not steady or math.prod(shape) > _MOST_KEPT:
            shape = (shape[0], 1, *shape[2:])
        self.kept = np.empty(shape, np.int64)
        self.turn = 0
        self.slots = np.empty(0, np.int64)
        self.parents: list[int] = []

    def add_level(self, count: int, spans: Int64s, depth: int) -> Int64s:
        """Add the nodes of a level, and return the sums of each."""
        kernels.gather_rows(self.payload, self.order, self.gathered)
        totals = np.zeros((count, self.payload.shape[1]), np.int64)
        kernels.node_totals(self.gathered, spans, totals)
        self.tree.nodes += [Node(rows, second, depth) for rows, second in totals[:, :2].tolist()]
        return totals

    def search(
        self,
        spans: Int64s,
        totals: Int64s,
        depth: int,
        allowed: NDArray[np.bool_] | None,
        pool: Executor | None,
        threads: int,
    ) -> Floats:
        """Return the best split of each node on each feature."""
        rules, binned = self.rules, self.binned
        count = binned.codes.shape[0]
        splits = np.full((count, len(spans), kernels.SPLIT_WIDTH), kernels.NONE)
        hopeless = totals[:, 0] < 2 * rules.min_leaf
        if rules.kind != criteria.NEWTON:
            hopeless |= (totals[:, 1] == 0) | (totals[:, 1] == totals[:, 0])
        if depth >= rules.max_depth or hopeless.all() or count == 0:
            return splits
        splits[:, hopeless, kernels.GAIN] = kernels.SKIP
        if allowed is not None:
            splits[~allowed.T, kernels.GAIN] = kernels.SKIP
        searched = np.flatnonzero((splits[:, :, kernels.GAIN] != kernels.SKIP).any(axis=1))
        features = np.column_stack([searched, binned.bins[searched]])
        nodes = self._nodes(spans, hopeless)
        array = rules.array()

        def work(own: Int64s) -> None:
            kernels.search_splits(
                binned.codes, self.order, self.gathered, nodes, own, array, self.kept, splits
            )

        parts = threads if pool is not None and self.order.size * count > _SHARED_VISITS else 1
        if parts == 1 or pool is None:
            work(features)
        else:
            # Features of many bins take longer: deal them out in turn.
            heavy = features[np.argsort(-features[:, 1], kind="stable")]
            list(pool.map(work, [heavy[part::parts].copy() for part in range(parts)]))
        return splits

    def _nodes(self, spans: Int64s, hopeless: NDArray[np.bool_]) -> Int64s:
        """Return the nodes of a level as the search takes them.

        Where histograms are kept, the larger of two siblings is its parent less the smaller one.
        """
        nodes = np.full((len(spans), kernels.NODE_WIDTH), -1, np.int64)
        nodes[:, :2] = spans
        nodes[:, kernels.SLOT] = nodes[:, kernels.NEEDED] = 0
        slots = self.kept.shape[1] // 2
        if not slots:
            return nodes
        # The slots of two levels take turns; those of the parents are still full.
        self.turn = 1 - self.turn
        nodes[:, kernels.SLOT] = self.turn * slots + np.arange(len(spans))
        sizes = spans[:, 1] - spans[:, 0]
        for left, parent in zip(range(0, len(spans) - 1, 2), self.parents, strict=True):
            small, large = (left, left + 1) if sizes[left] <= sizes[left + 1] else (left + 1, left)
            if not hopeless[large]:
                nodes[small, kernels.NEEDED] = 1
                nodes[large, kernels.PARENT] = parent
                nodes[large, kernels.SIBLING] = nodes[small, kernels.SLOT]
        self.slots = nodes[:, kernels.SLOT].copy()
        return nodes

    def split_level(
        self, places: list[int], spans: Int64s, splits: Floats, totals: Int64s
    ) -> tuple[list[int], Int64s]:
        """Part the rows of the nodes of a level; return their children, and where their rows are."""
        chosen = np.full(len(places), -1, np.int64)
        kernels.choose_splits(splits, totals, self.rules.kind, chosen)
        children: list[int] = []
        ranges: list[list[int]] = []
        self.parents = []
        for index, (place, feature) in enumerate(zip(places, chosen.tolist(), strict=True)):
            low, high = spans[index].tolist()
            if feature < 0:
                self.ends[self.order[low:high]] = place
                continue
            node, split = self.tree.nodes[place], splits[feature, index]
            left = _settle(node, self.binned, feature, split)
            if left is None:
                rows = self.order[low:high], self.gathered[low:high]
                left = _category_sides(node, self.binned, *rows, self.rules, split)
            size = kernels.split_rows(
                self.binned.codes[feature], self.order[low:high], left, self.spare
            )
            ranges += [[low, low + size], [low + size, high]]
            node.left = len(self.tree.nodes) + len(children)
            node.right = node.left + 1
            children += [node.left, node.right]
            if self.slots.size:
                self.parents.append(int(self.slots[index]))
        return children, np.array(ranges, np.int64)


def _settle(node: Node, binned: Binned, feature: int, split: Floats) -> NDArray[np.uint8] | None:
    """Write a split into its node; return which bins go left, None for categories."""
    node.feature = feature
    node.gain = float(split[kernels.GAIN])
    node.missing_left = bool(split[kernels.MISSING_LEFT])
    if binned.bins[feature, 1]:
        return None
    size = int(binned.bins[feature, 0])
    low, high = int(split[kernels.LOW]), int(split[kernels.HIGH])
    left = np.ones(size + 1, np.uint8)
    left[size] = node.missing_left
    if high >= 0:
        node.cut = midpoint(binned.highs[feature][low], binned.lows[feature][high])
        left[np.searchsorted(binned.lows[feature], node.cut, "right") : size] = 0
    return left


def _category_sides(
    node: Node,
    binned: Binned,
    order: NDArray[np.int32],
    gathered: Int64s,
    rules: Rules,
    split: Floats,
) -> NDArray[np.uint8]:
    """Write the categories of both sides into a node; return which bins go left."""
    size = int(binned.bins[node.feature, 0])
    hist = np.zeros((size + 1, gathered.shape[1]), np.int64)
    kernels.fill_histogram(binned.codes[node.feature], order, gathered, hist)
    node.categories = sides_of(hist, int(split[kernels.LOW]), rules)
    left = np.full(size + 1, node.missing_left, np.uint8)
    left[node.categories[0]] = 1
    left[node.categories[1]] = 0
    return left


def sides_of(hist: Int64s, last: int, rules: Rules) -> tuple[list[int], list[int]]:
    """Return the categories on both sides of a cut, each in order.

    Parameters
    ----------
    hist
        The sums of each category, those of missing values last.
    last
        The last category on the left in the order of the scan.
    rules
        Those of the tree.
    """
    ranks = np.empty(len(hist), np.int64)
    used = kernels.scan_order(hist, len(hist) - 1, True, rules.array(), ranks)
    ranked = ranks[:used].tolist()
    cut = ranked.index(last) + 1
    return sorted(ranked[:cut]), sorted(ranked[cut:])


def midpoint(low: float, high: float) -> float:
    """Return the number half way between two, the lower one where rounding gives the upper."""
    middle = 0.5 * float(low) + 0.5 * float(high)
    return middle if middle < high else float(low)
