"""Class probabilities and votes as checked arrays: of a window, or of all rows in one order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from calibkit.errors import DataError, UsageError
from calibkit.files.sources import Source
from calibkit.memory import Memory
from calibkit.models import Column
from calibkit.raters.logit_maps import logits_of, softmax
from calibkit.rows.numeric import numeric_column
from calibkit.rows.patterns import (
    Matched,
    class_keys,
    match_columns,
    odd_length,
    paired,
    read_matrix,
)
from calibkit.rows.provenance import row_hashes
from calibkit.rows.rows import Remark, RowFinder, added_up, read_rows, shown
from calibkit.rows.segments import segment_name
from calibkit.summaries.arrays import Arrays
from calibkit.summaries.passes import Passes
from calibkit.summaries.row_store import RowStore

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]

#: How far the probabilities of a row may be from summing to 1.
SUM_SLACK = 1e-4
#: Rows that are worked on at a time.
_BLOCK_ROWS: Final = 8192
_SCALES = ("probability", "logit")


@dataclass(frozen=True, kw_only=True)
class RaterOptions:
    """What the columns are called and how they are read.

    Attributes
    ----------
    probs
        Patterns of class probabilities, one a predictor.
    counts
        The pattern of the votes; None where `label` names the class of each row.
    label
        The column of class names, or of class indices; None with votes.
    scale
        ``probability``, or ``logit``: the softmax of the numbers is the probabilities.
    others
        Further columns to read along.
    on_missing
        ``error`` or ``drop``.
    unlabelled
        ``error`` or ``drop``: rows without a label.
    """

    probs: tuple[str, ...]
    counts: str | None = None
    label: str | None = None
    scale: str = "probability"
    others: tuple[str, ...] = ()
    on_missing: str = "error"
    unlabelled: str = "error"


@dataclass(frozen=True, kw_only=True)
class RaterRows:
    """Rows with class probabilities and votes.

    Attributes
    ----------
    predictions
        Rows x classes for each pattern: probabilities that sum to 1, or logits.
    matched
        The columns behind each pattern.
    counts
        Rows x classes: votes, at least one a row.
    classes
        The names of the classes.
    others
        The further columns.
    remarks
        What was left out and why.
    where, source
        As in `calibkit.rows.columns.ScoreRows`.
    """

    predictions: dict[str, Floats]
    matched: dict[str, Matched]
    counts: Counts
    classes: tuple[str, ...]
    others: pl.DataFrame
    remarks: tuple[Remark, ...]
    where: RowFinder
    source: Source

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the user should be told of the rows."""
        return (*self.source.warnings, *(remark.text for remark in self.remarks))

    @property
    def votes(self) -> Counts:
        """The number of votes of each row."""
        total: Counts = self.counts.sum(axis=1)
        return total


