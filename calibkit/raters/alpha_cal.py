"""Fitting and applying alpha-calibration: rows to a model, a model to rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import numpy as np
import polars as pl
from numpy.typing import NDArray

from calibkit import __version__
from calibkit.errors import UsageError
from calibkit.files.sources import Source
from calibkit.fitted import Fitted
from calibkit.models import Column, Provenance
from calibkit.raters.alpha import Strength, fit_strength, log_strength
from calibkit.raters.histograms import (
    BinSums,
    bin_sums,
    disagreement_shares,
    disagreement_targets,
    predicted_disagreement,
)
from calibkit.raters.logit_maps import MAPS, LogitMap, logits_of, softmax
from calibkit.raters.losses import losses
from calibkit.raters.map_fit import FOLDS, fit_logit_map
from calibkit.raters.model import AlphaFit, AlphaModel, DisagreementMap, LogitMapModel
from calibkit.raters.order import canonical_order, folds_of, hashes
from calibkit.raters.rows import RaterRows
from calibkit.rows.columns import RowFinder, numeric_column
from calibkit.rows.patterns import match_columns
from calibkit.rows.provenance import data_hash
from calibkit_kernels.isotonic import concave_hull

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]

#: Features that are made of the probabilities themselves.
OWN_FEATURES: Final = ("probs", "sorted-probs")
_MAP_CHOICES: Final = ("none", *MAPS)
_STEP_CHOICES: Final = ("none", "isotonic")
#: Units in which shares of raters are counted for the isotonic step: exact, and summed exactly.
SHARE_UNITS: Final = 2**32


@dataclass(frozen=True, kw_only=True)
class AlphaSpec:
    """How to fit.

    Attributes
    ----------
    features
        Names of columns; ``probs`` or ``sorted-probs`` for the logarithms of the probabilities (in
        the order of the classes, or falling); None for a constant strength.
    logit_map
        A map of the logits before: ``none``, ``temperature``, ``vector`` or ``matrix``.
    map_regularization
        Its penalties; None chooses them by cross-validation.
    regularization
        The penalty of (ln alpha0)^2.
    disagreement_map
        ``none``, or ``isotonic``: a rising step function on the predicted disagreement.
    scale
        ``probability`` or ``logit``.
    seed, threads
        Of the cross-validation; how many threads may work.
    """

    features: list[str] | str | None = None
    logit_map: str = "none"
    map_regularization: tuple[float, float] | None = None
    regularization: float = 0.005
    disagreement_map: str = "none"
    scale: str = "probability"
    seed: int = 0
    threads: int = 1

    def __post_init__(self) -> None:
        for option, value, choices in (
            ("--map", self.logit_map, _MAP_CHOICES),
            ("--disagreement-map", self.disagreement_map, _STEP_CHOICES),
        ):
            if value not in choices:
                raise UsageError(
                    f"{option} {value!r} is not known; use one of {', '.join(choices)}"
                )
        if not 0.0 <= self.regularization < np.inf:
            raise UsageError(f"--regularization is {self.regularization}; expected 0 or more.")

    def steps(self) -> list[str]:
        """Return in words what the fit will do."""
        said = [] if self.logit_map == "none" else [f"fit {self.logit_map} scaling of the logits"]
        if self.features is None:
            said.append("fit one alpha0 for all rows")
        elif isinstance(self.features, str):
            said.append(f"fit ln alpha0 linear in {self.features}")
        else:
            said.append(f"fit ln alpha0 linear in {len(self.features)} features")
        if self.disagreement_map != "none":
            said.append("fit a rising step function to the predicted disagreement")
        return said


def feature_names(source: Source, patterns: Sequence[str]) -> list[str] | str | None:
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
        matched = match_columns(source, pattern, "--features")
        if matched.nested:
            raise UsageError(
                f"--features {pattern!r} is a column of lists; give columns of numbers."
            )
        found |= dict.fromkeys(matched.columns)
    return list(found)


def fit_alpha(
    rows: RaterRows,
    spec: AlphaSpec,
    *,
    provenance: str = "hash",
    tags: dict[str, str] | None = None,
) -> Fitted[AlphaModel]:
    """Fit an alpha-calibration on class probabilities and votes.

    Raises
    ------
    DataError
        A feature without a number.
    """
    prediction = next(iter(rows.predictions.values()))
    logits = prediction if spec.scale == "logit" else logits_of(prediction)
    mapped: LogitMap | None = None
    if spec.logit_map != "none":
        keys = hashes(logits, rows.counts)
        order = np.argsort(keys, kind="stable")
        mapped = fit_logit_map(
            logits[order],
            rows.counts[order],
            spec.logit_map,
            spec.map_regularization,
            folds=folds_of(keys[order], FOLDS, spec.seed),
        )
    before = softmax(logits) if spec.scale == "logit" else prediction
    probabilities = before if mapped is None else mapped.probabilities(logits)
    inputs = read_features(rows.others, rows.where, spec.features, probabilities)
    matrices = (
        (probabilities, rows.counts) if inputs is None else (probabilities, rows.counts, inputs)
    )
    order = canonical_order(*matrices, threads=spec.threads)
    strength = fit_strength(
        probabilities[order],
        rows.counts[order],
        None if inputs is None else inputs[order],
        regularization=spec.regularization,
        threads=spec.threads,
    )
    log_alpha0 = strength.log_alpha0(inputs, probabilities.shape[0])
    phi = predicted_disagreement(probabilities, np.exp(log_alpha0))
    several = rows.votes >= 2
    steps = None
    if spec.disagreement_map == "isotonic" and several.any():
        steps = isotonic_steps(phi[several, 0], share_units(rows.counts[several]))
        phi = with_steps(phi, steps)
    figures = alpha_figures(
        strength,
        rows=int(rows.counts.shape[0]),
        votes=int(rows.counts.sum()),
        several=int(np.count_nonzero(several)),
        after=disagreement_sums(phi, rows.counts),
        before=disagreement_sums(predicted_disagreement(before), rows.counts),
    )
    column = rows.described(spec.scale)
    model = alpha_model(
        column, rows.classes, spec, (mapped, strength, steps), figures, dict(tags or {})
    )
    if provenance != "none":
        files = rows.source.paths if provenance == "names" else None
        data = data_hash(used_numbers(rows, spec, inputs))
        model.provenance = alpha_origin(spec, figures.rows, data, files)
    return Fitted(model, alpha_warnings(model))


def alpha_model(
    column: Column,
    classes: Sequence[str],
    spec: AlphaSpec,
    fitted: tuple[LogitMap | None, Strength, DisagreementMap | None],
    figures: AlphaFit,
    tags: dict[str, str],
) -> AlphaModel:
    """Return the model of what was fitted: the map before, the strength, the map of disagreements."""
    mapped, strength, steps = fitted
    constant = strength.weights.size == 0
    return AlphaModel(
        kind=AlphaModel.KIND,
        version=AlphaModel.VERSION,
        columns={"probs": column},
        classes=list(classes),
        features=spec.features,
        log_alpha0=strength.intercept if constant else msgspec.UNSET,
        weights=msgspec.UNSET if constant else strength.weights.tolist(),
        intercept=msgspec.UNSET if constant else strength.intercept,
        logit_map=None if mapped is None else LogitMapModel.of(mapped),
        disagreement_map=steps,
        regularization=spec.regularization,
        objective=strength.objective,
        fit=figures,
        tags=tags,
    )


def alpha_figures(
    strength: Strength, *, rows: int, votes: int, several: int, after: BinSums, before: BinSums
) -> AlphaFit:
    """Return what a model says of its fit; sums are those of `disagreement_sums`."""
    return AlphaFit(
        rows=rows,
        votes=votes,
        rows_two_raters=several,
        constant_objective=strength.constant_objective,
        gradient=strength.gradient,
        iterations=strength.iterations,
        converged=strength.converged,
        disagreement_loss=float(losses(after).squared[0]) if several else None,
        disagreement_loss_before=float(losses(before).squared[0]) if several else None,
    )


def alpha_warnings(model: AlphaModel) -> tuple[str, ...]:
    """Return what the user should be told of a model."""
    fit, said = model.fit, []
    if not fit.rows_two_raters:
        said.append("no row has two votes: how far raters differ cannot be told from this file")
    if not fit.converged:
        said.append(
            f"the fit did not converge (gradient {fit.gradient:.1e} after {fit.iterations} steps): "
            "try a larger --regularization"
        )
    return tuple(said)


def read_features(
    frame: pl.DataFrame,
    where: RowFinder,
    features: list[str] | str | None,
    probabilities: Floats,
) -> Floats | None:
    """Return rows x features, or None without features."""
    if features is None:
        return None
    if isinstance(features, str):
        logs = logits_of(probabilities)
        return logs if features == "probs" else np.ascontiguousarray(-np.sort(-logs, axis=1))
    columns = [numeric_column(frame[name], where).astype(np.float64) for name in features]
    return np.column_stack(columns)


def isotonic_steps(phi: Floats, units: Counts) -> DisagreementMap:
    """Return the isotonic regression of observed shares of differing pairs on predictions.

    Shares are counted in units of 2^-32 (`share_units`) and pooled in exact arithmetic.
    """
    distinct, place = np.unique(phi, return_inverse=True)
    total = np.zeros(distinct.size, np.int64)
    np.add.at(total, place, units)
    return steps_of(distinct, distinct, np.bincount(place), total)


def share_units(counts: Counts) -> Counts:
    """Return the share of pairs of raters who differ in each row, in units of 2^-32."""
    shares = disagreement_shares(counts)[:, 0]
    units: Counts = np.rint(shares * SHARE_UNITS).astype(np.int64)
    return units


def steps_of(low: Floats, high: Floats, rows: Counts, units: Counts) -> DisagreementMap:
    """Return the steps of rows and shares at rising predictions, or ranges of them without a step.

    A knot lies halfway between two predictions: one that is computed again, and differs in the last
    digit, stays on its side.
    """
    selected, hits = np.cumsum(rows[::-1]), np.cumsum(units[::-1])
    vertices = np.empty(low.size, np.int64)
    size = concave_hull(selected.astype(np.int64), hits, vertices)
    ends = vertices[:size]
    counts = np.diff(np.append(0, selected[ends]))
    values = np.diff(np.append(0, hits[ends])) / counts / SHARE_UNITS
    lower = np.append(low[0], high[:-1])
    middle = np.maximum(lower + (low - lower) / 2, np.nextafter(lower, np.inf))
    knots = np.minimum(middle, low)[::-1][ends]
    return DisagreementMap(knots=knots[::-1].tolist(), values=values[::-1].tolist())


def with_steps(phi: Floats, steps: DisagreementMap) -> Floats:
    """Return disagreements after a step function; those about a class shrink or grow alike."""
    mapped = steps.mapped(phi[:, 0])
    ratio = np.where(phi[:, 0] > 0.0, mapped / np.where(phi[:, 0] > 0.0, phi[:, 0], 1.0), 0.0)
    found = np.minimum(phi * ratio[:, None], mapped[:, None])
    found[:, 0] = mapped
    return found


def disagreement_sums(phi: Floats, counts: Counts) -> BinSums:
    """Return the sums, over rows with two votes, of which the loss of disagreements is made."""
    several = counts.sum(axis=1) >= 2
    targets = disagreement_targets(phi[several, :1], counts[several])
    return bin_sums(type(targets)(targets.prediction, targets.label[:, :1], targets.excess))


def used_numbers(
    rows: RaterRows, spec: AlphaSpec, inputs: Floats | None
) -> dict[str, NDArray[Any]]:
    """Return what a hash of the rows is taken of: predictions, votes, and features from columns."""
    used = rows.used()
    if inputs is not None and not isinstance(spec.features, str):
        used |= {f"f{place:x}": inputs[:, place] for place in range(inputs.shape[1])}
    return used


def alpha_origin(spec: AlphaSpec, rows: int, data: str, files: list[str] | None) -> Provenance:
    """Return where a model comes from: so many rows of a hash, and the options that shaped it."""
    options = {
        "features": spec.features,
        "map": spec.logit_map,
        "map_regularization": "cv" if spec.map_regularization is None else spec.map_regularization,
        "regularization": spec.regularization,
        "disagreement_map": spec.disagreement_map,
        "seed": spec.seed,
    }
    if spec.logit_map in ("none", "temperature"):
        del options["map_regularization"]
    return Provenance(__version__, options, rows, data, files)


def predict(
    model: AlphaModel, prediction: Floats, frame: pl.DataFrame, where: RowFinder
) -> tuple[Floats, Floats, Floats]:
    """Return calibrated probabilities, alpha0 and predicted disagreements of rows."""
    scale = model.columns["probs"].scale
    logits = prediction if scale == "logit" else logits_of(prediction)
    if model.logit_map is not None:
        probabilities = model.logit_map.fitted(len(model.classes)).probabilities(logits)
    else:
        probabilities = softmax(logits) if scale == "logit" else prediction
    inputs = read_features(frame, where, model.features, probabilities)
    weights, intercept = model.strength()
    alpha0 = np.exp(log_strength(inputs, probabilities.shape[0], weights, intercept))
    phi = predicted_disagreement(probabilities, alpha0)
    if model.disagreement_map is not None:
        phi = with_steps(phi, model.disagreement_map)
    return probabilities, alpha0, phi
