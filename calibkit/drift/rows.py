"""New rows as a boundary, or the boundaries of a bundle, see them: counted window by window."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import numpy as np
import polars as pl
from numpy.typing import NDArray

from calibkit.bundles.application import BundleApplier
from calibkit.bundles.model import BundleModel
from calibkit.columns.numeric import as_fitted, label_column, weight_column
from calibkit.columns.rows import RowFinder, missing_mask, present_in
from calibkit.drift.counts import Counts, Outline, outlines
from calibkit.errors import ModelError, UsageError
from calibkit.files.sources import Source
from calibkit.methods.boundary.application import ROW_NUMBER
from calibkit.methods.boundary.result.decide import probabilities, spread_of
from calibkit.methods.boundary.result.model import BoundaryModel
from calibkit.models.applier import Reads, Request, find_columns
from calibkit.models.kinds import KINDS
from calibkit.models.lineage import check_makers
from calibkit.numerics.row_hash import hash_rows
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
class Calibrating:
    """What makes probabilities of the rows."""

    applier: Any
    reads: Reads

    def probabilities(self, frame: pl.DataFrame, where: RowFinder) -> Floats:
        """Return the probability of each row."""
        first: pl.Series = self.applier.values(frame, where, self.reads, Request())[0]
        return first.to_numpy()


@dataclass(frozen=True)
class Watch:
    """How rows are read and what is watched in them, settled before any is read."""

    watched: tuple[Watched, ...]
    reads: Reads
    bundle: BundleApplier | None
    apply: Request
    options: DriftOptions
    calibrating: Calibrating | None = None

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
    calibrating = _calibrating(options, watched, source) if options.estimate else None
    if calibrating is not None:
        own = {f"calibrator {role}": name for role, name in calibrating.reads.needed.items()}
        more = (*reads.optional, *calibrating.reads.optional)
        reads = replace(reads, needed=reads.needed | own, optional=more)
    return Watch(tuple(watched), reads, applier, apply, options, calibrating)


def _calibrating(
    options: DriftOptions, watched: Sequence[Watched], source: Source
) -> Calibrating | None:
    """Return what makes probabilities of rows; None where their scores are some."""
    model = options.calibrator
    if model is None:
        for one in watched:
            scale = one.model.columns["score"].scale
            if scale not in (None, "probability"):
                raise UsageError(
                    f"{one.name}: its score is of --scale {scale}, and --estimate goes by "
                    "probabilities; name what makes them by --calibrator."
                )
    elif isinstance(options.fitted, BundleModel):
        raise UsageError("a bundle calibrates its own scores; leave --calibrator out.")
    makers = [model] if model is not None else [one.model for one in watched]
    for maker in makers:
        if options.assume == "prior" and base_rate(maker) is None:
            raise UsageError(
                "--assume prior shifts a base rate, and the model that makes the probabilities says "
                "of none: it was not fitted on labels of both kinds."
            )
    if model is None:
        return None
    applier = KINDS[model.kind].applier(model)
    reads = applier.reads(source, Request())
    check_makers(model, {}, source)
    return Calibrating(applier, reads)


def fitted_rows(model: Any) -> float:
    """Return how many the fitting rows are: by weight, but no more than rows that were sampled."""
    rows, weight = float(model.fit.rows), model.columns.get("weight")
    if weight is not None and weight.kind == "sampling" and model.provenance is not None:
        return min(rows, float(model.provenance.rows))
    return rows


def base_rate(model: Any) -> float | None:
    """Return the base rate of a model's probabilities, by its fitting rows; None unless in (0, 1)."""
    rows, positives = model.fit.rows, model.fit.positives
    if positives is None or not 0 < positives < rows:
        return None
    kept = getattr(model, "negatives_kept", None) or 1.0  # of a prior shift
    return float(positives / (positives + (rows - positives) / kept))


def _watched(
    name: str,
    model: BoundaryModel,
    used: dict[str, str],
    source: Source | None,
    weight: str | None,
) -> Watched:
    """Return a boundary and its outline; `source` None: its rows were counted elsewhere."""
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
    if weight is not None and source is not None:
        source.require([weight], "--weight (the model was fitted on weighted rows)")
    return Watched(name, model, used, found, weight)


def watched_of(model: Any) -> list[Watched]:
    """Return the boundaries of a model whose rows were counted; their columns are not known."""
    named = {BOUNDARY: model}
    if isinstance(model, BundleModel):
        steps = BundleApplier(model).steps
        named = {str(one.name): one.model for one in steps if isinstance(one.model, BoundaryModel)}
    return [_watched(name, one, {}, None, None) for name, one in named.items()]


def count(watch: Watch, source: Source, rows: int, *, hashed: bool = False) -> dict[str, Counts]:
    """Return what there is to count for each boundary, reading so many rows at a time.

    With `hashed` the counts have a hash of the rows, which takes as long as the counting.
    """
    needed = [*watch.columns.values(), *watch.reads.optional]
    found = {one.name: Counts() for one in watch.watched}
    for window in source.windows(list(dict.fromkeys(needed)), rows=rows):
        for name, counts in _count_window(watch, window, list(dict.fromkeys(needed)), hashed):
            found[name] = found[name].merge(counts)
    return found


def _count_window(
    watch: Watch, window: Source, columns: list[str], hashed: bool
) -> Iterator[tuple[str, Counts]]:
    frame, where = window.read(columns), RowFinder(window)
    total = frame.height
    present = present_in([frame[name] for name in watch.reads.needed.values()])
    if present is not None:
        frame = frame.filter(pl.Series(present))
        where = replace(where, kept=np.flatnonzero(present))
    total_hash = hash_rows(frame) if hashed else 0
    judged = _labels(watch.options, frame, where)
    made = watch.calibrating
    probability = None if made is None or not frame.height else made.probabilities(frame, where)
    if watch.bundle is not None:
        frame = frame.with_columns(**watch.bundle.made(frame, where, watch.apply))
    for one in watch.watched:
        counts = Counts(read=total, missing=total - frame.height, hash=total_hash)
        if frame.height:
            values, chance, heavy = _add(counts, one, frame, where, judged)
            if watch.options.estimate:
                own = values["score"] if probability is None else probability
                place = one.outline["score"].bins(values["score"])
                counts.set_cells(own.astype(np.float64), place, chance, heavy)
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
) -> tuple[dict[str, Floats], Floats, Floats]:
    """Count the rows of a window; return what the boundary reads, its decisions and the weights."""
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
    if judged is not None:
        places, label = judged
        mass, taken = heavy[places], (chance * heavy)[places]
        counts.set("labelled", mass)
        counts.set("positives", mass * label)
        counts.set("labelled_selected", taken)
        counts.set("hits", taken * label)
    return values, chance, heavy