@dataclass(frozen=True, kw_only=True)
class StoredRows:
    """Rows of one predictor for a fit, in an order that depends on nothing but the rows.

    Attributes
    ----------
    prediction, counts
        Rows x classes: probabilities or logits, and votes.
    features
        Rows x further columns.
    key
        A word for each row, of which folds are made (`calibkit.summaries.draws`).
    scale
        Whether `prediction` holds probabilities (``probability``) or logits (``logit``).
    column
        What a model says of the columns of the prediction.
    classes, remarks, source
        As of `RaterRows`.
    arrays
        Makes further arrays as long as the rows.
    """

    prediction: Floats
    counts: Counts
    features: Floats
    key: NDArray[np.uint64]
    scale: str
    column: Column
    classes: tuple[str, ...]
    remarks: tuple[Remark, ...]
    source: Source
    arrays: Arrays

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the user should be told of the rows."""
        said = (remark.text for remark in self.remarks)
        return (*self.source.warnings, *self.arrays.warnings, *said)

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return int(self.counts.shape[0])

    @property
    def blocks(self) -> Iterator[slice]:
        """Rows that are worked on at a time."""
        for low in range(0, self.rows, _BLOCK_ROWS):
            yield slice(low, low + _BLOCK_ROWS)

    def made(self, width: int, of: Callable[[slice], Floats]) -> Floats:
        """Return rows x `width` numbers that a function gives for each block."""
        found: Floats = self.arrays.empty((self.rows, width), np.float64)
        for block in self.blocks:
            found[block] = of(block)
        return found

    @cached_property
    def logits(self) -> Floats:
        """The logits of the prediction."""
        if self.scale == "logit":
            return self.prediction
        return self.made(self.counts.shape[1], lambda block: logits_of(self.prediction[block]))

    @cached_property
    def probabilities(self) -> Floats:
        """The probabilities of the prediction."""
        if self.scale == "probability":
            return self.prediction
        return self.made(self.counts.shape[1], lambda block: softmax(self.prediction[block]))

    def used(self) -> dict[str, NDArray[Any]]:
        """Return what a hash of the rows is taken of: predictions, votes, features."""
        matrices = {"p": self.prediction, "c": self.counts, "f": self.features}
        return {
            f"{letter}{place:x}": values
            for letter, matrix in matrices.items()
            for place, values in enumerate(matrix.T)
        }


def read_rater_rows(
    source: Source, options: RaterOptions, memory: Memory | None = None
) -> StoredRows:
    """Read and check the rows of a fit, and put them into the order of their hash.

    Parameters
    ----------
    source, options
        The inputs, and their columns: one pattern of class probabilities; `others` are numbers.
    memory
        How much room there is; None: enough.

    Raises
    ------
    UsageError, DataError
        As `read_window`; a feature without a number.
    """
    columns = used_columns(source, options)
    passes = Passes(source, columns, window_reader(options), memory)
    arrays = Arrays(None if passes.whole else memory)
    store: RowStore | None = None
    remarks: list[Remark] = []
    classes: tuple[str, ...] = ()
    for window, features in passes:
        remarks += window.remarks
        (prediction,), counts = window.predictions.values(), window.counts
        if not counts.shape[0]:
            continue
        classes = window.classes
        if store is None:
            wide, number = counts.shape[1], features.shape[1]
            fields = {
                "prediction": (np.float64, wide),
                "counts": (np.int64, wide),
                "features": (np.float64, number),
            }
            store = RowStore(fields, source.rows, arrays)
        matrices = {"prediction": prediction, "counts": counts, "features": features}
        store.add({**matrices, "hash": _hashes(list(matrices.values()))})
    passes.release()
    places = {f"column {name!r}: ": place for place, name in enumerate(columns)}
    found = sorted(
        added_up([*remarks, *passes.remarks]),
        key=lambda one: places.get(one.before, len(places)),
    )
    if store is None:
        said = "; ".join(remark.text for remark in found)
        raise DataError(
            f"{source.parts[0].path}: no row is left to fit on: {said}; name the columns of votes by "
            "--counts",
            file=source.parts[0].path,
        )
    return StoredRows(
        **store.finish(),
        scale=options.scale,
        column=_described(source, options),
        classes=classes,
        remarks=tuple(found),
        source=source,
        arrays=arrays,
    )


def used_columns(source: Source, options: RaterOptions) -> list[str]:
    """Return the columns that a fit reads."""
    found = list(match_columns(source, options.probs[0], "--probs").columns)
    if options.counts is not None:
        found += match_columns(source, options.counts, "--counts").columns
    elif options.label is not None:
        source.require([options.label], "--label")
        found.append(options.label)
    return [*found, *options.others]


def window_reader(options: RaterOptions) -> Callable[[Source], tuple[RaterRows, Floats]]:
    """Return what reads windows of a fit's rows: with the features, and lists of one length."""
    width: list[int] = []

    def read(window: Source) -> tuple[RaterRows, Floats]:
        rows = read_window(window, options)
        (matched,), (matrix,) = rows.matched.values(), rows.predictions.values()
        if matrix.shape[0] and not width:
            width.append(matrix.shape[1])
        if matrix.shape[0] and matrix.shape[1] != width[0]:
            column = pl.Series(matched.columns[0], matrix.tolist())
            rows.where.refuse(column, None, *odd_length(width[0]))
        features = np.empty((matrix.shape[0], len(options.others)))
        for place, name in enumerate(options.others):
            features[:, place] = numeric_column(rows.others[name], rows.where)
        return rows, features

    return read


