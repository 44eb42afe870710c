"""Choosing depth, leaf size and shrinkage of a forest in rounds: small forests on the rows left out."""

from __future__ import annotations

from itertools import chain
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from calibkit.errors import ModelError
from calibkit.hetcal.choose import best_place, discounted
from calibkit.hetcal.maps import shrunk
from calibkit.hetcal.rounds.choose import judged_counts, root_maps
from calibkit.hetcal.rounds.forest.draws import Words
from calibkit.hetcal.rounds.forest.maps import Leaves
from calibkit.hetcal.rounds.grow import Shared
from calibkit.hetcal.rounds.known import Chosen, Known, grid_of
from calibkit.hetcal.rounds.lines import worth
from calibkit.hetcal.rounds.rows import Block
from calibkit.hetcal.rounds.tables import Numbers, What
from calibkit.hetcal.spec import HetcalSpec
from calibkit.hetcal.states import HetcalProblem
from calibkit_kernels import leaf_maps

Floats = NDArray[np.float64]
Int64s = NDArray[np.int64]

#: No loss is larger: probabilities are kept 1e-15 from 0 and 1.
MOST_LOSS: Final = 36.0
LEAST: Final = 1e-15

#: Rows that are judged at a time: each has a probability for every candidate.
_ROWS: Final = 1 << 13


def shape_of(spec: HetcalSpec) -> tuple[int, int, int]:
    """Return the sums of a leaf size: depth x shrinkage x (gain, its square, loss)."""
    grid = grid_of(spec)
    return len(grid.depths), len(grid.shrinkages), 3


def units_of(known: Known) -> Floats:
    """Return how many units these sums have in one."""
    seen = known.rows
    rows, _ = seen.counts
    times = seen.heaviest if seen.sampled else 1.0
    squared = worth(MOST_LOSS * MOST_LOSS * times, rows)
    return np.array([worth(MOST_LOSS, rows), squared, worth(MOST_LOSS, rows)])


