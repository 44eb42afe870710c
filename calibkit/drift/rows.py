"""New rows as a boundary, or the boundaries of a bundle, see them: counted window by window."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Final

import msgspec
import numpy as np
import polars as pl
from numpy.typing import NDArray

from calibkit.bundles.application import BundleApplier
from calibkit.bundles.model import BundleModel
from calibkit.columns.numeric import as_fitted, label_column, weight_column
from calibkit.columns.rows import RowFinder, missing_mask, present_in
from calibkit.errors import ModelError, UsageError
from calibkit.files.sources import Source
from calibkit.methods.boundary.application import ROW_NUMBER, probabilities, spread_of
from calibkit.methods.boundary.problem.columns import place_between
from calibkit.methods.boundary.result.model import BoundaryModel
from calibkit.methods.boundary.result.parts import threshold_value
from calibkit.models.applier import Reads, Request, find_columns
from calibkit.models.kinds import KINDS
from calibkit.models.lineage import check_makers
from calibkit.numerics.row_hash import hash_rows
from calibkit.numerics.sums import ExactSum, group_fractions
from calibkit.options.drift import DriftOptions

Floats = NDArray[Any]

#: The fields of `Counts` that are numbers.
_NUMBERS: Final = ("read", "missing", "hash")

#: Sums over the rows of a boundary, by name; see `Counts`.
Sums = dict[str, list[Fraction]]

#: What the only boundary of a model is called.
BOUNDARY = "boundary"

#: What sums of a cell are called: a bin of the score, a range of the logit, whether selected.
CELL: Final = re.compile(r"cell (\d+) (-?\d+) ([01])")

#: Ranges of the logit of a probability in a unit of it, more than there are of all, and the least
#: probability told from 0.
_RANKS: Final = 64.0
_SPAN: Final = 4096
_LEAST: Final = 1e-9


@dataclass(frozen=True)
class Outline:
    """A column of the fitting rows, as the model knows it.

    `quantiles` are the smallest value and the inner edges of the bins (see `place_between`), `counts`
    the fitting rows of each, `largest` is the largest value.
    """

    quantiles: NDArray[np.float64]
    counts: tuple[float, ...]
    largest: float

    def bins(self, values: Floats) -> NDArray[np.int64]:
        """Return the bin of each value."""
        return place_between(values, self.quantiles).astype(np.int64)

    def outside(self, values: Floats) -> NDArray[np.bool_]:
        """Return which values lie outside the range of the fitting rows."""
        found: NDArray[np.bool_] = (values < self.quantiles[0]) | (values > self.largest)
        return found


@dataclass(frozen=True)
class Watched:
    """A boundary whose rows are compared, with what it is called: its name in a bundle or `BOUNDARY`.

    `names` are the columns that it reads, `outline` are the fitting rows, both by role; `weight` is the
    column of weights, if rows have any.
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
    """How rows are read and what is watched in them, settled before any is read.

    `maker` makes their probabilities, from the columns `made_from`; None: their scores are some.
    """

    watched: Sequence[Watched]
    reads: Reads
    bundle: BundleApplier | None
    apply: Request
    options: DriftOptions
    maker: Any = None
    made_from: Reads | None = None

    @property
    def columns(self) -> dict[str, str]:
        """The columns that are read, by role."""
        weights = list(dict.fromkeys(one.weight for one in self.watched if one.weight is not None))
        beside = {"weight" if not k else f"weight_{k + 1}": name for k, name in enumerate(weights)}
        if self.options.label is not None:
            beside["label"] = self.options.label
        return self.reads.needed | beside


@dataclass(frozen=True)
class Counts:
    """Sums over rows; each row counts as its weight."""

    #: Of each boundary by name: ``rows`` (of weight), ``squares`` (of weights), ``selected``,
    #: ``outside``; with labels also ``labelled``, ``positives``, ``labelled_selected`` and
    #: ``hits``. By role the rows in each bin of a column.  By cell what `cell_sums` says.
    sums: Mapping[str, Sums]
    #: Rows, whatever they weigh: all of them, and those without a value, which count nowhere else.
    read: int
    missing: int
    #: The sum of the hashes of the rows that have all values; 0 where none was asked for.
    hash: int = 0

    def merge(self, *others: Counts) -> Counts:
        """Return what was counted of the rows of all."""
        parts = (self, *others)
        every = {owner: added(part.sums[owner] for part in parts) for owner in self.sums}
        numbers = (sum(getattr(part, name) for part in parts) for name in _NUMBERS)
        return Counts(every, *numbers)


