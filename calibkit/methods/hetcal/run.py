"""A fit of ``hetcal`` from its rows to its model: see `calibkit.summaries.states.Fit`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from calibkit.columns.columns import resolve
from calibkit.columns.patterns import find_features
from calibkit.columns.remarks import of_tally
from calibkit.columns.rows import refuse_missing
from calibkit.files.sources import Source
from calibkit.methods.hetcal.choice import choose_partition, fit_partition
from calibkit.methods.hetcal.features import Features, feature_columns
from calibkit.methods.hetcal.first import first_map
from calibkit.methods.hetcal.gaps import cell_gaps, gap_beyond_chance
from calibkit.methods.hetcal.maps import Found, mean_loss, pooled_line
from calibkit.methods.hetcal.model import HetcalFit, HetcalModel, Line, Losses
from calibkit.methods.hetcal.reading import Reader, read_hetcal_rows
from calibkit.methods.hetcal.rows import Folds, HetcalRows, need_both_classes
from calibkit.models.lineage import makers_in, record_makers
from calibkit.models.model import Column
from calibkit.numerics.hashes import folds_of_keys, hash_text
from calibkit.options.hetcal import FOLDS, HetcalOptions
from calibkit.runtime.memory import Memory
from calibkit.summaries.row_states import Reading, RowState, finished, options_of, row_state
from calibkit.summaries.states import Fitted, Plan, State, provenance

Floats = NDArray[np.float64]

_TRAIN = "--train"

_TRAIN_IGNORED = (
    "--train is not used: partitions in turn learn what the scores miss, which only rows that "
    "the base model has not seen can tell"
)

_TRAIN_SCORED = (
    "--criterion auc looks at scores: grow on rows that the base model has not seen (without --train, "
    "or with others); on its own training rows it chooses splits that fail on new rows"
)


def fit(options: HetcalOptions, source: Source) -> Fitted[HetcalModel]:
    """Return the model of all rows."""
    fitted = _fit(options, source, _train(options, source), source.memory)
    record_makers(fitted.model, source)
    return fitted


def plan(options: HetcalOptions, source: Source) -> Plan:
    """Return what a fit would do."""
    grown: Any = options.train or "the same rows"
    said = grown if isinstance(grown, str) else ", ".join(grown)
    beside = {role: getattr(options, role) for role in ("groups", "time")}
    dealing = {role: name for role, name in beside.items() if name is not None}
    return Plan(_roles(options, source, "feature ") | dealing, options.steps(said))


class HetcalState(RowState):
    """Rows to calibrate by parts."""

    KIND = "hetcal"

    def needed(self) -> list[str]:
        """Return the columns without which there is nothing to fit."""
        options = options_of(self, HetcalOptions)
        names = options.score, options.label, options.weight, options.groups, options.time
        return [*filter(None, names), *options.patterns]


def state(options: HetcalOptions, source: Source) -> State:
    """Return the rows of a shard, with the columns that the fit uses, and those to grow on."""
    names = tuple(feature_names(source, options))
    makers = makers_in(source, _roles(options, source, "feature_"))
    train = None if options.in_turn else _train(options, source)
    if train is not None:
        resolve(train, options.columns, label=True, uncertainty=False)
        train.require(names, f"{_TRAIN}: --features")
    ignored = _TRAIN if options.in_turn and options.train is not None else None
    kept = replace(options, features=names, train=ignored)
    grown = None if train is None else _reading(train, replace(kept, groups=None, time=None))
    rows = _reading(source, kept)
    return row_state(HetcalState, kept, makers, rows, grown)


def finish(state: State, memory: Memory, threads: int) -> Fitted[HetcalModel]:
    """Return the model of the rows of a merged state."""
    options = options_of(state, HetcalOptions, threads)

    def of(asked: HetcalOptions, rows: Source, train: Source | None) -> Fitted[HetcalModel]:
        return _fit(asked, rows, train, memory)

    return finished(state, options, of)


def _reading(source: Source, options: HetcalOptions) -> Reading:
    """Return what a state holds of an input: also the columns that deal its rows to folds."""
    reader = Reader(source, options, feature_columns(source, options.patterns))

    def check(window: Source) -> None:
        rows = reader.window(window)
        for name in reader.dealing:
            refuse_missing(rows.others[name], rows.where)

    files = source.paths if options.provenance == "names" else ()
    return Reading(source, reader.used, check, files)


def _roles(options: HetcalOptions, source: Source, feature: str) -> dict[str, str]:
    """Return the column of each role; those of features begin with a word."""
    columns = resolve(source, options.columns, label=True, uncertainty=False)
    names = feature_names(source, options)
    return columns.roles | {f"{feature}{place}": name for place, name in enumerate(names, 1)}


def _train(options: HetcalOptions, source: Source) -> Source | None:
    """Return the rows to grow the partition on, if not those of the fit."""
    return None if options.train is None else source.beside(options.train, _TRAIN)


def feature_names(source: Source, options: HetcalOptions) -> list[str]:
    """Return the feature columns; a glob passes over the columns of other roles."""
    taken = {options.score: "--score", options.label: "--label"}
    if options.weight is not None:
        taken[options.weight] = "--weight"
    for option, name in (("--groups", options.groups), ("--time", options.time)):
        if name is not None:
            source.require([name], option)
            taken[name] = option
    source.as_dates([name for name in (options.time,) if name is not None])
    return find_features(source, options.patterns, taken)


def _fit(
    options: HetcalOptions, source: Source, train: Source | None, memory: Memory | None
) -> Fitted[HetcalModel]:
    """Read rows and fit a calibration by parts; see `calibkit.methods.hetcal.run.fit_hetcal`."""
    names = feature_names(source, options)
    warnings, details = list[str](), list[str]()

    def read(part: Source, known: Features | None, prefix: str) -> HetcalRows:
        part.require(names, f"{prefix}--features")
        asked = replace(options, groups=None, time=None) if prefix else options
        rows = read_hetcal_rows(part, asked, names, known=known, memory=memory)
        warnings.extend(f"{prefix}{remark}" for remark in rows.warnings)
        details.append(f"{prefix}{rows.count:,} rows used of {part.rows:,} read")
        return rows

    grown = None
    if train is not None and not options.in_turn:
        grown = read(train, None, f"{_TRAIN}: ")
    rows = read(source, grown.features if grown else None, "")
    every = np.broadcast_to(np.uint8(1), rows.count)
    # Percentages are held as logits, as probabilities are.
    score = 1.0 / (1.0 + np.exp(-rows.score)) if options.scale == "percent" else rows.score
    falling = score[::-1], every, rows.label[::-1]
    warnings += of_tally(options.score, options.scale, *falling, rows.count)
    fitted = fit_hetcal(rows, options, train=grown)
    if options.train is not None and options.in_turn:
        warnings.append(_TRAIN_IGNORED)
    elif options.train is not None and options.criterion == "auc":
        warnings.append(_TRAIN_SCORED)
    said = (*warnings, *fitted.warnings)
    return replace(fitted, warnings=said, details=tuple(details))


def fit_hetcal(
    rows: HetcalRows, options: HetcalOptions, *, train: HetcalRows | None = None
) -> Fitted[HetcalModel]:
    """Fit a calibration by parts: Durfee, Gupta, Basu, algorithm 1 and section 13.

    The maps are fitted on the calibration rows; the partition is grown on `train`, or on the same rows,
    cross-fitted.  Rows of one class are refused.
    """
    need_both_classes(rows)
    if train is not None:
        need_both_classes(train)
    folds, warnings = _folds(rows, options)
    asked, candidates, checked = options, None, None
    if options.partition == "auto":
        asked, candidates, checked = choose_partition(rows, train, options, folds)
    before = first_map(rows, options.precalibrate, options.seed, options.workers)
    found, moved = fit_partition(rows, train, asked, folds, before)
    pooled = pooled_line(moved)
    model = HetcalModel(
        kind=HetcalModel.KIND,
        version=HetcalModel.VERSION,
        columns=_columns(rows),
        partition=asked.partition,
        criterion="log-loss" if asked.in_turn else options.criterion,
        map=options.map,
        precalibrate=before,
        pooled=Line(a=float(pooled[0]), b=float(pooled[1])),
        clip=options.clip,
        fit=_figures(rows, moved, train, options, found, pooled),
        tags=dict(options.tags or {}),
        candidates=candidates or msgspec.UNSET,
    )
    if checked is not None and found.checked is not None:
        model.fit.cross_validated = msgspec.structs.replace(
            checked, by_depth=found.checked.by_depth
        )
    if asked.partition == "tree":
        model.tree, model.maps = found.parts[0].tree, found.parts[0].maps
    else:
        model.partitions = found.parts
    model.final = found.final or msgspec.UNSET
    files = [*rows.files, *(() if train is None else train.files)]
    shaped = _shaped(rows, train, options)
    model.provenance = provenance(options, shaped, rows.count, hash_text(rows.totals.hash), files)
    return Fitted(model, tuple(warnings))


def _folds(rows: HetcalRows, options: HetcalOptions) -> tuple[Folds | None, list[str]]:
    """Return the folds of cross-validation; None, and why, where rows or values are too few."""
    hits, why = rows.totals.positives, ""
    folds = rows.folds
    if rows.count < 2 * FOLDS or min(hits, rows.count - hits) < 2:
        why = f"{hits} positive of {rows.count} rows are"
    elif folds is None:
        folds = Folds(folds_of_keys(rows.key, FOLDS, options.seed), FOLDS)
        if len(folds.present) < 2:
            why = f"{rows.count} rows are"
    elif len(folds.present) < folds.count + folds.forward:
        why = f"the values of column {options.groups or options.time!r} are"
    if not why:
        return folds, []
    return None, [
        f"{why} too few for {FOLDS} folds: nothing is chosen or checked by cross-validation"
    ]


def _figures(
    rows: HetcalRows,
    moved: HetcalRows,
    train: HetcalRows | None,
    options: HetcalOptions,
    found: Found,
    pooled: Floats,
) -> HetcalFit:
    probability = found.probability
    np.clip(probability, options.clip, 1.0 - options.clip, out=probability)
    largest, mean, cells, sums = cell_gaps(probability, rows.label, rows.mass, found.leaf)
    known = rows.options.scale != "raw"
    grown = train or rows
    return HetcalFit(
        rows=rows.unit.amount(rows.totals.total),
        positives=rows.unit.amount(rows.totals.hits),
        clipped=rows.totals.clipped,
        leaves=sum(len(part.maps) for part in found.parts),
        max_depth=found.max_depth,
        min_leaf=found.min_leaf,
        shrinkage=found.shrinkage,
        in_sample=Losses(
            scores=mean_loss(rows, rows.score) if known else None,
            pooled=mean_loss(moved, moved.moved(*pooled.tolist()).score),
            calibrated=mean_loss(rows, probability, linear=False),
        ),
        cross_validated=found.checked,
        max_gap=largest,
        mean_gap=mean,
        cells=cells,
        gap_beyond_chance=gap_beyond_chance(sums, sampled=rows.options.sampled),
        growth_rows=grown.unit.amount(grown.totals.total),
        exact_arithmetic=rows.unit.exact,
    )


def _columns(rows: HetcalRows) -> dict[str, Column]:
    options = rows.options
    columns = {
        "score": Column(options.score, rows.totals.dtype, scale=options.scale),
        "label": Column(options.label, positive=options.positive),
    }
    if options.weight is not None:
        columns["weight"] = Column(options.weight, kind=options.weight_kind)
    for place, column in enumerate(rows.features.columns, 1):
        columns[f"feature_{place}"] = column
    return columns


def _shaped(rows: HetcalRows, train: HetcalRows | None, options: HetcalOptions) -> dict[str, Any]:
    """Return what shaped a model."""
    names = (
        "partition", "criterion", "max_depth", "min_leaf", "shrinkage", "trees", "map",
        "precalibrate", "clip", "max_bins", "groups", "time", "seed",
    )  # fmt: skip
    shaped = {name: getattr(options, name) for name in names}
    shaped = {name: value for name, value in shaped.items() if value is not None}
    shaped |= {"on_missing": rows.options.on_missing, "unlabelled": rows.options.unlabelled}
    if train is not None:
        shaped["train_data_hash"] = hash_text(train.totals.hash)
    return shaped