class WeighCounter:
    """Sums how much better each candidate does than one map, on the rows that are left out."""

    def __init__(self, known: Known, problem: HetcalProblem, shared: Shared) -> None:
        self.leaves, self.shared = Leaves(known, problem), shared
        self.grid, self.units = grid_of(problem.spec), units_of(known)
        self.sums = np.zeros(shape_of(problem.spec), np.int64)
        self.together = 0
        maps, pooled = self.leaves.maps(), root_maps(known)
        self.pooled = np.array([pooled[part] for part in self.leaves.judged])
        self.maps = [
            [self._shrunk(tree, maps, shrinkage) for shrinkage in self.grid.shrinkages]
            for tree in range(len(self.leaves.trees))
        ]

    def _shrunk(self, tree: int, maps: Floats, shrinkage: float) -> Floats:
        """Return (a, b) of the maps of a tree, each drawn towards that of the same rows at the root."""
        owns = [maps[self.leaves.own(tree, part)] for part in self.leaves.judged]
        return np.vstack([shrunk(own, own[0, :2].copy(), shrinkage) for own in owns])

    def add(self, block: Block) -> None:
        """Add some rows."""
        hashes, part = self.leaves.dealt(block)
        judged = part.astype(np.int32) - np.int32(self.leaves.judged.start)
        rows = np.flatnonzero(judged >= 0)
        starts = range(0, rows.size, _ROWS)

        def work(own: Int64s) -> list[tuple[Int64s, int]]:
            chosen = [rows[starts[place] : starts[place] + _ROWS] for place in own.tolist()]
            return [self._weigh(block, hashes, judged, one) for one in chosen]

        for sums, together in chain.from_iterable(self.shared.each(len(starts), work)):
            self.sums += sums
            self.together += together

    def _weigh(
        self, block: Block, hashes: Words, judged: NDArray[np.int32], rows: Int64s
    ) -> tuple[Int64s, int]:
        """Return the sums over some rows, and that of the losses of one map for all."""
        score, label, (mass, squares) = block.score[rows], block.label[rows], block.masses[:, rows]
        alone, judged = np.empty(score.size), judged[rows]
        leaf_maps.leaf_probabilities(score, judged, self.pooled, alone)
        before, found = _losses(alone, label), np.empty(self.sums.shape, np.int64)
        values = np.take(block.features.values, rows, axis=1)
        total, seen = self._sums(score, values, hashes[rows], judged)
        mean = np.where(seen > 0.0, total / np.maximum(seen, 1.0), alone)
        for depth, weight in np.ndindex(found.shape[:2]):
            after = _losses(mean[depth, weight], label)
            fall = before - after
            terms = np.stack([mass * fall, squares * fall * fall, mass * after])
            found[depth, weight] = _whole(terms, self.units[:, None]).sum(axis=1)
        return found, int(_whole(mass * before, self.units[2]).sum())

    def _sums(
        self, score: Floats, values: Floats, hashes: Words, judged: NDArray[np.int32]
    ) -> tuple[Floats, Floats]:
        """Return depth x shrinkage x row: the sum over the trees that did not draw a row; how many."""
        leaves, grid = self.leaves, self.grid
        total = np.zeros((len(grid.depths), len(grid.shrinkages), score.size))
        seen = np.zeros(score.size)
        for tree, places in enumerate(leaves.places):
            eligible, ends = leaves.eligible(hashes, tree), leaves.ends(values, tree)
            seen += eligible
            rows = np.flatnonzero(eligible)
            first, found = judged[rows] * np.int32(places.count), np.empty(rows.size)
            for depth, level in enumerate(grid.depths):
                leaf = places.at[leaves.depths.index(level)][ends[rows]] + first
                for weight, maps in enumerate(self.maps[tree]):
                    leaf_maps.leaf_probabilities(score[rows], leaf, maps, found)
                    total[depth, weight, rows] += found
        return total, seen

    def tell(self, numbers: Numbers) -> dict[str, Any]:
        """Tell the sums."""
        numbers.add_all(What.GAIN, self.sums)
        numbers.add_all(What.TOTAL, np.array([self.together]))
        return {}


def _losses(probability: Floats, label: NDArray[np.uint8]) -> Floats:
    """Return the loss of each row."""
    found = np.empty(probability.size)
    leaf_maps.probability_losses(probability, label, np.ones(probability.size), LEAST, found)
    return found


def _whole(terms: Floats, units: Any) -> Int64s:
    """Return terms of sums in whole units."""
    found: Int64s = np.rint(terms * units).astype(np.int64)
    return found


def judged_by(known: Known, spec: HetcalSpec, sums: Int64s) -> list[float]:
    """Return what the sums say of a leaf size, as `Forest.judged` holds it."""
    found: list[float] = (sums.reshape(-1, 3) / units_of(known)).reshape(-1).tolist()
    return found


def chosen_by(known: Known, spec: HetcalSpec, together: int) -> Chosen:
    """Return the choice once all leaf sizes are judged, as `calibkit.hetcal.forest` chooses.

    `together` is the sum of the losses of one map for all rows.
    """
    grid, shape = grid_of(spec), shape_of(spec)
    judged = known.wood.judged
    if [len(own) for own in judged] != [shape[0] * shape[1] * 3] * len(grid.leaf_sizes):
        raise ModelError("a damaged plan: a leaf size has not been judged")
    found = np.array(judged).reshape(-1, *shape)
    mass, _ = judged_counts(known)
    size, depth, weight = best_place(discounted(found[..., :2], mass), grid)
    losses = found[..., 2] / mass
    return Chosen(
        size,
        depth,
        weight,
        float(losses[size, depth, weight]),
        float(together / units_of(known)[2] / mass),
        {str(value): float(losses[:, place].min()) for place, value in enumerate(grid.depths)},
    )
