"""Metrics of class probabilities judged by several raters, with standard errors.

Mimori et al., "Diagnostic uncertainty calibration: towards reliable machine predictions in medical
domain", sections 3 and 4; the formulas of the losses are in `calibkit.numerics.votes`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from calibkit.numerics.sums import exact_group_sums, exact_sum
from calibkit.numerics.votes import (
    BINS,
    Losses,
    Targets,
    bin_edges,
    bin_sums,
    class_targets,
    disagreement_targets,
    losses,
    predicted_disagreement,
)
from calibkit_kernels.raters import calibration_influence

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]


#: The fields of `Losses`, each with targets as its first axis.
_FIELDS = (
    "squared",
    "epistemic",
    "epistemic_plugin",
    "calibration",
    "calibration_plugin",
    "gaps",
)


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
    """

    probabilities: Floats
    disagreement: Floats
    counts: Counts
    classes: tuple[str, ...]
    groups: NDArray[np.uint32] | None = None

    def rows(self, kept: NDArray[np.int64]) -> Judged:
        """Return some of the rows."""
        return replace(
            self,
            probabilities=self.probabilities[kept],
            disagreement=self.disagreement[kept],
            counts=self.counts[kept],
            groups=None if self.groups is None else self.groups[kept],
        )


@dataclass(frozen=True)
class Measured:
    """Metrics of one predictor on some rows.

    Attributes
    ----------
    values
        Each metric, None where no row can tell; a metric of one class is named ``metric[class]``.
    influence
        For metrics with an interval: by how much each row moves the metric, times the number of
        rows.  Rows that a metric does not use hold 0.
    roots
        Metrics that are the square root of another: the interval is that of the square.
    used
        How many rows each metric with an influence uses.
    """

    values: dict[str, float | int | None]
    influence: dict[str, Floats] = field(default_factory=dict)
    roots: dict[str, str] = field(default_factory=dict)
    used: dict[str, int] = field(default_factory=dict)


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
    found = Measured({"rows_used": int(votes.size), "rows_two_raters": int(several.size)})
    _order_one(judged, several, found)
    _order_two(judged, several, found)
    return found


def _order_one(judged: Judged, several: NDArray[np.int64], found: Measured) -> None:
    rows = judged.counts.shape[0]
    targets = class_targets(judged.probabilities, judged.counts)
    first = losses(bin_sums(targets))
    chosen = np.argmax(judged.probabilities, axis=1)
    share = targets.label[np.arange(rows), chosen]
    _put(found, "accuracy", exact_sum(share) / rows, share, rows)
    apart = _row_sums(targets, lambda one: (one.label - one.prediction) ** 2)
    spread = _row_sums(targets, lambda one: one.label * (1.0 - one.label))
    _put_classes(found, "squared_loss", first.squared, judged.classes)
    _add_influence(found, "squared_loss", apart + spread, rows)
    _put_calibration(found, judged, first, targets)
    pairs = targets if several.size == rows else targets.rows(several)
    if not several.size:
        for name in ("epistemic_loss", "dispersion_loss"):
            found.values[name] = found.values[f"{name}_plugin"] = None
        found.values["dispersion_error"] = None
        return
    second = first if several.size == rows else losses(bin_sums(pairs))
    excess = _row_sums(pairs, lambda one: one.excess)
    moved = _calibration_moves(pairs, second)
    for name, values, plugin in (
        ("epistemic_loss", second.epistemic, second.epistemic_plugin),
        ("dispersion_loss", second.dispersion, second.dispersion_plugin),
    ):
        own = moved if name == "dispersion_loss" else np.zeros(several.size)
        _put_classes(found, name, values, judged.classes)
        _put_classes(found, f"{name}_plugin", plugin, judged.classes)
        _add_influence(
            found, name, _spread_out(apart[several] - excess - own, several, rows), several.size
        )
        _add_influence(
            found, f"{name}_plugin", _spread_out(apart[several] - own, several, rows), several.size
        )
    _put_root(found, "dispersion_error", "dispersion_loss", judged.classes)


def _put_calibration(found: Measured, judged: Judged, first: Losses, targets: Targets) -> None:
    moved = _calibration_moves(targets, first)
    for name, values in (
        ("calibration_loss", first.calibration),
        ("calibration_loss_plugin", first.calibration_plugin),
    ):
        _put_classes(found, name, values, judged.classes)
        _add_influence(found, name, moved, targets.label.shape[0])
    _put_root(found, "class_calibration_error", "calibration_loss", judged.classes)


