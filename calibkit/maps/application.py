"""Applying a calibrator: the map of each row's segment, or that of class probabilities."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
import polars as pl

from calibkit.arrays import Floats, fixed, rows_by_group
from calibkit.columns.patterns import Matched, match_columns
from calibkit.columns.rows import FloatArray, RowFinder, as_fitted, as_single, numeric_column
from calibkit.columns.segments import known_codes
from calibkit.errors import UsageError
from calibkit.files.sources import Source
from calibkit.maps.class_rows import logits_of, mapped_logits, read_predictions, softmax
from calibkit.maps.methods import METHODS
from calibkit.maps.model import SEGMENTS, CalibratorModel, LogitMapModel
from calibkit.models.kinds import Applier, Reads, Request, find_columns
from calibkit.models.model import Model


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
        return Reads({"score": used.pop("score")}, tuple(used.values()))

    def values(self, frame: pl.DataFrame, where: RowFinder, reads: Reads) -> list[pl.Series]:
        """Return the calibrated probabilities."""
        score = self._scores(frame[reads.needed["score"]], where)
        scale, threads = self.model.columns["score"].measure, pl.thread_pool_size()
        if self.model.groups is msgspec.UNSET:
            whole = self.method.mapped(self.model.own_map, score, scale, threads)
            return [pl.Series(column) for column in whole]
        groups = self.model.groups
        maps = [self.model.own_map, *groups.values()]
        others = self.model.pooled_groups or ()
        place = known_codes(frame[reads.optional[0]], tuple(groups), others=others) + 1
        out = np.empty((len(self.added), score.size))
        for one, own in zip(maps, rows_by_group(place, len(maps)), strict=True):
            found = self.method.mapped(one, score[own], scale, threads)
            for column, values in zip(out, found, strict=True):
                column[own] = values
        return [pl.Series(column) for column in out]

    def _scores(self, values: pl.Series, where: RowFinder) -> FloatArray:
        column = self.model.columns["score"]
        if self.model.out_of_range != "clip":
            return as_fitted(column, values, where)
        array = numeric_column(values, where)
        if column.dtype == "float32":
            array = as_single(array, values, where, finite=False)
        return into_unit_interval(array)[0]


def into_unit_interval(score: FloatArray) -> tuple[FloatArray, int]:
    """Return scores clipped into [0, 1], and how many were outside."""
    moved = int(np.count_nonzero((score < 0) | (score > 1)))
    if not moved:
        return score, 0
    return fixed(score.clip(score.dtype.type(0), score.dtype.type(1))), moved


class ClassColumns:
    """The class probabilities that a model reads, and the columns of classes that it adds."""

    matched: Matched  # set by `match`, which comes first

    def __init__(self, model: Model, classes: list[str]) -> None:
        self.model, self.classes = model, classes

    def match(self, source: Source, request: Request) -> tuple[str, ...]:
        """Find, and return, the columns of class probabilities in an input."""
        self.matched = match_classes(self.model, self.classes, source, request)
        return self.matched.columns

    def as_in_input(self, source: Source, added: Sequence[str]) -> tuple[str, ...]:
        """Return the added columns of the classes in the order of the input's columns of these.

        Models of version 1 add them in the order of their classes, as they always did.
        """
        if self.model.version == 1 or self.matched.nested:
            return tuple(added)
        places = map(list(source.schema).index, self.matched.columns)
        return tuple(name for _, name in sorted(zip(places, added, strict=True)))

    def probabilities(
        self, frame: pl.DataFrame, where: RowFinder, by: LogitMapModel | None
    ) -> Floats:
        """Return class probabilities, rows x classes, after a map of their logits if there is one.

        They are read in the dtype of the fit; see `read_predictions`.
        """
        column, classes = self.model.columns["probs"], len(self.classes)
        if frame.height == 0:
            return np.empty((0, classes))
        scale = column.scale or "probability"
        found = read_predictions(frame, self.matched, where, scale, column.dtype)
        if found.shape[1] != classes:
            raise UsageError(
                f"--probs {self.matched.pattern!r} has {found.shape[1]} classes, but the model "
                f"{classes}."
            )
        if by is None:
            return softmax(found) if scale == "logit" else found
        logits = found if scale == "logit" else logits_of(found)
        return softmax(mapped_logits(logits, *by.arrays(classes)))


class ClassApplier:
    """Adds `calibrated_<class>`."""

    def __init__(self, model: CalibratorModel) -> None:
        assert isinstance(model.classes, list)
        self.model, self.columns = model, ClassColumns(model, model.classes)
        self.added = tuple(f"calibrated_{name}" for name in model.classes)

    def reads(self, source: Source, request: Request) -> Reads:
        """Return the columns of class probabilities."""
        needed = {name: name for name in self.columns.match(source, request)}
        return Reads(needed, (), self.columns.as_in_input(source, self.added))

    def values(self, frame: pl.DataFrame, where: RowFinder, reads: Reads) -> list[pl.Series]:
        """Return the calibrated class probabilities."""
        found = self.columns.probabilities(frame, where, self.model.logit_map)
        return [pl.Series(np.ascontiguousarray(column)) for column in found.T]


def match_classes(model: Model, classes: list[str], source: Source, request: Request) -> Matched:
    """Return the columns of class probabilities: as the model names them, or as the user does."""
    request.refuse_unused({"probs"})
    pattern = request.column(model, "probs")
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
