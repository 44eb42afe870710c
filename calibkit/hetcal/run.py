"""A fit from its inputs to its model: which columns to read, on which rows to grow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from calibkit.files.sources import Source
from calibkit.fitted import Fitted
from calibkit.hetcal.features import Features, find_features
from calibkit.hetcal.fit import fit_hetcal
from calibkit.hetcal.model import HetcalModel
from calibkit.hetcal.reading import read_hetcal_rows
from calibkit.hetcal.rows import HetcalRows
from calibkit.hetcal.spec import HetcalSpec
from calibkit.memory import Memory
from calibkit.rows.columns import ColumnOptions
from calibkit.rows.remarks import of_tally

TRAIN_IGNORED = (
    "--train takes no part: --partition boosted learns what the scores miss, which only rows that "
    "the base model has not seen can tell"
)


@dataclass(frozen=True)
class Run:
    """A fitted model, what the user should be told, and what was read."""

    fitted: Fitted[HetcalModel]
    warnings: tuple[str, ...]
    details: tuple[str, ...]


def feature_columns(
    source: Source, patterns: Sequence[str], columns: ColumnOptions, spec: HetcalSpec
) -> list[str]:
    """Return the feature columns; a glob passes over the columns of other roles.

    Raises
    ------
    UsageError
        As `find_features`, or a column of groups or times that is not there.
    """
    taken = {columns.score: "--score", columns.label: "--label"}
    if columns.weight is not None:
        taken[columns.weight] = "--weight"
    for option, name in (("--groups", spec.groups), ("--time", spec.time)):
        if name is not None:
            source.require([name], option)
            taken[name] = option
    return find_features(source, patterns, taken)


def fit_source(
    source: Source,
    train: Source | None,
    columns: ColumnOptions,
    patterns: Sequence[str],
    spec: HetcalSpec,
    *,
    provenance: str = "hash",
    tags: dict[str, str] | None = None,
    memory: Memory | None = None,
) -> Run:
    """Read rows and fit a calibration by parts; see `calibkit.hetcal.fit.fit_hetcal`.

    Parameters
    ----------
    source, train
        The calibration rows; the rows to grow the partition on, if not these.
    columns, patterns
        What their columns are, and which are features (names and globs).
    spec, provenance, tags
        As `fit_hetcal` has them.
    memory
        How much room there is, which changes nothing in the model; None: enough.

    Raises
    ------
    UsageError, DataError
        As `read_hetcal_rows`, `feature_columns`, `fit_hetcal`.
    """
    names = feature_columns(source, patterns, columns, spec)
    warnings, details = list[str](), list[str]()

    def read(part: Source, known: Features | None, prefix: str) -> HetcalRows:
        part.require(names, f"{prefix}--features")
        rows = read_hetcal_rows(
            part,
            columns,
            names,
            known=known,
            most=spec.bins,
            groups=None if prefix else spec.groups,
            time=None if prefix else spec.time,
            folds=spec.folds,
            seed=spec.seed,
            memory=memory,
        )
        warnings.extend(f"{prefix}{remark}" for remark in rows.warnings)
        details.append(f"{prefix}{rows.count:,} rows used of {rows.read:,} read")
        return rows

    grown = None
    if train is not None and spec.partition != "boosted":
        grown = read(train, None, "--train: ")
    rows = read(source, grown.features if grown else None, "")
    every = np.broadcast_to(np.uint8(1), rows.count)
    falling = rows.score[::-1], every, rows.label[::-1]
    warnings += of_tally(columns.score, columns.scale, *falling, rows.count)
    fitted = fit_hetcal(rows, spec, train=grown, provenance=provenance, tags=tags)
    if train is not None and grown is None:
        warnings.append(TRAIN_IGNORED)
    return Run(fitted, (*warnings, *fitted.warnings), tuple(details))