def _order_two(judged: Judged, several: NDArray[np.int64], found: Measured) -> None:
    names = ("disagreement_loss", "disagreement_calibration_loss")
    if not several.size:
        for name in (*names, f"{names[1]}_plugin", "disagreement_calibration_error"):
            found.values[name] = found.values[f"class_{name}"] = None
        return
    rows = judged.counts.shape[0]
    if several.size == rows:
        targets = disagreement_targets(judged.disagreement, judged.counts)
    else:
        targets = disagreement_targets(judged.disagreement[several], judged.counts[several])
    second = losses(bin_sums(targets))
    for prefix, columns in (("", slice(0, 1)), ("class_", slice(1, None))):
        width = second.squared[columns].size
        part = Targets(
            *(
                np.ascontiguousarray(a[:, columns])
                for a in (targets.prediction, targets.label, targets.excess)
            )
        )
        kept = Losses(*(np.ascontiguousarray(getattr(second, name)[columns]) for name in _FIELDS))
        moved = _calibration_moves(part, kept) / width
        for name, values, influence in (
            (names[0], kept.squared, _row_sums(part, _disagreement_losses) / width),
            (names[1], kept.calibration, moved),
            (f"{names[1]}_plugin", kept.calibration_plugin, moved),
        ):
            found.values[f"{prefix}{name}"] = _mean(values)
            if prefix:
                _each_class(found, f"{prefix}{name}", values, judged.classes)
            _add_influence(
                found, f"{prefix}{name}", _spread_out(influence, several, rows), several.size
            )
        errors = np.sqrt(np.maximum(kept.calibration, 0.0))
        found.values[f"{prefix}disagreement_calibration_error"] = _mean(errors)
        if prefix:
            _each_class(found, "class_disagreement_calibration_error", errors, judged.classes)
        else:
            found.roots["disagreement_calibration_error"] = names[1]


def _calibration_moves(targets: Targets, known: Losses) -> Floats:
    """Return how each row moves the calibration loss, summed over the targets."""
    moved = np.zeros(targets.prediction.shape[0])
    calibration_influence(
        np.ascontiguousarray(targets.prediction),
        np.ascontiguousarray(targets.label),
        bin_edges(BINS),
        known.gaps,
        moved,
    )
    return moved


def _disagreement_losses(targets: Targets) -> Floats:
    """Return what each prediction of two raters loses, on average over the pairs."""
    lost = targets.label * (1.0 - targets.prediction) ** 2
    lost += (1.0 - targets.label) * targets.prediction**2
    return lost


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


def _mean(values: Floats) -> float:
    return float(np.cumsum(values)[-1]) / values.size


def _put(found: Measured, name: str, value: float, influence: Floats, used: int) -> None:
    found.values[name] = value
    _add_influence(found, name, influence, used)


def _add_influence(found: Measured, name: str, influence: Floats, used: int) -> None:
    found.influence[name], found.used[name] = influence, used


def _put_classes(found: Measured, name: str, values: Floats, classes: Sequence[str]) -> None:
    """Put a loss that sums over classes, and the part of each class."""
    found.values[name] = float(np.cumsum(values)[-1])
    _each_class(found, name, values, classes)


def _each_class(found: Measured, name: str, values: Floats, classes: Sequence[str]) -> None:
    for key, value in zip(classes, values.tolist(), strict=True):
        found.values[f"{name}[{key}]"] = value


def _put_root(found: Measured, name: str, square: str, classes: Sequence[str]) -> None:
    """Put an error that is the root of a loss; a negative loss counts as 0."""
    for suffix in ("", *(f"[{key}]" for key in classes)):
        value = found.values[f"{square}{suffix}"]
        found.values[f"{name}{suffix}"] = None if value is None else sqrt(max(value, 0.0))
    found.roots[name] = square


def standard_error(
    measured: Measured, name: str, groups: NDArray[np.uint32] | None
) -> float | None:
    """Return the standard error of a metric from what its rows contribute.

    Rows of one group are added up first.  None where fewer than two rows or groups are used.
    """
    moves, used = measured.influence[name], measured.used[name]
    value = measured.values[name]
    if value is None or used < 2:
        return None
    present = ~np.isnan(moves)
    own = moves[present] - exact_sum(moves[present]) / used
    if groups is not None:
        codes = groups[present]
        own = exact_group_sums(own, codes, int(codes.max()) + 1)
        count = int(np.unique(codes).size)
    else:
        count = used
    if count < 2:
        return None
    return sqrt(exact_sum(own * own) * count / (count - 1)) / used
