"""The rows of a fit in an order of their own, so that no result depends on that of the files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibkit.errors import DataError
from calibkit.files.sources import Source
from calibkit.hetcal.features import Features, read_features, read_known_features
from calibkit.hetcal.folds import Folds
from calibkit.rows.columns import ColumnOptions, ScoreRows, read_score_rows
from calibkit.rows.provenance import data_hash, row_hashes
from calibkit.rows.splits import group_parts, time_parts
from calibkit.rows.weights import ROW, Unit, in_units
from calibkit_kernels.decide import LEAST
from calibkit_kernels.vad import clipped_logits

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class HetcalRows:
    """Labelled rows with features, sorted by score and then by a hash of all that is used.

    Attributes
    ----------
    score
        The linear score: the logit of a probability, or the score as it is.
    label, weight
        0 or 1, and the weight in whole units.
    features
        Of each row.
    unit
        What a unit of weight is worth.
    size
        How many rows a unit of weight stands for where rows are counted, as in the least leaf,
        shrinkage and Platt's targets: its worth, or as much as makes the mean weight one row where
        a weight says how many rows one stands for.
    clipped
        How many probabilities were moved away from 0 or 1.
    folds
        As a column of groups or of times deals the rows; None without.
    fingerprint
        The hash of the data.
    data
        The columns as they were read.
    """

    score: Floats
    label: NDArray[np.uint8]
    weight: NDArray[np.int64]
    features: Features
    unit: Unit
    size: float
    clipped: int
    folds: Folds | None
    fingerprint: str
    data: ScoreRows

    @property
    def count(self) -> int:
        """How many rows there are, whatever they weigh."""
        return int(self.score.size)

    @property
    def mass(self) -> Floats:
        """How many rows each row counts as."""
        return self.weight.astype(np.float64) * self.size

    @property
    def repeats(self) -> Floats:
        """How many equal rows a row is: as many as its weight, or one that stands for as many."""
        return np.ones(self.count) if self.data.options.sampled else self.mass


def read_hetcal_rows(
    source: Source,
    options: ColumnOptions,
    names: Sequence[str],
    *,
    known: Features | None = None,
    groups: str | None = None,
    time: str | None = None,
    folds: int = 5,
    seed: int = 0,
) -> HetcalRows:
    """Read rows with their features.

    Parameters
    ----------
    source, options
        The inputs, and what their columns are.
    names
        The feature columns.
    known
        Features of other rows, whose categories and types these rows share.
    groups, time, folds, seed
        A column of rows that share a fold, or of times along which folds go forward; how many folds
        there are.

    Raises
    ------
    UsageError, DataError
        As `read_score_rows`, `read_features`.
    """
    beside = [*names, *(name for name in (groups, time) if name is not None)]
    data = read_score_rows(source, options, uncertainty=False, finite_scores=True, features=beside)
    assert data.label is not None and data.others is not None and data.where is not None
    if known is None:
        features = read_features(data.others, names, data.where)
    else:
        features = read_known_features(data.others, known.columns, known.categories, data.where)
    linear, clipped = linear_scores(data.score, options.scale)
    weight, unit = np.ones(linear.size, np.int64), ROW
    if data.weight is not None:
        weight, unit = in_units(data.weight)
    size = linear.size / float(weight.sum()) if options.sampled else unit.size
    used: dict[str, NDArray[Any]] = {"score": data.score, "label": data.label, **features.words()}
    if data.weight is not None:
        used["weight"] = data.weight
    order = np.argsort(row_hashes(used))  # rows of one hash are the same
    order = order[np.argsort(linear[order], kind="stable")]
    dealt = None
    if groups is not None:
        dealt = Folds(group_parts(data.others[groups], folds, seed, data.where)[order], folds)
    elif time is not None:
        dealt = Folds(time_parts(data.others[time], folds + 1, data.where)[order], folds, True)
    return HetcalRows(
        score=linear[order],
        label=data.label[order],
        weight=weight[order],
        features=features.take(order),
        unit=unit,
        size=size,
        clipped=clipped,
        folds=dealt,
        fingerprint=data_hash(used),
        data=data,
    )


def linear_scores(score: NDArray[Any], scale: str) -> tuple[Floats, int]:
    """Return scores on a linear scale, and how many were moved away from 0 or 1.

    Probabilities are clipped to [1e-6, 1 - 1e-6] before their logit is taken; logits and raw scores
    stay as they are.
    """
    if scale != "probability":
        return score.astype(np.float64), 0
    logits, clipped = np.empty(score.size), np.zeros(score.size, np.uint8)
    clipped_logits(score, LEAST, logits, clipped)
    return logits, int(np.count_nonzero(clipped))


def need_both_classes(rows: HetcalRows) -> None:
    """Refuse rows of one class.

    Raises
    ------
    DataError
        Where no row, or every row, is positive.
    """
    hits = int(np.count_nonzero(rows.label))
    file = rows.data.source.parts[0].path if rows.data.source else None
    refuse_one_class(hits, rows.count, rows.data.options.label, file)


def refuse_one_class(hits: int, rows: int, column: str, file: str | None) -> None:
    """Refuse rows of which none, or every one, is positive.

    Raises
    ------
    DataError
        Where it is so; `column` is that of the label.
    """
    if 0 < hits < rows:
        return
    where, which = f"{file}: " if file else "", "no" if hits == 0 else "every"
    raise DataError(
        f"{where}column {column!r}: {which} row is positive; a calibration "
        "map needs rows of both classes; name the positive class by --positive if labels are not 0/1",
        file=file,
        column=column,
        rows=rows,
    )
