"""Growing a tree: level by level, the features of a level shared among threads.

Grown on are binned features, and for each row the integers that its criterion sums.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

import numpy as np
from msgspec import Struct

from calibkit.arrays import Bools, Floats, Int32s, Int64s, Numbers, UInt8s, blocks
from calibkit.columns.weights import Unit
from calibkit.methods.hetcal.rows import HetcalRows
from calibkit.methods.hetcal.trees import Features, Node, Tree
from calibkit.numerics.sums import cut, each_block
from calibkit.summaries.row_store import Arrays
from calibkit_kernels import criteria
from calibkit_kernels import tree as kernels

T = TypeVar("T")
R = TypeVar("R")

CRITERIA = {"gini": criteria.GINI, "entropy": criteria.ENTROPY, "auc": criteria.AUC}

#: Fewer visits to rows than this are not worth a second thread.
_SHARED_VISITS = 200_000
#: Rows that are listed at a time.
_BLOCK = 1 << 20
#: Histograms are kept from level to level up to this many numbers.
_MOST_KEPT = 1 << 23

#: Sums of scores stay below this power of two, so that some rows may be drawn more than once.
_SUM_BITS: Final = 60
#: Weights below this power of two fit into 32 bits however often a row is drawn.
_SMALL_BITS: Final = 26
#: Rounded weights stay below this power of two; see `calibkit.columns.weights.in_units`.
_ROUNDED_BITS: Final = 62
#: The least variance that counts is that of so many rows, where there are fewer: a number has 53 bits.
_FEWEST: Final = 512

#: Tells which features each of so many nodes of a level may use: nodes x features.
Subsets = Callable[[int], Bools]


class Rules(Struct, frozen=True):
    """When and how nodes are split: by a criterion of `calibkit_kernels.criteria`.

    `unit` is that of the sums, of scores and squared scores (`AUC`) or of gradients (`NEWTON`);
    `second` the variance up to which there is none (`AUC`), or the ridge (`NEWTON`); `row` how many
    units of weight are one row (`AUC`).
    """

    kind: int
    max_depth: int
    min_leaf: int
    unit: float = 1.0
    second: float = 1.0
    row: float = 1.0

    def array(self) -> Floats:
        """Return the rules as kernels take them."""
        return np.array([self.kind, self.min_leaf, self.unit, self.second, self.row], np.float64)


class Grower:
    """Grows trees greedily on the same rows, in room that the next tree uses again.

    Features are known by code, `payload` is the integer vector of each row that
    `calibkit_kernels.criteria.split_gain` sums.  `threads` share the features of a level.  `steady`:
    all nodes may use the same features, so that histograms can be had as differences.
    """

    def __init__(
        self,
        features: Features,
        payload: Numbers,
        rules: Rules,
        arrays: Arrays | None = None,
        threads: int = 1,
        *,
        steady: bool = False,
    ) -> None:
        self.features, self.payload, self.rules = features, payload, rules
        # They wait from level to level, and from tree to tree; they end with the grower.
        self.threads, self.pool = threads, ThreadPoolExecutor(threads) if threads > 1 else None
        count, arrays = payload.shape[0], arrays or Arrays()
        # The rows, always those of a node side by side; room to move them; where each of all ends.
        self.every, self.spare, self.ends = (arrays.empty(count, np.int32) for _ in range(3))
        self.gathered = arrays.empty(payload.shape, payload.dtype)
        most = max((bins.count for bins in features.bins), default=0) + 1
        shape = (len(features.bins), 2 << max(rules.max_depth - 1, 0), most, payload.shape[1])
        if not steady or math.prod(shape) > _MOST_KEPT:
            shape = (shape[0], 1, *shape[2:])
        self.kept = np.empty(shape, np.int64)
        self.is_category = [int(names is not None) for names in features.categories]

    def grow(
        self, used: Bools | None = None, subsets: Subsets | None = None
    ) -> tuple[Tree, Int32s]:
        """Return a tree, its nodes level by level, and the leaf of each row (-1: not grown on).

        A node is split by the largest gain (ties: the first feature, the lowest cut), unless it is at
        the largest depth, pure, or no split with enough rows on both sides has a gain above 1e-12 a
        row.

        `used` are the rows to grow on (None: all); `subsets` is called with the number of nodes of each
        level, and None allows all features.
        """
        size = 0
        for block in blocks(self.every.size, _BLOCK):
            own = np.arange(block.start, block.stop, dtype=np.int32)
            own = own if used is None else own[used[block]]
            self.every[size : size + own.size] = own
            size += own.size
        self.rows, self.vectors = self.every[:size], self.gathered[:size]
        self.ends[:] = -1
        self.tree, self.turn, self.parents = Tree(), 0, list[int]()
        self.slots, self.totals = np.empty(0, np.int64), list[Int64s]()
        places, spans, depth = [0], np.array([[0, size]], np.int64), 0
        while places:  # none is split at the largest depth
            totals = self._gather(spans)
            self.totals.append(totals)
            self.tree.nodes += [Node(rows, second, depth) for rows, second, *_ in totals.tolist()]
            allowed = None if subsets is None else subsets(len(places))
            splits = self._search(spans, totals, depth, allowed)
            places, spans = self._split_level(places, spans, splits, totals)
            depth += 1
        return self.tree, self.ends

    def _gather(self, spans: Int64s) -> Int64s:
        """Bring the vectors of rows into the order of the rows; return the sums of each node."""
        blocks = cut(0, self.rows.size)
        given = [(self.payload, spans.clip(one.start, one.stop) - one.start) for one in blocks]
        arrays = self.rows, self.vectors
        sums = each_block(kernels.gather_nodes, arrays, blocks, self.threads, given, self.pool)
        return sum(sums, np.zeros((len(spans), self.payload.shape[1]), np.int64))

    def _shared(self, work: Callable[[T], R], items: Iterable[T], visits: int) -> list[R]:
        """Return what some work gives for each item, by several threads if enough rows are visited."""
        pool = self.pool if visits > _SHARED_VISITS else None
        return list(map(work, items) if pool is None else pool.map(work, items))

    def _search(self, spans: Int64s, totals: Int64s, depth: int, allowed: Bools | None) -> Floats:
        """Return the best split of each node on each feature."""
        rules, bins, count = self.rules, self.features.bins, len(self.features.bins)
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
        nodes, array = self._nodes(spans, hopeless), rules.array()

        def work(own: list[int]) -> None:
            for place in own:
                kind = np.array([bins[place].count, self.is_category[place]], np.int64)
                kernels.search_splits(
                    self.features.codes[place], self.rows, self.vectors, nodes, kind, array,
                    self.kept[place], splits[place],
                )  # fmt: skip

        # Features of many bins take longer: deal them out in turn.
        heavy = sorted(searched.tolist(), key=lambda place: -bins[place].count)
        parts = [heavy[part :: self.threads] for part in range(self.threads)]
        self._shared(work, parts, self.rows.size * count)
        return splits

    def _nodes(self, spans: Int64s, hopeless: Bools) -> Int64s:
        """Return the nodes of a level as the search takes them.

        Where histograms are kept, the larger of two siblings is its parent less the smaller one.
        """
        nodes = np.full((len(spans), kernels.NODE_WIDTH), -1, np.int64)
        nodes[:, :2], nodes[:, [kernels.SLOT, kernels.NEEDED]] = spans, 0
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

    def _split_level(
        self, places: list[int], spans: Int64s, splits: Floats, totals: Int64s
    ) -> tuple[list[int], Int64s]:
        """Part the rows of the nodes of a level; return their children, and where their rows are."""
        chosen = np.full(len(places), -1, np.int64)
        kernels.choose_splits(splits, totals, self.rules.kind, chosen)

        def part(index: int) -> list[list[int]]:
            (low, high), feature = spans[index].tolist(), int(chosen[index])
            rows = self.rows[low:high]
            if feature < 0:
                self.ends[rows] = places[index]
                return []
            node = self.tree.nodes[places[index]]
            self._settle(node, feature, splits[feature, index], slice(low, high))
            left, codes = node.left_codes(self.features.bins[feature]), self.features.codes[feature]
            size = kernels.split_rows(codes, rows, left, self.spare[low:high])
            return [[low, low + size], [low + size, high]]

        ranges = self._shared(part, range(len(places)), self.rows.size)
        children: list[int] = []
        split = np.flatnonzero(chosen >= 0).tolist()
        for index in split:
            node = self.tree.nodes[places[index]]
            node.left = len(self.tree.nodes) + len(children)
            node.right = node.left + 1
            children += [node.left, node.right]
        self.parents = self.slots[split].tolist() if self.slots.size else []
        return children, np.array([*itertools.chain(*ranges)], np.int64)

    def _settle(self, node: Node, feature: int, split: Floats, rows: slice) -> None:
        """Write a split into its node."""
        node.feature, node.gain = feature, float(split[kernels.GAIN])
        node.missing_left = bool(split[kernels.MISSING_LEFT])
        low, high = int(split[kernels.LOW]), int(split[kernels.HIGH])
        bins = self.features.bins[feature]
        if not self.is_category[feature]:
            node.cut, node.last = bins.cut(low, high)
            return
        hist = np.zeros((bins.count + 1, self.payload.shape[1]), np.int64)
        kernels.fill_histogram(
            self.features.codes[feature], self.rows[rows], self.vectors[rows], hist
        )
        ranks = np.empty(bins.count + 1, np.int64)
        used = kernels.scan_order(hist, bins.count, True, self.rules.array(), ranks)
        ranked = ranks[:used].tolist()
        cut = ranked.index(low) + 1
        node.categories = sorted(ranked[:cut]), sorted(ranked[cut:])


class Vectors:
    """How rows become the integer vectors whose sums a criterion compares.

    For the AUC these are scores, which lie between `low` and `high`, and their squares.  It does not
    depend on where scores begin nor on what they are measured in, so they are counted from the middle
    of their range and in (about) halves of it: large scores that are close together keep their digits.
    A score at an end of the range counts as about 2^`room` for each unit of weight: `weight`, that of
    all rows, times it is at most 2^60, and in general at least 2^58.  What rounded weights come to is
    not known before they are added up, only between which powers of two.  Variances up to `least` are
    due to rounding: squares are rounded by half at most, so their mean is off by up to 2^-59 a row;
    four times as much counts as no variance.
    """

    def __init__(
        self, criterion: str, low: float, high: float, rows: int, weight: int, unit: Unit
    ) -> None:
        self.kind, self.low, self.high = CRITERIA[criterion], low, high
        self.room = _SUM_BITS - (weight.bit_length() if unit.exact else _ROUNDED_BITS)
        self.least = math.ldexp(max(rows, _FEWEST), 3 - _SUM_BITS)

    def rules(self, max_depth: int, min_leaf: int, row: float = 1.0) -> Rules:
        """Return the rules of a tree; the least leaf and a row are in units of weight."""
        unit = math.ldexp(1.0, -self.room)
        return Rules(self.kind, max_depth, min_leaf, unit, self.least, row)

    def of(self, score: Floats, label: UInt8s, weight: Int64s) -> Int64s:
        """Return the vector of each row.

        Weight and that of a positive; for the AUC also score and squared score of a positive, and
        of a negative, each times the weight.
        """
        columns = [weight, weight * label]
        if self.kind == criteria.AUC:
            middle = 0.5 * self.low + 0.5 * self.high
            away = np.clip(score, self.low, self.high) - middle
            away = np.ldexp(away, -math.frexp(max(self.high - middle, middle - self.low))[1])
            sums = [
                np.rint(np.ldexp(weight * power, self.room)).astype(np.int64)
                for power in (away, away * away)
            ]
            hit = label.astype(np.int64)
            columns += [one * own for own in (hit, 1 - hit) for one in sums]
        return np.stack(columns, axis=1)


class Growth:
    """Rows that trees are grown on, with their vectors; `own`: they are those that are calibrated."""

    def __init__(self, rows: HetcalRows, criterion: str, *, own: bool) -> None:
        self.rows, self.own = rows, own
        low, high, total = float(rows.score[0]), float(rows.score[-1]), rows.totals.total
        self.vectors = Vectors(criterion, low, high, rows.count, total, rows.unit)
        auc = self.vectors.kind == criteria.AUC
        small = not auc and total.bit_length() <= _SMALL_BITS
        shape = rows.count, 6 if auc else 2
        self.payload = rows.arrays.empty(shape, np.int32 if small else np.int64)
        for part in rows.blocks():
            weight = rows.weight[part].astype(np.int64)
            self.payload[part] = self.vectors.of(rows.score[part], rows.label[part], weight)

    def tree(
        self,
        max_depth: int,
        min_leaf: int,
        threads: int = 1,
        *,
        used: Bools | None = None,
        subsets: Subsets | None = None,
        counts: UInt8s | None = None,
    ) -> Tree:
        """Return a tree grown on all rows, on some, or on each as often as `counts` says.

        The least leaf is in rows.
        """
        size = self.rows.size
        rules = self.vectors.rules(max_depth, max(math.ceil(min_leaf / size), 1), 1.0 / size)
        payload, arrays = self.payload, self.rows.arrays
        if counts is not None:
            payload = arrays.empty(payload.shape, payload.dtype)
            np.multiply(self.payload, counts[:, None], out=payload)
        weighs = payload[:, 0] > 0
        weighs = weighs if used is None else weighs & used
        steady = subsets is None
        grower = Grower(self.rows.features, payload, rules, arrays, threads, steady=steady)
        return grower.grow(weighs, subsets)[0].pruned(max_depth)
