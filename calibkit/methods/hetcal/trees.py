"""Trees: nodes that part rows, as they are grown, as models hold them, and as kernels take them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import msgspec
import numpy as np
from numpy.typing import NDArray

from calibkit.methods.hetcal.bins import Bins, Codes
from calibkit.methods.hetcal.model import PartitionPart, TreeNode
from calibkit.models.model import Column
from calibkit_kernels import tree as kernels

Floats = NDArray[np.float64]
Ends = NDArray[np.int32]

#: The categories of each feature in order, None for numbers.
Categories = Sequence[tuple[str, ...] | None]


@dataclass
class Node:
    """A node of a tree.

    Attributes
    ----------
    rows, second, depth
        Sums of its rows (count; positives or what else the criterion sums second), and its depth.
    feature
        The feature that splits it; -1 for a leaf.
    cut
        Values up to it go left; NaN: every value does.
    last
        The last code on the left; known where the tree was grown.
    left, right
        Its children.
    missing_left
        Whether rows without a value, or with a category not listed, go left.
    categories
        The categories that go left, and those that go right; None for numbers.
    gain
        What the split brings by the criterion.
    """

    rows: int
    second: int
    depth: int
    feature: int = -1
    cut: float = math.nan
    last: int = -1
    left: int = -1
    right: int = -1
    missing_left: bool = True
    categories: tuple[list[int], list[int]] | None = None
    gain: float = 0.0

    def left_codes(self, bins: Bins) -> NDArray[np.uint8]:
        """Return which codes of its feature go left, that of missing values last."""
        if self.categories is not None:
            return self.sides(bins.count + 1)
        left = np.zeros(bins.count + 1, np.uint8)
        left[: self.last + 1] = 1
        left[-1] = self.missing_left
        return left

    def sides(self, count: int) -> NDArray[np.uint8]:
        """Return which of so many categories go left."""
        assert self.categories is not None
        left = np.full(count, self.missing_left, np.uint8)
        left[self.categories[0]] = 1
        left[self.categories[1]] = 0
        return left


@dataclass
class Tree:
    """A grown tree; the first node is the root, a node's children stand after it."""

    nodes: list[Node] = field(default_factory=list)

    def pruned(self, depth: int) -> Tree:
        """Return the tree cut off at a depth, its nodes numbered from the root, left before right."""
        made: list[Node] = []

        def visit(place: int) -> int:
            node, own = self.nodes[place], len(made)
            if node.feature < 0 or node.depth >= depth:
                made.append(Node(node.rows, node.second, node.depth))
                return own
            made.append(copy := replace(node))
            copy.left, copy.right = visit(node.left), visit(node.right)
            return own

        visit(0)
        return Tree(made)

    def ends(self) -> list[int]:
        """Return the nodes without children, from left to right."""
        found, waiting = [], [0]
        while waiting:
            place = waiting.pop()
            node = self.nodes[place]
            if node.feature < 0:
                found.append(place)
            else:
                waiting += [node.right, node.left]
        return found

    def leaves(self) -> NDArray[np.int32]:
        """Return the number of each node's leaf, from left to right; -1 for nodes with children."""
        found, ends = np.full(len(self.nodes), -1, np.int32), self.ends()
        found[ends] = np.arange(len(ends))
        return found

    def ancestors(self, depth: int) -> NDArray[np.int32]:
        """Return the node at a depth (or above, where a branch ends) that each node lies below."""
        found = np.empty(len(self.nodes), np.int32)
        for place, node in enumerate(self.nodes):
            if node.depth <= depth:
                found[place] = place
            if node.feature >= 0:
                for child in (node.left, node.right):
                    found[child] = found[place]
        return found

    def code_ends(self, codes: Sequence[Codes], bins: Sequence[Bins], out: Ends) -> None:
        """Write the node without children that each row, known by its codes, ends in."""
        order, spare = np.arange(out.size, dtype=np.int32), np.empty(out.size, np.int32)
        spans = {0: (0, out.size)}
        for place, node in enumerate(self.nodes):
            low, high = spans.pop(place)
            if node.feature < 0:
                out[order[low:high]] = place
                continue
            left = node.left_codes(bins[node.feature])
            size = kernels.split_rows(codes[node.feature], order[low:high], left, spare)
            spans[node.left], spans[node.right] = (low, low + size), (low + size, high)

    def routes(self, known: Sequence[int]) -> Routes:
        """Return the tree as the kernel takes it; `known`: how many categories each feature has."""
        links = np.full((len(self.nodes), 5), -1, np.int32)
        cuts = np.full(len(self.nodes), np.inf)
        sides: list[int] = []
        for place, node in enumerate(self.nodes):
            links[place, :4] = node.feature, node.left, node.right, node.missing_left
            if not math.isnan(node.cut):
                cuts[place] = node.cut
            if node.categories is not None:
                links[place, 4] = len(sides)
                sides += node.sides(known[node.feature]).tolist()
        return Routes(links, cuts, np.array(sides, np.uint8))


