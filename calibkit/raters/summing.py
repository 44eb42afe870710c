"""Sums over batches of class probabilities and votes, which answer `calibkit.raters.asking`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from calibkit.calibrators.classes import ClassSpec, rows_clipped
from calibkit.errors import ModelError
from calibkit.maths.sums import ExactSum
from calibkit.raters.alpha import (
    SAMPLE,
    MomentsAsked,
    SampleSlopes,
    StrengthAt,
    log_strength,
    positive_probabilities,
    row_costs,
)
from calibkit.raters.alpha_cal import (
    AlphaSpec,
    disagreement_sums,
    read_features,
    used_numbers,
    with_steps,
)
from calibkit.raters.asking import (
    Asked,
    Figures,
    Overview,
    StepCells,
    Steps,
    bins_as_sums,
    first_of_sample,
)
from calibkit.raters.histograms import bin_sums, class_targets, predicted_disagreement
from calibkit.raters.logit_maps import LogitMap, logits_of, map_logits, softmax
from calibkit.raters.map_fit import folds_of
from calibkit.raters.map_search import FOLDS, FoldSizes, MapAt
from calibkit.raters.model import DisagreementMap
from calibkit.raters.order import hashes
from calibkit.raters.rows import RaterRows
from calibkit.raters.step_cells import cells_of, cut_cells
from calibkit.rounds.exact import Whole
from calibkit.rows.provenance import data_hash
from calibkit_kernels.dense import softmax_costs

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]


@dataclass(frozen=True)
class Batch:
    """Some rows, and what is to be fitted on all."""

    rows: RaterRows
    spec: AlphaSpec | ClassSpec

    @cached_property
    def prediction(self) -> Floats:
        """What was read: probabilities or logits."""
        return next(iter(self.rows.predictions.values()))

    @cached_property
    def logits(self) -> Floats:
        """The logits."""
        return self.prediction if self.spec.scale == "logit" else logits_of(self.prediction)

    @cached_property
    def before(self) -> Floats:
        """The probabilities as they came."""
        return softmax(self.logits) if self.spec.scale == "logit" else self.prediction

    def after(self, mapped: LogitMap | None) -> Floats:
        """Return the probabilities after a map."""
        return self.before if mapped is None else mapped.probabilities(self.logits)

    def features(self, probabilities: Floats) -> Floats | None:
        """Return the features of an alpha-calibration."""
        named = self.spec.features if isinstance(self.spec, AlphaSpec) else None
        return read_features(self.rows.others, self.rows.where, named, probabilities)

    def disagreement(self, asked: Asked, strength: list[float]) -> Floats:
        """Return the predicted disagreements of a strength."""
        probabilities = self.after(asked.map)
        weights, intercept = np.array(strength[:-1]), strength[-1]
        inputs = self.features(probabilities)
        log_alpha0 = log_strength(inputs, probabilities.shape[0], weights, intercept)
        return predicted_disagreement(probabilities, np.exp(log_alpha0))


def sums_of(batch: Batch, asked: Asked) -> Whole:
    """Return the sums that a batch answers; none where the question is about single rows."""
    question = asked.question
    if isinstance(question, MapAt):
        return _map_sums(batch, question)
    if isinstance(question, FoldSizes):
        folds = folds_of(batch.logits, batch.rows.counts, batch.spec.seed)
        return {"folds": np.bincount(folds, minlength=FOLDS).tolist()}
    if isinstance(question, StrengthAt):
        return _strength_sums(batch, asked, question)
    if isinstance(question, MomentsAsked):
        return _moments(batch, asked)
    if isinstance(question, Overview):
        return _overview(batch)
    if isinstance(question, Figures):
        return _figures(batch, asked, question)
    return {}


def table_of(batch: Batch, asked: Asked) -> pl.DataFrame:
    """Return the table that a batch answers; an empty one where the question is about sums."""
    question = asked.question
    if isinstance(question, SampleSlopes):
        return _sample(batch, asked)
    if isinstance(question, StepCells | Steps):
        phi = batch.disagreement(asked, question.strength)
        cells = question.cells if isinstance(question, Steps) else []
        return cells_of(phi[:, 0], batch.rows.counts, cells)
    return pl.DataFrame()


def _moments(batch: Batch, asked: Asked) -> Whole:
    features = batch.features(batch.after(asked.map))
    assert features is not None  # who asks has features
    columns = np.ascontiguousarray(features.T)
    return {
        "rows": [features.shape[0]],
        "values": [_total(column) for column in columns],
        "squares": [_product(column, column) for column in columns],
    }


def merged_tables(tables: list[pl.DataFrame]) -> pl.DataFrame:
    """Return the table of all rows from those of some, which answer the same question.

    Raises
    ------
    ModelError
        Tables that do not.
    """
    tables = [table for table in tables if table.width]
    if not tables:
        return pl.DataFrame()
    if any(table.schema != tables[0].schema for table in tables):
        raise ModelError("damaged: tables that do not answer the same question")
    whole = pl.concat(tables)
    return first_of_sample(whole) if "hash" in whole.columns else cut_cells(whole)


def _map_sums(batch: Batch, question: MapAt) -> Whole:
    logits, counts = batch.logits, batch.rows.counts
    if question.fold is not None:
        folds = folds_of(logits, counts, batch.spec.seed)
        chosen = np.flatnonzero((folds == question.fold) == question.held)
        logits, counts = logits[chosen], counts[chosen]
    weights, intercept = question.arrays
    mapped, residual, cost = np.empty_like(logits), np.empty_like(logits), np.empty(logits.shape[0])
    map_logits(logits, weights, intercept, mapped)
    softmax_costs(mapped, counts, residual, cost)
    size = logits.shape[1]
    square = weights.ndim == 2
    votes = [int(counts.sum())]
    if not (np.isfinite(cost).all() and np.isfinite(residual).all()):
        nothing = [] if question.held else [0] * size
        products = [] if question.held else [0] * (size * size if square else size)
        return {"votes": votes, "infinite": [1], "loss": [0], "rise": nothing, "products": products}
    found = {"votes": votes, "infinite": [0], "loss": [_total(cost)]}
    if question.held:
        return found | {"rise": [], "products": []}
    slopes, inputs = np.ascontiguousarray(residual.T), np.ascontiguousarray(logits.T)
    pairs = [(k, j) for k in range(size) for j in range(size) if square or j == k]
    return found | {
        "rise": [_total(one) for one in slopes],
        "products": [_product(slopes[k], inputs[j]) for k, j in pairs],
    }


def _strength_sums(batch: Batch, asked: Asked, question: StrengthAt) -> Whole:
    assert isinstance(batch.spec, AlphaSpec)  # who asks fits a strength
    probabilities, counts = batch.after(asked.map), batch.rows.counts
    features = None
    if question.mean:
        found = batch.features(probabilities)
        assert found is not None  # who asks has features
        features = (found - np.array(question.mean)) * np.array(question.factor)
        features = np.ascontiguousarray(features)
    cost, slope = row_costs(
        positive_probabilities(probabilities),
        counts,
        features,
        np.array(question.point),
        batch.spec.regularization,
    )
    rows, width = [counts.shape[0]], len(question.point)
    if not (np.isfinite(cost).all() and np.isfinite(slope).all()):
        return {"rows": rows, "infinite": [1], "loss": [0], "rise": [0] * width}
    columns: Any = () if features is None else np.ascontiguousarray(features.T)
    rise = [*(_product(slope[:, 0], column) for column in columns), _total(slope)]
    return {"rows": rows, "infinite": [0], "loss": [_total(cost)], "rise": rise}


def _sample(batch: Batch, asked: Asked) -> pl.DataFrame:
    probabilities, counts = batch.after(asked.map), batch.rows.counts
    features = batch.features(probabilities)
    matrices = (probabilities, counts) if features is None else (probabilities, counts, features)
    keys = hashes(*matrices)
    kept = np.arange(keys.size)
    if keys.size > SAMPLE:
        kept = np.flatnonzero(keys <= np.partition(keys, SAMPLE - 1)[SAMPLE - 1])
    columns: dict[str, Any] = {"hash": keys[kept]}
    columns |= {f"p{k}": column for k, column in enumerate(probabilities[kept].T)}
    columns |= {f"c{k}": column for k, column in enumerate(counts[kept].T)}
    return first_of_sample(pl.DataFrame(columns))


def _overview(batch: Batch) -> Whole:
    counts, prediction = batch.rows.counts, batch.prediction
    used = batch.rows.used()
    if isinstance(batch.spec, AlphaSpec):
        used = used_numbers(batch.rows, batch.spec, batch.features(batch.before))
    votes = counts.sum(axis=1)
    return {
        "rows": [counts.shape[0]],
        "votes": [int(votes.sum())],
        "several": [int(np.count_nonzero(votes >= 2))],
        "clipped": [0 if batch.spec.scale == "logit" else rows_clipped(prediction)],
        "hash": [int(data_hash(used), 16)],
    }


def _figures(batch: Batch, asked: Asked, question: Figures) -> Whole:
    counts = batch.rows.counts
    if question.strength is None:
        after = bin_sums(class_targets(batch.after(asked.map), counts))
        before = bin_sums(class_targets(batch.before, counts))
    else:
        phi = batch.disagreement(asked, question.strength)
        if question.knots:
            phi = with_steps(phi, DisagreementMap(knots=question.knots, values=question.values))
        after = disagreement_sums(phi, counts)
        before = disagreement_sums(predicted_disagreement(batch.before), counts)
    return bins_as_sums(after, "after") | bins_as_sums(before, "before")


def _total(values: Floats) -> int:
    total = ExactSum()
    total.add(values)
    return total.units


def _product(first: Floats, second: Floats) -> int:
    total = ExactSum()
    total.add_products(first, second)
    return total.units
