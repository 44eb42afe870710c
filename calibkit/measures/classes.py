"""Metrics of class probabilities: judged by several raters, with standard errors, or by labels.

Mimori et al., "Diagnostic uncertainty calibration: towards reliable machine predictions in medical
domain", sections 3 and 4; the formulas of the losses are in `calibkit.numerics.votes`.

Against one label a row each metric is one of scores, on a tally, so that none depends on the order of
rows: of the top probability against being right, of the probability of the label, or of each class
against the rest.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from math import sqrt
from typing import Final, Literal

import numpy as np
import polars as pl
from msgspec import Struct

from calibkit.arrays import Bools, Floats, Int64s, UInt32s, distinct_values
from calibkit.measures.influence import Level
from calibkit.measures.reliability import SCHEMA
from calibkit.measures.result import Difference, Interval, Number
from calibkit.measures.views import DEFINED, Rows, Sample, View, view_of
from calibkit.numerics import votes
from calibkit.numerics.distributions import critical_value
from calibkit.numerics.sums import exact_group_sums, exact_sum
from calibkit.numerics.votes import BINS, EDGES, ONE, Targets
from calibkit.options.evaluate import EvaluateOptions
from calibkit.options.metrics import Settings
from calibkit.version import __version__

#: Metrics that are means of squares or of shares, which cannot be negative: nor can their limits.
_NEVER_NEGATIVE = ("accuracy", "squared_loss", "disagreement_loss", "class_disagreement_loss")

#: Metrics of disagreement, and all metrics that need rows with two votes.
_OF_DISAGREEMENT: Final = (
    *("disagreement_loss", "disagreement_calibration_loss"),
    *("disagreement_calibration_loss_plugin", "disagreement_calibration_error"),
)
_OF_TWO_VOTES: Final = (
    *("epistemic_loss", "epistemic_loss_plugin", "dispersion_loss", "dispersion_loss_plugin"),
    "dispersion_error",
    *(f"{of}{name}" for name in _OF_DISAGREEMENT for of in ("", "class_")),
)


class Judged(Rows, frozen=True, kw_only=True):
    """A predictor beside the votes that judge it."""

    probabilities: Floats  # rows x classes: the prediction, of an ensemble the mean of its members
    #: Rows x (1 + classes): the predicted probability that two raters differ at all, and about each
    #: class.
    disagreement: Floats
    counts: Int64s  # rows x classes: votes, at least one a row
    classes: tuple[str, ...]  # their names
    #: The group of each row, whose rows may depend on each other; None: all are independent.
    groups: UInt32s | None = None
    #: The weight of each row in the squared loss; None: all count alike.
    weight: Floats | None = None


class Measured(Struct, frozen=True):
    """Metrics of one predictor on some rows."""

    judged: Judged  # the predictor
    several: Int64s  # which rows have two or more votes
    #: Each metric, None where no row can tell; a metric of one class is named ``metric[class]``.
    values: dict[str, float | int | None]
    #: For metrics with an interval: by how much each row moves the metric, times the number of rows
    #: it uses; NaN in rows that it does not use.
    influence: dict[str, Floats] = {}
    #: Metrics that are the square root of another: the interval is that of the square.
    roots: dict[str, str] = {}

    def put(
        self, name: str, each: Floats | None, moves: Floats | None, *, mean: bool = False
    ) -> None:
        """Put a loss that is the sum (or the mean) of that of each class, and these where named so.

        `each` None: no row can tell.  `moves` is how each row moves it, or each row with two votes: the
        others then move nothing, and these all rows / used rows times as much; see `standard_error`.
        """
        classes = self.judged.classes
        parts = [None] * len(classes) if each is None else each.tolist()
        whole = None if each is None else float(np.cumsum(each)[-1])
        self.values[name] = whole / len(parts) if mean and whole is not None else whole
        if len(parts) == len(classes):
            self.values.update({f"{name}[{k}]": v for k, v in zip(classes, parts, strict=True)})
        rows = len(self.judged.counts)
        if moves is not None and moves.size < rows:
            used, moves = moves, np.full(rows, np.nan)
            moves[self.several] = used
        if moves is not None:
            self.influence[name] = moves

    def put_root(self, name: str, square: str) -> None:
        """Put an error that is the root of a loss; a negative loss counts as 0."""
        for suffix in ("", *(f"[{key}]" for key in self.judged.classes)):
            self.values[f"{name}{suffix}"] = sqrt(max(self.values[f"{square}{suffix}"] or 0.0, 0.0))
        self.roots[name] = square

    def intervals(self, names: Iterable[str], confidence: float) -> dict[str, Interval]:
        """Return normal intervals; those of a root are the roots of the square's."""
        limits = {}
        for name in names:
            square = self.roots.get(name, name)
            moves, value = self.influence.get(square), self.values[square]
            reach = None if moves is None else self._reach(moves, confidence)
            if reach is None or value is None:
                continue
            low, high = value - reach, value + reach
            if name in self.roots:
                low, high = sqrt(max(low, 0.0)), sqrt(max(high, 0.0))
            low = max(low, 0.0) if name in _NEVER_NEGATIVE else low
            limits[name] = Interval(low, min(high, 1.0) if name == "accuracy" else high)
        return limits

    def differences(
        self, baseline: Measured, names: Iterable[str], confidence: float | None
    ) -> dict[str, Difference]:
        """Return by how much metrics exceed the baseline's, with intervals where rows pair."""
        found = {}
        for name in names:
            a, b = baseline.values[name], self.values[name]
            gap, reach = None if a is None or b is None else b - a, None
            if gap is not None and confidence is not None and name in self.influence:
                moves = self.influence[name] - baseline.influence[name]
                reach = self._reach(moves, confidence)
            ends = () if gap is None or reach is None else (gap - reach, gap + reach)
            found[name] = Difference(gap, *ends)
        return found

    def _reach(self, moves: Floats, confidence: float) -> float | None:
        groups = self.judged.groups
        error, units = standard_error(moves, groups)
        level = Level(confidence, None if groups is None else units)
        return None if error is None else level.reach * error


