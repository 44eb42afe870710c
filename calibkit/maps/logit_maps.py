"""Linear maps of logits that calibrate class probabilities, fitted to votes: see `fit_logit_map`.

C. Guo et al., "On calibration of modern neural networks" (temperature, vector and matrix scaling);
M. Kull et al., "Beyond temperature scaling"; Mimori et al., "Diagnostic uncertainty calibration",
appendix D.1.

The rows of a fit are arrays in one order, in memory or mapped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np
import polars as pl
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from calibkit.arrays import Bools, Floats, Int64s, Numbers, UInt64s, blocks
from calibkit.columns.patterns import match_columns, odd_length
from calibkit.columns.rows import Remark, merge_remarks, numeric_column
from calibkit.errors import DataError, UsageError
from calibkit.files.sources import Source
from calibkit.maps.class_rows import (
    LEAST_PROBABILITY,
    RaterOptions,
    RaterRows,
    logits_of,
    mapped_logits,
    read_window,
    softmax,
    used_roles,
)
from calibkit.maps.lines import MOST_INVERSE
from calibkit.maps.model import LogitMapModel
from calibkit.models.lineage import makers_in
from calibkit.models.model import Column
from calibkit.numerics.hashes import data_hash, folds_of_keys, hash_text, merge_hashes, row_hashes
from calibkit.numerics.solve import FLAT_OF_MANY, ROUGHLY_FLAT, Minimum, quasi_newton, rising_root
from calibkit.options.alpha_cal import AlphaOptions
from calibkit.options.calibrate import CalibrateOptions
from calibkit.runtime.memory import Memory
from calibkit.summaries.passes import Passes
from calibkit.summaries.row_states import Reading, RowState, row_state
from calibkit.summaries.row_store import Arrays, RowStore
from calibkit.summaries.states import State
from calibkit_kernels.classes import BLOCK_ROWS, NO_ROWS, column_sums, outer_sums, softmax_residuals

Folds = NDArray[np.integer]

#: Rows that are worked on at a time.
_BLOCK_ROWS: Final = 8192

#: What cross-validation tries, for the intercept and for the weights off the diagonal.
GRID: Final = (0.01, 0.1, 1.0, 10.0)
#: Into how many parts rows are dealt for it.
FOLDS: Final = 3
#: Classes of matrix scaling up to which cross-validation ends within minutes.
_MOST_CLASSES: Final = 100


class StoredRows(Struct, frozen=True, kw_only=True, dict=True):
    """Rows of one predictor for a fit, in an order that depends on nothing but the rows."""

    #: Rows x classes: probabilities or logits, as `scale` says, and votes; rows x further columns.
    prediction: Floats
    counts: Int64s
    features: Floats
    #: A word for each row, of which folds are made (`calibkit.numerics.hashes`).
    key: UInt64s
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
        return blocks(self.rows, _BLOCK_ROWS)

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
        parts = blocks(counts.shape[0], _BLOCK_ROWS)  # so that they stay in the cache
        hashes = np.concatenate([row_hashes(own, part) for part in parts])
        store.add({**matrices, "hash": hashes})
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
        problem = f"no row is left to fit on: {said}; name the columns of votes by --counts"
        raise DataError.of(source.file, problem)
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
    used = used_roles(source, columns).values()
    return row_state(kind, options, makers, Reading(source, used, window_reader(columns)))


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
        columns = [numeric_column(rows.others[name], rows.where) for name in options.others]
        for part in blocks(matrix.shape[0] if columns else 0, _BLOCK_ROWS):
            np.stack([column[part] for column in columns], axis=1, out=features[part])
        return rows, features

    return read


def _columns(matrices: Mapping[str, Numbers]) -> dict[str, Numbers]:
    """Return the columns of matrices by the name of the matrix and their place."""
    return {
        f"{name}{place:x}": values
        for name, matrix in matrices.items()
        for place, values in enumerate(matrix.T)
    }


class LogitMap(Struct, frozen=True, kw_only=True):
    """A fitted map z = softmax(W u + b) of logits u.

    `weights` are classes x classes, a diagonal as one number a class, or one number for a temperature;
    `ended` is the minimum of the loss, penalties included, `loss` the mean negative log-likelihood of a
    vote, and `loss_before` that of the logits themselves; `regularization` has the penalties of
    intercept and of weights off the diagonal.
    """

    method: str
    weights: Floats
    intercept: Floats
    ended: Minimum
    loss: float
    loss_before: float
    regularization: tuple[float, float]

    def probabilities(self, logits: Floats) -> Floats:
        """Return the class probabilities of rows of logits."""
        return softmax(mapped_logits(logits, self.weights, self.intercept))

    def warnings(self, option: str) -> tuple[str, ...]:
        """Return what users should be told of the fit; `option` has the penalties."""
        if self.method == "temperature":
            beta = float(self.weights[0])
            if beta == 0.0:
                return (
                    "the logits say nothing about the classes: the best temperature is infinite",
                )
            if beta == MOST_INVERSE:
                return (
                    "the most probable class is always right: the best temperature is 0; stopped at "
                    f"{1 / beta:g}",
                )
        if not self.ended.converged:
            return (
                f"{self.method} scaling did not converge (gradient {self.ended.gradient:.1e} after "
                f"{self.ended.iterations} steps): give a larger {option}",
            )
        return ()

    def stored(self) -> LogitMapModel:
        """Return the map as a model holds it."""
        made = LogitMapModel(method=self.method, loss=self.loss)
        if self.method == "temperature":
            beta = float(self.weights[0])
            return replace(made, temperature=None if beta == 0.0 else 1.0 / beta)
        if self.method == "none":
            return made
        line = {"weights": self.weights.tolist(), "intercept": self.intercept.tolist()}
        return replace(made, **line, regularization=list(self.regularization))


def fit_logit_map(
    logits: Floats,
    counts: Int64s,
    method: str,
    regularization: tuple[float, float] | None = (0.0, 0.0),
    *,
    folds: Folds | None = None,
    chosen: Bools | None = None,
) -> LogitMap:
    """Fit a map of logits to votes by penalised maximum likelihood.

    Logits and counts are rows x classes, and every row has a vote; sums run in the order of the rows.
    Methods are ``temperature`` (one inverse temperature, at least 0), ``vector`` (a diagonal and an
    intercept), ``matrix`` and ``none``.  `regularization` are the penalties of the mean squared
    intercept and of the mean squared weight off the diagonal, not divided by the number of votes; None
    chooses both by cross-validation over `GRID`, for which `folds` has the fold of each row, below
    `FOLDS`.  `chosen` says which rows count; None: all.

    The loss is the mean over all votes.  All three problems are convex.  Without a penalty the
    intercept is known up to a constant: its sum is made 0.
    """
    classes, votes = logits.shape[1], VotedLogits(logits, counts, chosen)
    weights = {"vector": np.ones(classes), "matrix": np.eye(classes)}.get(method, np.ones(1))
    intercept, penalties = np.zeros(classes), (0.0, 0.0)
    loss = before = votes.mean_loss(weights, intercept)
    ended = Minimum(weights, loss, 0.0, 0, converged=True)
    if method == "temperature":
        ended = _temperature(votes)
        weights, loss = ended.point, ended.value
    elif method != "none":
        start = np.concatenate([weights.ravel(), intercept])
        if regularization is None:
            assert folds is not None  # who asks for a choice has dealt the rows
            regularization = _chosen(votes, method, folds, start)
        weights, intercept, ended = _penalised(votes, method, regularization, start)
        loss, penalties = votes.mean_loss(weights, intercept), regularization
    return LogitMap(
        method=method,
        weights=weights,
        intercept=intercept,
        ended=ended,
        loss=loss,
        loss_before=before,
        regularization=penalties,
    )


class Likelihood(NamedTuple):
    """The number of votes, minus their log-likelihood at a map, and its derivatives.

    `rise` is that in the intercept, `products` in the weights: one number a class for a diagonal and
    for a temperature.
    """

    votes: int
    loss: float
    rise: Floats
    products: Floats


class VotedLogits(Struct, frozen=True):
    """Rows x classes of logits and votes, and which rows count (None: all)."""

    logits: Floats
    counts: Int64s
    chosen: Bools | None = None

    def likelihood(self, weights: Floats, intercept: Floats) -> Likelihood:
        """Return the likelihood at a map, summed block by block; weights as those of `LogitMap`."""
        square = weights.ndim == 2
        votes, loss = 0, 0.0
        rise = np.zeros(intercept.size)
        products = np.zeros(weights.shape if square else intercept.shape)
        own_rise, own_products = np.empty_like(rise), np.empty_like(products)
        for block in blocks(self.logits.shape[0], BLOCK_ROWS):
            logits, counts = self.logits[block], self.counts[block]
            if self.chosen is not None:
                logits, counts = logits[self.chosen[block]], counts[self.chosen[block]]
            residual = np.empty_like(logits)
            mapped = mapped_logits(logits, weights, intercept)
            loss += float(softmax_residuals(mapped, counts, residual))
            column_sums(residual, NO_ROWS, own_rise)
            (outer_sums if square else column_sums)(residual, logits, own_products)
            rise += own_rise
            products += own_products
            votes += int(counts.sum())
        return Likelihood(votes, loss, rise, products)

    def mean_loss(self, weights: Floats, intercept: Floats) -> float:
        """Return the mean negative log-likelihood of a vote at a map."""
        found = self.likelihood(weights, intercept)
        return found.loss / found.votes


def _temperature(votes: VotedLogits) -> Minimum:
    """Return the inverse temperature of least loss."""
    nothing = np.zeros(votes.logits.shape[1])

    def slope(beta: float) -> float:
        found = votes.likelihood(np.array([beta]), nothing)
        return float(np.cumsum(found.products)[-1]) / found.votes

    high = 1.0
    while slope(high) < 0.0 and high < MOST_INVERSE:
        high = min(4.0 * high, MOST_INVERSE)
    beta = rising_root(slope, 0.0, high)
    point, capped = np.array([beta]), beta in (0.0, MOST_INVERSE)
    gradient = 0.0 if capped else abs(slope(beta))
    return Minimum(point, votes.mean_loss(point, nothing), gradient, 0, converged=True)


def _penalised(
    votes: VotedLogits,
    method: str,
    regularization: tuple[float, float],
    start: Floats,
    tolerance: float = FLAT_OF_MANY,
) -> tuple[Floats, Floats, Minimum]:
    """Return weights and intercept of vector or matrix scaling under penalties."""
    classes = votes.logits.shape[1]
    shape = (classes,) if method == "vector" else (classes, classes)
    intercept_penalty = regularization[0] / classes
    weight_penalty = regularization[1] / (classes * (classes - 1))
    off = 1.0 - np.eye(classes)

    def objective(point: Floats) -> tuple[float, Floats]:
        weights, intercept = point[:-classes].reshape(shape), point[-classes:]
        found = votes.likelihood(weights, intercept)
        penalty = intercept_penalty * float(np.cumsum(intercept * intercept)[-1])
        slope = found.products / found.votes
        if method == "matrix":
            beside = weights * off
            penalty += weight_penalty * float(np.cumsum(beside * beside)[-1])
            slope = slope + 2.0 * weight_penalty * beside
        slope_intercept = found.rise / found.votes + 2.0 * intercept_penalty * intercept
        value = found.loss / found.votes + penalty
        return value, np.concatenate([slope.ravel(), slope_intercept])

    found = quasi_newton(objective, start, tolerance=tolerance)
    weights, intercept = found.point[:-classes].reshape(shape), found.point[-classes:]
    if regularization[0] == 0.0:
        intercept = intercept - float(np.cumsum(intercept)[-1]) / classes
    return weights, intercept, found


def _chosen(votes: VotedLogits, method: str, folds: Folds, identity: Floats) -> tuple[float, float]:
    """Return the penalties whose maps lose least on votes they were not fitted on."""
    if method == "matrix" and votes.logits.shape[1] > _MOST_CLASSES:
        raise UsageError(
            f"matrix scaling of {votes.logits.shape[1]} classes has too many weights to try penalties "
            "on; give them, as in --regularization 1,10, or use vector scaling."
        )
    # From strong to weak, so that each fit starts near its optimum.
    strong = sorted(GRID, reverse=True)
    beside = strong if method == "matrix" else [0.0]  # a diagonal has no weights beside it
    candidates = [(intercept, off) for off in beside for intercept in strong]
    sizes = np.bincount(folds, minlength=FOLDS)
    usable = np.flatnonzero((sizes > 0) & (sizes < folds.size))
    if not usable.size:
        return (1.0, 1.0)
    lost = dict.fromkeys(candidates, 0.0)
    for fold in usable:
        held = folds == fold
        apart, others = replace(votes, chosen=held), replace(votes, chosen=~held)
        start = identity
        for penalties in candidates:
            weights, intercept, _ = _penalised(others, method, penalties, start, ROUGHLY_FLAT)
            lost[penalties] += apart.likelihood(weights, intercept).loss
            start = np.concatenate([weights.ravel(), intercept])
    return min(lost, key=lambda penalties: (lost[penalties], penalties))
