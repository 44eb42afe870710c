"""A fit of ``alpha-cal`` from its rows to its model: see `calibkit.summaries.runs.Fit`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from glob import escape
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from calibkit.columns.patterns import match_columns
from calibkit.errors import UsageError
from calibkit.files.sources import Source
from calibkit.maps.class_rows import RaterOptions, used_roles
from calibkit.maps.logit_maps import LogitMap, StoredRows, class_state, read_rater_rows
from calibkit.methods.raters.alpha import Strength, fit_strength, log_strength
from calibkit.methods.raters.application import own_features, with_steps
from calibkit.methods.raters.model import AlphaFit, AlphaModel, DisagreementMap
from calibkit.models.lineage import record_makers
from calibkit.numerics.isotonic import pool_block
from calibkit.numerics.votes import (
    Targets,
    added_bin_sums,
    disagreement_shares,
    losses,
    predicted_disagreement,
)
from calibkit.options.alpha_cal import OWN_FEATURES, AlphaOptions
from calibkit.runtime.memory import Memory
from calibkit.summaries.row_states import RowState, finished, options_of
from calibkit.summaries.runs import Fitted, Plan, provenance
from calibkit.summaries.states import State

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]

#: Names of columns; the name of features that are made of the probabilities; None without any.
AlphaFeatures = list[str] | str | None

#: Units in which shares of raters are counted for the isotonic step: exact, and summed exactly.
SHARE_UNITS: Final = 2**32


def fit(options: AlphaOptions, source: Source) -> Fitted[AlphaModel]:
    """Return the model of all rows."""
    fitted = _fit(options, source, source.memory)
    record_makers(fitted.model, source)
    return fitted


def plan(options: AlphaOptions, source: Source) -> Plan:
    """Return what a fit would do."""
    features = feature_names(source, options.patterns)
    return Plan(used_roles(source, _columns(options, features)), options.steps(features))


class AlphaState(RowState):
    """Rows for ``alpha-cal``."""

    KIND = "alpha-cal"

    def needed(self) -> list[str]:
        """Return the columns without which there is nothing to fit, beside those of classes."""
        return options_of(self, AlphaOptions).columns_of_features


def state(options: AlphaOptions, source: Source) -> State:
    """Return the rows of a shard, with the features that patterns stand for there."""
    features = feature_names(source, options.patterns)
    kept = replace(options, features=(features,) if isinstance(features, str) else features)
    return class_state(AlphaState, kept, source, _columns(options, features))


def finish(state: State, memory: Memory, threads: int) -> Fitted[AlphaModel]:
    """Return the model of the rows of a merged state."""
    options = options_of(state, AlphaOptions, threads)
    return finished(state, options, lambda asked, rows, _: _fit(asked, rows, memory))


def _fit(options: AlphaOptions, source: Source, memory: Memory | None) -> Fitted[AlphaModel]:
    features = feature_names(source, options.patterns)
    rows = read_rater_rows(source, _columns(options, features), memory)
    return fit_alpha(rows, options, features)


def _columns(options: AlphaOptions, features: AlphaFeatures) -> RaterOptions:
    return RaterOptions(
        probs=(options.pattern,),
        counts=options.counts or "count_*",
        scale=options.scale,
        others=tuple(features) if isinstance(features, list) else (),
        on_missing=options.on_missing,
    )


def feature_names(source: Source, patterns: Sequence[str]) -> AlphaFeatures:
    """Return the columns that patterns stand for, in natural order; None without patterns.

    `OWN_FEATURES` stand for themselves, unless a column has that name.
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

    `rows`: the rows, with the features that are columns. `options`: what to fit. `named`: what
    alpha0 depends on: ``probs`` or ``sorted-probs`` for the logarithms of the probabilities (in the
    order of the classes, or falling), or the names of columns.
    """
    mapped: LogitMap | None = None
    if options.map != "none":
        mapped = rows.fit_map(options.map, options.penalties, options.seed)
    probabilities = rows.probabilities
    if mapped is not None:
        after = mapped.probabilities
        probabilities = rows.made(len(rows.classes), lambda block: after(rows.logits[block]))
    features = None if named is None else rows.features
    if isinstance(named, str):
        width = len(rows.classes)
        features = rows.made(width, lambda block: own_features(named, probabilities[block]))
    strength = fit_strength(
        probabilities,
        rows.counts,
        features,
        regularization=options.regularization,
        threads=options.workers,
    )

    def disagreement(block: slice) -> Floats:
        own, z = None if features is None else features[block], probabilities[block]
        log_alpha0 = log_strength(own, z.shape[0], strength.weights, strength.intercept)
        return predicted_disagreement(z, np.exp(log_alpha0))[:, :1]

    phi = rows.made(1, disagreement)
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
        shares = disagreement_shares(rows.counts[block][several])[:, 0]
        units[begin:end] = np.rint(shares * SHARE_UNITS)
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
        said.append("no row has two votes: so this file cannot show how far raters differ")
    if not fit.converged:
        said.append(
            f"the fit did not converge (gradient {fit.gradient:.1e} after {fit.iterations} steps): "
            "try a larger --regularization"
        )
    return tuple(said)


def isotonic_steps(phi: Floats, units: Counts) -> DisagreementMap:
    """Return the isotonic regression of observed shares of differing pairs on predictions.

    Shares are counted in units of 2^-32 and pooled in exact arithmetic.  A knot lies
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
