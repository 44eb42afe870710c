"""Partitions in turn, each from the linear score that the last one left: boosted, or sequential."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from calibkit.arrays import Bools, Floats, Int32s, Int64s, Numbers
from calibkit.methods.hetcal.grow import Grower, Rules, Subsets
from calibkit.methods.hetcal.maps import Found, Maps, fit_maps, mean_loss, pooled_line
from calibkit.methods.hetcal.model import SCORE_FEATURE, CrossValidated, Line, PartitionPart
from calibkit.methods.hetcal.rows import Folds, HetcalRows
from calibkit.methods.hetcal.trees import Node, Tree, described_tree, sorted_bins
from calibkit.numerics.hashes import stream
from calibkit.numerics.sums import cut, each_block
from calibkit.options.hetcal import BOOSTED_BINS, HetcalOptions
from calibkit.runtime.progress import steps
from calibkit.runtime.threads import in_order
from calibkit_kernels import criteria
from calibkit_kernels import leaves as kernels
from calibkit_kernels.maps import line_map

#: How partitions follow each other unless the user says otherwise: at most how many, their depth, the
#: least rows of a part, the share of features that one may use, and after how many without a gain on
#: the held-out rows no more are tried.  Boosted are small steps over features and score, sequential the
#: whole maps of a few partitions of the features.
TREES = {"boosted": 1000, "sequential": 10}
DEPTH = {"boosted": 5, "sequential": 3}
LEAST_ROWS = {"boosted": 20, "sequential": 200}
FEATURE_SHARE = {"boosted": 0.5, "sequential": 1.0}
PATIENCE = {"boosted": 50, "sequential": 2}

#: Share of its step that a boosted partition takes, and the ridge on the steps that find its parts.
RATE = 0.05
RIDGE = 5.0

#: Up to this many rows each fold is held out in turn; beyond, one of them once.
FEW_ROWS = 50_000

_FEATURES = 3


class Steps(Struct):
    """The partitions of one run in turn: a tree, and the map (a, b) of each of its nodes.

    `held_ends` and `losses` are, after each of them, the node of each row held out, and the loss of
    these; `score` the linear scores after the partition of number `best`, the last or that of least
    loss.
    """

    score: Floats
    parts: list[tuple[Tree, Maps]] = []
    held_ends: list[Numbers] = []
    losses: list[float] = []
    best: int = 0


class Booster:
    """What all runs share; sums of gradients are in units of which `scale` make one."""

    def __init__(self, rows: HetcalRows, options: HetcalOptions, folds: Folds | None) -> None:
        self.rows, self.options, self.folds = rows, options, folds
        self.scale, self.dtype = 2.0**30, "int32"  # no row's gradient passes one
        if rows.options.weight is not None:
            bits = min(62 - rows.totals.total.bit_length(), 40)
            self.scale, self.dtype = 2.0**bits, "int64"
        kind = options.partition
        self.depth = DEPTH[kind] if options.max_depth is None else options.max_depth
        self.least = options.min_leaf or LEAST_ROWS[kind]

    def run(self, most: int, threads: int, part: int | None = None, *, few: bool = False) -> Steps:
        """Return the partitions learnt from all rows, or without a part, which says when to stop.

        `few`: whether the nodes of rows held out are kept, which takes a byte a row and partition.
        """
        rows, options = self.rows, self.options
        score, weight = rows.made(lambda own: rows.score[own]), rows.weight
        held = used = None
        if self.folds is not None and part is not None:
            held, used = self.folds.held(part), self.folds.used(part)
            weight = rows.learning(used).weight
            aside = rows.learning(held).weight
        payload = rows.arrays.empty((rows.count, 3), self.dtype)
        made = Steps(score if held is None else rows.made(lambda own: rows.score[own]))
        least, ridge = max(1, round(self.least / rows.size)), RIDGE / rows.size
        rules = Rules(criteria.NEWTON, self.depth, least, 1.0 / self.scale, ridge)
        grower = Grower(rows.features, payload, rules, rows.arrays, threads, steady=True)
        pool = grower.pool
        blocks = cut(0, rows.count)
        for number in range(most) if few else steps(range(most), most, "trees at most"):
            arrays, scales = (score, rows.label, weight, payload), [(self.scale,)] * len(blocks)
            each_block(kernels.newton_rows, arrays, blocks, threads, scales, pool)
            tree, ends = grower.grow(None, self._subset(number))
            if len(tree.nodes) == 1:
                break
            maps = self._maps(tree, ends, score, np.concatenate(grower.totals), used)
            lines = [(maps.lines,)] * len(blocks)
            each_block(kernels.move_scores, (score, ends), blocks, threads, lines, pool)
            made.parts.append((tree, maps))
            if held is not None:
                if few:
                    made.held_ends.append(ends[held].astype(np.min_scalar_type(len(tree.nodes))))
                judged = score, rows.label, aside
                losses = each_block(kernels.total_loss, judged, blocks, threads, pool=pool)
                made.losses.append(math.fsum(losses))
                if number == 0 or made.losses[-1] < made.losses[made.best]:
                    made.best, made.score[:] = number, score
                if number - made.best >= PATIENCE[options.partition]:
                    break
        return made

    def _maps(
        self, tree: Tree, ends: Int32s, score: Floats, sums: Int64s, used: Bools | None
    ) -> Maps:
        """Return the step of each node: a Newton step, made small; or Platt's map of some rows.

        `sums` are those of the vectors of each node's rows.
        """
        if self.options.partition == "sequential":
            node = ends if used is None else np.where(used, ends, np.int32(-1))
            rows = replace(self.rows, score=score)
            return fit_maps(rows, node, len(tree.nodes), pooled_line(rows, used), 0.0, "platt")
        steps = np.ones((len(tree.nodes), 2))
        bend = sums[:, 2] / self.scale + RIDGE / self.rows.size
        steps[:, 1] = RATE * (sums[:, 1] / self.scale) / bend
        return Maps(steps)

    def _subset(self, number: int) -> Subsets:
        """Return what draws the features (the last is the score) that one partition may use."""
        features = len(self.rows.features.bins)
        kept = max(min(features, 2), round(FEATURE_SHARE[self.options.partition] * features))
        chosen = np.zeros(features, np.bool_)
        chosen[stream(self.options.seed, _FEATURES, number).permutation(features)[:kept]] = True
        return lambda nodes: np.tile(chosen, (nodes, 1))


def fit(rows: HetcalRows, options: HetcalOptions, folds: Folds | None) -> Found:
    """Return the partitions of a boosted or a sequential model.

    Durfee, Gupta, Basu, "Heterogeneous calibration", section 13: each partition is grown on what the
    scores so far miss, as boosted trees are, and the map of a part is fitted to the linear scores that
    the last partition left.  `sequential` takes the whole of these maps, as written there; `boosted`
    takes small steps of their intercepts, and may part rows by their scores too.
    """
    if options.partition == "boosted":
        score = rows.score
        used = score if rows.weight.all() else score[rows.weight > 0]  # others are not there
        rising = used if used[0] <= used[-1] else used[::-1]
        bins = sorted_bins(rising, options.bins or BOOSTED_BINS)
        codes = rows.made(lambda own: bins.codes(score[own]), bins.dtype)
        rows = replace(rows, features=rows.features.with_number(SCORE_FEATURE, bins, codes))
    booster, most = Booster(rows, options, folds), options.trees or TREES[options.partition]
    checked, slope, intercept = None, 1.0, 0.0
    if folds is None:  # nothing says when to stop
        made = booster.run(options.trees or 0, options.workers)
    else:
        # Small steps over many rows: only the last part; where they go forward in time, the latest.
        once = options.partition == "boosted" and rows.count > FEW_ROWS
        parts = folds.judged()[-1:] if once else folds.judged()
        judged, held = folds.among(parts), [folds.held(part) for part in parts]
        if len(parts) > 1:
            found = in_order(options.workers, partial(booster.run, most, 1, few=True), parts)
            runs = list(steps(found, len(parts), "folds judged"))
            count = _best_count([run.losses for run in runs])
            linear = _held_out_scores(rows, held, runs, count)
            others = [judged & folds.used(part) for part in parts]
        else:
            made = booster.run(most, options.workers, parts[0])
            count, linear = _best_count([made.losses]), made.score
            half = np.cumsum(held[0]) % 2 == 0  # each half is judged under the line of the other
            held = [held[0] & half, held[0] & ~half]
            others = held[::-1]
        before = [folds.used(part) for part in parts]
        pooled = _judged(rows, rows.score, held, before * (len(held) // len(before)))
        calibrated = _judged(rows, linear, held, others)
        if calibrated >= pooled:  # what gains nothing is not made
            count, linear, calibrated = 0, rows.score, pooled
        if len(parts) > 1 or not count:
            made = booster.run(count, options.workers)
        made.parts = made.parts[:count]
        # Of scores that nothing was learnt from all rows are as good.
        learnt = pooled_line(replace(rows, score=linear), judged if count else None)
        slope, intercept = learnt.tolist()
        checked = CrossValidated(pooled=pooled, calibrated=calibrated, folds=len(parts))
    if not made.parts:  # a partition of one part, which moves nothing
        made.parts = [(Tree([Node(rows.totals.total, rows.totals.hits, 0)]), Maps(np.eye(1, 2)))]
    return _written(booster, made, Line(a=slope, b=intercept), checked)


def _judged(rows: HetcalRows, score: Floats, held: list[Bools], others: list[Bools]) -> float:
    """Return the mean loss of rows held out, each part under the line of some others."""
    linear, whole = score.copy(), replace(rows, score=score)
    for own, used in zip(held, others, strict=True):
        if used.any():  # of blocks of time the first one has none before it
            slope, intercept = pooled_line(whole, used)
            linear[own] = slope * score[own] + intercept
    return mean_loss(rows, linear, np.logical_or.reduce(held))


def _best_count(losses: Sequence[Sequence[float]]) -> int:
    """Return how many partitions have the least loss over all held-out rows.

    `losses` are those of each run, after each of its partitions; only as many count as all runs have.
    """
    shortest = min(map(len, losses))
    total = np.array([own[:shortest] for own in losses]).sum(axis=0)
    return int(np.argmin(total)) + 1 if shortest else 0


def _held_out_scores(rows: HetcalRows, held: list[Bools], runs: list[Steps], count: int) -> Floats:
    """Return the linear score of each row by the run that did not learn from it."""
    linear = rows.score.copy()
    for own, run in zip(held, runs, strict=True):
        score = rows.score[own]
        for ends, (_, maps) in zip(run.held_ends[:count], run.parts[:count], strict=True):
            kernels.move_scores(score, ends.astype(np.int32), maps.lines)
        linear[own] = score
    return linear


def _written(booster: Booster, made: Steps, final: Line, checked: CrossValidated | None) -> Found:
    """Return the partitions as a model holds them, and what they make of the calibration rows."""
    parts, rows = [], booster.rows
    for number, (tree, maps) in enumerate(made.parts):
        size = None if number else rows.size  # of the first one all is told
        ordered = tree.pruned(len(tree.nodes))  # the same leaves from left to right
        nodes = described_tree(ordered, rows.features, size)
        parts.append(PartitionPart(tree=nodes, maps=maps.described(rows, tree.ends())))
    leaf, _ = rows.leaves(made.parts[0][0])
    probability = rows.arrays.empty(rows.count, np.float64)
    line_map(made.score, final.a, final.b, False, 0.0, 0.0, probability)
    chosen = booster.depth, booster.least
    return Found(parts, probability, leaf, *chosen, checked=checked, final=final)
