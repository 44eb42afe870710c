"""Applying models of class probabilities."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from calibkit.columns.columns import RowFinder
from calibkit.columns.patterns import Matched
from calibkit.files.sources import Source
from calibkit.maps.class_application import match_classes, needed_columns, read_classes
from calibkit.methods.raters.alpha_cal import predict
from calibkit.methods.raters.model import AlphaModel
from calibkit.models.applier import Reads, Request

Floats = NDArray[np.float64]


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
