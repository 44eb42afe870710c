"""The trees and maps of a forest as a plan holds them: arrays as bytes, since there are many.

Integers and numbers of 64 bits, in little-endian order.  What is read may be damaged: kernels rely on
links that lead on, and on features and categories that there are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from calibkit.errors import ModelError, ResourceError
from calibkit.hetcal.rounds.forest.known import Grove
from calibkit.hetcal.rounds.known import Line
from calibkit.hetcal.trees import Node, Tree

Floats = NDArray[np.float64]
Int64s = NDArray[np.int64]

#: Nodes of all trees, maps of all nodes, or steps of these, that a plan has room for.
MOST_NODES: Final = 1 << 20

#: Columns of a node: depth, feature, children, where missing values go; rows, positives; cut, gain.
_LINKS, _SUMS, _NUMBERS = 5, 2, 2

#: Columns of a map: those of `Line`, its step in two; and its loss among them, NaN where there is none.
_LINE: Final = 11
_LOSS: Final = 9


def as_bytes(values: NDArray[Any]) -> bytes:
    """Return an array of integers or of numbers as bytes."""
    return values.astype("<i8" if values.dtype.kind == "i" else "<f8").tobytes()


def integers_of(data: bytes, columns: int) -> Int64s:
    """Return an array of integers of so many columns."""
    return _array(data, "<i8", columns).astype(np.int64)


def numbers_of(data: bytes, columns: int) -> Floats:
    """Return an array of numbers of so many columns."""
    return _array(data, "<f8", columns).astype(np.float64)


def _array(data: bytes, kind: str, columns: int) -> NDArray[Any]:
    if len(data) % (8 * columns):
        raise ModelError("a damaged plan: an array is cut off")
    return np.frombuffer(data, kind).reshape(-1, columns)


def grove_of(trees: Sequence[Tree]) -> Grove:
    """Return trees as a plan holds them.

    Raises
    ------
    ResourceError
        Where they have too many nodes.
    """
    nodes = [node for tree in trees for node in tree.nodes]
    need_room(len(nodes))
    links = [(n.depth, n.feature, n.left, n.right, int(n.missing_left)) for n in nodes]
    sides: list[int] = []
    for node in nodes:
        if node.categories is not None:
            left, right = node.categories
            sides += [len(left), len(right), *left, *right]
    return Grove(
        [len(tree.nodes) for tree in trees],
        as_bytes(np.array(links, np.int64)),
        as_bytes(np.array([(node.rows, node.second) for node in nodes], np.int64)),
        as_bytes(np.array([(node.cut, node.gain) for node in nodes], np.float64)),
        as_bytes(np.array(sides, np.int64)),
    )


def need_room(nodes: int) -> None:
    """Raise `ResourceError` for more nodes, maps or steps than a plan has room for."""
    if nodes > MOST_NODES:
        raise ResourceError(
            f"memory: the trees of this forest have more than {MOST_NODES:,} nodes, maps of nodes or "
            "steps of maps at a time, which a fit in rounds cannot hold: raise --min-leaf, lower "
            "--max-depth or --trees, or raise --memory"
        )


def trees_of(grove: Grove, names: Sequence[Sequence[str] | None]) -> list[Tree]:
    """Return the trees that a plan holds; `names`: the categories of each feature.

    Raises
    ------
    ModelError
        Where they are no trees, or split what there is not.
    """
    links, sums = integers_of(grove.links, _LINKS), integers_of(grove.sums, _SUMS)
    numbers = numbers_of(grove.numbers, _NUMBERS)
    count = sum(grove.sizes)
    fit = all(size > 0 for size in grove.sizes) and len(links) == len(sums) == len(numbers) == count
    fit = fit and bool(np.isfinite(numbers[:, 1]).all()) and not np.isinf(numbers[:, 0]).any()
    if not (fit and count <= MOST_NODES and _linked(links, grove.sizes, len(names))):
        raise ModelError("a damaged plan: its trees do not fit together")
    nodes = [
        Node(rows, hits, depth, feature, cut, left, right, missing == 1, None, gain)
        for (depth, feature, left, right, missing), (rows, hits), (cut, gain) in zip(
            links.tolist(), sums.tolist(), numbers.tolist(), strict=True
        )
    ]
    _take_categories(nodes, integers_of(grove.sides, 1)[:, 0].tolist(), names)
    ends = accumulate(grove.sizes, initial=0)
    return [Tree(nodes[first:last]) for first, last in pairwise(ends)]


def _linked(links: Int64s, sizes: Sequence[int], features: int) -> bool:
    """Tell whether each node but the first of each tree is the child of one that stands before it."""
    depth, feature, *children = links[:, :4].T
    each = np.array(sizes, np.int64)
    first = np.repeat(np.cumsum(each) - each, each)
    here = np.arange(len(links)) - first
    inner = feature >= 0
    parents, below = np.zeros(len(links), np.int64), depth.copy()
    for child in children:
        if not ((child[inner] > here[inner]) & (child[inner] < np.repeat(each, each)[inner])).all():
            return False
        places = (first + child)[inner]
        np.add.at(parents, places, 1)
        below[places] = depth[inner] + 1
    return bool(
        (feature < features).all()
        and (parents[here > 0] == 1).all()
        and (depth[here == 0] == 0).all()
        and (below == depth).all()
    )


def _take_categories(
    nodes: Sequence[Node], sides: list[int], names: Sequence[Sequence[str] | None]
) -> None:
    """Give nodes that split categories those of both sides."""
    at = 0
    for node in nodes:
        own = names[node.feature] if node.feature >= 0 else None
        if own is None:
            continue
        left, right = (*sides[at : at + 2], -1, -1)[:2]
        codes = sides[at + 2 : at + 2 + left + right]
        if min(left, right) < 0 or len(codes) < left + right:
            raise ModelError("a damaged plan: a split has lost its categories")
        if not all(0 <= code < len(own) for code in codes):
            raise ModelError("a damaged plan: a split of categories that there are not")
        node.categories, node.cut = (codes[:left], codes[left:]), math.nan
        at += 2 + left + right


def lines_as_bytes(lines: Sequence[Line]) -> bytes:
    """Return maps as a plan holds them."""
    found = [
        (
            *(one.slope, one.intercept, one.low, one.high, one.shift, one.scale, *one.step),
            *(one.length, math.nan if one.loss is None else one.loss, float(one.done)),
        )
        for one in lines
    ]
    return as_bytes(np.array(found, np.float64))


def lines_of(data: bytes) -> list[Line]:
    """Return the maps that a plan holds."""
    found = [
        (*start, None if math.isnan(loss) else loss, done)
        for *start, loss, done in numbers_of(data, _LINE).tolist()
    ]
    return [
        Line(a, b, low, high, shift, scale, (step, more), length, loss, done == 1.0)
        for a, b, low, high, shift, scale, step, more, length, loss, done in found
    ]


def lines_fit(data: bytes, most: float) -> bool:
    """Tell whether maps are numbers below `most`."""
    found = numbers_of(data, _LINE)
    slope, intercept, low, high, _, scale = found[:, :6].T
    with np.errstate(all="ignore"):
        height = np.abs(slope) * np.maximum(np.abs(low), np.abs(high)) + np.abs(intercept)
    known = np.delete(found, _LOSS, axis=1)
    return bool(np.isfinite(known).all() and (scale > 0.0).all() and (height < most).all())
