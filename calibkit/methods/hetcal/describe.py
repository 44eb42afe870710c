"""Trees in the words of a model, and back."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
from numpy.typing import NDArray

from calibkit.methods.hetcal.maps import Maps, Steps
from calibkit.methods.hetcal.model import CrossValidated, LeafMap, Line, PartitionPart, TreeNode
from calibkit.methods.hetcal.rows import HetcalRows
from calibkit.methods.hetcal.trees import Node, Routes, Tree

Floats = NDArray[np.float64]
Ends = NDArray[np.int32]


@dataclass(frozen=True)
class Found:
    """Partitions with their maps, before they are written down.

    Attributes
    ----------
    parts, final
        As in the model.
    probability, leaf
        Of the calibration rows; the leaf is that of the first partition.
    max_depth, min_leaf, shrinkage
        What was used.
    checked
        What cross-validation saw.
    """

    parts: list[PartitionPart]
    probability: Floats
    leaf: Ends
    max_depth: int
    min_leaf: int
    shrinkage: float | None = None
    checked: CrossValidated | None = None
    final: Line | None = None


def described_tree(tree: Tree, grown: HetcalRows, *, brief: bool = False) -> list[TreeNode]:
    """Return the nodes of a tree that was grown on some rows; `brief`: without rows and gains."""
    leaves, features = tree.leaves(), grown.features
    total = float(tree.nodes[0].rows)
    found = []
    for place, node in enumerate(tree.nodes):
        made = TreeNode()
        if not brief:
            rows = node.rows * grown.size
            made.rows = int(rows) if float(rows).is_integer() else rows
        if node.feature < 0:
            made.leaf = int(leaves[place])
            found.append(made)
            continue
        made.feature = features.columns[node.feature].name
        made.missing = "left" if node.missing_left else "right"
        made.left, made.right = node.left, node.right
        if not brief:
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


def maps_of(maps: Sequence[LeafMap], pooled: tuple[float, float]) -> Maps:
    """Return the maps that a model describes."""
    if any(leaf.knots is not msgspec.UNSET for leaf in maps):
        steps = [
            Steps(np.array(leaf.knots), np.array(leaf.values), float(leaf.share or 0.0))
            for leaf in maps
        ]
        return Maps(np.tile(np.array(pooled), (len(maps), 1)), tuple(steps))
    if any(leaf.c is not msgspec.UNSET for leaf in maps):
        return Maps(np.array([[leaf.a, leaf.b, leaf.c] for leaf in maps]))
    return Maps(np.array([[leaf.a, leaf.b] for leaf in maps]))
