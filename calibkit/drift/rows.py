"""New rows as a boundary, or the boundaries of a bundle, see them: counted window by window."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any, Final

import numpy as np
import polars as pl
from msgspec import UNSET, Struct
from msgspec.structs import replace

from calibkit.arrays import Bools, Floats, Int64s, Numbers, UInt8s
from calibkit.bundles.model import BundleApplier, BundleModel
from calibkit.columns import rows as readers
from calibkit.columns.rows import RowFinder
from calibkit.errors import ModelError, UsageError
from calibkit.files.sources import Source
from calibkit.methods.boundary.problem.columns import place_between
from calibkit.methods.boundary.result.application import ROW_NUMBER, probabilities, spread_of
from calibkit.methods.boundary.result.model import BoundaryModel
from calibkit.methods.boundary.result.parts import threshold_value, threshold_values
from calibkit.models.kinds import KINDS, Reads, Request
from calibkit.models.lineage import check_makers
from calibkit.numerics.hashes import hash_rows
from calibkit.numerics.sums import group_fractions
from calibkit.options.watch import DriftOptions

#: Sums over the rows of a boundary, by name; see `Counts`.
Sums = dict[str, list[Fraction]]

#: The places of rows that have a label, and these labels.
Judged = tuple[Int64s, UInt8s]

#: What the only boundary of a model is called.
BOUNDARY = "boundary"

#: What sums of a cell are called: a bin of the score, a range of the logit, whether selected.
CELL: Final = re.compile(r"cell (\d+) (-?\d+) ([01])")

#: Ranges of the logit of a probability in a unit of it, more than there are of all, and the least
#: probability told from 0.
_RANKS: Final = 64.0
_SPAN: Final = 4096
_LEAST: Final = 1e-9


class Outline(Struct, frozen=True):
    """A column of the fitting rows, as the model knows it.

    `quantiles` are the smallest value and the inner edges of the bins (see `place_between`), `counts`
    the fitting rows of each, `largest` is the largest value.
    """

    quantiles: Floats
    counts: tuple[float, ...]
    largest: float

    def bins(self, values: Numbers) -> Int64s:
        """Return the bin of each value."""
        return place_between(values, self.quantiles).astype(np.int64)

    def outside(self, values: Numbers) -> Bools:
        """Return which values lie outside the range of the fitting rows."""
        return (values < self.quantiles[0]) | (values > self.largest)


class Watched(Struct, frozen=True):
    """A boundary whose rows are compared, with what it is called: its name in a bundle or `BOUNDARY`.

    `names` are the columns that it reads, `outline` are the fitting rows, both by role; `weight` is the
    column of weights, if rows have any.
    """

    name: str
    model: BoundaryModel
    names: Mapping[str, str]
    outline: dict[str, Outline]
    weight: str | None


class Watch(Struct, frozen=True):
    """How rows are read and what is watched in them, settled before any is read.

    `calibrated` makes the probabilities of rows; None: their scores are some.
    """

    options: DriftOptions
    watched: Sequence[Watched]
    reads: Reads
    applier: Any
    calibrated: Callable[[pl.DataFrame, RowFinder], Numbers] | None = None

    @property
    def columns(self) -> dict[str, str]:
        """The columns that are read, by role."""
        weights = list(dict.fromkeys(one.weight for one in self.watched if one.weight is not None))
        beside = {"weight" if not k else f"weight_{k + 1}": name for k, name in enumerate(weights)}
        if self.options.label is not None:
            beside["label"] = self.options.label
        return self.reads.needed | beside


class Counts(Struct, frozen=True):
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
        numbers = zip(*((part.read, part.missing, part.hash) for part in parts), strict=True)
        return Counts(every, *map(sum, numbers))


def added(parts: Iterable[Sums]) -> Sums:
    """Return the sums over the rows of all parts; a part may lack some."""
    found: Sums = {}
    for part in parts:
        for name, values in part.items():
            before = found.get(name, [Fraction()] * len(values))
            found[name] = [a + b for a, b in zip(before, values, strict=True)]
    return found


def cell_sums(probability: Numbers, place: Int64s, chance: Numbers, weight: Numbers) -> Sums:
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


def cells(sums: Sums) -> Floats:
    """Return bin, range and 0 or 1 of each cell, its rows and the sum of their probabilities."""
    named = ((CELL.fullmatch(name), values) for name, values in sums.items())
    found = [(*map(int, cell.groups()), *map(float, values)) for cell, values in named if cell]
    return np.array(sorted(found), np.float64).reshape(-1, 5)


def plan_watch(options: DriftOptions, source: Source) -> Watch:
    """Return how a source is compared with what a model was fitted on.

    Raises `UsageError` for a boundary that keeps nothing to compare with and for a column that is not
    there, `ModelError` for a model without a boundary, `DataError` for a column of another maker.
    """
    model = options.fitted
    if options.label is not None:
        source.require([options.label], "--label")
        if options.positive is not None:
            source.as_written([options.label])
    boundaries, applier = boundaries_of(model), KINDS[model.kind].applier(model)
    if not boundaries:
        raise ModelError(
            f"a model of kind {model.kind!r} {'without a boundary ' * (model.kind == 'bundle')}"
            "keeps nothing to compare with; drift works on boundaries, and on bundles that hold one"
        )
    draws = any(one.randomise is not UNSET for one in boundaries.values())
    key = ROW_NUMBER if draws else None
    reads = applier.reads(source, Request(columns=options.elsewhere, key=key))
    names = {BOUNDARY: reads.needed}
    if isinstance(applier, BundleApplier):
        own = zip(applier.steps, applier.own_reads, strict=True)
        names = {str(step.name): part.needed for step, part in own}
    watched = watched_of(options, names)
    for one in watched:
        if one.weight is not None:
            source.require([one.weight], "--weight (the model was fitted on weighted rows)")
    check_makers(model, options.elsewhere, source)
    watch = Watch(options, watched, reads, applier)
    if options.estimate:
        _check_probabilities(options, watched)
    if options.calibrator is None:
        return watch
    maker = KINDS[options.calibrator.kind].applier(options.calibrator)
    made_from = maker.reads(source, Request())
    check_makers(options.calibrator, {}, source)

    def calibrated(frame: pl.DataFrame, where: RowFinder) -> Numbers:
        made: pl.Series = maker.values(frame, where, made_from)[0]
        return made.to_numpy()

    needed = {f"calibrator {role}": name for role, name in made_from.needed.items()}
    reads = Reads(reads.needed | needed, (*reads.optional, *made_from.optional))
    return replace(watch, reads=reads, calibrated=calibrated)


def _check_probabilities(options: DriftOptions, watched: Sequence[Watched]) -> None:
    """Refuse scores that are no probabilities, and makers of them that do not say enough."""
    model = options.calibrator
    if model is None:
        for one in watched:
            score = one.model.columns["score"]
            if score.measure != "probability":
                bundled = isinstance(options.fitted, BundleModel)
                way = "name what makes them by --calibrator."
                way = f"watch its own file, and {way}" if bundled else way
                raise UsageError(
                    f"{one.name}: its score is of --scale {score.scale}, and --estimate goes by "
                    f"probabilities; {way}"
                )
    elif isinstance(options.fitted, BundleModel):
        raise UsageError("a bundle calibrates its own scores; leave --calibrator out.")
    makers = [model] if model is not None else [one.model for one in watched]
    if options.assume == "prior" and any(base_rate(maker) is None for maker in makers):
        raise UsageError(
            "--assume prior shifts a base rate, and the model that makes the probabilities says "
            "of none: it was not fitted on labels of both kinds."
        )


def fitted_rows(model: Any, share: float | None) -> float:
    """Return how many independent rows the fitting rows are: the sum of their weights.

    `share`: where rows were sampled, Kish's number over that of rows, of the new ones: a model does not
    keep that of its own, and a calibrator not that they were.
    """
    if share is None or model.provenance is None or "weight" not in model.columns:
        return float(model.fit.rows)
    return float(model.provenance.rows) * share


def base_rate(model: Any) -> float | None:
    """Return the base rate of a model's probabilities, by its fitting rows; None unless in (0, 1)."""
    rows, positives = model.fit.rows, model.fit.positives
    if positives is None or not 0 < positives < rows:
        return None
    kept = getattr(model, "negatives_kept", None) or 1.0  # of a prior shift
    return float(positives / (positives + (rows - positives) / kept))


