"""The end of a forest in rounds: its trees and their maps, as the model holds them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibkit.hetcal.cells import BINS
from calibkit.hetcal.describe import described_tree
from calibkit.hetcal.features import Features
from calibkit.hetcal.maps import Maps, shrunk
from calibkit.hetcal.model import PartitionPart
from calibkit.hetcal.rounds.choose import root_maps
from calibkit.hetcal.rounds.end import after_line, before_of, loss_units
from calibkit.hetcal.rounds.forest_maps import Leaves, settled
from calibkit.hetcal.rounds.known import EVERYONE, Known
from calibkit.hetcal.rounds.lines import worth
from calibkit.hetcal.rounds.rows import Block
from calibkit.hetcal.states import HetcalProblem

Floats = NDArray[np.float64]


class ForestEnding:
    """What is fitted of a forest; see `calibkit.hetcal.rounds.end.End`."""

    def __init__(self, known: Known, problem: HetcalProblem) -> None:
        spec, (rows, _) = problem.spec, known.rows.counts
        self._leaves = Leaves(known, problem)
        self.max_depth, self.min_leaf, self.shrinkage = settled(known, spec)
        self.before = before_of(known, spec)
        self.pooled = after_line(self.before, root_maps(known)[EVERYONE][None])[0]
        self.units, self.cell_unit = loss_units(known), worth(1.0, rows)
        found = self._leaves.maps()
        found[:, :2] = after_line(self.before, found[:, :2])
        self.maps = [
            Maps(shrunk(own, self.pooled, self.shrinkage), None, own[:, 2:])
            for own in np.split(found, self._leaves.firsts[1:-1])
        ]

    @property
    def leaves(self) -> int:
        """How many leaves all trees have."""
        return self._leaves.count

    @property
    def cells(self) -> int:
        """How many cells there are: of each leaf of the first tree, all bins of the probability."""
        return len(self.maps[0].lines) * BINS

    def calibrated(self, block: Block) -> tuple[NDArray[np.int32], Floats]:
        """Return the leaf of each row in the first tree, and its probability: the mean of all trees."""
        score = self.before.a * block.score + self.before.b
        total, first = np.zeros(score.size), np.empty(0, np.int32)
        for tree, maps in enumerate(self.maps):
            leaf = self._leaves.places[tree].at[0][self._leaves.ends(block.features.values, tree)]
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
