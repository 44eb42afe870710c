"""A fit of ``hetcal`` from its rows to its model: see `calibkit.summaries.runs.Fit`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from calibkit.columns.columns import read_score_rows, resolve
from calibkit.columns.patterns import find_features
from calibkit.columns.remarks import of_tally
from calibkit.columns.rows import refuse_missing
from calibkit.files.sources import Source
from calibkit.methods.hetcal.features import Features, read_features
from calibkit.methods.hetcal.fit import fit_hetcal
from calibkit.methods.hetcal.model import HetcalModel
from calibkit.methods.hetcal.reading import dealing_columns, read_hetcal_rows, used_columns
from calibkit.methods.hetcal.rows import HetcalRows
from calibkit.models.lineage import makers_in, record_makers
from calibkit.options.hetcal import HetcalOptions
from calibkit.runtime.memory import Memory
from calibkit.summaries.row_states import Reading, RowState, finished, options_of, row_state
from calibkit.summaries.runs import Fitted, Plan
from calibkit.summaries.states import State

_TRAIN = "--train"

_TRAIN_IGNORED = (
    "--train takes no part: partitions in turn learn what the scores miss, which only rows that "
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
    return Plan(_roles(options, source, "feature "), options.steps(said))


class HetcalState(RowState):
    """Rows to calibrate by parts."""

    KIND = "hetcal"

    def needed(self) -> list[str]:
        """Return the columns without which there is nothing to fit."""
        options = options_of(self, HetcalOptions)
        return used_columns(options, [*dealing_columns(options), *options.patterns])


def state(options: HetcalOptions, source: Source) -> State:
    """Return the rows of a shard, with the columns that the fit uses, and those to grow on."""
    names = tuple(feature_columns(source, options))
    makers = makers_in(source, _roles(options, source, "feature_"))
    train = None if options.in_turn else _train(options, source)
    if train is not None:
        resolve(train, options.columns, label=True, uncertainty=False)
        train.require(names, f"{_TRAIN}: --features")
    ignored = _TRAIN if options.in_turn and options.train is not None else None
    kept = replace(options, features=names, train=ignored)
    grown = None if train is None else _reading(train, kept, [])
    rows = _reading(source, kept, dealing_columns(kept))
    return row_state(HetcalState, kept, makers, rows, grown)


def finish(state: State, memory: Memory, threads: int) -> Fitted[HetcalModel]:
    """Return the model of the rows of a merged state."""
    options = options_of(state, HetcalOptions, threads)

    def of(asked: HetcalOptions, rows: Source, train: Source | None) -> Fitted[HetcalModel]:
        return _fit(asked, rows, train, memory)

    return finished(state, options, of)


def _reading(source: Source, options: HetcalOptions, dealt: Sequence[str]) -> Reading:
    """Return what a state holds of an input: also the columns that deal its rows to folds."""
    features = options.patterns
    beside = [*features, *dealt]

    def check(window: Source) -> None:
        rows = read_score_rows(
            window, options.columns, uncertainty=False, finite_scores=True, features=beside
        )
        assert rows.others is not None and rows.where is not None
        read_features(rows.others, features, rows.where)
        for name in dealt:
            refuse_missing(rows.others[name], rows.where)

    files = source.paths if options.provenance == "names" else ()
    return Reading(source, used_columns(options, beside), check, files)


def _roles(options: HetcalOptions, source: Source, feature: str) -> dict[str, str]:
    """Return the column of each role; those of features begin with a word."""
    columns = resolve(source, options.columns, label=True, uncertainty=False)
    names = feature_columns(source, options)
    return columns.roles | {f"{feature}{place}": name for place, name in enumerate(names, 1)}


def _train(options: HetcalOptions, source: Source) -> Source | None:
    """Return the rows to grow the partition on, if not those of the fit."""
    return None if options.train is None else source.beside(options.train, _TRAIN)


def feature_columns(source: Source, options: HetcalOptions) -> list[str]:
    """Return the feature columns; a glob passes over the columns of other roles.

    Raises
    ------
    UsageError
        As `find_features`, or a column of groups or times that is not there.
    """
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
    """Read rows and fit a calibration by parts; see `calibkit.methods.hetcal.fit.fit_hetcal`."""
    names = feature_columns(source, options)
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
    falling = rows.score[::-1], every, rows.label[::-1]
    warnings += of_tally(options.score, options.scale, *falling, rows.count)
    fitted = fit_hetcal(rows, options, train=grown)
    if options.train is not None and options.in_turn:
        warnings.append(_TRAIN_IGNORED)
    elif options.train is not None and options.criterion == "auc":
        warnings.append(_TRAIN_SCORED)
    said = (*warnings, *fitted.warnings)
    return replace(fitted, warnings=said, details=tuple(details))