def ensemble(members: Sequence[Floats], alpha0: Sequence[Floats | None]) -> tuple[Floats, Floats]:
    """Return the prediction and the predicted disagreement of members.

    The prediction is the mean of the members'; the disagreement is the mean of the members' own, not
    that of the mean prediction (Mimori et al., equation 51).
    """
    apart = reduce(np.add, map(votes.predicted_disagreement, members, alpha0))
    return reduce(np.add, members) / len(members), apart / len(members)


def measure(judged: Judged) -> Measured:
    """Return all metrics of a predictor that votes can judge."""
    rows, several = len(judged.counts), np.flatnonzero(judged.counts.sum(axis=1) >= 2)
    found = Measured(judged, several, {"rows_used": rows, "rows_two_raters": int(several.size)})
    targets = votes.class_targets(judged.probabilities, judged.counts)
    share = targets.label[np.arange(rows), np.argmax(judged.probabilities, axis=1)]
    found.values["accuracy"] = exact_sum(share) / rows
    found.influence["accuracy"] = share
    apart = _row_sums(targets, lambda one: (one.label - one.prediction) ** 2)
    lost = apart + _row_sums(targets, lambda one: one.label * (1.0 - one.label))
    own = votes.losses(votes.bin_sums(targets))
    moved = _calibration_moves(targets, own)
    if judged.weight is None:
        found.put("squared_loss", own.squared, lost)
    else:
        found.put("squared_loss", *_weighted_squares(targets, judged.weight, lost))
    found.put("calibration_loss", own.calibration, moved)
    found.put("calibration_loss_plugin", own.calibration_plugin, moved)
    found.put_root("class_calibration_error", "calibration_loss")
    if not several.size:
        found.values.update(dict.fromkeys(_OF_TWO_VOTES))
        return found
    if several.size < rows:
        targets, apart = targets.rows(several), apart[several]
        own = votes.losses(votes.bin_sums(targets))
        moved = _calibration_moves(targets, own)
    epistemic = apart - _row_sums(targets, lambda one: one.excess)
    found.put("epistemic_loss", own.epistemic, epistemic)
    found.put("epistemic_loss_plugin", own.epistemic_plugin, apart)
    found.put("dispersion_loss", own.epistemic - own.calibration, epistemic - moved)
    plugin = own.epistemic_plugin - own.calibration_plugin
    found.put("dispersion_loss_plugin", plugin, apart - moved)
    found.put_root("dispersion_error", "dispersion_loss")
    _put_disagreement(found)
    return found