def _hashes(matrices: Sequence[NDArray[Any]]) -> NDArray[np.uint64]:
    """Return a hash of each row over the columns of all matrices."""
    columns = {
        f"{place:x}.{column:x}": values
        for place, matrix in enumerate(matrices)
        for column, values in enumerate(matrix.T)
    }
    rows = range(0, matrices[0].shape[0], _BLOCK_ROWS)
    blocks = [row_hashes(columns, slice(low, low + _BLOCK_ROWS)) for low in rows]
    return np.concatenate([np.empty(0, np.uint64), *blocks])


def _described(source: Source, options: RaterOptions) -> Column:
    """Return what a model says of the columns of the first pattern."""
    pattern = options.probs[0]
    matched = match_columns(source, pattern, "--probs")
    kinds = {str(source.schema[name]) for name in matched.columns}
    dtype = "float32" if kinds == {"Float32"} else "float64"
    return Column(pattern, dtype=dtype, scale=options.scale)


def read_window(source: Source, options: RaterOptions) -> RaterRows:
    """Read and check class probabilities with votes or labels, in the order of the inputs.

    Raises
    ------
    UsageError
        Columns that are not there or do not pair.
    DataError
        Missing values, probabilities out of [0, 1] or that do not sum to 1, votes that are
        negative or no whole numbers, labels that are no class, no row with a vote.
    """
    if options.scale not in _SCALES:
        raise UsageError(
            f"--scale {options.scale} is not for class probabilities; use one of {', '.join(_SCALES)}."
        )
    matched = {pattern: match_columns(source, pattern, "--probs") for pattern in options.probs}
    first = next(iter(matched.values()))
    pairs = ("--probs", "--probs")
    matched = {pattern: paired(first, found, pairs) for pattern, found in matched.items()}
    votes = None
    if options.counts is not None:
        votes = match_columns(source, options.counts, "--counts")
        votes = paired(first, votes, ("--probs", "--counts"))
    elif options.label is not None:
        source.require([options.label], "--label")
    source.require(options.others, "option")
    named = [name for found in matched.values() for name in found.columns]
    named += list(votes.columns) if votes else []
    label = options.label if votes is None else None
    rows = read_rows(
        source,
        [*named, *([label] if label else []), *options.others],
        missing=[*named, *options.others] if options.on_missing == "drop" else (),
        unlabelled=label if label and options.unlabelled == "drop" else None,
    )
    where = rows.where
    predictions = {
        pattern: read_predictions(rows.frame, found, where, options.scale)
        for pattern, found in matched.items()
    }
    classes = class_keys(first, next(iter(predictions.values())).shape[1])
    if votes is not None:
        counts = _votes(rows.frame, votes, where)
    else:
        assert label is not None
        counts = _one_vote(rows.frame[label], classes, where)
    _check_widths(predictions, counts, options)
    return _with_votes(
        RaterRows(
            predictions=predictions,
            matched=matched,
            counts=counts,
            classes=classes,
            others=rows.frame.select(rows.frame[name] for name in options.others),
            remarks=rows.remarks,
            where=where,
            source=source,
        )
    )


def read_predictions(
    frame: pl.DataFrame,
    matched: Matched,
    where: RowFinder,
    scale: str,
    dtype: str | None = None,
) -> Floats:
    """Return the class probabilities (normalised) or logits of rows, after rounding to a dtype.

    Raises
    ------
    UsageError
        For fewer than two classes.
    DataError
        As `read_rater_rows`.
    """
    matrix = read_matrix(frame, matched, where)
    if dtype == "float32":
        matrix = matrix.astype(np.float32).astype(np.float64)
    if matrix.shape[1] < 2:
        raise UsageError(
            f"--probs {matched.pattern!r} is one column; class probabilities need at least two."
        )
    if scale == "logit":
        return np.ascontiguousarray(matrix)
    outside = (matrix < 0.0) | (matrix > 1.0)
    if outside.any():
        place = int(np.flatnonzero(outside.any(axis=0))[0])
        where.refuse(
            _column(frame, matched, matrix, place),
            outside[:, place],
            "not in [0, 1]",
            "class probabilities lie there; use --scale logit for logits",
        )
    total = np.zeros(matrix.shape[0])
    for place in range(matrix.shape[1]):  # in order: the same sum whatever the layout
        total += matrix[:, place]
    off = np.abs(total - 1.0) > SUM_SLACK
    if off.any():
        where.refuse(
            pl.Series(matched.pattern, total),
            off,
            "class probabilities that do not sum to 1 (within 0.0001)",
            "name all classes' columns by --probs, or normalise them",
        )
    return np.ascontiguousarray(matrix / total[:, None])


