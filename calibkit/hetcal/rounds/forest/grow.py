"""Growing the trees of a forest from sums: the open nodes of all trees, as many as there is room for.

A tree is grown on its own draw of the rows, and a node may use some features only: what is asked for
is the histograms of these.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from calibkit.hetcal.forest import feature_stream, some_features
from calibkit.hetcal.grow import Rules
from calibkit.hetcal.rounds.forest.draws import draws
from calibkit.hetcal.rounds.forest.packed import trees_of
from calibkit.hetcal.rounds.grow import (
    Bins,
    Shared,
    best_split,
    bins_of,
    fork_of,
    left_sums,
    vectors_in,
    visits_of,
)
from calibkit.hetcal.rounds.growing import Overview, add_lines, tell_lines
from calibkit.hetcal.rounds.known import Known
from calibkit.hetcal.rounds.lines import LineSums, line_array
from calibkit.hetcal.rounds.rows import Block, hashes_of, parts_by
from calibkit.hetcal.rounds.tables import Numbers, What, keys_of
from calibkit.hetcal.spec import HetcalSpec
from calibkit.hetcal.states import HetcalProblem
from calibkit.hetcal.trees import Node, Tree
from calibkit_kernels import digest, leaf_maps
from calibkit_kernels import rounds as kernels
from calibkit_kernels import tree as splits

Int64s = NDArray[np.int64]

#: Bins of all histograms of a round together, at most, unless one node alone has more.
MOST_CELLS: Final = 1 << 20

#: The rows of a root before the first round has told them.
UNKNOWN: Final = -1


@dataclass(frozen=True)
class Asked:
    """A node whose histograms a round sums.

    Attributes
    ----------
    tree, place
        The tree, and the node's place in it.
    features
        The features that it may use.
    starts
        Where the bins of each begin among all that are asked for, and where the last end.
    """

    tree: int
    place: int
    features: list[int]
    starts: list[int]

    def hists(self, hist: Int64s) -> list[tuple[int, Int64s]]:
        """Return the features, and the bins of each."""
        spans = zip(self.features, pairwise(self.starts), strict=True)
        return [(feature, hist[low:high]) for feature, (low, high) in spans]


def asked_nodes(
    trees: Sequence[Tree], searched: Sequence[int], bins: Bins, rules: Rules, seed: int
) -> list[Asked]:
    """Return the nodes that the next round is about: tree by tree, as many as there is room for."""
    found, start, features = list[Asked](), 0, len(bins.lows)
    for number, (tree, done) in enumerate(zip(trees, searched, strict=True)):
        places = [
            place for place in range(done, len(tree.nodes)) if _open(tree.nodes[place], rules)
        ]
        if not places:
            continue
        allowed = some_features(feature_stream(seed, number), places[-1] + 1, features)
        for place in places:
            own = np.flatnonzero(allowed[place]).tolist()
            starts = (start + np.cumsum([0, *(bins.lows[j].size + 1 for j in own)])).tolist()
            if found and starts[-1] > MOST_CELLS:
                return found
            found.append(Asked(number, place, own, starts))
            start = starts[-1]
    return found


def cells_of(asked: Sequence[Asked]) -> int:
    """Return how many bins these nodes have in all."""
    return asked[-1].starts[-1] if asked else 0


def _open(node: Node, rules: Rules) -> bool:
    """Tell whether a node may have to be split, or what is in it is not known yet."""
    if node.rows == UNKNOWN:
        return True
    hopeless = node.rows < 2 * rules.min_leaf or node.second in (0, node.rows)
    return node.depth < rules.max_depth and not hopeless


def rules_of(known: Known, spec: HetcalSpec, depth: int, least: int) -> Rules:
    """Return when and how nodes are split; before rows are known, as if a unit were a row."""
    size = known.rows.size if known.fingerprint else 1.0
    return vectors_in(known, spec).rules(depth, max(1, math.ceil(least / size)))


def split_nodes(
    trees: Sequence[Tree], searched: list[int], asked: Sequence[Asked], hist: Int64s, bins: Bins,
    rules: Rules,
) -> None:  # fmt: skip
    """Split nodes by their histograms (bin x sum)."""
    for one in asked:
        tree, hists = trees[one.tree], one.hists(hist)
        node, total = tree.nodes[one.place], hists[0][1].sum(axis=0)
        searched[one.tree] = one.place + 1
        if node.rows == UNKNOWN:
            node.rows, node.second = total[:2].tolist()
            if not _open(node, rules):
                continue
        best = best_split(hists, bins, total, rules)
        if best is None:
            continue
        feature, split = best
        own = dict(hists)[feature]
        fork = fork_of(feature, split, own, bins, rules)
        node.feature, node.gain, node.missing_left = feature, fork.gain, fork.missing_left
        node.cut = math.nan if fork.cut is None else fork.cut
        node.categories = fork.categories
        node.left = len(tree.nodes)
        node.right = node.left + 1
        rows, hits = left_sums(fork, int(split[splits.LOW]), own)[:2].tolist()
        for count, positives in ((rows, hits), (node.rows - rows, node.second - hits)):
            tree.nodes.append(Node(count, positives, node.depth + 1))


class BranchCounter:
    """Sums the histograms of nodes and the maps of all rows; at first also what bins and parts hold."""

    def __init__(self, known: Known, problem: HetcalProblem, shared: Shared, rules: Rules) -> None:
        self.known, self.problem, self.shared = known, problem, shared
        self.bins, wood = bins_of(known), known.wood
        self.trees = trees_of(wood.grove, known.categories)
        self.asked = asked_nodes(self.trees, wood.searched, self.bins, rules, problem.spec.seed)
        self.by_tree: dict[int, list[Asked]] = {}
        for one in self.asked:
            self.by_tree.setdefault(one.tree, []).append(one)
        categories = [len(names or ()) for names in known.categories]
        self.routes = {tree: self.trees[tree].routes(categories) for tree in self.by_tree}
        self.vectors = vectors_in(known, problem.spec)
        self.hist = np.zeros((cells_of(self.asked), self.vectors.width), np.int64)
        self.first = not known.fingerprint
        self.overview = Overview(known)
        self.highest = [np.full(low.size, -np.inf) for low in self.bins.lows]
        self.totals = np.zeros((known.parts, 2), np.int64)
        self.roots = RootLines(known, shared)

    def add(self, block: Block) -> None:
        """Add some rows."""
        hashes = hashes_of(block)
        part = parts_by(block, hashes, self.problem, self.known.folds)
        payload = self.vectors.of(block.score, block.label, block.weight)
        codes = self.bins.codes(block.features) if self.asked else None
        if self.first:
            self.overview.add(block, part, int(digest.total(hashes)))
            np.add.at(self.totals, part, payload[:, :2])
            if codes is not None:
                self._see(block, codes)
        self.roots.add(block, part)
        groups = list(self.by_tree.values())

        def work(own: Int64s) -> None:
            for place in own:
                assert codes is not None
                self._count(groups[place], block, hashes, codes, payload)

        self.shared.over(len(groups), work)

    def _see(self, block: Block, codes: NDArray[np.uint16]) -> None:
        """Look for the greatest value in each bin."""
        for values, highest, own in zip(block.features.values, self.highest, codes, strict=True):
            present = own < highest.size  # a shard that has changed may hold what none had
            np.maximum.at(highest, own[present], values[present])

    def _count(
        self,
        asked: Sequence[Asked],
        block: Block,
        hashes: NDArray[np.uint64],
        codes: NDArray[np.uint16],
        payload: Int64s,
    ) -> None:
        """Add the rows of a tree to the histograms of its nodes."""
        tree = asked[0].tree
        drawn = draws(hashes, self.problem.spec.seed, tree)
        place = np.full(len(self.trees[tree].nodes), -1, np.int32)
        place[[one.place for one in asked]] = np.arange(len(asked))
        ends = self.routes[tree].ends(block.features.values)
        leaf = np.where(drawn > 0, place[ends], np.int32(-1)).astype(np.int32)
        spans, order = np.empty((len(asked), 2), np.int64), np.empty(leaf.size, np.int32)
        leaf_maps.rows_by_leaf(leaf, spans, order)
        gathered = (payload * drawn[:, None])[order[: spans[-1, 1]]]
        for one, (low, high) in zip(asked, spans.tolist(), strict=True):
            for feature, hist in one.hists(self.hist):
                splits.fill_histogram(codes[feature], order[low:high], gathered[low:high], hist)

    def tell(self, numbers: Numbers) -> dict[str, Any]:
        """Tell the sums."""
        for column in range(self.hist.shape[1]):
            numbers.add_all(What.CELL, self.hist[:, column], column)
        self.roots.tell(numbers)
        if not self.first:
            return {}
        numbers.add_all(What.TOTAL, self.totals)
        for place, (highest, edges) in enumerate(zip(self.highest, self.known.edges, strict=True)):
            if edges.highs is None and edges.lows is not None:
                seen = np.flatnonzero(highest > -np.inf)
                numbers.add(What.HIGHEST, seen, keys_of(highest[seen]), place)
        return self.overview.tell(numbers)


class RootLines:
    """Sums the maps of all rows, and of those without each part."""

    def __init__(self, known: Known, shared: Shared) -> None:
        self.shared = shared
        moving = [place for place, one in enumerate(known.nodes) if one.line and not one.line.done]
        self.visits = visits_of(known, moving, kernels.OTHERS)
        nodes = [known.nodes[place] for place in moving]
        lines = [node.line for node in nodes if node.line]
        self.lines = LineSums(line_array(lines, [known.counts(node) for node in nodes]))

    def add(self, block: Block, part: NDArray[np.uint8]) -> None:
        """Add some rows."""
        if not len(self.lines.lines):
            return
        spans, rows = self.visits.rows(block.features, part, self.shared)
        self.shared.over(
            len(spans), lambda own: add_lines(self.lines, own, block, block.score, rows, spans)
        )

    def tell(self, numbers: Numbers) -> None:
        """Tell the sums."""
        tell_lines(self.lines, numbers)
