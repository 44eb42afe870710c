"""Maps of scores: one that all go through first, those of leaves, and what these are judged by."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final, Self

import numpy as np
from msgspec import UNSET, Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from calibkit.arrays import Bools, Floats, Int32s, Int64s
from calibkit.maps.method import Points, merged, parts_of
from calibkit.maps.methods import FOLDS, METHODS, MOST_PARTS, choose
from calibkit.maps.model import ScoreMap
from calibkit.methods.hetcal.model import CrossValidated, FirstMap, LeafMap, Line, PartitionPart
from calibkit.methods.hetcal.rows import HetcalRows
from calibkit.numerics.hashes import folds_of_keys
from calibkit.numerics.logistic import fit_logistic
from calibkit.options.calibrate import MapOptions
from calibkit.summaries.tally import Tally
from calibkit_kernels import leaves as kernels
from calibkit_kernels.maps import log_odds, log_parts
from calibkit_kernels.metrics import expit

#: Fewer calibration rows than this are named in the model.
FEW_ROWS = 50

#: Maps with steps: fitted to the rows, they would tell a partition what the labels of each step are.
STEPPED: Final = dict.fromkeys(
    ("venn-abers", "isotonic"),
    "its steps reveal the labels of the rows that a partition learns from",
)


#: Step functions of the linear score: knots and values of each, and its part in the average with
#: the pooled map.
Steps = Sequence[tuple[Floats, Floats, float]]


class Maps(Struct, frozen=True):
    """The maps of the leaves of one partition.

    `lines` are a and b of each leaf, or a, b and c of beta maps, shrunk; under step maps those of the
    pooled map.  `counts` are rows and positives of each leaf, where they are kept.
    """

    lines: Floats
    steps: Steps | None = None
    counts: Floats | None = None

    @classmethod
    def of(cls, maps: Sequence[LeafMap], pooled: tuple[float, float]) -> Self:
        """Return the maps that a model describes."""
        if maps[0].knots is not UNSET:  # as of all of them: the model was checked
            steps = [
                (np.array(leaf.knots), np.array(leaf.values), float(leaf.share or 0.0))
                for leaf in maps
            ]
            return cls(np.tile(np.array(pooled), (len(maps), 1)), steps)
        names = "ab" if maps[0].c is UNSET else "abc"
        return cls(np.array([[getattr(leaf, name) for name in names] for leaf in maps]))

    def probabilities(self, score: Floats, leaf: Int32s) -> Floats:
        """Return the probability of each row."""
        if self.lines.shape[1] == 3:
            low, high = log_parts_of(score)
            out = self.lines[leaf, 0] * low + self.lines[leaf, 1] * high + self.lines[leaf, 2]
        else:
            out = score.copy()
            kernels.move_scores(out, leaf, self.lines)
        expit(out, out)
        if self.steps is None:
            return out
        knots, values, shares = zip(*self.steps, strict=True)
        starts, found = np.cumsum([0, *map(len, knots)]), np.empty(score.size)
        kernels.leaf_steps(
            score, leaf, starts, np.concatenate(knots), np.concatenate(values), found
        )
        share = np.array(shares)[leaf]
        return share * found + (1.0 - share) * out

    def composed(self, slope: float, intercept: float) -> Maps:
        """Return the lines followed by ``slope z + intercept``."""
        lines = self.lines * slope
        lines[:, -1] += intercept
        return Maps(lines, None, self.counts)

    def described(self, rows: HetcalRows, leaves: Iterable[int]) -> list[LeafMap]:
        """Return the maps of some leaves, fitted on some rows, as a model holds them."""
        found = []
        for leaf in leaves:
            if self.steps is None:
                made = LeafMap(**dict(zip("abc", self.lines[leaf].tolist(), strict=False)))
            else:
                knots, values, share = self.steps[leaf]
                made = LeafMap(knots=knots.tolist(), values=values.tolist(), share=share)
            if self.counts is not None:
                count, hits = self.counts[leaf].tolist()
                made.rows = rows.unit.amount(round(count / rows.size))
                made.positives = rows.unit.amount(round(hits / rows.size))
                few = "few rows" if count < FEW_ROWS else ""
                one = "one class" if hits <= 0 or hits >= count else ""
                notes = [few, one] if count > 0 else ["no rows: the map of all rows"]
                made.note = ", ".join(filter(None, notes)) or UNSET
            found.append(made)
        return found


class Found(Struct, frozen=True):
    """Partitions with their maps, and what made them; of the calibration rows probability and leaf.

    The leaf is that of the first partition.
    """

    parts: list[PartitionPart]
    probability: Floats
    leaf: Int32s
    max_depth: int
    min_leaf: int
    shrinkage: float | None = None
    checked: CrossValidated | None = None
    final: Line | None = None


def by_leaf(rows: HetcalRows, leaf: Int32s, count: int) -> tuple[Int32s, Int64s]:
    """Return the rows sorted by leaf, those of a leaf in their own order, and where each stands.

    Leaves are numbered from 0; rows of leaf -1 are left out.
    """
    spans, order = np.empty((count, 2), np.int64), rows.arrays.empty(rows.count, np.int32)
    kernels.rows_by_leaf(leaf, spans, order)
    return order, spans


def leaf_lines(rows: HetcalRows, order: Int32s, spans: Int64s, starts: Floats) -> Floats:
    """Return Platt's map of each leaf: a, b, rows, positives; NaN where there are none.

    Rows stand as `by_leaf` has them.  Targets are Platt's (smoothed), so a leaf may have one class.
    `starts`, leaf x 2, are lines to start from, or NaN.
    """
    out = np.empty((len(spans), 4))
    most = int((spans[:, 1] - spans[:, 0]).max(initial=0))
    room = rows.arrays.empty((3, most), np.float64)
    kernels.fit_leaf_lines(rows.score, rows.label, rows.mass, order, spans, starts, room, out)
    return out


def pooled_line(
    rows: HetcalRows, used: Bools | None = None, start: Sequence[float] | Floats = (np.nan, np.nan)
) -> Floats:
    """Return (a, b) of Platt's map of all rows, or of some; the fit begins with a line, or none."""
    leaf = rows.made(lambda own: 0 if used is None else np.where(used[own], 0, -1), np.int32)
    return leaf_lines(rows, *by_leaf(rows, leaf, 1), np.array([start], np.float64))[0, :2]


