"""Calibrating class probabilities: temperature, vector and matrix scaling of their logits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
import polars as pl
from numpy.typing import NDArray

from calibkit import __version__
from calibkit.apply import ApplySpec, Reads
from calibkit.calibrators.model import CalibratorModel, MapFit
from calibkit.errors import UsageError
from calibkit.files.sources import Source
from calibkit.fitted import Fitted
from calibkit.models import Column, Provenance
from calibkit.raters.application import match_classes, needed_columns, read_classes
from calibkit.raters.histograms import BinSums, bin_sums, class_targets
from calibkit.raters.logit_maps import (
    LEAST_PROBABILITY,
    MAPS,
    MOST_INVERSE_TEMPERATURE,
    LogitMap,
    logits_of,
    softmax,
)
from calibkit.raters.losses import losses
from calibkit.raters.map_fit import FOLDS, fit_logit_map
from calibkit.raters.model import LogitMapModel
from calibkit.raters.order import folds_of, hashes
from calibkit.raters.rows import RaterRows
from calibkit.rows.columns import RowFinder
from calibkit.rows.patterns import Matched
from calibkit.rows.provenance import data_hash

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class ClassSpec:
    """What to fit.

    Attributes
    ----------
    method
        ``temperature``, ``vector`` or ``matrix``.
    regularization
        Penalties of intercept and of weights off the diagonal; None chooses by cross-validation.
    scale
        ``probability``, or ``logit``.
    seed
        Of the cross-validation.
    """

    method: str
    regularization: tuple[float, float] | None = None
    scale: str = "probability"
    seed: int = 0

    def __post_init__(self) -> None:
        if self.method not in MAPS:
            raise UsageError(
                f"--method {self.method} is not for class probabilities (--probs); use one of "
                f"{', '.join(MAPS)}."
            )
        if self.regularization is not None and self.method == "temperature":
            raise UsageError("--regularization goes with --method vector and matrix.")

    def steps(self) -> list[str]:
        """Return in words what the fit will do."""
        chosen = " with penalties chosen by cross-validation"
        penalties = chosen if self.regularization is None and self.method != "temperature" else ""
        return [f"fit {self.method} scaling of the logits{penalties}"]


def refuse_score_options(options: Mapping[str, object]) -> None:
    """Refuse options that were given and mean nothing for class probabilities.

    Raises
    ------
    UsageError
        If there is one.
    """
    for name, value in options.items():
        if value is not None:
            raise UsageError(f"{name} is for scores, not for class probabilities; leave it out.")


def fit_class_calibrator(
    rows: RaterRows,
    spec: ClassSpec,
    *,
    provenance: str = "hash",
    tags: Mapping[str, str] | None = None,
) -> Fitted[CalibratorModel]:
    """Fit a map of logits to labels or votes; see `calibkit.raters.map_fit.fit_logit_map`.

    Parameters
    ----------
    rows
        Class probabilities with labels or votes.
    spec
        What to fit.
    provenance
        ``hash``, ``names`` (adds file names) or ``none``.
    tags
        Copied into the model.
    """
    prediction = next(iter(rows.predictions.values()))
    logits = prediction if spec.scale == "logit" else logits_of(prediction)
    keys = hashes(logits, rows.counts)
    order = np.argsort(keys, kind="stable")
    fitted = fit_logit_map(
        logits[order],
        rows.counts[order],
        spec.method,
        spec.regularization,
        folds=folds_of(keys[order], FOLDS, spec.seed),
    )
    figures = _figures(rows, logits, fitted, spec)
    column = rows.described(spec.scale)
    model = class_model(column, rows.classes, spec, fitted, figures, dict(tags or {}))
    if provenance != "none":
        files = rows.source.paths if provenance == "names" else None
        model.provenance = class_origin(spec, rows.counts.shape[0], data_hash(rows.used()), files)
    return Fitted(model, class_warnings(fitted))


def class_model(
    column: Column,
    classes: Sequence[str],
    spec: ClassSpec,
    fitted: LogitMap,
    figures: MapFit,
    tags: dict[str, str],
) -> CalibratorModel:
    """Return the model of a fitted map."""
    stored = LogitMapModel.of(fitted)
    return CalibratorModel(
        kind=CalibratorModel.KIND,
        version=CalibratorModel.VERSION,
        columns={"probs": column},
        method=spec.method,
        clip=0.0,
        classes=list(classes),
        temperature=stored.temperature,
        weights=stored.weights,
        intercept=stored.intercept,
        regularization=(
            msgspec.UNSET if spec.method == "temperature" else list(fitted.regularization)
        ),
        fit=figures,
        tags=tags,
    )


def _figures(rows: RaterRows, logits: Floats, fitted: LogitMap, spec: ClassSpec) -> MapFit:
    before, after = softmax(logits), fitted.probabilities(logits)
    clipped = 0
    if spec.scale != "logit":
        clipped = rows_clipped(next(iter(rows.predictions.values())))
    return map_figures(
        fitted,
        rows=int(rows.counts.shape[0]),
        votes=int(rows.counts.sum()),
        brier=squared_loss(bin_sums(class_targets(after, rows.counts))),
        brier_before=squared_loss(bin_sums(class_targets(before, rows.counts))),
        clipped=clipped,
    )


def rows_clipped(probabilities: Floats) -> int:
    """Return how many rows have a probability that counts as another before its logarithm."""
    return int((probabilities < LEAST_PROBABILITY).any(axis=1).sum())


def map_figures(
    fitted: LogitMap, *, rows: int, votes: int, brier: float, brier_before: float, clipped: int
) -> MapFit:
    """Return what a model says of its fit."""
    return MapFit(
        rows=rows,
        positives=None,
        votes=votes,
        log_loss=fitted.loss,
        log_loss_before=fitted.loss_before,
        brier=brier,
        brier_before=brier_before,
        inputs_clipped=clipped,
        outputs_clipped=0,
        gradient=fitted.gradient,
        iterations=fitted.iterations,
        converged=fitted.converged,
    )


def squared_loss(sums: BinSums) -> float:
    """Return the mean squared distance of prediction and a rater's vote; targets are classes."""
    return float(np.cumsum(losses(sums).squared)[-1])


