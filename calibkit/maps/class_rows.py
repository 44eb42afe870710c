"""Class probabilities and votes as checked arrays: windows in the order of the inputs, and for a fit.

A fit takes all rows in one order, in memory or mapped, with the features of a row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from calibkit.columns.numeric import numeric_column
from calibkit.columns.patterns import (
    Matched,
    class_keys,
    match_columns,
    odd_length,
    paired,
    read_matrix,
)
from calibkit.columns.rows import Remark, RowFinder, merge_remarks, read_rows, shown
from calibkit.columns.segments import known_codes, segment_name
from calibkit.errors import DataError, UsageError
from calibkit.files.sources import Source
from calibkit.maps.logit_maps import (
    FOLDS,
    LEAST_PROBABILITY,
    LogitMap,
    fit_logit_map,
    logits_of,
    softmax,
)
from calibkit.models.lineage import makers_in
from calibkit.models.model import Column
from calibkit.numerics.row_hash import data_hash, hash_text, merge_hashes, row_hashes
from calibkit.numerics.streams import folds_of_keys
from calibkit.runtime.memory import Memory
from calibkit.summaries.arrays import Arrays
from calibkit.summaries.passes import Passes
from calibkit.summaries.row_states import Reading, RowState, row_state
from calibkit.summaries.row_store import RowStore
from calibkit.summaries.states import State

if TYPE_CHECKING:
    from calibkit.options.alpha_cal import AlphaOptions
    from calibkit.options.calibrate import CalibrateOptions

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]

#: How far the probabilities of a row may be from summing to 1.
SUM_SLACK: Final = 1e-4
_SCALES: Final = ("probability", "logit")

#: Rows that are worked on at a time.
_BLOCK_ROWS: Final = 8192


@dataclass(frozen=True, kw_only=True)
class RaterOptions:
    """What the columns are called and how they are read.

    `probs` are patterns of class probabilities, one a predictor, or of logits (`scale`); `counts` is
    that of the votes, without which `label` names the class, or its index, of each row; `others` are
    read along.  `logits`: a fit holds logits, also where probabilities are read.
    """

    probs: tuple[str, ...]
    counts: str | None = None
    label: str | None = None
    scale: str = "probability"
    others: tuple[str, ...] = ()
    logits: bool = False
    on_missing: str = "error"
    unlabelled: str = "error"


@dataclass(frozen=True, kw_only=True)
class RaterRows:
    """Rows with class probabilities and votes, at least one a row: rows x classes.

    `predictions` has probabilities that sum to 1, or logits, for each pattern; `remarks` say what was
    left out and why.
    """

    predictions: dict[str, Floats]
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

    def taken(self, places: NDArray[np.int64]) -> RaterRows:
        """Return the rows of some places, of which messages know where they stood."""
        return replace(
            self,
            predictions={name: matrix[places] for name, matrix in self.predictions.items()},
            counts=self.counts[places],
            others=self.others[places] if self.others.width else self.others,
            where=RowFinder(self.source, self.where.numbers(places)),
        )

    @property
    def votes(self) -> Counts:
        """The number of votes of each row."""
        total: Counts = self.counts.sum(axis=1)
        return total


def _matched(source: Source, options: RaterOptions) -> list[tuple[str, Matched]]:
    """Return the option and the columns of each pattern, those of votes last."""
    patterns = [("--probs", pattern) for pattern in options.probs]
    patterns += [] if options.counts is None else [("--counts", options.counts)]
    found = [(name, match_columns(source, pattern, name)) for name, pattern in patterns]
    if options.counts is None and options.label is not None:
        source.require([options.label], "--label")
        source.as_written([options.label])  # the names of classes
    return found


def used_roles(source: Source, options: RaterOptions) -> dict[str, str]:
    """Return each role and its column; a pattern has one role for each class."""
    found: dict[str, str] = {}
    for name, matched in _matched(source, options):
        for key, column in zip(matched.keys or ("lists",), matched.columns, strict=True):
            found[f"{name} {matched.pattern} [{key}]"] = column
    if options.counts is None and options.label is not None:
        found["label"] = options.label
    return found | {f"feature {place}": name for place, name in enumerate(options.others)}


def read_window(source: Source, options: RaterOptions) -> RaterRows:
    """Read and check class probabilities with votes or labels, in the order of the inputs.

    Raises `UsageError`: columns that are not there or do not pair; `DataError`: missing values,
    probabilities out of [0, 1] or that do not sum to 1, votes that are negative or no whole
    numbers, labels that are no class, no row with a vote.
    """
    if options.scale not in _SCALES:
        raise UsageError(
            f"--scale {options.scale} is not for class probabilities; use one of {', '.join(_SCALES)}."
        )
    found = _matched(source, options)
    matched = [paired(found[0][1], one, ("--probs", name)) for name, one in found]
    source.require(options.others, "option")
    named = [column for one in matched for column in one.columns]
    label = options.label if options.counts is None else None
    rows = read_rows(
        source,
        [*named, *([label] if label else []), *options.others],
        missing=[*named, *options.others] if options.on_missing == "drop" else (),
        unlabelled=label if label and options.unlabelled == "drop" else None,
    )
    frame, where = rows.frame, rows.where
    predictions = {
        one.pattern: read_predictions(frame, one, where, options.scale)
        for one in matched[: len(options.probs)]
    }
    classes = class_keys(matched[0], predictions[matched[0].pattern].shape[1])
    if label is None:
        counts = _votes(frame, matched[-1], where)
    else:
        codes = class_codes(frame[label], classes, where)
        counts = np.zeros((codes.size, len(classes)), np.int64)
        counts[np.arange(codes.size), codes] = 1
    for pattern, matrix in predictions.items():
        if matrix.shape[1] != counts.shape[1]:
            raise UsageError(
                f"--probs {pattern!r} has {matrix.shape[1]} classes, but "
                f"--counts {options.counts!r} has {counts.shape[1]}."
            )
    read = RaterRows(
        predictions=predictions,
        counts=counts,
        classes=classes,
        others=frame.select(frame[name] for name in options.others),
        remarks=rows.remarks,
        where=where,
        source=source,
    )
    voted = read.votes > 0
    if voted.all():
        return read
    if source.whole and not voted.any():  # a window may hold no vote
        series = pl.Series(options.counts or "", read.votes)
        where.refuse(series, None, "no vote", "name the columns of votes by --counts")
    lost = Remark("", "row", "without a vote left out", int(np.count_nonzero(~voted)))
    return replace(read.taken(np.flatnonzero(voted)), remarks=(*rows.remarks, lost))


def read_predictions(
    frame: pl.DataFrame, matched: Matched, where: RowFinder, scale: str, dtype: str | None = None
) -> Floats:
    """Return the class probabilities (normalised) or logits of rows, after rounding to a dtype."""
    matrix = read_matrix(frame, matched, where)
    if dtype == "float32":
        matrix = matrix.astype(np.float32).astype(np.float64)
    if matrix.shape[1] < 2:
        raise UsageError(
            f"--probs {matched.pattern!r} is one column; class probabilities need at least two."
        )
    if scale == "logit":
        return np.ascontiguousarray(matrix)
    said = "not in [0, 1]", "class probabilities lie there; use --scale logit for logits"
    _refuse(frame, matched, matrix, (matrix < 0.0) | (matrix > 1.0), where, *said)
    total = np.zeros(matrix.shape[0])
    for place in range(matrix.shape[1]):  # in order: the same sum whatever the layout
        total += matrix[:, place]
    off = np.abs(total - 1.0) > SUM_SLACK
    if off.any():
        problem = "class probabilities that do not sum to 1 (within 0.0001)"
        advice = "name all classes' columns by --probs, or normalise them"
        where.refuse(pl.Series(matched.pattern, total), off, problem, advice)
    return np.ascontiguousarray(matrix / total[:, None])


def _votes(frame: pl.DataFrame, matched: Matched, where: RowFinder) -> Counts:
    matrix = read_matrix(frame, matched, where)
    wrong = (matrix < 0.0) | (matrix != np.floor(matrix)) | (matrix > 2.0**31)
    said = "not a number of votes", "votes are whole numbers, from 0 to 2^31"
    _refuse(frame, matched, matrix, wrong, where, *said)
    return np.ascontiguousarray(matrix.astype(np.int64))


def _refuse(
    frame: pl.DataFrame,
    matched: Matched,
    matrix: Floats,
    wrong: NDArray[np.bool_],
    where: RowFinder,
    *said: str,
) -> None:
    """Refuse the first column with a value that is wrong; lists are shown by the value."""
    if wrong.any():
        place = int(np.flatnonzero(wrong.any(axis=0))[0])
        column = frame[matched.columns[0 if matched.nested else place]]
        if matched.nested:
            column = pl.Series(column.name, matrix[:, place])
        where.refuse(column, wrong[:, place], *said)


def class_codes(column: pl.Series, classes: Sequence[str], where: RowFinder) -> NDArray[np.int64]:
    """Return the place of each label among the classes: by name, else whole numbers as indices.

    Indices are taken where no class has one for a name.
    """
    if column.null_count():
        missing, advice = column.is_null().to_numpy(), "or leave them out by --unlabelled drop"
        where.refuse(column, missing, "no label", f"label these rows, {advice}")
    names = map(segment_name, column.unique().to_list())
    indices = tuple(str(code) for code in range(len(classes)))
    # Where a name is an index too, what a label means must not depend on the rows beside it.
    named = any(name in classes for name in (*names, *indices))
    found = known_codes(column, tuple(classes) if named else indices)
    if (found < 0).any():
        listed = ", ".join(shown(name) for name in classes[:10])
        where.refuse(column, found < 0, "a label that is no class", f"the classes are {listed}")
    return found


@dataclass(frozen=True, kw_only=True)
class StoredRows:
    """Rows of one predictor for a fit, in an order that depends on nothing but the rows."""

    #: Rows x classes: probabilities or logits, as `scale` says, and votes; rows x further columns.
    prediction: Floats
    counts: Counts
    features: Floats
    #: A word for each row, of which folds are made (`calibkit.numerics.streams`).
    key: NDArray[np.uint64]
    scale: str
    #: What a model says of the columns of the prediction, and the hash of the rows as read.
    column: Column
    hash: str
    clipped: int  # how many rows have a probability that counts as another before its logarithm
    classes: tuple[str, ...]
    remarks: tuple[Remark, ...]
    source: Source
    arrays: Arrays  # makes further arrays as long as the rows

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

    @property
    def votes(self) -> int:
        """How many votes there are."""
        return sum(int(self.counts[block].sum()) for block in self.blocks)

    def fit_map(self, method: str, penalties: tuple[float, float] | None, seed: int) -> LogitMap:
        """Fit a map of the logits to the votes; `penalties` None: chosen by cross-validation."""
        folds = folds_of_keys(self.key, FOLDS, seed)
        return fit_logit_map(self.logits, self.counts, method, penalties, folds=folds)

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


def read_rater_rows(
    source: Source, options: RaterOptions, memory: Memory | None = None
) -> StoredRows:
    """Read and check the rows of a fit, and put them into the order of their hash.

    There is one pattern of class probabilities; `others` are numbers.  Raises as `read_window`, and for
    a feature without a number.
    """
    columns = list(used_roles(source, options).values())
    passes = Passes(source, columns, window_reader(options), memory)
    arrays = Arrays(None if passes.whole else memory)
    store: RowStore | None = None
    remarks: list[Remark] = []
    classes: tuple[str, ...] = ()
    total, clipped = hash_text(0), 0
    for window, features in passes:
        remarks += window.remarks
        (prediction,), counts = window.predictions.values(), window.counts
        if not counts.shape[0]:
            continue
        classes = window.classes
        used = _columns({"p": prediction, "c": counts, "f": features})
        total = merge_hashes([total, data_hash(used)])
        if options.scale == "probability":
            clipped += int((prediction < LEAST_PROBABILITY).any(axis=1).sum())
            prediction = logits_of(prediction) if options.logits else prediction
        matrices = {"prediction": prediction, "counts": counts, "features": features}
        if store is None:
            kinds = {name: (own.dtype.type, own.shape[1]) for name, own in matrices.items()}
            store = RowStore(kinds, source.rows, arrays)
        own = _columns({f"{place}.": one for place, one in enumerate(matrices.values())})
        store.add({**matrices, "hash": _hashes(own)})
    passes.release()
    matched = match_columns(source, options.probs[0], "--probs")
    single = {str(source.schema[name]) for name in matched.columns} == {"Float32"}
    dtype = "float32" if single else "float64"
    column = Column(options.probs[0], dtype=dtype, scale=options.scale)
    places = {f"column {name!r}: ": place for place, name in enumerate(columns)}
    found = sorted(
        merge_remarks([*remarks, *passes.remarks]),
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
        scale="logit" if options.logits else options.scale,
        column=column,
        hash=total,
        clipped=clipped,
        classes=classes,
        remarks=tuple(found),
        source=source,
        arrays=arrays,
    )


def class_state(
    kind: type[RowState],
    options: AlphaOptions | CalibrateOptions,
    source: Source,
    columns: RaterOptions,
) -> State:
    """Return the state of the rows of a shard; see `calibkit.summaries.row_states.row_state`."""
    makers = makers_in(source, {"probs": options.pattern})
    files = source.paths if options.provenance == "names" else ()
    used = list(used_roles(source, columns).values())
    return row_state(kind, options, makers, Reading(source, used, window_reader(columns), files))


def window_reader(options: RaterOptions) -> Callable[[Source], tuple[RaterRows, Floats]]:
    """Return what reads windows of a fit's rows: with the features, and lists of one length."""
    width: list[int] = []

    def read(window: Source) -> tuple[RaterRows, Floats]:
        rows = read_window(window, options)
        (matrix,) = rows.predictions.values()
        features = np.empty((matrix.shape[0], len(options.others)))
        if not matrix.shape[0]:  # no row of this window has a vote
            return rows, features
        width.append(matrix.shape[1])
        if width[-1] != width[0]:
            name = match_columns(window, options.probs[0], "--probs").columns[0]
            lists = pl.Series(name, matrix.tolist())
            rows.where.refuse(lists, None, *odd_length(width[0]))
        for place, name in enumerate(options.others):
            features[:, place] = numeric_column(rows.others[name], rows.where)
        return rows, features

    return read


def _columns(matrices: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Return the columns of matrices by the name of the matrix and their place."""
    return {
        f"{name}{place:x}": values
        for name, matrix in matrices.items()
        for place, values in enumerate(matrix.T)
    }


def _hashes(columns: Mapping[str, NDArray[Any]]) -> NDArray[np.uint64]:
    """Return a hash of each row, block by block so that it stays in the cache."""
    rows = range(0, next(iter(columns.values())).size, _BLOCK_ROWS)
    return np.concatenate([row_hashes(columns, slice(low, low + _BLOCK_ROWS)) for low in rows])