def shrunk(lines: Floats, pooled: Floats, shrinkage: float) -> Floats:
    """Return the map of each part, averaged with the pooled one with weights n and `shrinkage`.

    `lines` has the coefficients of each, then its rows.
    """
    own = lines[:, pooled.size, None]
    share = np.divide(own, own + shrinkage, out=np.zeros_like(own), where=own > 0.0)
    return np.where(own > 0.0, share * lines[:, : pooled.size] + (1.0 - share) * pooled, pooled)


def fit_maps(
    rows: HetcalRows, leaf: Int32s, count: int, pooled: Floats, shrinkage: float, kind: str
) -> Maps:
    """Return the maps of leaves (-1: takes no part), of a kind of `calibkit.methods.hetcal.model.MAPS`.

    A leaf without rows gets the pooled map (a, b), and the others are drawn towards it by `shrinkage`
    rows; under steps this averages probabilities.
    """
    order, spans = by_leaf(rows, leaf, count)
    lines = leaf_lines(rows, order, spans, np.tile(pooled, (count, 1)))
    places = [order[low:high] for low, high in spans.tolist()]
    if kind == "beta":
        together = _curve(rows, np.sort(np.concatenate(places)), pooled)
        curves = [
            _curve(rows, here, line[:2]) if line[2] > 0.0 else together
            for here, line in zip(places, lines, strict=True)
        ]
        own = np.column_stack((curves, lines[:, 2]))
        return Maps(shrunk(own, together, shrinkage), None, lines[:, 2:])
    if kind == "platt":
        return Maps(shrunk(lines, pooled, shrinkage), None, lines[:, 2:])
    steps = []
    for here, mass in zip(places, lines[:, 2].tolist(), strict=True):
        if mass <= 0.0:
            steps.append((np.zeros(1), np.zeros(1), 0.0))
            continue
        points = tallied(rows, here)
        found = METHODS[kind].fit(points.backwards(), MapOptions(threads=1), []).fields
        knots, values = np.array(found["knots"]), np.array(found["values"])
        steps.append((knots, values, mass / (mass + shrinkage)))
    return Maps(np.tile(pooled, (count, 1)), steps, lines[:, 2:])


def _curve(rows: HetcalRows, here: Int32s, line: Floats) -> Floats:
    """Return a, b and c of the beta map of some rows: fitted to Platt's targets, a and b at least 0.

    `line`, the map of the case a = b, is where the fit starts.  Kull, Silva Filho, Flach, "Beta
    calibration", 2017, section 3.
    """
    label, mass = rows.label[here] == 1, rows.mass[here]
    own, hits = kernels.sum_in_order(mass), kernels.sum_in_order(mass * label)
    target = np.where(label, (hits + 1.0) / (hits + 2.0), 1.0 / (own - hits + 2.0))
    slope, intercept = line.tolist()
    found = fit_logistic(
        log_parts_of(rows.score[here]),
        mass * target,
        mass * (1.0 - target),
        rising=True,
        start=None if slope <= 0.0 else (slope, slope, intercept),
    )
    return np.array([*found.slopes, found.intercept])


