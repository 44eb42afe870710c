"""Growing a tree: level by level, the features of a level shared among threads."""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibkit.methods.hetcal.features import Features
from calibkit.methods.hetcal.trees import Node, Tree
from calibkit.summaries.arrays import Arrays
from calibkit_kernels import criteria
from calibkit_kernels import tree as kernels

Floats = NDArray[np.float64]
Int64s = NDArray[np.int64]
Ends = NDArray[np.int32]

CRITERIA = {"gini": criteria.GINI, "entropy": criteria.ENTROPY, "auc": criteria.AUC}

#: Fewer row visits a level than this are not worth a second thread.
_SHARED_VISITS = 200_000

#: Rows that are listed at a time.
_BLOCK = 1 << 20

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


#: Tells which features each of so many nodes of a level may use: nodes x features.
Subsets = Callable[[int], NDArray[np.bool_]]


def grow(
    features: Features,
    payload: NDArray[Any],
    rules: Rules,
    pool: Executor | None = None,
    threads: int = 1,
    subsets: Subsets | None = None,
    room: Room | None = None,
    *,
    steady: bool = False,
) -> tuple[Tree, NDArray[np.int32]]:
    """Grow a tree greedily.

    Parameters
    ----------
    features
        The features, by code.
    payload
        The integer vector of each row; see `calibkit_kernels.criteria.split_gain`.
    rules
        When and how to split.
    pool, threads
        Where several threads share the features of a level.
    subsets
        Called with the number of nodes of each level: the features each may use; None: all.
    room
        The rows to grow on, with room to work in; None: all with a count.
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
    if room is None:
        room = Room.of(Arrays(), payload)
        room.fill(payload[:, 0] > 0)
    growing = _Growing(features, payload, rules, room, steady)
    places = [0]
    spans = np.array([[0, growing.order.size]], np.int64)
    for depth in range(rules.max_depth + 1):
        totals = growing.add_level(len(places), spans, depth)
        allowed = None if subsets is None else subsets(len(places))
        splits = growing.search(spans, totals, depth, allowed, pool, threads)
        places, spans = growing.split_level(places, spans, splits, totals)
        if not places:
            break
    return growing.tree, growing.ends


@dataclass
class Room:
    """The rows that a tree grows on, and room that the next tree can use again.

    Attributes
    ----------
    order, spare
        The rows, and room to move them.
    gathered
        Room for the vectors of the rows.
    ends
        Room for the node that each row ends in.
    rows
        How many rows there are to grow on: the first of `order`.
    """

    order: Ends
    spare: Ends
    gathered: NDArray[Any]
    ends: Ends
    rows: int = 0

    @classmethod
    def of(cls, arrays: Arrays, payload: NDArray[Any]) -> Room:
        """Return room for rows with such vectors."""
        count = payload.shape[0]
        order, spare, ends = (arrays.empty(count, np.int32) for _ in range(3))
        return cls(order, spare, arrays.empty(payload.shape, payload.dtype), ends)

    def fill(self, used: NDArray[np.bool_] | None = None) -> None:
        """Let a tree grow on some of the rows (None: on all)."""
        self.rows = 0
        for first in range(0, self.order.size, _BLOCK):
            last = min(first + _BLOCK, self.order.size)
            own = np.arange(first, last, dtype=np.int32)
            if used is not None:
                own = own[used[first:last]]
            self.order[self.rows : self.rows + own.size] = own
            self.rows += own.size


class _Growing:
    """A tree as it grows: its rows, always those of a node side by side."""

    def __init__(
        self, features: Features, payload: NDArray[Any], rules: Rules, room: Room, steady: bool
    ) -> None:
        self.features, self.payload, self.rules = features, payload, rules
        self.order, self.spare = room.order[: room.rows], room.spare
        self.gathered, self.ends = room.gathered[: room.rows], room.ends
        self.tree = Tree()
        if room.rows < room.order.size:
            self.ends[:] = -1
        most = max((bins.count for bins in features.bins), default=0) + 1
        shape = (len(features.bins), 2 << max(rules.max_depth - 1, 0), most, payload.shape[1])
        if not steady or math.prod(shape) > _MOST_KEPT:
            shape = (shape[0], 1, *shape[2:])
        self.kept = np.empty(shape, np.int64)
        self.is_category = [int(names is not None) for names in features.categories]
        self.turn = 0
        self.slots = np.empty(0, np.int64)
        self.parents: list[int] = []

    def add_level(self, count: int, spans: Int64s, depth: int) -> Int64s:
        """Add the nodes of a level, and return the sums of each."""
        np.take(self.payload, self.order, axis=0, out=self.gathered, mode="clip")
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
        rules, features = self.rules, self.features
        count = len(features.bins)
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
        nodes = self._nodes(spans, hopeless)
        array = rules.array()

        def work(own: list[int]) -> None:
            for place in own:
                kind = np.array([features.bins[place].count, self.is_category[place]], np.int64)
                kernels.search_splits(
                    features.codes[place], self.order, self.gathered, nodes, kind, array,
                    self.kept[place], splits[place],
                )  # fmt: skip

        # Features of many bins take longer: deal them out in turn.
        heavy = sorted(searched.tolist(), key=lambda place: -features.bins[place].count)
        if pool is not None and self.order.size * count > _SHARED_VISITS:
            list(pool.map(work, [heavy[part::threads] for part in range(threads)]))
        else:
            work(heavy)
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
            node = self.tree.nodes[place]
            self._settle(node, feature, splits[feature, index], slice(low, high))
            left = node.left_codes(self.features.bins[feature])
            size = kernels.split_rows(
                self.features.codes[feature], self.order[low:high], left, self.spare
            )
            ranges += [[low, low + size], [low + size, high]]
            node.left = len(self.tree.nodes) + len(children)
            node.right = node.left + 1
            children += [node.left, node.right]
            if self.slots.size:
                self.parents.append(int(self.slots[index]))
        return children, np.array(ranges, np.int64)

    def _settle(self, node: Node, feature: int, split: Floats, rows: slice) -> None:
        """Write a split into its node."""
        node.feature = feature
        node.gain = float(split[kernels.GAIN])
        node.missing_left = bool(split[kernels.MISSING_LEFT])
        low, high = int(split[kernels.LOW]), int(split[kernels.HIGH])
        bins = self.features.bins[feature]
        if not self.is_category[feature]:
            node.cut, node.last = bins.cut(low, high)
            return
        hist = np.zeros((bins.count + 1, self.payload.shape[1]), np.int64)
        kernels.fill_histogram(
            self.features.codes[feature], self.order[rows], self.gathered[rows], hist
        )
        ranks = np.empty(bins.count + 1, np.int64)
        used = kernels.scan_order(hist, bins.count, True, self.rules.array(), ranks)
        ranked = ranks[:used].tolist()
        cut = ranked.index(low) + 1
        node.categories = sorted(ranked[:cut]), sorted(ranked[cut:])
