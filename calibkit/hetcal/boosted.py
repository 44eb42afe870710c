"""Boosting: many shallow partitions in turn, each a small step of the linear score."""

from __future__ import annotations

from collections.abc import Sequence
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
        rules = rules_of(spec, self.scale, rows.size)
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
        steps[:, 1] = newton_steps(sums, self.scale, self.rows.size)
        return steps

    def _subset(self, number: int) -> Subsets:
        """Return what draws the features that one partition may use."""
        chosen = drawn_features(self.binned.codes.shape[0], self.spec.seed, number)
        return lambda _, nodes: np.tile(chosen, (nodes, 1))


def scale_of(weight: int) -> float:
    """Return how many units of the sums of gradients one is, where all rows weigh so many units."""
    return 2.0 ** min(62 - weight.bit_length(), 40)


def rules_of(spec: HetcalSpec, scale: float, size: float) -> Rules:
    """Return when and how nodes are split; `size`: how many rows a unit of weight stands for."""
    return Rules(
        criteria.NEWTON,
        depth_of(spec),
        max(1, round((spec.min_leaf or LEAST_ROWS) / size)),
        1.0 / scale,
        RIDGE / size,
    )


def trees_at_most(spec: HetcalSpec) -> int:
    """Return how many partitions there are at most."""
    return spec.trees or MOST_TREES


def depth_of(spec: HetcalSpec) -> int:
    """Return the depth that partitions have at most."""
    return DEPTH if spec.max_depth is None else spec.max_depth


def newton_steps(sums: Int64s, scale: float, size: float) -> Floats:
    """Return the step of each node by the sums of its rows: weight, gradient and Hessian."""
    bend = sums[:, 2] / scale + RIDGE / size
    steps: Floats = RATE * (sums[:, 1] / scale) / bend
    return steps


def drawn_features(features: int, seed: int, number: int) -> NDArray[np.bool_]:
    """Return which of the features (the last is the score) the partition of a number may use."""
    kept = max(min(features, 2), round(FEATURE_SHARE * features))
    chosen = np.zeros(features, np.bool_)
    chosen[stream(seed, _FEATURES, number).permutation(features)[:kept]] = True
    return chosen


Fit = tuple[
    list[PartitionPart], Line | None, Floats, Ends, int, int, float | None, CrossValidated | None
]


def fit(rows: HetcalRows, spec: HetcalSpec, folds: Folds | None) -> Fit:
    """Return the partitions of a boosted model; see `calibkit.hetcal.fit.Found`."""
    features = rows.features.with_number(SCORE_FEATURE, rows.score)
    binned = bin_features(features, spec.threads, spec.bins)
    booster = Booster(rows, binned, spec, scale_of(int(rows.weight.sum())))
    most = trees_at_most(spec)
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
            count = best_count([run.losses for run in runs])
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


def best_count(losses: Sequence[Sequence[float]]) -> int:
    """Return how many partitions have the least loss over all held-out rows.

    `losses` are those of each run, after each of its partitions; only as many count as all runs have.
    """
    shortest = min(map(len, losses))
    if shortest == 0:
        return 0
    total = np.array([own[:shortest] for own in losses]).sum(axis=0)
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
        if number == 0:
            first = leaf_numbers(tree)[ends]
        parts.append(described_part(tree, steps, rows.size, features, brief=number > 0))
    probability = np.empty(rows.count)
    line = np.array([[final.a, final.b]])
    leaf_kernels.leaf_probabilities(score, np.zeros(rows.count, np.int32), line, probability)
    least = spec.min_leaf or LEAST_ROWS
    return parts, final, probability, first, depth_of(spec), least, None, checked


def described_part(
    tree: Tree, steps: Floats, weight_unit: float, features: Features, *, brief: bool
) -> PartitionPart:
    """Return a partition as a model holds it; see `calibkit.hetcal.describe.described_tree`.

    `tree` may be numbered level by level; `steps` are (a, b) of each of its nodes.
    """
    # The leaves of both numberings, from left to right.
    maps = [LeafMap(a=float(steps[leaf, 0]), b=float(steps[leaf, 1])) for leaf in _leaves(tree)]
    ordered = tree.pruned(len(tree.nodes))
    return PartitionPart(
        tree=described_tree(ordered, weight_unit, features, brief=brief), maps=maps
    )


def leaf_numbers(tree: Tree) -> Ends:
    """Return the number of each node's leaf, from left to right; -1 for nodes with children."""
    places = _leaves(tree)
    found = np.full(len(tree.nodes), -1, np.int32)
    found[places] = np.arange(len(places))
    return found


def _leaves(tree: Tree) -> list[int]:
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
