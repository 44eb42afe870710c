"""Boosting: many shallow partitions in turn, each a small step of the linear score."""

from __future__ import annotations

from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibkit.hetcal.describe import described_tree
from calibkit.hetcal.features import Binned, Features, bin_features
from calibkit.hetcal.folds import Folds
from calibkit.hetcal.grow import Rules, Subsets, grow
from calibkit.hetcal.maps import line_through, mean_loss
from calibkit.hetcal.model import (
    SCORE_FEATURE,
    CrossValidated,
    LeafMap,
    Line,
    PartitionPart,
)
from calibkit.hetcal.rows import HetcalRows
from calibkit.hetcal.spec import HetcalSpec
from calibkit.hetcal.trees import Tree
from calibkit.simulate.streams import stream
from calibkit_kernels import boosting as kernels
from calibkit_kernels import criteria
from calibkit_kernels import leaf_maps as leaf_kernels

Floats = NDArray[np.float64]
Int64s = NDArray[np.int64]
Ends = NDArray[np.int32]

#: Partitions at most, their depth, and the least rows of a part, unless the user says otherwise.
MOST_TREES = 1000
DEPTH = 5
LEAST_ROWS = 20

#: Share of its step that a partition takes, and the ridge on its steps.
RATE = 0.05
RIDGE = 5.0

#: Share of the features that a partition may use.
FEATURE_SHARE = 0.5

#: Partitions without a gain on the held-out rows after which no more are tried.
PATIENCE = 50

#: Up to this many rows each fold is held out in turn; beyond, one of them once.
FEW_ROWS = 50_000

#: Quantile bins of a feature.
BINS = 255

_FEATURES = 3


@dataclass
class Steps:
    """The partitions of one run in turn: trees, and the step (a, b) of each of their nodes."""

    trees: list[Tree] = field(default_factory=list)
    steps: list[Floats] = field(default_factory=list)
    held_ends: list[NDArray[Any]] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class Booster:
    """What all runs share."""

    rows: HetcalRows
    binned: Binned
    spec: HetcalSpec
    scale: float

    def run(
        self,
        used: NDArray[np.bool_],
        held: NDArray[np.int64],
        most: int,
        pool: Executor | None,
        threads: int,
    ) -> Steps:
        """Return the partitions learnt from some rows; others, if any, say when to stop."""
        rows, spec = self.rows, self.spec
        score = rows.score.copy()
        weight = np.where(used, rows.weight, 0)
        aside = np.zeros_like(rows.weight)
        aside[held] = rows.weight[held]
        payload = np.empty((rows.count, 3), np.int64)
        everyone = np.arange(rows.count, dtype=np.int32)
        made, best = Steps(), 0
        rules = Rules(
            criteria.NEWTON,
            DEPTH if spec.max_depth is None else spec.max_depth,
            max(1, round((spec.min_leaf or LEAST_ROWS) / rows.size)),
            1.0 / self.scale,
            RIDGE / rows.size,
        )
        for number in range(most):
            kernels.newton_rows(score, rows.label, weight, self.scale, payload)
            tree, ends = grow(
                self.binned,
                payload,
                rules,
                pool,
                threads,
                self._subset(number),
                everyone.copy(),
                steady=True,
            )
            if len(tree.nodes) == 1:
                break
            steps = self._steps(tree, ends, payload)
            kernels.move_scores(score, ends, steps)
            made.trees.append(tree)
            made.steps.append(steps)
            if held.size:
                made.held_ends.append(ends[held].astype(np.min_scalar_type(len(tree.nodes))))
                made.losses.append(kernels.total_loss(score, rows.label, aside))
                if made.losses[-1] < made.losses[best]:
                    best = number
                if number - best >= PATIENCE:
                    break
        return made

    def _steps(self, tree: Tree, ends: Ends, payload: Int64s) -> Floats:
        """Return the step of each node: a Newton step, made small."""
        sums = np.zeros((len(tree.nodes), 3), np.int64)
        kernels.leaf_sums(ends, payload, sums)
        steps = np.ones((len(tree.nodes), 2))
        bend = sums[:, 2] / self.scale + RIDGE / self.rows.size
        steps[:, 1] = RATE * (sums[:, 1] / self.scale) / bend
        return steps

    def _subset(self, number: int) -> Subsets:
        """Return what draws the features that one partition may use."""
        features = self.binned.codes.shape[0]
        kept = max(min(features, 2), round(FEATURE_SHARE * features))
        random = stream(self.spec.seed, _FEATURES, number)
        chosen = np.zeros(features, np.bool_)
        chosen[random.permutation(features)[:kept]] = True
        return lambda _, nodes: np.tile(chosen, (nodes, 1))


Fit = tuple[
    list[PartitionPart], Line | None, Floats, Ends, int, int, float | None, CrossValidated | None
]


