"""Fitting and applying alpha-calibration: rows to a model, a model to rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from glob import escape
from typing import Final

import msgspec
import numpy as np
import polars as pl
from numpy.typing import NDArray

from calibkit.columns.columns import RowFinder, numeric_column
from calibkit.columns.patterns import Matched, match_columns
from calibkit.errors import UsageError
from calibkit.files.sources import Source
from calibkit.maps.application import as_in_input, match_classes, needed_columns, read_classes
from calibkit.maps.logit_maps import logits_of, softmax
from calibkit.maps.map_fit import LogitMap
from calibkit.maps.stored import StoredRows
from calibkit.methods.raters.alpha import Strength, fit_strength, log_strength
from calibkit.methods.raters.model import AlphaFit, AlphaModel, DisagreementMap
from calibkit.models.applier import Reads, Request
from calibkit.numerics.isotonic import pool_block
from calibkit.numerics.votes import (
    Targets,
    added_bin_sums,
    disagreement_shares,
    losses,
    predicted_disagreement,
)
from calibkit.options.alpha_cal import OWN_FEATURES, AlphaOptions
from calibkit.summaries.runs import Fitted, provenance

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]

#: Names of columns; the name of features that are made of the probabilities; None without any.
AlphaFeatures = list[str] | str | None

#: Units in which shares of raters are counted for the isotonic step: exact, and summed exactly.
SHARE_UNITS: Final = 2**32


def feature_names(source: Source, patterns: Sequence[str]) -> AlphaFeatures:
    """Return the columns that patterns stand for, in natural order; None without patterns.

    `OWN_FEATURES` stand for themselves, unless a column has that name.

    Raises
    ------
    UsageError
        A pattern that matches nothing, or own features beside columns.
    """
    if not patterns:
        return None
    own = [name for name in patterns if name in OWN_FEATURES and name not in source.schema]
    if own and len(patterns) > 1:
        raise UsageError(f"--features {own[0]} stands alone; leave the other patterns out.")
    if own:
        return own[0]
    found: dict[str, None] = {}
    for pattern in patterns:
        named = escape(pattern) if pattern in source.schema else pattern
        matched = match_columns(source, named, "--features")
        if matched.nested:
            raise UsageError(
                f"--features {pattern!r} is a column of lists; give columns of numbers."
            )
        found |= dict.fromkeys(matched.columns)
    return list(found)


def fit_alpha(rows: StoredRows, options: AlphaOptions, named: AlphaFeatures) -> Fitted[AlphaModel]:
    """Fit an alpha-calibration on class probabilities and votes.

    Parameters
    ----------
    rows
        The rows, with the features that are columns.
    options
        What to fit.
    named
        What alpha0 depends on: ``probs`` or ``sorted-probs`` for the logarithms of the probabilities
        (in the order of the classes, or falling), or the names of columns.
    """
    mapped: LogitMap | None = None
    if options.map != "none":
        mapped = rows.fit_map(options.map, options.penalties, options.seed)
    probabilities = _after(rows, mapped)
    features = _features(rows, named, probabilities)
    strength = fit_strength(
        probabilities,
        rows.counts,
        features,
        regularization=options.regularization,
        threads=options.workers,
    )
    phi = rows.made(1, lambda block: _disagreement(strength, probabilities, features, block))
    steps = _steps(rows, phi) if options.disagreement_map == "isotonic" else None
    constant = strength.weights.size == 0
    shaped = {
        "features": named,
        "map": options.map,
        "map_regularization": options.penalties or "cv",
        "regularization": options.regularization,
        "disagreement_map": options.disagreement_map,
        "seed": options.seed,
    }
    if options.map in ("none", "temperature"):
        del shaped["map_regularization"]
    model = AlphaModel(
        kind=AlphaModel.KIND,
        version=AlphaModel.VERSION,
        columns={"probs": rows.column},
        classes=list(rows.classes),
        features=named,
        log_alpha0=strength.intercept if constant else msgspec.UNSET,
        weights=msgspec.UNSET if constant else strength.weights.tolist(),
        intercept=msgspec.UNSET if constant else strength.intercept,
        logit_map=None if mapped is None else mapped.stored(),
        disagreement_map=steps,
        regularization=options.regularization,
        objective=strength.objective,
        fit=_figures(rows, strength, phi, steps),
        tags=dict(options.tags or {}),
        provenance=provenance(options, shaped, rows.rows, rows.hash, rows.source.paths),
    )
    return Fitted(model, (*rows.warnings, *_warnings(model)))


def _after(rows: StoredRows, mapped: LogitMap | None) -> Floats:
    """Return the class probabilities after a map."""
    if mapped is None:
        return rows.probabilities
    return rows.made(len(rows.classes), lambda block: mapped.probabilities(rows.logits[block]))


def _features(rows: StoredRows, named: AlphaFeatures, probabilities: Floats) -> Floats | None:
    """Return rows x features, or None without features."""
    if isinstance(named, str):
        return rows.made(len(rows.classes), lambda block: own_features(named, probabilities[block]))
    return None if named is None else rows.features


def own_features(name: str, probabilities: Floats) -> Floats:
    """Return features that are made of the class probabilities; see `OWN_FEATURES`."""
    logs = logits_of(probabilities)
    return logs if name == "probs" else np.ascontiguousarray(-np.sort(-logs, axis=1))


def _disagreement(
    strength: Strength, probabilities: Floats, features: Floats | None, block: slice
) -> Floats:
    """Return the predicted disagreement of each row of a block, as one column."""
    z = probabilities[block]
    log_alpha0 = strength.log_alpha0(None if features is None else features[block], z.shape[0])
    return predicted_disagreement(z, np.exp(log_alpha0))[:, :1]


def _several(rows: StoredRows, block: slice) -> NDArray[np.bool_]:
    """Tell which rows of a block have two votes or more: those that say how raters differ."""
    found: NDArray[np.bool_] = rows.counts[block].sum(axis=1) >= 2
    return found


def _steps(rows: StoredRows, phi: Floats) -> DisagreementMap | None:
    """Return the isotonic map of predicted disagreements; None where no row has two votes."""
    size = sum(int(np.count_nonzero(_several(rows, block))) for block in rows.blocks)
    if not size:
        return None
    predicted, units = rows.arrays.empty(size, np.float64), rows.arrays.empty(size, np.int64)
    end = 0
    for block in rows.blocks:
        several = _several(rows, block)
        begin, end = end, end + int(np.count_nonzero(several))
        predicted[begin:end] = phi[block, 0][several]
        units[begin:end] = share_units(rows.counts[block][several])
    return isotonic_steps(predicted, units)


def _figures(
    rows: StoredRows, strength: Strength, phi: Floats, steps: DisagreementMap | None
) -> AlphaFit:
    """Return what a model says of its fit; `phi` are predicted disagreements before the steps."""

    def loss(predict: Callable[[slice], Floats]) -> float:
        """Return the mean squared distance of a predicted disagreement and that of two raters."""

        def targets(block: slice) -> Targets:
            several = _several(rows, block)
            shares = disagreement_shares(rows.counts[block][several])[:, :1]
            own = predict(block)[several]
            return Targets(own, shares, np.zeros_like(own))

        return float(losses(added_bin_sums(map(targets, rows.blocks), 1)).squared[0])

    def before(block: slice) -> Floats:
        return predicted_disagreement(rows.probabilities[block])[:, :1]

    def after(block: slice) -> Floats:
        return phi[block] if steps is None else with_steps(phi[block], steps)

    several = sum(int(np.count_nonzero(_several(rows, block))) for block in rows.blocks)
    return AlphaFit(
        rows=rows.rows,
        votes=rows.votes,
        rows_two_raters=several,
        constant_objective=strength.constant_objective,
        gradient=strength.gradient,
        iterations=strength.iterations,
        converged=strength.converged,
        disagreement_loss=loss(after) if several else None,
        disagreement_loss_before=loss(before) if several else None,
    )


def _warnings(model: AlphaModel) -> tuple[str, ...]:
    fit, said = model.fit, []
    if not fit.rows_two_raters:
        said.append("no row has two votes: how far raters differ cannot be told from this file")
    if not fit.converged:
        said.append(
            f"the fit did not converge (gradient {fit.gradient:.1e} after {fit.iterations} steps): "
            "try a larger --regularization"
        )
    return tuple(said)


def isotonic_steps(phi: Floats, units: Counts) -> DisagreementMap:
    """Return the isotonic regression of observed shares of differing pairs on predictions.

    Shares are counted in units of 2^-32 (`share_units`) and pooled in exact arithmetic.  A knot lies
    halfway between two predictions: one that is computed again, and differs in the last digit, stays
    on its side.
    """
    order = np.argsort(phi)
    phi = phi[order]
    starts = np.flatnonzero(np.append(True, phi[1:] > phi[:-1]))
    rows = np.diff(np.append(starts, phi.size))
    hits = np.add.reduceat(units[order], starts)
    counts, hits, entries = pool_block(rows[::-1].copy(), hits[::-1].copy()).T
    values = hits / counts / SHARE_UNITS
    distinct = phi[starts]
    lower = np.append(distinct[0], distinct[:-1])
    middle = np.maximum(lower + (distinct - lower) / 2, np.nextafter(lower, np.inf))
    knots = np.minimum(middle, distinct)[::-1][np.cumsum(entries) - 1]
    return DisagreementMap(knots=knots[::-1].tolist(), values=values[::-1].tolist())


def share_units(counts: Counts) -> Counts:
    """Return the share of pairs of raters who differ in each row, in units of 2^-32."""
    shares = disagreement_shares(counts)[:, 0]
    units: Counts = np.rint(shares * SHARE_UNITS).astype(np.int64)
    return units


def with_steps(phi: Floats, steps: DisagreementMap) -> Floats:
    """Return disagreements after a step function; those about a class shrink or grow alike."""
    mapped = steps.mapped(phi[:, 0])
    ratio = np.where(phi[:, 0] > 0.0, mapped / np.where(phi[:, 0] > 0.0, phi[:, 0], 1.0), 0.0)
    found = np.minimum(phi * ratio[:, None], mapped[:, None])
    found[:, 0] = mapped
    return found


def predict(
    model: AlphaModel, prediction: Floats, frame: pl.DataFrame, where: RowFinder
) -> tuple[Floats, Floats, Floats]:
    """Return calibrated probabilities, alpha0 and predicted disagreements of rows."""
    scale = model.columns["probs"].scale
    logits = prediction if scale == "logit" else logits_of(prediction)
    if model.logit_map is not None:
        probabilities = model.logit_map.probabilities(logits)
    else:
        probabilities = softmax(logits) if scale == "logit" else prediction
    inputs: Floats | None = None
    if isinstance(model.features, str):
        inputs = own_features(model.features, probabilities)
    elif model.features is not None:
        columns = [numeric_column(frame[name], where) for name in model.features]
        inputs = np.column_stack(columns).astype(np.float64, copy=False)
    weights, intercept = model.strength()
    alpha0 = np.exp(log_strength(inputs, probabilities.shape[0], weights, intercept))
    phi = predicted_disagreement(probabilities, alpha0)
    if model.disagreement_map is not None:
        phi = with_steps(phi, model.disagreement_map)
    return probabilities, alpha0, phi


class AlphaApplier:
    """Adds `alpha0`, `disagreement`, `disagreement_<class>`; after a map `calibrated_<class>` first."""

    def __init__(self, model: AlphaModel) -> None:
        self.model = model
        self.calibrated = tuple(f"calibrated_{name}" for name in model.classes if model.calibrates)
        self.about = tuple(f"disagreement_{name}" for name in model.classes)
        self.added = (*self.calibrated, "alpha0", "disagreement", *self.about)
        self.matched: Matched | None = None

    def reads(self, source: Source, request: Request) -> Reads:
        """Return the columns of probabilities and features."""
        self.matched = match_classes(self.model, self.model.classes, source, request)
        features = self.model.features
        named = features if isinstance(features, list) else []
        source.require(named, "the model's features")
        about = as_in_input(self.model, self.matched, source, self.about)
        written: tuple[str, ...] = ("alpha0", "disagreement", *about)
        if self.calibrated:
            written = (*as_in_input(self.model, self.matched, source, self.calibrated), *written)
        return needed_columns(self.matched, named, written)

    def values(
        self, frame: pl.DataFrame, where: RowFinder, reads: Reads, request: Request
    ) -> list[pl.Series]:
        """Return the added columns."""
        assert self.matched is not None  # `reads` comes first
        classes = len(self.model.classes)
        prediction = read_classes(self.model, classes, frame, self.matched, where)
        probabilities, alpha0, phi = predict(self.model, prediction, frame, where)
        mapped = [*probabilities.T] if self.calibrated else []
        columns = [*mapped, alpha0, *phi.T]
        return [pl.Series(np.ascontiguousarray(values)) for values in columns]