def log_parts_of(score: Floats) -> tuple[Floats, Floats]:
    """Return ln s and -ln(1 - s) of linear scores."""
    low, high = np.empty(score.size), np.empty(score.size)
    log_parts(score, False, low, high)
    return low, high


def tallied(rows: HetcalRows, here: NDArray[np.integer] | slice = slice(None)) -> Points:
    """Return the distinct scores of some rows that weigh something, rising."""
    score, weight, label = rows.score[here], rows.weight[here].astype(np.int64), rows.label[here]
    if score.size and score[0] > score[-1]:  # a falling line went before
        score, weight, label = score[::-1], weight[::-1], label[::-1]
    # A unit of weight counts as many rows as in leaves.
    unit = replace(rows.unit, size=rows.size)
    scale = "raw" if rows.options.scale == "raw" else "logit"
    found = merged(Points(score, weight, weight * label, unit, scale), scale)
    held = found.count > 0
    columns = found.score[held], found.count[held], found.positive[held]
    return Points(*columns, unit, scale)


def mean_loss(
    rows: HetcalRows,
    values: Floats,
    kept: Bools | None = None,
    line: Sequence[float] | Floats | None = (1.0, 0.0),
) -> float:
    """Return the mean log loss in the order of the rows.

    It is that of linear scores after a line; None: of probabilities.
    """
    total = mass = 0.0
    for own in rows.blocks():
        weight = rows.mass[own] if kept is None else np.where(kept[own], rows.mass[own], 0.0)
        losses = np.empty(weight.size)
        if line is not None:
            score = line[0] * values[own] + line[1]
            kernels.score_losses(score, rows.label[own], weight, losses)
        else:
            kernels.probability_losses(values[own], rows.label[own], weight, losses)
        total += kernels.sum_in_order(losses)
        mass += kernels.sum_in_order(weight)
    return float(total / mass)


def first_map(rows: HetcalRows, asked: str, seed: int, threads: int) -> FirstMap | None:
    """Return what the scores of rows go through first: `platt`, `none`, or what `auto` chooses.

    The choice is that of `calibkit.maps.methods`, on folds that groups or times deal where rows have
    some, without maps that have steps.
    """
    if asked == "none":
        return None
    slope, intercept = pooled_line(rows).tolist()
    if asked == "platt":
        return FirstMap(a=slope, b=intercept)
    points, options = tallied(rows).backwards(), MapOptions(threads=threads, seed=seed)
    once = rows.folds is not None
    forward = rows.folds is not None and rows.folds.forward
    deal = partial(_dealt, rows, points)
    name, candidates = choose(points, deal, options, forward=forward, once=once, left_out=STEPPED)
    one = ScoreMap(clip=0.0, a=slope, b=intercept)
    if name != "platt":
        one, _ = METHODS[name].fitted(points, options, [], 0.0)
    return FirstMap(method=name, map=one, candidates=candidates)


def moved(first: FirstMap | None, linear: Floats) -> Floats:
    """Return linear scores after what they go through first.

    Of a map that is no line, that is the logit of its probability, which is moved 1e-6 inside (0, 1).
    """
    if first is None or first.name == "none":
        return linear
    one = first.score_map
    if first.name == "platt":
        assert one.a is not None and one.b is not None  # the model was checked
        return one.a * linear + one.b
    found = np.empty(linear.size)
    log_odds(METHODS[first.name].mapped(one, linear, "logit", 1)[0], found)
    return found


def _dealt(rows: HetcalRows, points: Points, parts: int, seed: int) -> list[Points]:
    """Return the points of each fold, of rows dealt to so many parts.

    Whole rows are dealt as counts, others by their keys; those of groups and times keep their folds,
    of which as large a share is looked at.
    """
    folds = rows.folds
    if folds is None and rows.unit.size == rows.size == 1.0:
        level = np.zeros(points.score.size, np.uint16)
        tally = Tally(points.score, level, points.count, points.positive, 1, points.unit)
        return parts_of(tally.deal(parts, seed, kept=FOLDS), FOLDS, points.scale)
    if folds is None:
        part, number = folds_of_keys(rows.key, parts, seed), FOLDS
    else:
        looked = folds_of_keys(rows.key, parts // FOLDS, seed) == 0
        part = np.where(looked, folds.part, MOST_PARTS).astype(np.uint8)
        number = FOLDS + folds.forward
    return [tallied(rows, np.flatnonzero(part == own)).backwards() for own in range(number)]
