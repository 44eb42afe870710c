"""A fit of ``hetcal`` from its rows to its model: see `calibkit.summaries.runs.Fit`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from calibkit.columns.columns import resolve
from calibkit.columns.patterns import find_features
from calibkit.columns.remarks import of_tally
from calibkit.files.sources import Source
from calibkit.methods.hetcal.features import Features
from calibkit.methods.hetcal.fit import fit_hetcal
from calibkit.methods.hetcal.model import HetcalModel
from calibkit.methods.hetcal.reading import read_hetcal_rows
from calibkit.methods.hetcal.rows import HetcalRows
from calibkit.methods.hetcal.states import hetcal_state, options_of
from calibkit.models.lineage import makers_in, name_makers, record_makers
from calibkit.options.hetcal import HetcalOptions
from calibkit.runtime.memory import Memory
from calibkit.summaries.row_states import makers_of, sources_of
from calibkit.summaries.runs import Fitted, Plan
from calibkit.summaries.states import State

_TRAIN = "--train"

_TRAIN_IGNORED = (
    "--train takes no part: --partition boosted learns what the scores miss, which only rows that "
    "the base model has not seen can tell"
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


def state(options: HetcalOptions, source: Source) -> State:
    """Return the rows of a shard, with the columns that the fit uses, and those to grow on."""
    names = tuple(feature_columns(source, options))
    makers = makers_in(source, _roles(options, source, "feature_"))
    boosted = options.partition == "boosted"
    train = None if boosted else _train(options, source)
    if train is not None:
        resolve(train, options.columns, label=True, uncertainty=False)
        train.require(names, f"{_TRAIN}: --features")
    ignored = _TRAIN if boosted and options.train is not None else None
    kept = replace(options, features=names, train=ignored)
    return hetcal_state(kept, source, train, makers)


def finish(state: State, memory: Memory, threads: int) -> Fitted[HetcalModel]:
    """Return the model of the rows of a merged state."""
    fitted = _fit(options_of(state, threads), *sources_of(state), memory)
    name_makers(fitted.model, makers_of(state))
    return fitted


def _roles(options: HetcalOptions, source: Source, feature: str) -> dict[str, str]:
    """Return the column of each role; those of features begin with a word."""
    columns = resolve(source, options.columns, label=True, uncertainty=False)
    roles = {"score": columns.score, "label": columns.label, "weight": columns.weight}
    used = {role: name for role, name in roles.items() if name is not None}
    names = feature_columns(source, options)
    return used | {f"{feature}{place}": name for place, name in enumerate(names, 1)}


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
        details.append(f"{prefix}{rows.count:,} rows used of {rows.read:,} read")
        return rows

    grown = None
    if train is not None and options.partition != "boosted":
        grown = read(train, None, f"{_TRAIN}: ")
    rows = read(source, grown.features if grown else None, "")
    every = np.broadcast_to(np.uint8(1), rows.count)
    falling = rows.score[::-1], every, rows.label[::-1]
    warnings += of_tally(options.score, options.scale, *falling, rows.count)
    fitted = fit_hetcal(rows, options, train=grown)
    if options.train is not None and options.partition == "boosted":
        warnings.append(_TRAIN_IGNORED)
    said = (*warnings, *fitted.warnings)
    return replace(fitted, warnings=said, details=tuple(details))
