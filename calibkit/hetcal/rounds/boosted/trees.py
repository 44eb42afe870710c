"""The trees of a boosted fit in rounds as a plan holds them: many, so each is a short text.

The text is Base64 of: how many nodes there are; what each is (`_LEAF`, or twice the feature, plus one
if missing values go left); the step of each leaf and the cut of each other node; for each split of
categories a byte for each category.  Nodes stand level by level, so that places of children need not
be told.
"""

from __future__ import annotations

import math
from base64 import b64decode, b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from calibkit.errors import ModelError
from calibkit.hetcal.rounds.boosted.known import Bud, Run
from calibkit.hetcal.trees import Node, Routes, Tree

Floats = NDArray[np.float64]

_COUNT: Final = np.dtype("<i4")
_NUMBER: Final = np.dtype("<f8")
_LEAF: Final = -1

#: Sides of a category: right, left, and the same for those that the node has not seen.
_RIGHT, _LEFT, _UNSEEN = 0, 1, 2

#: No step is larger.
_MOST: Final = 1e100

#: Trees that are kept as arrays from one round to the next.
_MOST_READ: Final = 1 << 13


@dataclass(frozen=True)
class GrownTree:
    """A tree that has grown.

    Attributes
    ----------
    routes
        How rows find their node.
    steps
        Node x (a, b): what a leaf makes of a score.
    sides
        Of the categories of each split of these, in order: see `_RIGHT`.
    """

    routes: Routes
    steps: Floats
    sides: NDArray[np.uint8]

    def tree(
        self, known: Sequence[int], rows: Sequence[int] = (), gains: Sequence[float] = ()
    ) -> Tree:
        """Return its nodes; `known`: how many categories each feature has; rows and gains: or 0."""
        count, found = len(self.steps), list[Node]()
        rows, gains = rows or [0] * count, gains or [0.0] * count
        for place, (feature, left, right, missing, start) in enumerate(self.routes.links.tolist()):
            node = Node(rows[place], 0, 0, feature, math.nan, left, right, bool(missing))
            node.gain, cut = gains[place], float(self.routes.cuts[place])
            if start >= 0:
                own = self.sides[start : start + known[feature]]
                left_side, right_side = (np.flatnonzero(own == side) for side in (_LEFT, _RIGHT))
                node.categories = left_side.tolist(), right_side.tolist()
            elif feature >= 0 and cut < math.inf:
                node.cut = cut
            found.append(node)
        for node in found:
            for child in (node.left, node.right):
                if child >= 0:
                    found[child].depth = node.depth + 1
        return Tree(found)


def tree_of(buds: Sequence[Bud]) -> Tree:
    """Return a tree that grows, as far as it is known."""
    found, children = [], 1
    for bud in buds:
        node = Node(bud.sums[0] if bud.sums else 0, 0, bud.depth, gain=bud.gain)
        if bud.feature >= 0:
            node.feature, node.missing_left, node.categories = (
                bud.feature, bud.missing_left, bud.categories,
            )  # fmt: skip
            node.cut = math.nan if bud.cut is None else bud.cut
            node.left, node.right = children, children + 1
            children += 2
        found.append(node)
    return Tree(found)


def tree_text(buds: Sequence[Bud], steps: Floats, known: Sequence[int]) -> str:
    """Return a tree that has grown as text; `steps`: of its nodes, of which those of leaves count."""
    codes, values, sides = [], [], list[bytes]()
    for bud, step in zip(buds, steps.tolist(), strict=True):
        codes.append(_LEAF if bud.feature < 0 else 2 * bud.feature + bud.missing_left)
        values.append(step if bud.feature < 0 else math.inf if bud.cut is None else bud.cut)
        if bud.categories is not None:
            own = np.full(known[bud.feature], _UNSEEN + bud.missing_left, np.uint8)
            left, right = bud.categories
            own[left], own[right] = _LEFT, _RIGHT
            sides.append(own.tobytes())
    head, numbers = np.array([len(codes), *codes], _COUNT), np.array(values, _NUMBER)
    return b64encode(b"".join([head.tobytes(), numbers.tobytes(), *sides])).decode()


@lru_cache(_MOST_READ)
def grown_tree(text: str, known: tuple[int, ...]) -> GrownTree:
    """Return the tree that a text holds; `known`: how many categories each feature has.

    Raises
    ------
    ModelError
        For a text that holds none.
    """
    try:
        return _read(b64decode(text, validate=True), np.array(known, np.int64))
    except ValueError:
        raise ModelError("a damaged plan: a tree that is none") from None


def _read(data: bytes, known: NDArray[np.int64]) -> GrownTree:
    """Return a tree; raises `ValueError` for bytes that hold none."""
    count = int(np.frombuffer(data, _COUNT, 1)[0])
    _need(0 < count <= len(data))
    codes = np.frombuffer(data, _COUNT, count, _COUNT.itemsize).astype(np.int64)
    start = _COUNT.itemsize * (1 + count)
    values = np.frombuffer(data, _NUMBER, count, start).astype(np.float64)
    sides = np.frombuffer(data, np.uint8, offset=start + _NUMBER.itemsize * count).copy()
    inner, leaf = np.flatnonzero(codes >= 0), codes == _LEAF
    left = 1 + 2 * np.arange(inner.size)
    _need(codes.min() >= _LEAF and codes.max() < 2 * known.size and count == 1 + 2 * inner.size)
    _need(bool((left > inner).all()) and not np.isnan(values).any())
    _need(bool((np.abs(values[leaf]) < _MOST).all()) and sides.max(initial=0) <= _UNSEEN + 1)
    features = codes[inner] >> 1
    sizes = known[features]
    _need(int(sizes.sum()) == sides.size)
    links = np.full((count, 5), -1, np.int32)
    links[inner, :4] = np.stack([features, left, left + 1, codes[inner] & 1], axis=1)
    links[inner, 4] = np.where(sizes > 0, np.cumsum(sizes) - sizes, -1)
    steps = np.ones((count, 2))
    steps[:, 1] = np.where(leaf, values, 0.0)
    routes = Routes(links, np.where(leaf, np.inf, values), sides & np.uint8(1))
    return GrownTree(routes, steps, sides)


def _need(holds: bool) -> None:
    if not holds:
        raise ValueError


def largest_move(run: Run, known: tuple[int, ...]) -> float:
    """Return how far the trees of a run can move a score at most."""
    return sum(float(np.abs(grown_tree(text, known).steps[:, 1]).max()) for text in run.trees)
