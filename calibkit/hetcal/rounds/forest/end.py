"""The end of a forest in rounds: its trees and their maps, as the model holds them."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibkit.hetcal.cells import BINS
from calibkit.hetcal.describe import described_tree
from calibkit.hetcal.features import Features
from calibkit.hetcal.model import PartitionPart
from calibkit.hetcal.rounds.choose import root_maps
from calibkit.hetcal.rounds.end import Made, after_line, before_of, loss_units, maps_of, need_maps
from calibkit.hetcal.rounds.forest.maps import Leaves, settled
from calibkit.hetcal.rounds.known import EVERYONE, FINISH, Known
from calibkit.hetcal.rounds.lines import Counts, worth
from calibkit.hetcal.rounds.protocol import Leaf
from calibkit.hetcal.rounds.rows import Block
from calibkit.hetcal.states import HetcalProblem
from calibkit_kernels import leaf_maps

Floats = NDArray[np.float64]
Int64s = NDArray[np.int64]


def _made(known: Known, tree: int, own: slice) -> Made:
    """Return what the rounds made of the leaves of a tree."""
    leaves = len(known.curves) - len(known.wood.grove.sizes)
    curves = [*known.curves[own], *known.curves[max(leaves, 0) :][tree : tree + 1]]
    return Made(curves, known.cuts[own], known.rates[own])


class ForestEnding:
    """What is fitted of a forest; see `calibkit.hetcal.rounds.protocol.Mapped`."""

    def __init__(self, known: Known, problem: HetcalProblem) -> None:
        spec, (rows, _) = problem.spec, known.rows.counts
        self._leaves = Leaves(known, problem)
        self.max_depth, self.min_leaf, self.shrinkage = settled(known, spec)
        self.before = before_of(known, spec)
        self.pooled = after_line(self.before, root_maps(known)[EVERYONE][None])[0]
        self.units, self.cell_unit = loss_units(known), worth(1.0, rows)
        self.lines = self._leaves.maps()
        self.lines[:, :2] = after_line(self.before, self.lines[:, :2])
        kind = spec.map if known.step == FINISH else "platt"
        self.maps = [
            maps_of(kind, self.lines[own], self.pooled, self.shrinkage, _made(known, tree, own))
            for tree, own in enumerate(self.trees)
        ]

    @property
    def leaves(self) -> int:
        """How many leaves all trees have."""
        return self._leaves.count

    @property
    def cells(self) -> int:
        """How many cells there are: of each leaf of the first tree, all bins of the probability."""
        return len(self.maps[0].lines) * BINS

    @property
    def trees(self) -> list[slice]:
        """The leaves of each tree."""
        return [slice(*ends) for ends in pairwise(self._leaves.firsts)]

    @property
    def counts(self) -> list[Counts]:
        """Rows and positives of each leaf, then of all leaves of each tree."""
        counts = self.lines[:, 2:]
        wholes = [counts[own].sum(axis=0) for own in self.trees]
        return [(rows, hits) for rows, hits in np.vstack([counts, wholes]).tolist()]

    def need(self, maps: int) -> None:
        """Raise `ModelError` where a plan has not so many maps as there are leaves."""
        need_maps(maps, self.leaves)

    def first(self, score: Any) -> Any:
        """Return scores after the map that all of them go through first."""
        return self.before.a * score + self.before.b

    def each_leaf(self) -> list[Leaf | None]:
        """Return the rows of each leaf; None where there are none."""
        found = list[Leaf | None]()
        for line, (rows, hits) in zip(
            self._leaves.lines(), self._leaves.weights().tolist(), strict=True
        ):
            low, high = sorted((self.first(line.low), self.first(line.high)))
            found.append(Leaf(low, high, rows, hits) if rows else None)
        return found

    def rows_by_leaf(self, block: Block) -> tuple[Int64s, NDArray[np.int32]]:
        """Return where the rows of each leaf begin and end, leaf by leaf, and the rows.

        These are the rows that did not grow the tree of the leaf.
        """
        hashes, _ = self._leaves.dealt(block)
        spans, rows = np.empty((self.leaves, 2), np.int64), list[NDArray[np.int32]]()
        start = 0
        for tree, own in enumerate(self.trees):
            used = self._leaves.eligible(hashes, tree)
            leaf = np.where(used, self._leaf_of(block, tree), np.int32(-1)).astype(np.int32)
            order = np.empty(leaf.size, np.int32)
            leaf_maps.rows_by_leaf(leaf, spans[own], order)
            rows.append(order[: spans[own][-1, 1]])
            spans[own] += start
            start += rows[-1].size
        return spans, np.concatenate(rows)

    def _leaf_of(self, block: Block, tree: int) -> NDArray[np.int32]:
        """Return the leaf of each row in a tree."""
        ends = self._leaves.ends(block.features.values, tree)
        return self._leaves.places[tree].at[0][ends]

    def calibrated(self, block: Block) -> tuple[NDArray[np.int32], Floats]:
        """Return the leaf of each row in the first tree, and its probability: the mean of all trees."""
        score = self.first(block.score)
        total, first = np.zeros(score.size), np.empty(0, np.int32)
        for tree, maps in enumerate(self.maps):
            leaf = self._leaf_of(block, tree)
            total += maps.probabilities(score, leaf)
            first = leaf if tree == 0 else first
        return first, total / len(self.maps)

    def written(self, features: Features, known: Known) -> dict[str, Any]:
        """Return the field of the model that holds the trees and their maps."""
        seen = known.rows
        size = (known.grown or seen).size
        trees = zip(self._leaves.trees, self.maps, strict=True)
        return {
            "partitions": [
                PartitionPart(
                    tree=described_tree(tree, size, features),
                    maps=maps.described(seen.unit, seen.size),
                )
                for tree, maps in trees
            ]
        }
