"""Features, by value or by the codes of bins, and the trees that part rows by them.

A tree is a list of nodes as it is grown (`Tree`), as models hold it (`described_tree`), and as kernels
take it (`Routes`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import polars as pl
from msgspec import UNSET, Struct
from msgspec.structs import replace

from calibkit.arrays import Floats, Int32s, Int64s, UInt8s, UInt16s, blocks, distinct_values
from calibkit.columns.rows import (
    FloatArray,
    RowFinder,
    as_single,
    is_text,
    missing_mask,
    numeric_column,
)
from calibkit.files.sources import Source
from calibkit.methods.hetcal.model import PartitionPart, TreeNode
from calibkit.models.model import Column
from calibkit.numerics.hashes import by_value, text_numbers
from calibkit.summaries.edges import quantile_places, quantile_ranks
from calibkit.summaries.row_store import ColumnSummaries
from calibkit_kernels import tree as kernels
from calibkit_kernels.tally import assign_levels

Codes = UInt8s | UInt16s

#: The categories of each feature in order, None for numbers.
Categories = Sequence[tuple[str, ...] | None]

#: Quantile bins of a feature with more than `MOST_VALUES` distinct values.
QUANTILE_BINS: Final = 1024

#: Sorted values that are compared at a time, and rows that are sent through a tree.
_BLOCK: Final = 1 << 16
_TREE_BLOCK: Final = 1 << 20


class Bins(Struct, frozen=True):
    """The bins of one feature; the code after the last bin is that of a missing value.

    `values` are those of the bins, rising (of categories their numbers); or the borders `between` bins:
    the code of a value is then the number of borders below it.
    """

    values: Floats
    between: bool = False

    @property
    def count(self) -> int:
        """How many bins there are."""
        return self.values.size + self.between

    @property
    def dtype(self) -> np.dtype[Any]:
        """The narrowest type that holds the codes."""
        return np.dtype(np.uint8 if self.count <= 255 else np.uint16)

    def codes(self, values: Floats) -> Codes:
        """Return the codes of values, NaN where there is none."""
        lows = self.values
        if self.between:  # a bin begins right above a border
            lows = np.append(lows[:1] if lows.size else 0.0, np.nextafter(lows, np.inf))
        codes = np.empty(values.size, self.dtype)
        assign_levels(values, -np.inf, lows[1:], codes)
        codes[np.isnan(values)] = lows.size
        return codes

    def cut(self, low: int, high: int) -> tuple[float, int]:
        """Return the cut between two bins, and the last code on its left.

        Bins in between hold no row of the node.  Between values the cut is half way, else it is the
        middle one of the borders; so codes and values go the same way.  A negative `high` stands for
        no bin: every value goes left, and the cut is NaN.
        """
        if high < 0:
            return np.nan, self.count - 1
        if self.between:
            last = (low + high - 1) // 2
            return float(self.values[last]), last
        middle = float(_midpoints(self.values[low : low + 1], self.values[high : high + 1])[0])
        return middle, int(np.searchsorted(self.values, middle, "right")) - 1


def summarised_bins(found: ColumnSummaries, column: int, bins: int) -> Bins:
    """Return the bins of a column: one a distinct value, or quantiles of its sample."""
    distinct = found.distinct[column]
    if distinct is not None:
        return Bins(distinct)
    values, counts = found.sample(column)
    firsts = values[quantile_places(counts, bins)]
    return _bordered(values, distinct_values(np.searchsorted(values, firsts)))


def sorted_bins(ordered: Floats, most: int) -> Bins:
    """Return the bins of sorted values: one a distinct value, or quantiles of all of them."""
    starts, exact = group_starts(ordered, most)
    return Bins(ordered[starts]) if exact else _bordered(ordered, starts)


def group_starts(ordered: Floats, most: int) -> tuple[Int64s, bool]:
    """Return where groups of sorted values begin, and whether each holds one distinct value.

    That is so where there are at most `most` of them; else there are about as many groups of equal
    size.  Equal values are never parted.
    """
    found, count = [np.zeros(1, np.int64)], 1
    for first in range(0, ordered.size - 1, _BLOCK):
        block = ordered[first : first + _BLOCK + 1]
        found.append(np.flatnonzero(block[1:] != block[:-1]) + first + 1)
        count += found[-1].size
        if count > most:
            values = ordered[quantile_ranks(ordered.size, most)]
            return distinct_values(np.searchsorted(ordered, values)), False
    return np.concatenate(found), True


def _bordered(ordered: Floats, starts: Int64s) -> Bins:
    """Return bins that begin at some places, of which the first is 0, of sorted values."""
    return Bins(_midpoints(ordered[starts[1:] - 1], ordered[starts[1:]]), between=True)


def _midpoints(low: Floats, high: Floats) -> Floats:
    """Return the numbers half way between two, the lower one where rounding gives the upper."""
    middle = 0.5 * low + 0.5 * high
    return np.where(middle < high, middle, low)


class Features(Struct, frozen=True):
    """The features of some rows: what they are, and their categories in order, None for numbers.

    Rows are known by code: each feature has bins, and a code for each row.  Or by value, rows x
    features: NaN where there is none, a category is its place in `categories`.
    """

    columns: tuple[Column, ...]
    categories: tuple[tuple[str, ...] | None, ...]
    bins: tuple[Bins, ...] = ()
    codes: tuple[Codes, ...] = ()
    values: Floats | None = None

    def with_number(self, name: str, bins: Bins, codes: Codes) -> Features:
        """Return the features with one more, a number."""
        return Features(
            (*self.columns, Column(name, "float64", kind="number")),
            (*self.categories, None),
            (*self.bins, bins),
            (*self.codes, codes),
        )


def feature_words(values: Floats, categories: Categories) -> dict[str, Floats]:
    """Return what identifies rows' features (features x rows), for hashes: categories by their text."""
    found = {}
    for place, (row, names) in enumerate(zip(values, categories, strict=True)):
        words = row
        if names is not None:
            numbers = np.array([*text_numbers(names, "little"), np.nan])
            words = numbers[np.where(np.isnan(row), len(names), row).astype(np.int64)]
        found[f"{place:05d}f"] = words
    return found