def _weighted_squares(
    targets: Targets, weight: Floats, lost: Floats
) -> tuple[Floats | None, Floats | None]:
    """Return the squared loss of weighted rows (Mimori et al., equation 7); None where none weighs.

    `lost` is the loss of each row.  The loss is a ratio of sums, and its rows move it as one.
    """
    whole = exact_sum(weight)
    if not whole:
        return None, None
    share = targets.label
    each = (share - targets.prediction) ** 2 + share * (1.0 - share)
    values = np.array([exact_sum(weight, np.ascontiguousarray(one)) for one in each.T]) / whole
    return values, weight * (lost - values.sum()) * (weight.size / whole)


def _put_disagreement(found: Measured) -> None:
    """Put the metrics of predicted disagreement: at all, then (``class_``) about each class."""
    loss, squared, plugin, error = _OF_DISAGREEMENT
    judged, several = found.judged, found.several
    kept = slice(None) if several.size == len(judged.counts) else several
    targets = votes.disagreement_targets(judged.disagreement[kept], judged.counts[kept])

    def lost(pair: Targets) -> Floats:
        missed = pair.label * (1.0 - pair.prediction) ** 2
        return missed + (1.0 - pair.label) * pair.prediction**2

    for prefix, part in (("", targets.columns(0, 1)), ("class_", targets.columns(1, None))):
        own = votes.losses(votes.bin_sums(part))
        width = own.squared.size
        moved = _calibration_moves(part, own) / width
        errors = np.sqrt(np.maximum(own.calibration, 0.0))
        for name, each, moves in (
            (loss, own.squared, _row_sums(part, lost) / width),
            (squared, own.calibration, moved),
            (plugin, own.calibration_plugin, moved),
            (error, errors, None),
        ):
            found.put(prefix + name, each, moves, mean=True)
    found.roots[error] = squared


def _calibration_moves(targets: Targets, known: votes.Losses) -> Floats:
    """Return how each row moves the calibration loss, summed over the targets."""
    moved = np.zeros(targets.prediction.shape[0])
    for prediction, label, gaps in zip(
        targets.prediction.T, targets.label.T, known.gaps, strict=True
    ):
        gap = gaps[np.searchsorted(EDGES[1:], prediction, side="right")]
        moved += 2.0 * gap * (label - prediction) - gap * gap
    return moved


def _row_sums(targets: Targets, term: Callable[[Targets], Floats]) -> Floats:
    """Return the sum of a term in each row, its columns added in order."""
    blocks = (np.cumsum(term(block), axis=1)[:, -1] for block in targets.blocks())
    return np.concatenate([*blocks, np.empty(0)])


def standard_error(moves: Floats, groups: UInt32s | None) -> tuple[float | None, int]:
    """Return the standard error of a metric from what its rows contribute, and how many units do.

    Rows of one group are added up first.  None where fewer than two rows or groups are used.
    """
    present = ~np.isnan(moves)
    count = used = int(np.count_nonzero(present))
    own = moves[present] - exact_sum(moves[present]) / used
    if groups is not None:
        codes = groups[present]
        own = exact_group_sums(own, codes, int(codes.max()) + 1)
        count = int(distinct_values(codes).size)
    error = sqrt(exact_sum(own * own) * count / (count - 1)) / used if count > 1 else None
    return error, count


def signature(name: str, asked: EvaluateOptions) -> str:
    """Return what shaped a metric that votes judge."""
    metric = name.partition("[")[0]
    parts = [metric]
    if "calibration" in metric or "dispersion" in metric:
        parts += [f"bins:{BINS}", "strategy:equal-width"]
    parts += ["weights:raters"] * (asked.rater_weight is not None and metric == "squared_loss")
    parts += ["weights:frequency"] * (asked.weight is not None)
    if not metric.startswith("rows_"):
        parts.append(f"estimator:{'plugin' if metric.endswith('_plugin') else 'debiased'}")
        if asked.sure is not None:
            parts.append(f"interval:influence:{asked.sure:g}" + ":groups" * bool(asked.groups))
    return "|".join([*parts, f"v:{__version__}"])


