"""Trees: nodes that part rows, as they are grown, as models hold them, and as kernels take them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import msgspec
import numpy as np
from numpy.typing import NDArray

from calibkit.methods.hetcal.features import Bins, Codes, Features
from calibkit.methods.hetcal.model import PartitionPart, TreeNode
from calibkit_kernels import tree as kernels

Floats = NDArray[np.float64]
Ends = NDArray[np.int32]

#: Rows that are sent through a tree at a time.
_BLOCK = 1 << 20


@dataclass
class Node:
    """A node of a tree as it grows: the first two sums of its rows, its depth, and how they part.

    A leaf has the feature -1.  Values up to the cut go left (NaN: every value does), codes up to the
    last; or `categories` are those that go left, and those that go right.  Rows without a value, or
    with a category not listed, go left if `missing_left`.  `gain` is what the split brings.
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
        left = np.full(bins.count + 1, self.missing_left, np.uint8)
        if self.categories is not None:
            left[self.categories[0]], left[self.categories[1]] = 1, 0
        else:
            left[:-1] = np.arange(bins.count) <= self.last
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


@dataclass(frozen=True)
class Routes:
    """A tree in arrays; see `calibkit_kernels.tree.route_rows`."""

    links: NDArray[np.int32]
    cuts: Floats
    sides: NDArray[np.uint8]

    @classmethod
    def of(
        cls,
        nodes: Sequence[TreeNode],
        names: Sequence[str],
        categories: Mapping[str, Sequence[str] | None],
    ) -> Routes:
        """Return the routes of a tree: features are places in `names`, categories known in order."""
        links = np.full((len(nodes), 5), -1, np.int32)
        cuts, sides = np.full(len(nodes), np.inf), list[int]()
        for place, node in enumerate(nodes):
            if not isinstance(node.feature, str):
                continue
            assert isinstance(node.left, int) and isinstance(node.right, int)
            other = int(node.missing == "left")
            links[place, :4] = names.index(node.feature), node.left, node.right, other
            if isinstance(node.cut, float):
                cuts[place] = node.cut
            if isinstance(node.left_categories, list) and isinstance(node.right_categories, list):
                links[place, 4] = len(sides)
                goes_left = dict.fromkeys(node.left_categories, 1)
                goes_left |= dict.fromkeys(node.right_categories, 0)
                sides += [goes_left.get(name, other) for name in categories[node.feature] or ()]
        return cls(links, cuts, np.array(sides, np.uint8))

    def ends(self, values: Floats) -> Ends:
        """Return the node without children that each row (a column of `values`) ends in."""
        out = np.empty(values.shape[1], np.int32)
        kernels.route_rows(values, self.links, self.cuts, self.sides, out)
        return out


def ends_of(tree: Tree, features: Features, out: Ends) -> Ends:
    """Write, and return, the node without children that each row ends in."""
    routes, names = None, [column.name for column in features.columns]
    if features.values is not None:
        known = dict(zip(names, features.categories, strict=True))
        routes = Routes.of(described_tree(tree, features, None), names, known)
    for first in range(0, out.size, _BLOCK):
        own = slice(first, first + _BLOCK)
        if routes is not None and features.values is not None:
            out[own] = routes.ends(np.ascontiguousarray(features.values[own].T))
        else:
            tree.code_ends([codes[own] for codes in features.codes], features.bins, out[own])
    return out


def described_tree(tree: Tree, features: Features, size: float | None) -> list[TreeNode]:
    """Return the nodes of a tree as a model holds them.

    `size` is how many rows a unit of its counts stands for; None: without rows and gains.
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
        made.feature = features.columns[node.feature].name
        made.missing = "left" if node.missing_left else "right"
        made.left, made.right = node.left, node.right
        if size is not None:
            made.gain = node.gain / total
        names = features.categories[node.feature]
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