def _votes(frame: pl.DataFrame, matched: Matched, where: RowFinder) -> Counts:
    matrix = read_matrix(frame, matched, where)
    wrong = (matrix < 0.0) | (matrix != np.floor(matrix)) | (matrix > 2.0**31)
    if wrong.any():
        place = int(np.flatnonzero(wrong.any(axis=0))[0])
        where.refuse(
            _column(frame, matched, matrix, place),
            wrong[:, place],
            "not a number of votes",
            "votes are whole numbers, from 0 to 2^31",
        )
    return np.ascontiguousarray(matrix.astype(np.int64))


def _column(frame: pl.DataFrame, matched: Matched, matrix: Floats, place: int) -> pl.Series:
    """Return the column behind one class, for a message."""
    name = matched.columns[0] if matched.nested else matched.columns[place]
    return pl.Series(name, matrix[:, place]) if matched.nested else frame[name]


def _one_vote(column: pl.Series, classes: Sequence[str], where: RowFinder) -> Counts:
    """Return one vote a row, for the class that a label names."""
    codes = class_codes(column, classes, where)
    counts = np.zeros((codes.size, len(classes)), np.int64)
    counts[np.arange(codes.size), codes] = 1
    return counts


def class_codes(column: pl.Series, classes: Sequence[str], where: RowFinder) -> NDArray[np.int64]:
    """Return the place of each label among the classes: by name, else whole numbers as indices.

    Indices are taken where no class has one for a name.

    Raises
    ------
    DataError
        For a row without a label, or with one that is no class.
    """
    if column.null_count():
        where.refuse(
            column,
            column.is_null().to_numpy(),
            "no label",
            "label these rows, or leave them out by --unlabelled drop",
        )
    place: dict[str, int] = {name: code for code, name in enumerate(classes)}
    distinct = column.unique()
    names = [segment_name(value) for value in distinct.to_list()]
    indices = {str(code): code for code in range(len(classes))}
    # Where a name is an index too, what a label means must not depend on the rows beside it.
    if not any(name in place for name in [*names, *indices]):
        place = indices
    codes = pl.Series([place.get(name, -1) for name in names], dtype=pl.Int64)
    found: NDArray[np.int64] = column.replace_strict(
        distinct, codes, return_dtype=pl.Int64
    ).to_numpy()
    if (found < 0).any():
        listed = ", ".join(shown(name) for name in classes[:10])
        where.refuse(column, found < 0, "a label that is no class", f"the classes are {listed}")
    return found


def _check_widths(predictions: dict[str, Floats], counts: Counts, options: RaterOptions) -> None:
    for pattern, matrix in predictions.items():
        if matrix.shape[1] != counts.shape[1]:
            raise UsageError(
                f"--probs {pattern!r} has {matrix.shape[1]} classes, but "
                f"--counts {options.counts!r} has {counts.shape[1]}."
            )


def _with_votes(rows: RaterRows) -> RaterRows:
    """Leave out the rows without a vote."""
    voted = rows.votes > 0
    if voted.all():
        return rows
    lost = int(np.count_nonzero(~voted))
    if lost == voted.size and rows.source.whole:  # a window may hold no vote
        series = pl.Series("votes", rows.votes)
        rows.where.refuse(series, None, "no vote", "name the columns of votes by --counts")
    kept = np.flatnonzero(voted)
    origin = rows.where.kept
    return replace(
        rows,
        predictions={name: matrix[kept] for name, matrix in rows.predictions.items()},
        counts=rows.counts[kept],
        others=rows.others[kept] if rows.others.width else rows.others,
        where=RowFinder(rows.source, kept if origin is None else origin[kept]),
        remarks=(*rows.remarks, Remark("", "row", "without a vote left out", lost)),
    )