def fit(rows: HetcalRows, spec: HetcalSpec, folds: Folds | None) -> Fit:
    """Return the partitions of a boosted model; see `calibkit.hetcal.fit.Found`."""
    features = rows.features.with_number(SCORE_FEATURE, rows.score)
    binned = bin_features(features, spec.threads, spec.max_bins or BINS)
    room = 62 - int(rows.weight.sum()).bit_length()
    booster = Booster(rows, binned, spec, 2.0 ** min(room, 40))
    most = spec.trees or MOST_TREES
    everyone, nobody = np.ones(rows.count, np.bool_), np.empty(0, np.int64)
    checked = None
    slope, intercept = 1.0, 0.0
    with ThreadPoolExecutor(spec.threads) as pool:
        if folds is None:
            made = booster.run(everyone, nobody, most, pool, spec.threads)
        else:
            # Of the parts of many rows only the last: where they go forward in time, the latest.
            parts = folds.judged() if rows.count <= FEW_ROWS else folds.judged()[-1:]
            held = [np.flatnonzero(folds.held(part)) for part in parts]

            def one(place: int, pool: Executor | None = None, threads: int = 1) -> Steps:
                return booster.run(folds.used(parts[place]), held[place], most, pool, threads)

            if len(parts) > 1:
                runs = list(pool.map(one, range(len(parts))))
            else:
                runs = [one(0, pool, spec.threads)]
            count = _best_count(runs)
            judged = folds.among(parts)
            linear = _held_out_scores(rows, held, runs, count)
            slope, intercept = line_through(rows, linear, judged)
            if len(parts) > 1:
                made = booster.run(everyone, nobody, count, pool, spec.threads)
            else:
                made = Steps(runs[0].trees[:count], runs[0].steps[:count])
            checked = CrossValidated(
                pooled=mean_loss(rows, rows.score, judged),
                calibrated=mean_loss(rows, slope * linear + intercept, judged),
                folds=len(parts),
            )
    if not made.trees:  # a partition of one part, which moves nothing
        root = grow(binned, np.ones((rows.count, 3), np.int64), Rules(criteria.NEWTON, 0, 1))[0]
        made = Steps([root], [np.array([[1.0, 0.0]])])
    return _written(rows, features, made, Line(a=slope, b=intercept), spec, checked)


def _best_count(runs: list[Steps]) -> int:
    """Return how many partitions have the least loss over all held-out rows."""
    shortest = min(len(run.losses) for run in runs)
    if shortest == 0:
        return 0
    total = np.array([run.losses[:shortest] for run in runs]).sum(axis=0)
    return int(np.argmin(total)) + 1


def _held_out_scores(
    rows: HetcalRows, held: list[NDArray[np.int64]], runs: list[Steps], count: int
) -> Floats:
    """Return the linear score of each row by the run that did not learn from it."""
    linear = rows.score.copy()
    for own, run in zip(held, runs, strict=True):
        score = rows.score[own]
        for ends, steps in zip(run.held_ends[:count], run.steps[:count], strict=True):
            kernels.move_scores(score, ends.astype(np.int32), steps)
        linear[own] = score
    return linear


def _written(
    rows: HetcalRows,
    features: Features,
    made: Steps,
    final: Line,
    spec: HetcalSpec,
    checked: CrossValidated | None,
) -> Fit:
    """Return the partitions as a model holds them, and what they make of the calibration rows."""
    known = tuple(len(names or ()) for names in features.categories)
    score = rows.score.copy()
    parts, first = [], np.zeros(rows.count, np.int32)
    for number, (tree, steps) in enumerate(zip(made.trees, made.steps, strict=True)):
        ends = tree.routes(known).ends(features.values)
        kernels.move_scores(score, ends, steps)
        ordered = tree.pruned(len(tree.nodes))
        # The leaves of both numberings, from left to right.
        places = _leaf_places(tree)
        if number == 0:
            numbers = np.full(len(tree.nodes), -1, np.int32)
            numbers[places] = np.arange(len(places))
            first = numbers[ends]
        maps = [LeafMap(a=float(steps[place, 0]), b=float(steps[place, 1])) for place in places]
        nodes = described_tree(ordered, rows.size, features, brief=number > 0)
        parts.append(PartitionPart(tree=nodes, maps=maps))
    probability = np.empty(rows.count)
    line = np.array([[final.a, final.b]])
    leaf_kernels.leaf_probabilities(score, np.zeros(rows.count, np.int32), line, probability)
    depth = DEPTH if spec.max_depth is None else spec.max_depth
    least = spec.min_leaf or LEAST_ROWS
    return parts, final, probability, first, depth, least, None, checked


def _leaf_places(tree: Tree) -> list[int]:
    """Return the nodes without children, from left to right."""
    found, waiting = [], [0]
    while waiting:
        node = tree.nodes[waiting[-1]]
        place = waiting.pop()
        if node.feature < 0:
            found.append(place)
        else:
            waiting += [node.right, node.left]
    return found