@dataclass(frozen=True)
class Routes:
    """A tree in arrays; see `calibkit_kernels.tree.route_rows`."""

    links: NDArray[np.int32]
    cuts: Floats
    sides: NDArray[np.uint8]

    def ends(self, values: Floats) -> NDArray[np.int32]:
        """Return the node without children that each row (a column of `values`) ends in."""
        out = np.empty(values.shape[1], np.int32)
        kernels.route_rows(values, self.links, self.cuts, self.sides, out)
        return out


def described_tree(
    tree: Tree, columns: Sequence[Column], categories: Categories, size: float | None
) -> list[TreeNode]:
    """Return the nodes of a tree as a model holds them.

    Parameters
    ----------
    tree
        As it was grown.
    columns, categories
        Of its features.
    size
        How many rows a unit of its counts stands for; None: without rows and gains.
    """
    leaves = tree.leaves()
    total = float(tree.nodes[0].rows)
    found = []
    for place, node in enumerate(tree.nodes):
        made = TreeNode()
        if size is not None:
            rows = node.rows * size
            made.rows = int(rows) if float(rows).is_integer() else rows
        if node.feature < 0:
            made.leaf = int(leaves[place])
            found.append(made)
            continue
        made.feature = columns[node.feature].name
        made.missing = "left" if node.missing_left else "right"
        made.left, made.right = node.left, node.right
        if size is not None:
            made.gain = node.gain / total
        names = categories[node.feature]
        if node.categories is not None and names is not None:
            left, right = node.categories
            made.left_categories = [names[code] for code in left]
            made.right_categories = [names[code] for code in right]
        else:
            made.cut = None if math.isnan(node.cut) else node.cut
        found.append(made)
    return found


def known_categories(parts: Sequence[PartitionPart]) -> dict[str, tuple[str, ...]]:
    """Return every category that some split names, by feature, in order."""
    found: dict[str, set[str]] = {}
    for part in parts:
        for node in part.tree:
            if node.feature is msgspec.UNSET or node.left_categories is msgspec.UNSET:
                continue
            assert node.right_categories is not msgspec.UNSET
            found.setdefault(node.feature, set()).update(
                node.left_categories, node.right_categories
            )
    return {name: tuple(sorted(values)) for name, values in found.items()}


def routes_of(
    part: PartitionPart, names: Sequence[str], categories: dict[str, tuple[str, ...]]
) -> tuple[Routes, Ends]:
    """Return how rows find their node, and the leaf of each node (-1: it has children).

    Features are places in `names`.
    """
    codes = {
        name: {text: code for code, text in enumerate(categories[name])} for name in categories
    }
    nodes = []
    for node in part.tree:
        made = Node(0, 0, 0)
        nodes.append(made)
        if node.feature is msgspec.UNSET:
            continue
        assert isinstance(node.left, int) and isinstance(node.right, int)
        made.feature = names.index(node.feature)
        made.left, made.right = node.left, node.right
        made.missing_left = node.missing == "left"
        if isinstance(node.left_categories, list) and isinstance(node.right_categories, list):
            code_of = codes[node.feature]
            made.categories = (
                [code_of[text] for text in node.left_categories],
                [code_of[text] for text in node.right_categories],
            )
        elif isinstance(node.cut, float):
            made.cut = node.cut
    leaves = [-1 if node.leaf is msgspec.UNSET else node.leaf for node in part.tree]
    known = [len(categories.get(name, ())) for name in names]
    return Tree(nodes).routes(known), np.array(leaves, np.int32)