def boundaries_of(model: Any) -> dict[str, BoundaryModel]:
    """Return a boundary, or those of a bundle, by what they are called."""
    parts = [(BOUNDARY, model)]
    if isinstance(model, BundleModel):
        parts = [(str(step.name), step.model) for step in model.steps()]
    return {name: own for name, own in parts if isinstance(own, BoundaryModel)}


def watched_of(
    options: DriftOptions, names: Mapping[str, Mapping[str, str]] | None = None
) -> list[Watched]:
    """Return the boundaries of a model; without the `names` of their columns of rows counted before."""
    found = []
    for name, model in boundaries_of(options.fitted).items():
        if model.fit.reference is None:
            raise UsageError(
                f"{name}: this boundary was fitted on a grid and keeps no reference to compare with; "
                "fit it on rows."
            )
        if model.review_thresholds is not UNSET:
            raise UsageError(
                f"{name}: drift compares what one threshold a level selects, and this one blocks and "
                "reviews; judge it by evaluate --boundary."
            )
        outline = {
            role: Outline(threshold_values(quantiles), tuple(counts), threshold_value(largest))
            for role, (quantiles, counts, largest) in model.fit.reference.outlines.items()
            if role in ("score", *model.spreads)
        }
        fitted = model.columns.get("weight")
        weight = options.weight or (None if fitted is None else fitted.name)
        found.append(Watched(name, model, (names or {}).get(name, {}), outline, weight))
    return found