def feature_columns(source: Source, names: Sequence[str]) -> tuple[Column, ...]:
    """Return what a model says of features: text is a category, all else a number."""
    found = []
    for name in names:
        dtype = source.schema[name]
        number = "float32" if dtype in (pl.Float32, pl.Float16) else "float64"
        text = is_text(dtype)
        found.append(Column(name, kind="category") if text else Column(name, number, kind="number"))
    return tuple(found)


def read_features(
    frame: pl.DataFrame,
    columns: Sequence[Column],
    where: RowFinder,
    known: Categories | None = None,
) -> tuple[Floats, Categories]:
    """Return features as numbers, features x rows, and the categories of those that are text.

    Null, NaN and empty text are missing values, which a tree gives a side.  Numbers are rounded to the
    dtype of the fit; of `known` categories, those of a model or a tree, one that is not among them is
    as a missing value.
    """
    values = np.empty((len(columns), frame.height))
    categories: list[tuple[str, ...] | None] = []
    for place, column in enumerate(columns):
        series = frame[column.name]
        if column.kind != "category":
            numbers = _numbers(series, where)
            if column.dtype == "float32":
                numbers = as_single(numbers, series, where)
            values[place] = numbers
            categories.append(None)
            continue
        names = None if known is None else known[place]
        if names is None:
            found = series.cast(pl.String).drop_nulls().unique().sort().to_list()
            names = tuple(name for name in found if name)
        elif not is_text(series.dtype) and series.dtype != pl.Null:
            where.refuse(
                series,
                None,
                f"{series.dtype} instead of text",
                "the model was fitted on categories: write the column as text",
            )
        codes = {name: float(code) for code, name in enumerate(names)}
        values[place] = by_value(series.cast(pl.String), codes.get, pl.Float64)
        categories.append(names)
    return values, categories


def _numbers(series: pl.Series, where: RowFinder) -> FloatArray:
    """Return a column as numbers, NaN where there is none."""
    absent = missing_mask(series, empty=False)
    if absent is None:
        return numeric_column(series, where)
    if absent.all():
        return np.full(absent.size, np.nan)
    if series.dtype.is_float():
        series = series.fill_nan(None)
    filled = series.fill_null(strategy="zero" if series.dtype.is_numeric() else "min")
    numbers = numeric_column(filled, where).astype(np.float64)
    numbers[absent] = np.nan
    return numbers


