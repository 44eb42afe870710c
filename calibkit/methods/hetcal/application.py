"""Applying a calibration by parts: the columns it reads, the leaf of each row and its probability."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

import msgspec
import numpy as np
import polars as pl
from numpy.typing import NDArray

from calibkit.columns.numeric import as_fitted
from calibkit.columns.rows import RowFinder
from calibkit.files.sources import Source
from calibkit.methods.hetcal.features import read_known_features
from calibkit.methods.hetcal.maps import Maps
from calibkit.methods.hetcal.model import SCORE_FEATURE, HetcalModel
from calibkit.methods.hetcal.rows import linear_scores
from calibkit.methods.hetcal.trees import known_categories, routes_of
from calibkit.models.applier import Reads, Request, find_columns
from calibkit.runtime.threads import thread_count
from calibkit_kernels import leaf_maps

Floats = NDArray[np.float64]
Leaves = NDArray[np.int32]

#: Rows that one thread works on at a time.
_BLOCK = 65_536


class HetcalApplier:
    """Adds `calibrated` and `leaf` (of several partitions: the leaf of the first)."""

    added: tuple[str, ...] = ("calibrated", "leaf")

    def __init__(self, model: HetcalModel) -> None:
        self.model = model
        self.names = model.features()

    def reads(self, source: Source, request: Request) -> Reads:
        """Return the score, and the features that some split uses: they may lack values."""
        used = find_columns(self.model, source, request, ("score",))
        for name in self.names:
            source.require([name], "the model's feature")
        source.as_written(list(known_categories(self.model.parts())))
        return Reads(used, tuple(self.names))

    def values(
        self, frame: pl.DataFrame, where: RowFinder, reads: Reads, request: Request
    ) -> list[pl.Series]:
        """Return calibrated probabilities and leaves."""
        model = self.model
        score = as_fitted(model.columns["score"], frame[reads.needed["score"]], where)
        linear, _ = linear_scores(score, model.columns["score"].measure)
        if model.precalibrate is not None:
            linear = model.precalibrate.a * linear + model.precalibrate.b
        described = {column.name: column for column in model.columns.values()}
        categories = known_categories(model.parts())
        columns = [described[name] for name in self.names]
        known = [
            categories.get(column.name, ()) if column.kind == "category" else None
            for column in columns
        ]
        values = read_known_features(frame, columns, known, where)
        names = list(self.names)
        if model.partition == "boosted":
            names, values = [*names, SCORE_FEATURE], np.vstack([values, linear])
        probability, leaf = _judged(model, names, categories, linear, values)
        return [pl.Series(probability), pl.Series(leaf)]


def _judged(
    model: HetcalModel,
    names: list[str],
    categories: dict[str, tuple[str, ...]],
    linear: Floats,
    values: Floats,
) -> tuple[Floats, Leaves]:
    """Return the probability of each row, and its leaf in the first partition."""
    parts = model.parts()
    routes = [routes_of(part, names, categories) for part in parts]
    pooled = model.pooled.a, model.pooled.b
    maps = [Maps.of(part.maps, pooled) for part in parts]
    probability, first = np.empty(linear.size), np.empty(linear.size, np.int32)

    def work(start: int) -> None:
        own = slice(start, start + _BLOCK)
        score, here = linear[own].copy(), np.ascontiguousarray(values[:, own])
        total = np.zeros(score.size)
        for place, ((route, leaves), made) in enumerate(zip(routes, maps, strict=True)):
            leaf = leaves[route.ends(here)]
            if place == 0:
                first[own] = leaf
            if model.final is not msgspec.UNSET:
                leaf_maps.move_scores(score, leaf, made.lines)
            else:
                total += made.probabilities(score, leaf)
        if model.final is not msgspec.UNSET:
            line = np.array([[model.final.a, model.final.b]])
            leaf_maps.leaf_probabilities(score, np.zeros(score.size, np.int32), line, total)
        elif len(parts) > 1:
            total /= len(parts)
        probability[own] = np.clip(total, model.clip, 1.0 - model.clip)

    threads = thread_count(int(os.environ.get("POLARS_MAX_THREADS", 0)) or None)
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, range(0, linear.size, _BLOCK)))
    return probability, first
