"""Class probabilities, votes and features for a fit: arrays in one order, in memory or mapped."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from calibkit.columns.patterns import match_columns, odd_length
from calibkit.columns.rows import Remark, merge_remarks, numeric_column
from calibkit.errors import DataError
from calibkit.files.sources import Source
from calibkit.maps.class_rows import RaterOptions, RaterRows, read_window, used_roles
from calibkit.maps.logit_maps import LEAST_PROBABILITY, logits_of, softmax
from calibkit.maps.map_fit import FOLDS, LogitMap, fit_logit_map
from calibkit.models.lineage import makers_in
from calibkit.models.model import Column
from calibkit.numerics.row_hash import data_hash, hash_text, merge_hashes, row_hashes
from calibkit.numerics.streams import folds_of_keys
from calibkit.options.alpha_cal import AlphaOptions
from calibkit.options.calibrate import CalibrateOptions
from calibkit.runtime.memory import Memory
from calibkit.summaries.arrays import Arrays
from calibkit.summaries.passes import Passes
from calibkit.summaries.row_states import Reading, RowState, row_state
from calibkit.summaries.row_store import RowStore
from calibkit.summaries.states import State

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]

#: Rows that are worked on at a time.
_BLOCK_ROWS: Final = 8192


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
        if store is None:
            wide, number = counts.shape[1], features.shape[1]
            fields = {
                "prediction": (np.float64, wide),
                "counts": (np.int64, wide),
                "features": (np.float64, number),
            }
            store = RowStore(fields, source.rows, arrays)
        matrices = {"prediction": prediction, "counts": counts, "features": features}
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
        (matched,), (matrix,) = rows.matched.values(), rows.predictions.values()
        features = np.empty((matrix.shape[0], len(options.others)))
        if not matrix.shape[0]:  # no row of this window has a vote
            return rows, features
        width.append(matrix.shape[1])
        if width[-1] != width[0]:
            column = pl.Series(matched.columns[0], matrix.tolist())
            rows.where.refuse(column, None, *odd_length(width[0]))
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