def count(watch: Watch, source: Source, *, hashed: bool = False) -> Counts:
    """Return what there is to count; `hashed`: with a hash of the rows, which takes as long."""
    columns = list(dict.fromkeys([*watch.columns.values(), *watch.reads.optional]))
    found = Counts({one.name: {} for one in watch.watched}, 0, 0)
    for window in source.windows(columns):
        frame, where = window.read(columns), RowFinder(window, remedy=readers.LEAVE_OUT)
        read = frame.height
        present = readers.present_in([frame[name] for name in watch.reads.needed.values()])
        if present is not None:
            frame, where = frame.filter(pl.Series(present)), where.only(np.flatnonzero(present))
        every: dict[str, Sums] = {one.name: {} for one in watch.watched}
        numbers = read, read - frame.height, hash_rows(frame) if hashed else 0
        if frame.height:
            judged = _labels(watch.options, frame, where)
            probability = None if watch.calibrated is None else watch.calibrated(frame, where)
            if isinstance(watch.applier, BundleApplier):
                frame = frame.with_columns(**watch.applier.made(frame, where))
            for one in watch.watched:
                every[one.name] = _sums(one, frame, where, judged, probability, watch.options)
        found = found.merge(Counts(every, *numbers))
    return found


def _labels(options: DriftOptions, frame: pl.DataFrame, where: RowFinder) -> Judged | None:
    """Return the places and the labels of the rows that have one; None where none is asked for."""
    if options.label is None:
        return None
    column, places = frame[options.label], np.arange(frame.height)
    absent = readers.missing_mask(column, empty=True) if options.unlabelled == "drop" else None
    if absent is not None:
        places = np.flatnonzero(~absent)
        column, where = column.gather(places), where.only(places)
    if not places.size:
        return places, np.empty(0, np.uint8)
    label, _ = readers.label_column(column, where, positive=options.positive, must_occur=False)
    return places, label


def _sums(
    one: Watched,
    frame: pl.DataFrame,
    where: RowFinder,
    judged: Judged | None,
    probability: Numbers | None,
    options: DriftOptions,
) -> Sums:
    """Return the sums over the rows of a window that a boundary sees."""
    model, heavy = one.model, np.ones(frame.height)
    if one.weight is not None:
        heavy = readers.weight_column(frame[one.weight], where)
    values = readers.arrays_as_fitted(model.columns, one.names, frame, where)
    by = model.columns.get("by")
    segments = None if by is None else frame[by.name]
    chance = probabilities(model, values["score"], spread_of(model, values), segments)
    found: Sums = {}
    outside = np.zeros(frame.height, np.bool_)
    for role, outline in one.outline.items():
        found[role] = group_fractions(heavy, outline.bins(values[role]), len(outline.counts))
        outside |= outline.outside(values[role])
    taken = chance * heavy
    columns = {"rows": heavy, "squares": heavy * heavy}
    columns |= {"selected": taken, "outside": outside * heavy}
    if judged is not None:
        places, label = judged
        mass, taken = heavy[places], taken[places]
        columns |= {"labelled": mass, "positives": mass * label}
        columns |= {"labelled_selected": taken, "hits": taken * label}
    for name, column in columns.items():
        found[name] = group_fractions(column, np.zeros(column.size, np.int64), 1)
    if options.estimate:
        own = values["score"] if probability is None else probability
        place = one.outline["score"].bins(values["score"])
        found |= cell_sums(own.astype(np.float64), place, chance, heavy)
    return found
