"""Applying a shrinkage: the first member (or its calibrated column) is all that it reads."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import numpy as np
import polars as pl

from calibkit.arrays import Int64s
from calibkit.columns.rows import RowFinder, as_fitted
from calibkit.columns.segments import known_codes
from calibkit.files.sources import Source
from calibkit.maps.application import calibrator_applier
from calibkit.maps.model import CalibratorModel
from calibkit.methods.vad.model import VadModel
from calibkit.methods.vad.moments import from_link, to_link
from calibkit.models.kinds import Applier, Reads, Request, find_columns


class VadApplier:
    """Adds `calibrated`."""

    added: tuple[str, ...] = ("calibrated",)
    inner_reads: Reads  # what a calibrator reads, set by `reads`, which comes first

    def __init__(self, model: VadModel) -> None:
        self.model = model
        self.inner: Applier | None = None
        if model.calibrator is not None:
            self.inner = calibrator_applier(cast(CalibratorModel, model.inner()))

    def reads(self, source: Source, request: Request) -> Reads:
        """Return the score column, that of the segments, and what a calibrator reads besides."""
        used = find_columns(self.model, source, request, ("score", "by"))
        beside = (used.pop("by"),) if "by" in used else ()
        if self.inner is None:
            return Reads(used, beside)
        own = replace(request, columns={"score": used["score"]})
        self.inner_reads = self.inner.reads(source, own)
        optional = dict.fromkeys((*self.inner_reads.optional, *beside))
        return Reads({**self.inner_reads.needed, **used}, tuple(optional))

    def values(self, frame: pl.DataFrame, where: RowFinder, reads: Reads) -> list[pl.Series]:
        """Return the shrunk predictions: probabilities, unless the scores were raw."""
        model, score = self.model, self.model.columns["score"]
        scale = score.measure
        if self.inner is None:
            values = as_fitted(score, frame[reads.needed["score"]], where)
        else:
            values = self.inner.values(frame, where, self.inner_reads)[0].to_numpy()
            scale = "probability"
        links = np.empty(values.size)
        to_link(values, scale, model.link, links)
        factor, offset = np.array(model.lines()).T
        line: Int64s | int = -1  # that of all rows together
        if model.groups is not None:
            names = tuple(model.groups.values)
            by, others = frame[model.columns["by"].name], model.groups.pooled
            line = known_codes(by, names, others=others)
        links *= factor[line]
        links += offset[line]
        return [pl.Series(from_link(links, scale, model.link))]
