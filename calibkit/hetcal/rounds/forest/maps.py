"""Platt's maps of the nodes of a forest in rounds: on the rows that a tree was not grown on.

Where candidates are judged a node has a map for each part of the rows, of all rows but these; all maps
of all trees take their Newton steps together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from calibkit.errors import ModelError
from calibkit.hetcal.forest import TREES, TRIED_TREES
from calibkit.hetcal.rounds.forest.draws import Words, draws
from calibkit.hetcal.rounds.forest.packed import integers_of, lines_of, need_room, trees_of
from calibkit.hetcal.rounds.grow import Shared
from calibkit.hetcal.rounds.growing import tell_lines
from calibkit.hetcal.rounds.known import EVERYONE, Known, Line, grid_of
from calibkit.hetcal.rounds.lines import Counts, LineSums, line_array
from calibkit.hetcal.rounds.rows import Block, hashes_of, parts_by
from calibkit.hetcal.rounds.tables import Numbers, What, array_of
from calibkit.hetcal.spec import HetcalSpec
from calibkit.hetcal.states import HetcalProblem
from calibkit.hetcal.trees import Tree
from calibkit_kernels import leaf_maps
from calibkit_kernels import rounds as kernels

Floats = NDArray[np.float64]
Int64s = NDArray[np.int64]
Bools = NDArray[np.bool_]


def is_judged(known: Known, spec: HetcalSpec) -> bool:
    """Tell whether the trees are there to choose by, not yet those of the model."""
    return grid_of(spec).open and known.folds > 0 and known.chosen is None


def settled(known: Known, spec: HetcalSpec) -> tuple[int, int, float]:
    """Return depth, leaf size and shrinkage of the forest: those chosen, else the deepest."""
    grid, chosen = grid_of(spec), known.chosen
    if chosen is None:
        return grid.depths[-1], grid.leaf_sizes[0], grid.shrinkages[0]
    return (
        grid.depths[chosen.depth],
        grid.leaf_sizes[chosen.size],
        grid.shrinkages[chosen.shrinkage],
    )


def tree_count(known: Known, spec: HetcalSpec) -> int:
    """Return how many trees the forest has now."""
    if is_judged(known, spec):
        return min(spec.trees or TRIED_TREES, TRIED_TREES)
    return spec.trees or TREES


@dataclass(frozen=True)
class Places:
    """Which nodes of a tree have a map.

    Attributes
    ----------
    count
        How many have one.
    at
        Of each depth: the map that rows of each node have there.
    fresh
        The same, -1 where it is that of a lower depth too.
    """

    count: int
    at: list[NDArray[np.int32]]
    fresh: list[NDArray[np.int32]]


def places_of(tree: Tree, depths: Sequence[int]) -> Places:
    """Return the maps of the nodes that end the tree cut off at some depths, from the left."""
    place = np.full(len(tree.nodes), -1, np.int32)
    ends = np.array([node.feature < 0 for node in tree.nodes])
    at, fresh, count = [], [], 0
    for depth in depths:
        above = tree.ancestors(depth)
        new = np.unique(above[ends])
        new = new[place[new] < 0]
        place[new] = np.arange(count, count + new.size)
        found = place[above]
        at.append(found)
        fresh.append(np.where(found >= count, found, np.int32(-1)).astype(np.int32))
        count += new.size
    return Places(count, at, fresh)


def parts_used(known: Known, part: NDArray[Any], judged: int) -> Bools:
    """Tell which parts the maps are of that judge one: all, for `EVERYONE`."""
    forward = judged != EVERYONE and known.times is not None
    found: Bools = part < judged if forward else part != judged
    return found


class Leaves:
    """The maps of a forest, tree by tree: those of all its nodes, for each part that is judged.

    Attributes
    ----------
    depths, judged
        The depths that trees are cut off at, and the parts: `EVERYONE` alone for those of the model.
    trees, routes, places
        The trees, how rows go through them, and which of their nodes have a map.
    firsts
        Where the maps of each tree begin, and where the last end.
    """

    def __init__(self, known: Known, problem: HetcalProblem) -> None:
        self.known, self.problem = known, problem
        self.trees = trees_of(known.wood.grove, known.categories)
        self.depths, self.judged = [settled(known, problem.spec)[0]], range(EVERYONE, 0)
        if is_judged(known, problem.spec):
            self.depths, self.judged = sorted({0, *grid_of(problem.spec).depths}), known.judged
        self.places = [places_of(tree, self.depths) for tree in self.trees]
        sizes = [own.count * len(self.judged) for own in self.places]
        self.firsts = list(accumulate(sizes, initial=0))
        need_room(self.firsts[-1])
        categories = [len(names or ()) for names in known.categories]
        self.routes = [tree.routes(categories) for tree in self.trees]

    @property
    def count(self) -> int:
        """How many maps there are."""
        return self.firsts[-1]

    def weights(self) -> Int64s:
        """Return rows and positives of each map, in units of weight: map x 2."""
        found = integers_of(self.known.wood.counts, 2)
        rows, hits = found.T
        if not (len(found) == self.count and (hits >= 0).all() and (hits <= rows).all()):
            raise ModelError("a damaged plan: a leaf has no map")
        return found

    def counts(self) -> list[Counts]:
        """Return how many rows each map is of, and how many positive ones."""
        size = self.known.rows.size
        return [(rows * size, hits * size) for rows, hits in self.weights().tolist()]

    def lines(self) -> list[Line]:
        """Return the maps, as far as they are known."""
        found = lines_of(self.known.wood.lines)
        if len(found) != self.count:
            raise ModelError("a damaged plan: a leaf has no map")
        return found

    def maps(self) -> Floats:
        """Return a, b, rows and positives of all maps."""
        lines = [(one.slope, one.intercept) for one in self.lines()]
        return np.hstack([np.array(lines).reshape(-1, 2), np.array(self.counts()).reshape(-1, 2)])

    def own(self, tree: int, part: int) -> slice:
        """Return where the maps of the nodes of a tree stand that judge a part."""
        first = self.firsts[tree] + (part - self.judged.start) * self.places[tree].count
        return slice(first, first + self.places[tree].count)

    def dealt(self, block: Block) -> tuple[Words, NDArray[np.uint8]]:
        """Return the hash and the part of each row."""
        hashes = hashes_of(block)
        return hashes, parts_by(block, hashes, self.problem, self.known.folds)

    def eligible(self, hashes: Words, tree: int) -> Bools:
        """Tell which rows the maps of a tree are of: those that did not grow it."""
        if self.known.grown is not None:
            return np.ones(hashes.size, np.bool_)
        return np.equal(draws(hashes, self.problem.spec.seed, tree), 0)

    def ends(self, values: Floats, tree: int) -> NDArray[np.int32]:
        """Return the node of a tree that each row (a column of `values`) ends in."""
        return self.routes[tree].ends(values)


class TallyCounter:
    """Counts the rows of each part at the nodes that have a map."""

    def __init__(self, known: Known, problem: HetcalProblem, shared: Shared) -> None:
        self.leaves, self.shared = Leaves(known, problem), shared
        self.starts = starts_of(self.leaves)
        self.sums = np.zeros((known.parts * self.starts[-1], 2), np.int64)

    def add(self, block: Block) -> None:
        """Add some rows."""
        leaves, parts = self.leaves, self.leaves.known.parts
        hashes, part = leaves.dealt(block)
        payload = np.stack([block.weight, block.weight * block.label], axis=1)

        def work(own: Int64s) -> None:
            for tree in own.tolist():
                eligible = leaves.eligible(hashes, tree)
                ends = leaves.ends(block.features.values, tree)
                for fresh in leaves.places[tree].fresh:
                    rows = np.flatnonzero(eligible & (fresh[ends] >= 0))
                    at = (self.starts[tree] + fresh[ends[rows]]) * parts + part[rows]
                    np.add.at(self.sums, at, payload[rows])

        self.shared.over(len(leaves.trees), work)

    def tell(self, numbers: Numbers) -> dict[str, Any]:
        """Tell the sums."""
        numbers.add_all(What.CELL, self.sums)
        return {}


def starts_of(leaves: Leaves) -> list[int]:
    """Return where the nodes of each tree that have a map begin, and where the last end."""
    return list(accumulate((own.count for own in leaves.places), initial=0))


def tallied(leaves: Leaves, table: pl.DataFrame) -> Int64s:
    """Return the rows and positives of each map, from what was counted of each node and part."""
    starts, parts = starts_of(leaves), leaves.known.parts
    sums = array_of(table, What.CELL, 2 * parts * starts[-1]).reshape(-1, parts, 2)
    every, found = np.arange(parts), list[Int64s]()
    for first, last in pairwise(starts):
        found += [
            sums[first:last, parts_used(leaves.known, every, part)].sum(axis=1)
            for part in leaves.judged
        ]
    return np.concatenate(found)


class SettleCounter:
    """Sums the Newton steps of the maps."""

    def __init__(self, known: Known, problem: HetcalProblem, shared: Shared) -> None:
        self.leaves, self.shared = Leaves(known, problem), shared
        lines, counts = self.leaves.lines(), self.leaves.counts()
        moving = [place for place, one in enumerate(lines) if not one.done]
        asked = line_array([lines[place] for place in moving], [counts[place] for place in moving])
        self.lines = LineSums(asked)
        # Of each map its place among those that move, -1 for the others; and how many stand before it.
        self.at = np.full(len(lines), -1, np.int64)
        self.at[moving] = np.arange(len(moving))
        self.before = np.append(0, np.cumsum(self.at >= 0))

    def add(self, block: Block) -> None:
        """Add some rows."""
        hashes, part = self.leaves.dealt(block)

        def work(own: Int64s) -> None:
            for tree in own.tolist():
                self._add(tree, block, hashes, part)

        self.shared.over(len(self.leaves.trees), work)

    def _add(self, tree: int, block: Block, hashes: Words, part: NDArray[np.uint8]) -> None:
        leaves = self.leaves
        if self.before[leaves.firsts[tree]] == self.before[leaves.firsts[tree + 1]]:
            return
        rows = np.flatnonzero(leaves.eligible(hashes, tree)).astype(np.int32)
        ends, part = leaves.ends(block.features.values, tree)[rows], part[rows]
        for judged in leaves.judged:
            own = leaves.own(tree, judged)
            first, last = self.before[own.start], self.before[own.stop]
            if first == last:
                continue
            used = parts_used(leaves.known, part, judged)
            # Of a map its place among those of the slice that move; the last entry is of none.
            moving = np.append(np.where(self.at[own] >= 0, self.at[own] - first, -1), -1)
            moving = moving.astype(np.int32)
            for fresh in leaves.places[tree].fresh:
                leaf = np.where(used, moving[fresh][ends], np.int32(-1))
                self._sum(leaf, rows, slice(int(first), int(last)), block)

    def _sum(
        self, leaf: NDArray[np.int32], rows: NDArray[np.int32], own: slice, block: Block
    ) -> None:
        """Add some rows to some maps, which stand side by side; `leaf`: the map of each, or -1."""
        spans = np.empty((own.stop - own.start, 2), np.int64)
        order = np.empty(leaf.size, np.int32)
        leaf_maps.rows_by_leaf(leaf, spans, order)
        kernels.sum_lines(
            block.score, block.label, block.masses[0], rows[order[: spans[-1, 1]]], spans,
            self.lines.lines[own], self.lines.sums[own], self.lines.ranges[own],
        )  # fmt: skip

    def tell(self, numbers: Numbers) -> dict[str, Any]:
        """Tell the sums."""
        tell_lines(self.lines, numbers)
        return {}
