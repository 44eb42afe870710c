"""Metrics of class probabilities judged by several raters, with standard errors.

Mimori et al., "Diagnostic uncertainty calibration: towards reliable machine predictions in medical
domain", sections 3 and 4; the formulas of the losses are in `calibkit.numerics.votes`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from math import sqrt
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from calibkit.measures.result import Difference, Interval
from calibkit.numerics.distributions import critical_value
from calibkit.numerics.sums import exact_group_sums, exact_sum
from calibkit.numerics.votes import (
    BINS,
    EDGES,
    Losses,
    Targets,
    bin_sums,
    class_targets,
    disagreement_targets,
    losses,
    predicted_disagreement,
)
from calibkit.version import __version__

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]


#: Metrics that are means of squares or of shares, which cannot be negative: nor can their limits.
_NEVER_NEGATIVE = ("accuracy", "squared_loss", "disagreement_loss", "class_disagreement_loss")

#: Metrics of disagreement, and all metrics that need rows with two votes.
_OF_DISAGREEMENT: Final = (
    "disagreement_loss",
    "disagreement_calibration_loss",
    "disagreement_calibration_loss_plugin",
    "disagreement_calibration_error",
)
_OF_TWO_VOTES: Final = (
    *("epistemic_loss", "epistemic_loss_plugin", "dispersion_loss", "dispersion_loss_plugin"),
    "dispersion_error",
    *(f"{of}{name}" for name in _OF_DISAGREEMENT for of in ("", "class_")),
)


@dataclass(frozen=True, kw_only=True)
class Judged:
    """A predictor beside the votes that judge it."""

    probabilities: Floats  # rows x classes: the prediction, of an ensemble the mean of its members
    #: Rows x (1 + classes): the predicted probability that two raters differ at all, and about each
    #: class.
    disagreement: Floats
    counts: Counts  # rows x classes: votes, at least one a row
    classes: tuple[str, ...]  # their names
    #: The group of each row, whose rows may depend on each other; None: all are independent.
    groups: NDArray[np.uint32] | None = None
    #: The weight of each row in the squared loss; None: all count alike.
    weight: Floats | None = None

    def rows(self, kept: NDArray[np.int64]) -> Judged:
        """Return some of the rows."""
        taken: dict[str, Any] = {
            name: own[kept] for name, own in vars(self).items() if isinstance(own, np.ndarray)
        }
        return replace(self, **taken)


@dataclass(frozen=True)
class Measured:
    """Metrics of one predictor on some rows."""

    judged: Judged  # the predictor
    several: NDArray[np.int64]  # which rows have two or more votes
    #: Each metric, None where no row can tell; a metric of one class is named ``metric[class]``.
    values: dict[str, float | int | None]
    #: For metrics with an interval: by how much each row moves the metric, times the number of rows
    #: it uses; NaN in rows that it does not use.
    influence: dict[str, Floats] = field(default_factory=dict)
    #: Metrics that are the square root of another: the interval is that of the square.
    roots: dict[str, str] = field(default_factory=dict)

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
        width, limits = critical_value(confidence), {}
        for name in names:
            square = self.roots.get(name, name)
            moves, value = self.influence.get(square), self.values[square]
            error = None if moves is None else standard_error(moves, self.judged.groups)
            if error is None or value is None:
                continue
            low, high = value - width * error, value + width * error
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
            gap = None if a is None or b is None else b - a
            found[name] = Difference(gap)
            if gap is not None and confidence is not None and name in self.influence:
                moves = self.influence[name] - baseline.influence[name]
                error = standard_error(moves, self.judged.groups)
                reach = None if error is None else critical_value(confidence) * error
                if reach is not None:
                    found[name] = Difference(gap, gap - reach, gap + reach)
        return found


def ensemble(members: Sequence[Floats], alpha0: Sequence[Floats | None]) -> tuple[Floats, Floats]:
    """Return the prediction and the predicted disagreement of members.

    The prediction is the mean of the members'; the disagreement is the mean of the members' own, not
    that of the mean prediction (Mimori et al., equation 51).
    """
    probabilities, phi = np.zeros_like(members[0]), None
    for member, strength in zip(members, alpha0, strict=True):
        probabilities = probabilities + member
        own = predicted_disagreement(member, strength)
        phi = own if phi is None else phi + own
    assert phi is not None
    return probabilities / len(members), phi / len(members)


def measure(judged: Judged) -> Measured:
    """Return all metrics of a predictor that votes can judge."""
    rows, several = len(judged.counts), np.flatnonzero(judged.counts.sum(axis=1) >= 2)
    found = Measured(judged, several, {"rows_used": rows, "rows_two_raters": int(several.size)})
    targets = class_targets(judged.probabilities, judged.counts)
    share = targets.label[np.arange(rows), np.argmax(judged.probabilities, axis=1)]
    found.values["accuracy"] = exact_sum(share) / rows
    found.influence["accuracy"] = share
    apart = _row_sums(targets, lambda one: (one.label - one.prediction) ** 2)
    lost = apart + _row_sums(targets, lambda one: one.label * (1.0 - one.label))
    own = losses(bin_sums(targets))
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
        own = losses(bin_sums(targets))
        moved = _calibration_moves(targets, own)
    epistemic = apart - _row_sums(targets, lambda one: one.excess)
    found.put("epistemic_loss", own.epistemic, epistemic)
    found.put("epistemic_loss_plugin", own.epistemic_plugin, apart)
    found.put("dispersion_loss", own.dispersion, epistemic - moved)
    found.put("dispersion_loss_plugin", own.dispersion_plugin, apart - moved)
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
    targets = disagreement_targets(judged.disagreement[kept], judged.counts[kept])

    def lost(pair: Targets) -> Floats:
        missed = pair.label * (1.0 - pair.prediction) ** 2
        return missed + (1.0 - pair.label) * pair.prediction**2

    for prefix, part in (("", targets.columns(0, 1)), ("class_", targets.columns(1, None))):
        own = losses(bin_sums(part))
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


def _calibration_moves(targets: Targets, known: Losses) -> Floats:
    """Return how each row moves the calibration loss, summed over the targets."""
    moved = np.zeros(targets.prediction.shape[0])
    edges = EDGES[1:]
    for prediction, label, gaps in zip(
        targets.prediction.T, targets.label.T, known.gaps, strict=True
    ):
        gap = gaps[np.searchsorted(edges, prediction, side="right")]
        moved += 2.0 * gap * (label - prediction) - gap * gap
    return moved


def _row_sums(targets: Targets, term: Callable[[Targets], Floats]) -> Floats:
    """Return the sum of a term in each row, its columns added in order."""
    blocks = (np.cumsum(term(block), axis=1)[:, -1] for block in targets.blocks())
    return np.concatenate([*blocks, np.empty(0)])


def standard_error(moves: Floats, groups: NDArray[np.uint32] | None) -> float | None:
    """Return the standard error of a metric from what its rows contribute.

    Rows of one group are added up first.  None where fewer than two rows or groups are used.
    """
    present = ~np.isnan(moves)
    count = used = int(np.count_nonzero(present))
    if used < 2:
        return None
    own = moves[present] - exact_sum(moves[present]) / used
    if groups is not None:
        codes = groups[present]
        own = exact_group_sums(own, codes, int(codes.max()) + 1)
        count = int(np.unique(codes).size)
    return sqrt(exact_sum(own * own) * count / (count - 1)) / used if count > 1 else None


def signature(name: str, *, intervals: bool, groups: bool, weighted: bool = False) -> str:
    """Return what shaped a metric."""
    metric = name.partition("[")[0]
    parts = [metric]
    if "calibration" in metric or "dispersion" in metric:
        parts += [f"bins:{BINS}", "strategy:equal-width"]
    if weighted and metric == "squared_loss":
        parts.append("weights:raters")
    if not metric.startswith("rows_"):
        parts.append(f"estimator:{'plugin' if metric.endswith('_plugin') else 'debiased'}")
        parts += ["interval:influence" + (":groups" if groups else "")] if intervals else []
    return "|".join([*parts, f"v:{__version__}"])
