"""Calibrating class probabilities: temperature, vector and matrix scaling of their logits."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import numpy as np
from numpy.typing import NDArray

from calibkit.maps.calibrator import CalibratorModel
from calibkit.maps.logit_maps import (
    MOST_INVERSE_TEMPERATURE,
    LogitMap,
    LogitMapModel,
    softmax,
)
from calibkit.maps.score_map import Candidate, MapFit
from calibkit.maps.stored import StoredRows
from calibkit.methods.calibrators.choose_classes import choose_class_map
from calibkit.numerics.votes import added_bin_sums, class_targets, losses
from calibkit.options.calibrate import CalibrateOptions
from calibkit.options.maps import AUTO
from calibkit.summaries.runs import Fitted, provenance

Floats = NDArray[np.float64]


def fit_class_calibrator(rows: StoredRows, options: CalibrateOptions) -> Fitted[CalibratorModel]:
    """Fit a map of logits to labels or votes; see `calibkit.maps.map_fit.fit_logit_map`.

    Parameters
    ----------
    rows
        Class probabilities with labels or votes.
    options
        What to fit.
    """
    penalties = options.penalties
    candidates: list[Candidate] | msgspec.UnsetType = msgspec.UNSET
    method = options.named
    if method == AUTO:
        method, candidates = choose_class_map(rows, options)
    fitted = rows.fit_map(method, penalties, options.seed)
    stored = LogitMapModel.of(fitted)
    shaped: dict[str, object] = {"method": options.named, "scale": options.scale}
    if options.named == AUTO:
        shaped["optimize"] = options.optimize or "log_loss"
    if options.named not in ("temperature", "none"):
        chosen = "cv" if penalties is None else list(penalties)
        shaped |= {"regularization": chosen, "seed": options.seed}
    model = CalibratorModel(
        kind=CalibratorModel.KIND,
        version=CalibratorModel.VERSION,
        columns={"probs": rows.column},
        method=method,
        clip=0.0,
        classes=list(rows.classes),
        temperature=stored.temperature,
        weights=stored.weights,
        intercept=stored.intercept,
        regularization=(
            msgspec.UNSET if method in ("temperature", "none") else list(fitted.regularization)
        ),
        candidates=candidates,
        fit=MapFit(
            rows=rows.rows,
            positives=None,
            votes=rows.votes,
            log_loss=fitted.loss,
            log_loss_before=fitted.loss_before,
            brier=_squared_loss(rows, fitted.probabilities),
            brier_before=_squared_loss(rows, softmax),
            inputs_clipped=rows.clipped,
            outputs_clipped=0,
            gradient=fitted.gradient,
            iterations=fitted.iterations,
            converged=fitted.converged,
        ),
        tags=dict(options.tags or {}),
        provenance=provenance(options, shaped, rows.rows, rows.hash, rows.source.paths),
    )
    return Fitted(model, (*rows.warnings, *_warnings(fitted)))


def _squared_loss(rows: StoredRows, predict: Callable[[Floats], Floats]) -> float:
    """Return the mean squared distance of a prediction from logits and a rater's vote."""
    targets = (
        class_targets(predict(rows.logits[block]), rows.counts[block]) for block in rows.blocks
    )
    return float(np.cumsum(losses(added_bin_sums(targets, len(rows.classes))).squared)[-1])


def _warnings(fitted: LogitMap) -> tuple[str, ...]:
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
