"""Applying maps of class probabilities: which columns are read, and how."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from calibkit.columns.columns import RowFinder
from calibkit.columns.patterns import Matched, match_columns
from calibkit.errors import UsageError
from calibkit.files.sources import Source
from calibkit.maps.calibrator import CalibratorModel
from calibkit.maps.class_rows import read_predictions
from calibkit.maps.logit_maps import logits_of
from calibkit.models.applier import Reads, Request
from calibkit.models.model import Model

Floats = NDArray[np.float64]


class ClassApplier:
    """Adds `calibrated_<class>`."""

    def __init__(self, model: CalibratorModel) -> None:
        assert isinstance(model.classes, list)
        self.model, self.classes = model, model.classes
        self.added = tuple(f"calibrated_{name}" for name in self.classes)
        self.matched: Matched | None = None

    def reads(self, source: Source, request: Request) -> Reads:
        """Return the columns of class probabilities."""
        self.matched = match_classes(self.model, self.classes, source, request)
        return needed_columns(self.matched, [])

    def values(
        self, frame: pl.DataFrame, where: RowFinder, reads: Reads, request: Request
    ) -> list[pl.Series]:
        """Return the calibrated class probabilities."""
        assert self.matched is not None  # `reads` comes first
        width = len(self.classes)
        prediction = read_classes(self.model, width, frame, self.matched, where)
        scale = self.model.columns["probs"].scale
        logits = prediction if scale == "logit" else logits_of(prediction)
        found = self.model.logit_map.fitted(width).probabilities(logits)
        return [pl.Series(np.ascontiguousarray(found[:, place])) for place in range(width)]


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
