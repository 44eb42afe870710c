"""Applying a calibrator: the map of each row's segment."""

from __future__ import annotations

import msgspec
import numpy as np
import polars as pl
from numpy.typing import NDArray

from calibkit.columns.columns import RowFinder
from calibkit.columns.numeric import FloatArray, as_fitted, numeric_column
from calibkit.columns.segments import known_codes
from calibkit.files.sources import Source
from calibkit.maps.calibrator import CalibratorModel
from calibkit.maps.class_application import ClassApplier
from calibkit.maps.method import mapped
from calibkit.maps.methods import METHODS
from calibkit.maps.score_map import SEGMENTS, ScoreMap, into_unit_interval
from calibkit.models.applier import Applier, Reads, Request, find_columns

Float64s = NDArray[np.float64]


def calibrator_applier(model: CalibratorModel) -> Applier:
    """Return what a calibrator does: of scores, or of class probabilities."""
    return CalibratorApplier(model) if model.classes is msgspec.UNSET else ClassApplier(model)


class CalibratorApplier:
    """Adds `calibrated`; of venn-abers also `calibrated_low` and `calibrated_high`."""

    def __init__(self, model: CalibratorModel) -> None:
        self.model = model
        self.method = METHODS[model.method]
        self.added = self.method.added

    def reads(self, source: Source, request: Request) -> Reads:
        """Return score and segment; a segment that is not known or missing is no error."""
        used = find_columns(self.model, source, request, ("score", SEGMENTS))
        more = tuple(used[role] for role in (SEGMENTS,) if role in used)
        return Reads({"score": used["score"]}, more)

    def values(
        self, frame: pl.DataFrame, where: RowFinder, reads: Reads, request: Request
    ) -> list[pl.Series]:
        """Return the calibrated probabilities."""
        score = self._scores(frame[reads.needed["score"]], where)
        if self.model.groups is msgspec.UNSET:
            return [pl.Series(column) for column in self._mapped(self.model.own_map, score)]
        groups = self.model.groups
        place = known_codes(frame[reads.optional[0]], tuple(groups)) + 1
        return self._by_segment(score, place, [self.model.own_map, *groups.values()])

    def _by_segment(
        self, score: FloatArray, place: NDArray[np.int64], maps: list[ScoreMap]
    ) -> list[pl.Series]:
        order = np.argsort(place.astype(np.uint16), kind="stable")
        ends = np.cumsum(np.bincount(place, minlength=len(maps)))
        out = [np.empty(score.size) for _ in self.added]
        for one, start, end in zip(maps, [0, *ends[:-1]], ends, strict=True):
            own = order[start:end]
            for column, found in zip(out, self._mapped(one, score[own]), strict=True):
                column[own] = found
        return [pl.Series(column) for column in out]

    def _scores(self, values: pl.Series, where: RowFinder) -> FloatArray:
        column = self.model.columns["score"]
        if self.model.out_of_range != "clip" or not values.len():
            return as_fitted(column, values, where)
        array = numeric_column(values, where)
        if column.dtype == "float32":
            array = array.astype(np.float32, copy=False)
        return into_unit_interval(array)[0]

    def _mapped(self, one: ScoreMap, score: FloatArray) -> tuple[Float64s, ...]:
        scale = self.model.columns["score"].scale or "probability"
        return mapped(self.method, one, score, scale, pl.thread_pool_size())
