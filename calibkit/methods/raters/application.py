"""Applying models of class probabilities."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from calibkit.columns.columns import RowFinder
from calibkit.columns.patterns import Matched, match_columns
from calibkit.errors import UsageError
from calibkit.files.sources import Source
from calibkit.maps.class_rows import read_predictions
from calibkit.methods.raters.alpha_cal import predict
from calibkit.methods.raters.model import AlphaModel
from calibkit.models.applier import Reads, Request
from calibkit.models.model import Model

Floats = NDArray[np.float64]


def match_classes(model: Model, classes: list[str], source: Source, request: Request) -> Matched:
    """Return the columns of class probabilities: as the model names them, or as the user does.

    Raises
    ------
    UsageError
        Another role than `probs` is pointed elsewhere; the columns' classes are not the model's.
    """
    for role in request.columns.keys() - {"probs"}:
        raise UsageError(f"the model uses no {role} column; leave --{role} out.")
    pattern = request.columns.get("probs", model.columns["probs"].name)
    matched = match_columns(source, pattern, "--probs")
    if matched.nested:
        return matched
    if sorted(matched.keys) == sorted(classes):
        column = dict(zip(matched.keys, matched.columns, strict=True))
        return Matched(pattern, tuple(column[key] for key in classes), tuple(classes))
    if len(matched.keys) == len(classes) and "probs" in request.columns:
        return matched
    raise UsageError(
        f"--probs {pattern!r} has the classes {', '.join(matched.keys[:10])}, but the model "
        f"{', '.join(classes[:10])}; name the columns by --probs."
    )


def needed_columns(matched: Matched, more: list[str]) -> Reads:
    """Return what is read: every matched column, and more."""
    return Reads({name: name for name in (*matched.columns, *more)})


def read_classes(
    model: Model, classes: int, frame: pl.DataFrame, matched: Matched, where: RowFinder
) -> Floats:
    """Return rows x classes in the dtype of the fit.

    Raises
    ------
    DataError
        Values out of range; lists of another length than the model has classes.
    """
    if frame.height == 0:
        return np.empty((0, classes))
    column = model.columns["probs"]
    found = read_predictions(frame, matched, where, column.scale or "probability", column.dtype)
    if found.shape[1] != classes:
        raise UsageError(
            f"--probs {matched.pattern!r} has {found.shape[1]} classes, but the model {classes}."
        )
    return found


class AlphaApplier:
    """Adds `calibrated_<class>`, `alpha0`, `disagreement` and `disagreement_<class>`."""

    def __init__(self, model: AlphaModel) -> None:
        self.model = model
        self.added = (
            *(f"calibrated_{name}" for name in model.classes),
            "alpha0",
            "disagreement",
            *(f"disagreement_{name}" for name in model.classes),
        )
        self.matched: Matched | None = None

    def reads(self, source: Source, request: Request) -> Reads:
        """Return the columns of probabilities and features."""
        self.matched = match_classes(self.model, self.model.classes, source, request)
        features = self.model.features
        named = features if isinstance(features, list) else []
        source.require(named, "the model's features")
        return needed_columns(self.matched, named)

    def values(
        self, frame: pl.DataFrame, where: RowFinder, reads: Reads, request: Request
    ) -> list[pl.Series]:
        """Return the added columns."""
        assert self.matched is not None  # `reads` comes first
        classes = len(self.model.classes)
        prediction = read_classes(self.model, classes, frame, self.matched, where)
        probabilities, alpha0, phi = predict(self.model, prediction, frame, where)
        columns = [*probabilities.T, alpha0, *phi.T]
        return [pl.Series(np.ascontiguousarray(values)) for values in columns]