def added(parts: Iterable[Sums]) -> Sums:
    """Return the sums over the rows of all parts; a part may lack some."""
    found: Sums = {}
    for part in parts:
        for name, values in part.items():
            known = found.get(name)
            found[name] = (
                values if known is None else [a + b for a, b in zip(known, values, strict=True)]
            )
    return found


def cell_sums(
    probability: Floats, place: NDArray[np.int64], chance: Floats, weight: Floats
) -> Sums:
    """Return the rows, and the sums of their probabilities, of cells of rows that are alike.

    A cell is a bin of the score, a narrow range of the logit of the probability, and whether the
    boundary selects; a row that it may select counts in both, by its chance.
    """
    found: Sums = {}
    inner = np.clip(probability, _LEAST, 1.0 - _LEAST)
    rank = np.floor(_RANKS * np.log(inner / (1.0 - inner))).astype(np.int64)
    code = place * _SPAN + rank + _SPAN // 2
    for selected, share in ((0, weight * (1.0 - chance)), (1, weight * chance)):
        some = share > 0.0
        keys, own = np.unique(code[some], return_inverse=True)
        rows = group_fractions(share[some], own, keys.size)
        means = group_fractions(probability[some], own, keys.size, times=share[some])
        for key, *sums in zip(keys.tolist(), rows, means, strict=True):
            bin_of, low = divmod(key, _SPAN)
            found[f"cell {bin_of} {low - _SPAN // 2} {selected}"] = sums
    return found


def cells(sums: Sums) -> list[tuple[int, int, int, float, float]]:
    """Return bin, range and 0 or 1 of each cell, its rows and the sum of their probabilities."""
    found = []
    for name, values in sums.items():
        cell = CELL.fullmatch(name)
        if cell is not None:
            place, rank, selected = (int(part) for part in cell.groups())
            found.append((place, rank, selected, float(values[0]), float(values[1])))
    return sorted(found)


def plan_watch(options: DriftOptions, source: Source) -> Watch:
    """Return how a source is compared with what a model was fitted on.

    Raises `UsageError` for a boundary that keeps nothing to compare with and for a column that is not
    there, `ModelError` for a model without a boundary, `DataError` for a column of another maker.
    """
    model, elsewhere = options.fitted, options.elsewhere
    if options.label is not None:
        source.require([options.label], "--label")
        if options.positive is not None:
            source.as_written([options.label])
    apply = Request(columns=elsewhere)
    if isinstance(model, BoundaryModel):
        used = find_columns(model, source, apply, ("score", *model.spreads))
        segments = [model.columns["by"].name] if "by" in model.columns else []
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
    watch = Watch(watched, reads, applier, apply, options)
    if options.estimate:
        _check_probabilities(options, watched)
    if not options.estimate or options.calibrator is None:
        return watch
    maker = KINDS[options.calibrator.kind].applier(options.calibrator)
    made_from = maker.reads(source, Request())
    check_makers(options.calibrator, {}, source)
    own = {f"calibrator {role}": name for role, name in made_from.needed.items()}
    more = (*reads.optional, *made_from.optional)
    reads = replace(reads, needed=reads.needed | own, optional=more)
    return replace(watch, reads=reads, maker=maker, made_from=made_from)


