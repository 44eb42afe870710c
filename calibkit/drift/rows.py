"""New rows as a boundary, or the boundaries of a bundle, see them: counted window by window."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import numpy as np
import polars as pl
from numpy.typing import NDArray

from calibkit.bundles.application import BundleApplier
from calibkit.bundles.model import BundleModel
from calibkit.columns.columns import RowFinder, label_column, weight_column
from calibkit.columns.numeric import as_fitted
from calibkit.columns.rows import missing_mask, present_in
from calibkit.drift.counts import Counts, Outline, outlines
from calibkit.errors import ModelError, UsageError
from calibkit.files.sources import Source
from calibkit.methods.boundary.application import ROW_NUMBER
from calibkit.methods.boundary.result.decide import probabilities, spread_of
from calibkit.methods.boundary.result.model import BoundaryModel
from calibkit.models.applier import Reads, Request, find_columns
from calibkit.models.lineage import check_makers
from calibkit.options.drift import DriftOptions

Floats = NDArray[Any]

#: What the only boundary of a model is called.
BOUNDARY = "boundary"


@dataclass(frozen=True)
class Watched:
    """A boundary whose rows are compared.

    Attributes
    ----------
    name
        What it is called: its name in a bundle, else ``boundary``.
    model
        The boundary.
    names
        The column of each role that it reads.
    outline
        The fitting rows, by role.
    weight
        The column of weights, if rows have any.
    """

    name: str
    model: BoundaryModel
    names: dict[str, str]
    outline: dict[str, Outline]
    weight: str | None

    @property
    def sampled(self) -> bool:
        """Whether a fitting row stood for others like it, and new rows do."""
        fitted = self.model.columns.get("weight")
        return fitted is not None and fitted.kind == "sampling"


@dataclass(frozen=True)
class Watch:
    """How rows are read and what is watched in them, settled before any is read."""

    watched: tuple[Watched, ...]
    reads: Reads
    bundle: BundleApplier | None
    apply: Request
    options: DriftOptions

    @property
    def columns(self) -> dict[str, str]:
        """The columns that are read, by role."""
        weights = list(dict.fromkeys(one.weight for one in self.watched if one.weight is not None))
        beside = {"weight" if not k else f"weight_{k + 1}": name for k, name in enumerate(weights)}
        if self.options.label is not None:
            beside["label"] = self.options.label
        return self.reads.needed | beside


def plan_watch(options: DriftOptions, source: Source) -> Watch:
    """Return how a source is compared with what a model was fitted on.

    Raises
    ------
    UsageError
        A boundary that keeps nothing to compare with; a column that is not there.
    ModelError
        A model without a boundary.
    DataError
        A column that another model made than that of the fit.
    """
    model, elsewhere = options.fitted, options.elsewhere
    if options.label is not None:
        source.require([options.label], "--label")
        if options.positive is not None:
            source.as_written([options.label])
    apply = Request(columns=elsewhere)
    if isinstance(model, BoundaryModel):
        used = find_columns(model, source, apply, ("score", *model.spreads))
        segments = [model.columns[role].name for role in ("by",) if role in model.columns]
        source.require(segments, "the model's segments (--by)")
        watched = [_watched(BOUNDARY, model, used, source, options.weight)]
        reads, applier = Reads(used, tuple(segments)), None
    elif isinstance(model, BundleModel):
        applier = BundleApplier(model)
        if any(step.random for step in applier.steps):
            apply = replace(apply, key=ROW_NUMBER)
        reads = applier.reads(source, apply)
        watched = [
            _watched(str(step.name), step.model, own.needed, source, options.weight)
            for step, own in zip(applier.steps, applier.own_reads, strict=True)
            if isinstance(step.model, BoundaryModel)
        ]
    else:
        watched = []
    if not watched:
        raise ModelError(
            f"a model of kind {model.kind!r} {'without a boundary ' if model.kind == 'bundle' else ''}"
            "keeps no reference to compare with; drift is that of boundaries, and of bundles with "
            "boundaries"
        )
    check_makers(model, elsewhere, source)
    return Watch(tuple(watched), reads, applier, apply, options)


def _watched(
    name: str, model: BoundaryModel, used: dict[str, str], source: Source, weight: str | None
) -> Watched:
    if model.fit.reference is None:
        raise UsageError(
            f"{name}: this boundary was fitted on a grid and keeps no reference to compare with; fit "
            "it on rows."
        )
    if model.review_thresholds is not msgspec.UNSET:
        raise UsageError(
            f"{name}: drift compares what one threshold a level selects, and this one blocks and "
            "reviews; judge it by evaluate --boundary."
        )
    found = outlines(model.fit.reference, uncertain=model.spreads == ["uncertainty"])
    fitted = model.columns.get("weight")
    weight = weight or (None if fitted is None else fitted.name)
    if weight is not None:
        source.require([weight], "--weight (the model was fitted on weighted rows)")
    return Watched(name, model, used, found, weight)


def count(watch: Watch, source: Source, rows: int) -> dict[str, Counts]:
    """Return what there is to count for each boundary, reading so many rows at a time."""
    needed = [*watch.columns.values(), *watch.reads.optional]
    found = {one.name: Counts() for one in watch.watched}
    for window in source.windows(list(dict.fromkeys(needed)), rows=rows):
        for name, counts in _count_window(watch, window, list(dict.fromkeys(needed))):
            found[name] = found[name].merge(counts)
    return found


def _count_window(watch: Watch, window: Source, columns: list[str]) -> Iterator[tuple[str, Counts]]:
    frame, where = window.read(columns), RowFinder(window)
    total = frame.height
    present = present_in([frame[name] for name in watch.reads.needed.values()])
    if present is not None:
        frame = frame.filter(pl.Series(present))
        where = replace(where, kept=np.flatnonzero(present))
    judged = _labels(watch.options, frame, where)
    if watch.bundle is not None:
        frame = frame.with_columns(**watch.bundle.made(frame, where, watch.apply))
    for one in watch.watched:
        counts = Counts(read=total, missing=total - frame.height)
        if frame.height:
            _add(counts, one, frame, where, judged)
        yield one.name, counts


def _labels(
    options: DriftOptions, frame: pl.DataFrame, where: RowFinder
) -> tuple[NDArray[np.int64], NDArray[np.uint8]] | None:
    """Return the places and the labels of the rows that have one; None where none is asked for."""
    if options.label is None or not frame.height:
        return None
    column = frame[options.label]
    places = np.arange(frame.height)
    if options.unlabelled == "drop":
        absent = missing_mask(column, empty=True)
        places = places if absent is None else np.flatnonzero(~absent)
        column = column.gather(places)
        where = replace(where, kept=places if where.kept is None else where.kept[places])
    if not places.size:
        return places, np.empty(0, np.uint8)
    label, _ = label_column(column, where, positive=options.positive, must_occur=False)
    return places, label


def _add(
    counts: Counts,
    one: Watched,
    frame: pl.DataFrame,
    where: RowFinder,
    judged: tuple[NDArray[np.int64], NDArray[np.uint8]] | None,
) -> None:
    model = one.model
    weight = None if one.weight is None else weight_column(frame[one.weight], where)
    values = {
        role: as_fitted(model.columns[role], frame[name], where, finite=role != "score")
        for role, name in one.names.items()
    }
    by = model.columns.get("by")
    segments = None if by is None else frame[by.name]
    chance = probabilities(model, values["score"], spread_of(model, values), segments)
    outside = np.zeros(frame.height, np.bool_)
    for role, outline in one.outline.items():
        counts.set_bins(role, outline.bins(values[role]), len(outline.counts), weight)
        outside |= outline.outside(values[role])
    heavy = np.ones(frame.height) if weight is None else weight
    counts.set("rows", heavy)
    counts.set("squares", heavy * heavy)
    counts.set("selected", chance * heavy)
    counts.set("outside", outside * heavy)
    if judged is None:
        return
    places, label = judged
    mass, taken = heavy[places], (chance * heavy)[places]
    counts.set("labelled", mass)
    counts.set("positives", mass * label)
    counts.set("labelled_selected", taken)
    counts.set("hits", taken * label)
