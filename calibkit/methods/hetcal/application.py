"""Applying a calibration by parts: the columns it reads, the leaf of each row and its probability."""

from __future__ import annotations

import numpy as np
import polars as pl
from msgspec import UNSET

from calibkit.arrays import Floats, Int32s, blocks
from calibkit.columns.rows import RowFinder, as_fitted
from calibkit.files.sources import Source
from calibkit.methods.hetcal.maps import Maps, moved
from calibkit.methods.hetcal.model import SCORE_FEATURE, HetcalModel
from calibkit.methods.hetcal.rows import linear_scores
from calibkit.methods.hetcal.trees import Routes, known_categories, read_features
from calibkit.models.kinds import Reads, Request, find_columns
from calibkit.runtime.threads import in_order
from calibkit_kernels import leaves as kernels
from calibkit_kernels.maps import line_map

#: Rows that one thread works on at a time.
_BLOCK = 65_536


class HetcalApplier:
    """Adds `calibrated` and `leaf` (of several partitions: the leaf of the first)."""

    added: tuple[str, ...] = ("calibrated", "leaf")

    def __init__(self, model: HetcalModel) -> None:
        self.model, self.parts = model, model.parts()
        self.columns, self.categories = model.features(), known_categories(self.parts)
        self.names = [column.name for column in self.columns]
        # A boosted model has the score for a last feature.
        names = [*self.names, *([SCORE_FEATURE] if model.partition == "boosted" else [])]
        self.routes = [Routes.of(part.tree, names, self.categories) for part in self.parts]
        self.leaves = [
            np.array([-1 if node.leaf is UNSET else node.leaf for node in part.tree], np.int32)
            for part in self.parts
        ]
        pooled = model.pooled.a, model.pooled.b
        self.maps = [Maps.of(part.maps, pooled) for part in self.parts]

    def reads(self, source: Source, request: Request) -> Reads:
        """Return the score, and the features that some split uses: they may lack values."""
        used = find_columns(self.model, source, request, ("score",))
        source.require(self.names, "the model's feature")
        source.as_written(list(self.categories))
        return Reads(used, tuple(self.names))

    def values(self, frame: pl.DataFrame, where: RowFinder, reads: Reads) -> list[pl.Series]:
        """Return calibrated probabilities and leaves."""
        model = self.model
        score = as_fitted(model.columns["score"], frame[reads.needed["score"]], where)
        linear, _ = linear_scores(score, model.columns["score"].measure)
        linear = moved(model.precalibrate, linear)
        known = [self.categories.get(name, ()) for name in self.names]
        values, _ = read_features(frame, self.columns, where, known)
        if model.partition == "boosted":
            values = np.vstack([values, linear])
        probability, first = np.empty(linear.size), np.empty(linear.size, np.int32)

        def work(own: slice) -> None:
            probability[own], first[own] = self._judged(linear[own].copy(), values[:, own])

        list(in_order(pl.thread_pool_size(), work, blocks(linear.size, _BLOCK)))
        return [pl.Series(probability), pl.Series(first)]

    def _judged(self, score: Floats, values: Floats) -> tuple[Floats, Int32s]:
        """Return the probability of each row, and its leaf in the first partition."""
        here, final, first = np.ascontiguousarray(values), self.model.final, None
        total = np.zeros(score.size)
        for route, leaves, made in zip(self.routes, self.leaves, self.maps, strict=True):
            leaf = leaves[route.ends(here)]
            first = leaf if first is None else first
            if final is not UNSET:
                kernels.move_scores(score, leaf, made.lines)
            else:
                total += made.probabilities(score, leaf)
        assert first is not None  # there is a partition
        if final is not UNSET:
            line_map(score, final.a, final.b, False, 0.0, 0.0, total)
        else:
            total /= len(self.parts)
        return np.clip(total, self.model.clip, 1.0 - self.model.clip), first