def _check_probabilities(options: DriftOptions, watched: Sequence[Watched]) -> None:
    """Refuse scores that are no probabilities, and makers of them that do not say enough."""
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
    if options.assume == "prior" and any(base_rate(maker) is None for maker in makers):
        raise UsageError(
            "--assume prior shifts a base rate, and the model that makes the probabilities says "
            "of none: it was not fitted on labels of both kinds."
        )


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
    name: str, model: BoundaryModel, used: dict[str, str], source: Source | None, weight: str | None
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
    found = {}
    for role in ("score", *(role for role in model.spreads if role == "uncertainty")):
        quantiles, counts, largest = (
            getattr(model.fit.reference, f"{role}_{part}")
            for part in ("quantiles", "counts", "max")
        )
        if quantiles is not None and counts is not None:
            ends = np.array([threshold_value(value) for value in quantiles])
            found[role] = Outline(ends, tuple(counts), threshold_value(largest))
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


def count(watch: Watch, source: Source, rows: int | None = None, *, hashed: bool = False) -> Counts:
    """Return what there is to count, reading so many rows at a time; None: as memory allows.

    With `hashed` the counts have a hash of the rows, which takes as long as the counting.
    """
    columns = list(dict.fromkeys([*watch.columns.values(), *watch.reads.optional]))
    found = Counts({one.name: {} for one in watch.watched}, 0, 0)
    for window in source.windows(columns, rows=rows):
        found = found.merge(_count_window(watch, window, columns, hashed))
    return found


def _count_window(watch: Watch, window: Source, columns: list[str], hashed: bool) -> Counts:
    frame, where = window.read(columns), RowFinder(window)
    read = frame.height
    present = present_in([frame[name] for name in watch.reads.needed.values()])
    if present is not None:
        frame = frame.filter(pl.Series(present))
        where = replace(where, kept=np.flatnonzero(present))
    total_hash = hash_rows(frame) if hashed else 0
    every: dict[str, Sums] = {one.name: {} for one in watch.watched}
    if frame.height:
        judged = _labels(watch.options, frame, where)
        probability = None
        if watch.made_from is not None:
            made: pl.Series = watch.maker.values(frame, where, watch.made_from, Request())[0]
            probability = made.to_numpy()
        if watch.bundle is not None:
            frame = frame.with_columns(**watch.bundle.made(frame, where, watch.apply))
        for one in watch.watched:
            every[one.name] = _sums(one, frame, where, judged, probability, watch.options.estimate)
    return Counts(every, read, read - frame.height, total_hash)


def _labels(
    options: DriftOptions, frame: pl.DataFrame, where: RowFinder
) -> tuple[NDArray[np.int64], NDArray[np.uint8]] | None:
    """Return the places and the labels of the rows that have one; None where none is asked for."""
    if options.label is None:
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


def _sums(
    one: Watched,
    frame: pl.DataFrame,
    where: RowFinder,
    judged: tuple[NDArray[np.int64], NDArray[np.uint8]] | None,
    probability: Floats | None,
    estimated: bool,
) -> Sums:
    """Return the sums over the rows of a window that a boundary sees."""
    model = one.model
    heavy = np.ones(frame.height)
    if one.weight is not None:
        heavy = weight_column(frame[one.weight], where)
    values = {
        role: as_fitted(model.columns[role], frame[name], where, finite=role != "score")
        for role, name in one.names.items()
    }
    by = model.columns.get("by")
    segments = None if by is None else frame[by.name]
    chance = probabilities(model, values["score"], spread_of(model, values), segments)
    found: Sums = {}
    outside = np.zeros(frame.height, np.bool_)
    for role, outline in one.outline.items():
        found[role] = group_fractions(heavy, outline.bins(values[role]), len(outline.counts))
        outside |= outline.outside(values[role])
    columns = {
        "rows": heavy,
        "squares": heavy * heavy,
        "selected": chance * heavy,
        "outside": outside * heavy,
    }
    if judged is not None:
        places, label = judged
        mass, taken = heavy[places], (chance * heavy)[places]
        columns |= {
            "labelled": mass,
            "positives": mass * label,
            "labelled_selected": taken,
            "hits": taken * label,
        }
    for name, column in columns.items():
        total = ExactSum()
        total.add(column)
        found[name] = [total.fraction]
    if estimated:
        own = values["score"] if probability is None else probability
        place = one.outline["score"].bins(values["score"])
        found |= cell_sums(own.astype(np.float64), place, chance, heavy)
    return found