def vote_rows(
    name: str, part: str, judged: Judged, confidence: float | None, *, classes: bool = False
) -> pl.DataFrame:
    """Return the reliability diagram of the predicted probability that two raters differ.

    One row a bin of `disagreement_calibration_loss`, in the columns of `SCHEMA`: ``mean_score`` is the
    mean prediction, ``mean_label`` the mean share of pairs of raters who differ, ``positives`` the sum
    of these shares; rows need two votes.  The normal interval is that of ``mean_label``; null without
    a confidence, with groups, and in bins of one row (Mimori, Sasada, Matsui, Sato, "Diagnostic
    uncertainty calibration: towards reliable machine predictions in medical domain", section 4 and
    figure 2 (b)).

    With `classes` it is that of the class probabilities, of all classes together: ``mean_label`` is
    the mean share of raters who chose the class, and a row counts once a class, as if its shares of
    the classes were independent of each other (those of one row cannot all be high).
    """
    if classes:
        targets = votes.class_targets(judged.probabilities, judged.counts)
    else:
        several = np.flatnonzero(judged.counts.sum(axis=1) >= 2)
        phi = judged.disagreement[several][:, :1]
        targets = votes.disagreement_targets(phi, judged.counts[several]).columns(0, 1)
    sums = votes.bin_sums(targets)
    rows, labels, squares, predictions = (
        [int(of_bin) for of_bin in own.sum(axis=0)]
        for own in (sums.rows, sums.label, sums.squared_label, sums.prediction)
    )
    if not sum(rows):
        return pl.DataFrame(schema=SCHEMA)
    curve, edges = "classes" if classes else "disagreement", [*EDGES.tolist(), 1.0]
    reach = None if confidence is None or judged.groups is not None else critical_value(confidence)
    found = []
    for b, (count, label) in enumerate(zip(rows, labels, strict=True)):
        mean = label / (count * ONE) if count else None
        low = high = None
        if reach is not None and mean is not None and count > 1:
            variance = (count * squares[b] * ONE - label * label) / (count * count * ONE * ONE)
            half = reach * sqrt(max(variance, 0.0) / (count - 1))
            low, high = max(0.0, mean - half), min(1.0, mean + half)
        means = predictions[b] / (count * ONE) if count else None, mean
        bounds = (*edges[b : b + 2], float(count), label / ONE)
        found.append((name, part, curve, b, *bounds, *means, low, high))
    return pl.DataFrame(found, schema=SCHEMA, orient="row")


class Classes(Struct, frozen=True):
    """One predictor in one slice."""

    #: The largest probability of each row, and whether its class is the label (of equal
    #: probabilities the first class counts).
    top: View
    chosen: View  # the probability of the label, as a score whose labels are all 1
    each: tuple[View, ...]  # the probability of each class, and whether it is the label


def classes_of(
    probability: Floats, label: Int64s, name: str, part: str, settings: Settings
) -> Classes:
    """Return what metrics are computed from: rows x classes of probabilities, and labels."""
    rows = np.arange(label.size)

    def view(score: Floats, hit: Bools) -> View:
        sample = Sample(score=np.ascontiguousarray(score), label=hit.astype(np.uint8))
        return view_of(sample, name, part, settings)

    best = probability.argmax(axis=1)
    return Classes(
        view(probability[rows, best], best == label),
        view(probability[rows, label], np.ones(label.size, np.bool_)),
        tuple(view(probability[:, k], label == k) for k in range(probability.shape[1])),
    )


class ClassMetric(Struct, frozen=True):
    """A metric of class probabilities: the metric `score` of some of their views.

    `of`: ``top`` or ``chosen``, whose intervals serve, or ``each``, of which it is the mean or the sum.
    """

    of: Literal["top", "chosen", "each"]
    score: str
    options: Callable[[Settings], dict[str, object]] = lambda _: {}  # as in `Metric`
    summed: bool = False

    def value(self, classes: Classes) -> Number:
        """Return its value; only where there are no rows has a view none."""
        function = DEFINED[self.score].function
        if self.of != "each":
            return function(getattr(classes, self.of))
        known = [value for value in map(function, classes.each) if value is not None]
        mean = math.fsum(known) / len(known)
        return mean * len(known) if self.summed else mean


def _binned(settings: Settings) -> dict[str, object]:
    return {"bins": settings.bins, "strategy": settings.strategy, "norm": "l1"}


METRICS: Final = {
    "count": ClassMetric("top", "count"),
    "accuracy": ClassMetric("top", "base_rate"),
    "log_loss": ClassMetric("chosen", "log_loss", DEFINED["log_loss"].options),
    "brier": ClassMetric("each", "brier", summed=True),
    "ece": ClassMetric("top", "ece", lambda settings: {"of": "top-label", **_binned(settings)}),
    "classwise_ece": ClassMetric("each", "ece", _binned),
}