def class_warnings(fitted: LogitMap) -> tuple[str, ...]:
    """Return what the user should be told of a map."""
    if fitted.method == "temperature":
        beta = float(fitted.weights[0])
        if beta == 0.0:
            return ("the logits say nothing of the classes: the best temperature is infinite",)
        if beta == MOST_INVERSE_TEMPERATURE:
            return (
                "the most probable class is always right: the best temperature is 0; stopped at "
                f"{1 / beta:g}",
            )
    if not fitted.converged:
        return (
            f"the fit did not converge (gradient {fitted.gradient:.1e} after {fitted.iterations} "
            "steps): give a larger --regularization",
        )
    return ()


def class_origin(spec: ClassSpec, rows: int, data: str, files: list[str] | None) -> Provenance:
    """Return where a model comes from: so many rows of a hash, and the options that shaped it."""
    options: dict[str, object] = {"method": spec.method, "scale": spec.scale}
    if spec.method != "temperature":
        chosen = spec.regularization
        options |= {"regularization": "cv" if chosen is None else list(chosen), "seed": spec.seed}
    return Provenance(__version__, options, rows, data, files)


class ClassApplier:
    """Adds `calibrated_<class>`."""

    def __init__(self, model: CalibratorModel) -> None:
        assert isinstance(model.classes, list)
        self.model, self.classes = model, model.classes
        self.added = tuple(f"calibrated_{name}" for name in self.classes)
        self.matched: Matched | None = None

    def reads(self, source: Source, spec: ApplySpec) -> Reads:
        """Return the columns of class probabilities."""
        self.matched = match_classes(self.model, self.classes, source, spec)
        return needed_columns(self.matched, [])

    def values(
        self, frame: pl.DataFrame, where: RowFinder, reads: Reads, spec: ApplySpec
    ) -> list[pl.Series]:
        """Return the calibrated class probabilities."""
        assert self.matched is not None  # `reads` comes first
        width = len(self.classes)
        prediction = read_classes(self.model, width, frame, self.matched, where)
        scale = self.model.columns["probs"].scale
        logits = prediction if scale == "logit" else logits_of(prediction)
        found = self.model.logit_map.fitted(width).probabilities(logits)
        return [pl.Series(np.ascontiguousarray(found[:, place])) for place in range(width)]
