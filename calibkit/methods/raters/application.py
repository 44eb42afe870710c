"""Applying alpha-calibration: what a model makes of rows."""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl

from calibkit.arrays import Floats
from calibkit.columns.rows import RowFinder, numeric_column
from calibkit.files.sources import Source
from calibkit.maps.application import ClassColumns
from calibkit.maps.class_rows import logits_of
from calibkit.methods.raters.model import AlphaModel, DisagreementMap
from calibkit.models.kinds import Reads, Request
from calibkit.numerics.votes import predicted_disagreement
from calibkit_kernels.classes import affine_rows

#: Where ln alpha0 of a row is cut off, so that its exponential is a number.
LARGEST_LOG: Final = 600.0


def log_strength(features: Floats | None, rows: int, weights: Floats, intercept: float) -> Floats:
    """Return ln alpha0 of each row, cut off where its exponential would not be a number."""
    if features is None or weights.size == 0:
        return np.full(rows, intercept)
    out = np.empty((rows, 1))
    affine_rows(np.ascontiguousarray(features), weights.reshape(1, -1), np.array([intercept]), out)
    return np.clip(out[:, 0], -LARGEST_LOG, LARGEST_LOG)


def own_features(name: str, probabilities: Floats) -> Floats:
    """Return features that are made of the class probabilities; see `OWN_FEATURES`."""
    logs = logits_of(probabilities)
    return logs if name == "probs" else np.ascontiguousarray(-np.sort(-logs, axis=1))


def with_steps(phi: Floats, steps: DisagreementMap) -> Floats:
    """Return disagreements after a step function; those about a class shrink or grow alike."""
    mapped = steps.mapped(phi[:, 0])
    ratio = np.where(phi[:, 0] > 0.0, mapped / np.where(phi[:, 0] > 0.0, phi[:, 0], 1.0), 0.0)
    found = np.minimum(phi * ratio[:, None], mapped[:, None])
    found[:, 0] = mapped
    return found


class AlphaApplier:
    """Adds `alpha0`, `disagreement`, `disagreement_<class>`; after a map `calibrated_<class>` first."""

    def __init__(self, model: AlphaModel) -> None:
        self.model, self.columns = model, ClassColumns(model, model.classes)
        self.calibrated = tuple(f"calibrated_{name}" for name in model.classes if model.calibrates)
        self.about = tuple(f"disagreement_{name}" for name in model.classes)
        self.added = (*self.calibrated, "alpha0", "disagreement", *self.about)

    def reads(self, source: Source, request: Request) -> Reads:
        """Return the columns of probabilities and features."""
        columns = self.columns.match(source, request)
        features = self.model.features
        named = features if isinstance(features, list) else []
        source.require(named, "the model's features")
        about = self.columns.as_in_input(source, self.about)
        written: tuple[str, ...] = ("alpha0", "disagreement", *about)
        if self.calibrated:
            written = (*self.columns.as_in_input(source, self.calibrated), *written)
        return Reads({name: name for name in (*columns, *named)}, (), written)

    def values(self, frame: pl.DataFrame, where: RowFinder, reads: Reads) -> list[pl.Series]:
        """Return the added columns."""
        model, inputs = self.model, None
        probabilities = self.columns.probabilities(frame, where, model.logit_map)
        if isinstance(model.features, str):
            inputs = own_features(model.features, probabilities)
        elif model.features is not None:
            columns = [numeric_column(frame[name], where) for name in model.features]
            inputs = np.column_stack(columns).astype(np.float64, copy=False)
        weights, intercept = model.strength()
        alpha0 = np.exp(log_strength(inputs, probabilities.shape[0], weights, intercept))
        phi = predicted_disagreement(probabilities, alpha0)
        if model.disagreement_map is not None:
            phi = with_steps(phi, model.disagreement_map)
        mapped = [*probabilities.T] if self.calibrated else []
        return [pl.Series(np.ascontiguousarray(one)) for one in (*mapped, alpha0, *phi.T)]
