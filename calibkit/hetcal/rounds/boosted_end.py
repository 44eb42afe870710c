"""The end of a boosted fit in rounds: the line of the held-out scores, and the model."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from calibkit.hetcal.boosted import LEAST_ROWS, depth_of, described_part
from calibkit.hetcal.cells import BINS
from calibkit.hetcal.features import Features
from calibkit.hetcal.model import SCORE_FEATURE, CrossValidated, HetcalModel, Line, PartitionPart
from calibkit.hetcal.rounds.after import moved_lines
from calibkit.hetcal.rounds.boosted import Boosting, boosting_of, held_counts, left_out, tree_count
from calibkit.hetcal.rounds.boosted_known import SUM_UP, Run
from calibkit.hetcal.rounds.boosted_trees import grown_tree
from calibkit.hetcal.rounds.end import model_of
from calibkit.hetcal.rounds.known import EVERYONE, Known
from calibkit.hetcal.rounds.lines import worth
from calibkit.hetcal.rounds.tables import What, array_of
from calibkit.hetcal.states import HetcalProblem
from calibkit.hetcal.trees import Node, Tree
from calibkit.models import Column
from calibkit.rounds.protocol import Sums

Int64s = NDArray[np.int64]


def after_line_up(known: Known, problem: HetcalProblem, sums: Sums) -> None:
    """Take a step towards the line of the held-out scores."""
    assert known.correction is not None
    known.correction = moved_lines([known.correction], [held_counts(known)], sums.table)[0]
    if known.correction.done:
        known.step = SUM_UP


def final_run(known: Known) -> Run:
    """Return the run whose trees are the model's: that of all rows, or the only one."""
    return next((run for run in known.runs if run.part == EVERYONE), known.runs[0])


def final_line(known: Known) -> Line:
    """Return the map after the trees."""
    if known.correction is None:
        return Line(a=1.0, b=0.0)
    return Line(a=known.correction.slope, b=known.correction.intercept)


def first_tree(known: Known, categories: tuple[int, ...]) -> Tree:
    """Return the first tree of the model; without any, one of a single part."""
    run = final_run(known)
    if tree_count(known) == 0:
        rows = known.rows.rows
        return Tree([Node(rows, rows, 0)])
    return grown_tree(run.trees[0], categories).tree(categories, run.rows, run.gains)


def held_unit(known: Known, shared: Boosting) -> float:
    """Return how many units of the sum of held-out losses one is, under the final line."""
    final = final_line(known)
    most = max(shared.bound(run) for run in known.runs)
    return worth(abs(final.a) * most + abs(final.b) + 1.0, known.rows.counts[0])


def boosted_model(
    known: Known, problem: HetcalProblem, sums: Sums, files: Sequence[str]
) -> HetcalModel:
    """Return the model by the sums of the last round; see `calibkit.hetcal.rounds.end.model_of`."""
    spec = problem.spec
    shared = boosting_of(known, spec)
    parts = _parts(known, shared)
    losses = array_of(sums.table, What.TOTAL, 3)
    cells = array_of(sums.table, What.CELL, len(parts[0].maps) * BINS * 3)
    model = model_of(known, problem, losses, cells, files)
    model.criterion, model.tree, model.maps = "log-loss", msgspec.UNSET, msgspec.UNSET
    model.partitions, model.final = parts, final_line(known)
    model.fit = msgspec.structs.replace(
        model.fit,
        leaves=sum(len(part.maps) for part in parts),
        max_depth=depth_of(spec),
        min_leaf=spec.min_leaf or LEAST_ROWS,
        shrinkage=None,
        cross_validated=_checked(
            known, problem, shared, int(array_of(sums.table, What.GAIN, 1)[0])
        ),
    )
    return model


def _parts(known: Known, shared: Boosting) -> list[PartitionPart]:
    """Return the partitions of the model."""
    columns = (*known.columns, Column(SCORE_FEATURE, "float64", kind="number"))
    names = (*(None if own is None else tuple(own) for own in known.categories), None)
    features = Features(columns, np.empty((len(columns), 0)), names)
    size, categories = known.rows.size, shared.categories
    texts = final_run(known).trees[: tree_count(known)]
    if not texts:
        steps = np.array([[1.0, 0.0]])
        return [described_part(first_tree(known, categories), steps, size, features, brief=False)]
    found = []
    for number, text in enumerate(texts):
        grown = grown_tree(text, categories)
        nothing = [0] * len(grown.steps)
        tree = grown.tree(categories, nothing, nothing)
        if number == 0:
            tree = first_tree(known, categories)
        found.append(described_part(tree, grown.steps, size, features, brief=number > 0))
    return found


def _checked(
    known: Known, problem: HetcalProblem, shared: Boosting, aside: int
) -> CrossValidated | None:
    """Return what the rows left out say."""
    judged = [run for run in known.runs if left_out(run)]
    if not judged:
        return None
    rows, _ = held_counts(known)
    found = CrossValidated(
        pooled=sum(run.losses[0] for run in judged) / rows,
        calibrated=aside / held_unit(known, shared) / rows,
        folds=len(judged),
    )
    if problem.spec.groups is None:
        found.dealt = "by hash"
    return found