class Node(Struct):
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

    def left_codes(self, bins: Bins) -> UInt8s:
        """Return which codes of its feature go left, that of missing values last."""
        left = np.full(bins.count + 1, self.missing_left, np.uint8)
        if self.categories is not None:
            left[self.categories[0]], left[self.categories[1]] = 1, 0
        else:
            left[:-1] = np.arange(bins.count) <= self.last
        return left


class Tree(Struct):
    """A grown tree; the first node is the root, a node's children stand after it."""

    nodes: list[Node] = []

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
            node = self.nodes[place := waiting.pop()]
            if node.feature < 0:
                found.append(place)
            else:
                waiting += [node.right, node.left]
        return found

    def leaves(self) -> Int32s:
        """Return the number of each node's leaf, from left to right; -1 for nodes with children."""
        found, ends = np.full(len(self.nodes), -1, np.int32), self.ends()
        found[ends] = np.arange(len(ends))
        return found

    def ancestors(self, depth: int) -> Int32s:
        """Return the node at a depth (or above, where a branch ends) that each node lies below."""
        found = np.empty(len(self.nodes), np.int32)
        for place, node in enumerate(self.nodes):
            if node.depth <= depth:
                found[place] = place
            if node.feature >= 0:
                found[[node.left, node.right]] = found[place]
        return found

    def code_ends(self, codes: Sequence[Codes], bins: Sequence[Bins], out: Int32s) -> None:
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


class Routes(Struct, frozen=True):
    """A tree in arrays; see `calibkit_kernels.tree.route_rows`."""

    links: Int32s
    cuts: Floats
    sides: UInt8s

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

    def ends(self, values: Floats) -> Int32s:
        """Return the node without children that each row (a column of `values`) ends in."""
        out = np.empty(values.shape[1], np.int32)
        kernels.route_rows(values, self.links, self.cuts, self.sides, out)
        return out


def ends_of(tree: Tree, features: Features, out: Int32s) -> Int32s:
    """Write, and return, the node without children that each row ends in."""
    routes, names = None, [column.name for column in features.columns]
    if features.values is not None:
        known = dict(zip(names, features.categories, strict=True))
        routes = Routes.of(described_tree(tree, features, None), names, known)
    for own in blocks(out.size, _TREE_BLOCK):
        if routes is not None and features.values is not None:
            out[own] = routes.ends(np.ascontiguousarray(features.values[own].T))
        else:
            tree.code_ends([codes[own] for codes in features.codes], features.bins, out[own])
    return out


def described_tree(tree: Tree, features: Features, size: float | None) -> list[TreeNode]:
    """Return the nodes of a tree as a model holds them.

    `size` is how many rows a unit of its counts stands for; None: without rows and gains.
    """
    leaves, total, found = tree.leaves().tolist(), float(tree.nodes[0].rows), []
    for leaf, node in zip(leaves, tree.nodes, strict=True):
        made = TreeNode()
        found.append(made)
        if size is not None:
            rows = node.rows * size
            made.rows = int(rows) if float(rows).is_integer() else rows
        if node.feature < 0:
            made.leaf = leaf
            continue
        made.feature = features.columns[node.feature].name
        made.missing = "left" if node.missing_left else "right"
        made.left, made.right = node.left, node.right
        if size is not None:
            made.gain = node.gain / total
        names = features.categories[node.feature]
        if node.categories is not None and names is not None:
            sides = ([names[code] for code in side] for side in node.categories)
            made.left_categories, made.right_categories = sides
        else:
            made.cut = None if math.isnan(node.cut) else node.cut
    return found


def known_categories(parts: Sequence[PartitionPart]) -> dict[str, tuple[str, ...]]:
    """Return every category that some split names, by feature, in order."""
    found: dict[str, set[str]] = {}
    for node in (node for part in parts for node in part.tree):
        if node.left_categories is not UNSET and node.right_categories is not UNSET:
            named = found.setdefault(str(node.feature), set())
            named.update(node.left_categories, node.right_categories)
    return {name: tuple(sorted(values)) for name, values in found.items()}
