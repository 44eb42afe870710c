"""Metrics of class probabilities judged by several raters, with standard errors.

Mimori et al., "Diagnostic uncertainty calibration: towards reliable machine predictions in medical
domain", sections 3 and 4; the formulas of the losses are in `calibkit.numerics.votes`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from calibkit.measures.result import Difference, Interval
from calibkit.numerics.normal import critical_value
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


@dataclass(frozen=True, kw_only=True)
class Judged:
    """A predictor beside the votes that judge it.

    Attributes
    ----------
    probabilities
        Rows x classes: the prediction, of an ensemble the mean of its members.
    disagreement
        Rows x (1 + classes): the predicted probability that two raters differ at all, and about
        each class.
    counts
        Rows x classes: votes, at least one a row.
    classes
        Their names.
    groups
        The group of each row, whose rows may depend on each other; None: all are independent.
    weight
        The weight of each row in the squared loss; None: all count alike.
    """

    probabilities: Floats
    disagreement: Floats
    counts: Counts
    classes: tuple[str, ...]
    groups: NDArray[np.uint32] | None = None
    weight: Floats | None = None

    def rows(self, kept: NDArray[np.int64]) -> Judged:
        """Return some of the rows."""
        return replace(
            self,
            probabilities=self.probabilities[kept],
            disagreement=self.disagreement[kept],
            counts=self.counts[kept],
            groups=None if self.groups is None else self.groups[kept],
            weight=None if self.weight is None else self.weight[kept],
        )


@dataclass(frozen=True)
class Measured:
    """Metrics of one predictor on some rows.

    Attributes
    ----------
    judged
        The predictor.
    values
        Each metric, None where no row can tell; a metric of one class is named ``metric[class]``.
    influence
        For metrics with an interval: by how much each row moves the metric, times the number of
        rows it uses; NaN in rows that it does not use.
    roots
        Metrics that are the square root of another: the interval is that of the square.
    """

    judged: Judged
    values: dict[str, float | int | None]
    influence: dict[str, Floats] = field(default_factory=dict)
    roots: dict[str, str] = field(default_factory=dict)

    def put_sum(self, name: str, values: Floats, influence: Floats) -> None:
        """Put a loss that sums over classes, and the part of each class."""
        self.values[name] = float(np.cumsum(values)[-1])
        self.put_each(name, values)
        self.influence[name] = influence

    def put_each(self, name: str, values: Floats) -> None:
        """Put a metric of each class."""
        for key, value in zip(self.judged.classes, values.tolist(), strict=True):
            self.values[f"{name}[{key}]"] = value

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
    votes = judged.counts.sum(axis=1)
    several = np.flatnonzero(votes >= 2)
    counts = {"rows_used": int(votes.size), "rows_two_raters": int(several.size)}
    found = Measured(judged, dict(counts))
    _order_one(judged, several, found)
    _order_two(judged, several, found)
    return found


def _order_one(judged: Judged, several: NDArray[np.int64], found: Measured) -> None:
    rows = judged.counts.shape[0]
    targets = class_targets(judged.probabilities, judged.counts)
    first = losses(bin_sums(targets))
    share = targets.label[np.arange(rows), np.argmax(judged.probabilities, axis=1)]
    found.values["accuracy"] = exact_sum(share) / rows
    found.influence["accuracy"] = share
    apart = _row_sums(targets, lambda one: (one.label - one.prediction) ** 2)
    spread = _row_sums(targets, lambda one: one.label * (1.0 - one.label))
    if judged.weight is None:
        found.put_sum("squared_loss", first.squared, apart + spread)
    else:
        _weighted_squares(targets, judged.weight, apart + spread, found)
    moved = _calibration_moves(targets, first)
    found.put_sum("calibration_loss", first.calibration, moved)
    found.put_sum("calibration_loss_plugin", first.calibration_plugin, moved)
    found.put_root("class_calibration_error", "calibration_loss")
    if not several.size:
        names = ("epistemic_loss", "epistemic_loss_plugin", "dispersion_loss")
        found.values.update(dict.fromkeys((*names, "dispersion_loss_plugin", "dispersion_error")))
        return
    if several.size < rows:
        targets, apart = targets.rows(several), apart[several]
        first = losses(bin_sums(targets))
        moved = _calibration_moves(targets, first)
    epistemic = apart - _row_sums(targets, lambda one: one.excess)
    for name, values, influence in (
        ("epistemic_loss", first.epistemic, epistemic),
        ("epistemic_loss_plugin", first.epistemic_plugin, apart),
        ("dispersion_loss", first.dispersion, epistemic - moved),
        ("dispersion_loss_plugin", first.dispersion_plugin, apart - moved),
    ):
        found.put_sum(name, values, _spread_out(influence, several, rows))
    found.put_root("dispersion_error", "dispersion_loss")


def _weighted_squares(targets: Targets, weight: Floats, lost: Floats, found: Measured) -> None:
    """Put the squared loss of weighted rows (Mimori et al., equation 7); None where none weighs.

    `lost` is the loss of each row.  The loss is a ratio of sums, and its rows move it as one.
    """
    whole = exact_sum(weight)
    if not whole:
        keys = ("", *(f"[{key}]" for key in found.judged.classes))
        found.values.update({f"squared_loss{key}": None for key in keys})
        return
    share = targets.label
    each = (share - targets.prediction) ** 2 + share * (1.0 - share)
    sums = [exact_sum(weight, np.ascontiguousarray(one)) for one in each.T]
    values = np.array(sums) / whole
    moved = weight * (lost - values.sum()) * (weight.size / whole)
    found.put_sum("squared_loss", values, moved)


def _order_two(judged: Judged, several: NDArray[np.int64], found: Measured) -> None:
    loss, squared, error = (
        "disagreement_loss",
        "disagreement_calibration_loss",
        "disagreement_calibration_error",
    )
    if not several.size:
        for name in (loss, squared, f"{squared}_plugin", error):
            found.values[name] = found.values[f"class_{name}"] = None
        return
    rows = judged.counts.shape[0]
    kept = slice(None) if several.size == rows else several
    targets = disagreement_targets(judged.disagreement[kept], judged.counts[kept])

    def lost(pair: Targets) -> Floats:
        missed = pair.label * (1.0 - pair.prediction) ** 2
        return missed + (1.0 - pair.label) * pair.prediction**2

    for prefix, part in (("", targets.columns(0, 1)), ("class_", targets.columns(1, None))):
        own = losses(bin_sums(part))
        width = own.squared.size
        moved = _calibration_moves(part, own) / width
        errors = np.sqrt(np.maximum(own.calibration, 0.0))
        for name, values, influence in (
            (loss, own.squared, _row_sums(part, lost) / width),
            (squared, own.calibration, moved),
            (f"{squared}_plugin", own.calibration_plugin, moved),
            (error, errors, None),
        ):
            found.values[prefix + name] = float(np.cumsum(values)[-1]) / width
            if prefix:
                found.put_each(prefix + name, values)
            if influence is not None:
                found.influence[prefix + name] = _spread_out(influence, several, rows)
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
    total = np.zeros(targets.prediction.shape[0])
    start = 0
    for block in targets.blocks():
        terms = term(block)
        rows = total[start : start + terms.shape[0]]
        for place in range(terms.shape[1]):
            rows += terms[:, place]
        start += terms.shape[0]
    return total


def _spread_out(values: Floats, places: NDArray[np.int64], rows: int) -> Floats:
    """Return values of some rows among all rows: a row that is not used moves nothing.

    What remains moves the metric rows / used times as much; see `standard_error`.
    """
    if values.size == rows:
        return values
    out = np.full(rows, np.nan)
    out[places] = values
    return out


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
