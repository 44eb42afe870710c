"""The end of a boosted fit in rounds: what is fitted, and what the rows left out say of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibkit.hetcal.boosted import LEAST_ROWS, depth_of, described_part, leaf_numbers
from calibkit.hetcal.cells import BINS
from calibkit.hetcal.features import Features
from calibkit.hetcal.model import SCORE_FEATURE, CrossValidated, Line
from calibkit.hetcal.rounds.boosted.known import Run
from calibkit.hetcal.rounds.boosted.runs import (
    Boosting,
    boosting_of,
    held_counts,
    left_out,
    tree_count,
)
from calibkit.hetcal.rounds.boosted.trees import grown_tree
from calibkit.hetcal.rounds.choose import root_maps
from calibkit.hetcal.rounds.end import after_line, loss_units
from calibkit.hetcal.rounds.known import EVERYONE, Known
from calibkit.hetcal.rounds.lines import worth
from calibkit.hetcal.rounds.rows import Block
from calibkit.hetcal.rounds.tables import What, array_of
from calibkit.hetcal.spec import HetcalSpec
from calibkit.hetcal.states import HetcalProblem
from calibkit.hetcal.trees import Node, Tree
from calibkit.rounds.protocol import Sums
from calibkit_kernels import boosting, leaf_maps

Floats = NDArray[np.float64]


def final_run(known: Known) -> Run:
    """Return the run whose trees are the model's: that of all rows, or the only one."""
    return next((run for run in known.runs if run.part == EVERYONE), known.runs[0])


def final_line(known: Known) -> Line:
    """Return the map after the trees."""
    if known.correction is None:
        return Line(a=1.0, b=0.0)
    return Line(a=known.correction.slope, b=known.correction.intercept)


def held_unit(known: Known, shared: Boosting) -> float:
    """Return how many units of the sum of held-out losses one is, under the final line."""
    final = final_line(known)
    most = max(shared.bound(run) for run in known.runs)
    return worth(abs(final.a) * most + abs(final.b) + 1.0, known.rows.counts[0])


@dataclass(frozen=True)
class BoostedEnding:
    """What is fitted; see `calibkit.hetcal.rounds.protocol.End`.

    Attributes
    ----------
    before, pooled, max_depth, min_leaf, shrinkage, units, cell_unit
        As those of `calibkit.hetcal.rounds.end.Ending`.
    trees, steps
        The partitions, and (a, b) of each of their nodes.
    final
        The map after all steps.
    categories, size
        How many categories each feature has, and the score; how many rows a unit of weight stands for.
    """

    before: Line
    pooled: Floats
    max_depth: int
    min_leaf: int
    units: tuple[float, ...]
    cell_unit: float
    trees: list[Tree]
    steps: list[Floats]
    final: Line
    categories: tuple[int, ...]
    size: float

    shrinkage = None

    @property
    def leaves(self) -> int:
        """How many leaves all partitions have."""
        return sum(int(leaf_numbers(tree).max()) + 1 for tree in self.trees)

    @property
    def cells(self) -> int:
        """How many cells there are: of each leaf of the first partition, all bins."""
        return (int(leaf_numbers(self.trees[0]).max()) + 1) * BINS

    def calibrated(self, block: Block) -> tuple[NDArray[np.int32], Floats]:
        """Return the leaf of each row in the first partition, and its probability."""
        score = self.before.a * block.score + self.before.b
        values, found = np.vstack([block.features.values, score]), np.empty(score.size)
        leaf = leaf_numbers(self.trees[0])[self.trees[0].routes(self.categories).ends(values)]
        for tree, steps in zip(self.trees, self.steps, strict=True):
            boosting.move_scores(score, tree.routes(self.categories).ends(values), steps)
        line = np.array([[self.final.a, self.final.b]])
        leaf_maps.leaf_probabilities(score, np.zeros_like(leaf), line, found)
        return leaf, found

    def written(self, features: Features, known: Known) -> dict[str, Any]:
        """Return the fields of the model that hold the partitions and the map after them."""
        everything = features.with_number(SCORE_FEATURE, np.empty(0))
        parts = [
            described_part(tree, steps, self.size, everything, brief=number > 0)
            for number, (tree, steps) in enumerate(zip(self.trees, self.steps, strict=True))
        ]
        return {"partitions": parts, "final": self.final}


def boosted_ending(known: Known, spec: HetcalSpec) -> BoostedEnding:
    """Return what all sums say."""
    shared, run = boosting_of(known, spec), final_run(known)
    texts = run.trees[: tree_count(known)]
    grown = [grown_tree(text, shared.categories) for text in texts]
    trees, rows = [Tree([Node(known.rows.rows, known.rows.rows, 0)])], known.rows.counts[0]
    if grown:
        trees = [grown[0].tree(shared.categories, run.rows, run.gains)]
        trees += [one.tree(shared.categories) for one in grown[1:]]
    return BoostedEnding(
        shared.before,
        after_line(shared.before, root_maps(known)[EVERYONE][None])[0],
        depth_of(spec),
        spec.min_leaf or LEAST_ROWS,
        loss_units(known),
        worth(1.0, rows),
        trees,
        [one.steps for one in grown] or [np.array([[1.0, 0.0]])],
        final_line(known),
        shared.categories,
        known.rows.size,
    )


def checked_by(known: Known, problem: HetcalProblem, sums: Sums) -> CrossValidated | None:
    """Return what the rows left out say, by the sums of the last round."""
    judged = [run for run in known.runs if left_out(run)]
    if not judged:
        return None
    unit, (rows, _) = held_unit(known, boosting_of(known, problem.spec)), held_counts(known)
    found = CrossValidated(
        pooled=sum(run.losses[0] for run in judged) / rows,
        calibrated=int(array_of(sums.table, What.GAIN, 1)[0]) / unit / rows,
        folds=len(judged),
    )
    if problem.spec.groups is None and problem.spec.time is None:
        found.dealt = "by hash"
    return found
