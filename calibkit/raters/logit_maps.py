"""Linear maps of logits that calibrate class probabilities: temperature, vector and matrix scaling.

C. Guo et al., "On calibration of modern neural networks"; M. Kull et al., "Beyond temperature
scaling"; Mimori et al., "Diagnostic uncertainty calibration", appendix D.1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from calibkit.errors import UsageError
from calibkit.maths.minimise import minimise
from calibkit.maths.roots import rising_root
from calibkit.raters.order import canonical_order, hashes
from calibkit_kernels.dense import (
    affine_rows,
    column_sums,
    outer_sums,
    paired_sums,
    scaled_rows,
    softmax_residuals,
    softmax_rows,
)

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]

MAPS: Final = ("temperature", "vector", "matrix")

#: Probabilities below this count as it before their logarithm is taken.
LEAST_PROBABILITY: Final = 1e-12
#: The largest inverse temperature: beyond, predictions are certain whatever the logits say.
MOST_INVERSE_TEMPERATURE: Final = 1e6
#: What cross-validation tries, for the intercept and for the weights off the diagonal.
GRID: Final = (0.01, 0.1, 1.0, 10.0)
_FOLDS: Final = 3
#: Classes of matrix scaling up to which cross-validation ends within minutes.
_MOST_CLASSES: Final = 100
#: How flat the objective is made: for a model, and where maps are only compared.
_FLAT, _ROUGHLY_FLAT = 1e-9, 1e-5


@dataclass(frozen=True, kw_only=True)
class LogitMap:
    """z = softmax(W u + b) of logits u.

    Attributes
    ----------
    weights
        Classes x classes; a diagonal as one number a class; one number for a temperature.
    intercept
        One number a class.
    objective
        The minimised loss, penalties included.
    loss, loss_before
        Mean negative log-likelihood of a vote, after the map and of the logits themselves.
    regularization
        The penalties of intercept and of weights off the diagonal.
    gradient, iterations, converged
        How the minimisation ended; see `calibkit.maths.minimise.Minimum`.
    """

    method: str
    weights: Floats
    intercept: Floats
    objective: float
    loss: float
    loss_before: float = 0.0
    regularization: tuple[float, float] = (0.0, 0.0)
    gradient: float = 0.0
    iterations: int = 0
    converged: bool = True

    def logits(self, inputs: Floats) -> Floats:
        """Return the logits after the map, rows x classes."""
        out = np.empty_like(inputs)
        if self.weights.ndim == 2:
            affine_rows(inputs, self.weights, self.intercept, out)
        else:
            scale = np.broadcast_to(self.weights, inputs.shape[1:]).copy()
            scaled_rows(inputs, scale, self.intercept, out)
        return out

    def probabilities(self, inputs: Floats) -> Floats:
        """Return the class probabilities of rows of logits."""
        return softmax(self.logits(inputs))


def logits_of(probabilities: Floats) -> Floats:
    """Return logarithms of probabilities, each at least `LEAST_PROBABILITY`."""
    return np.log(np.maximum(probabilities, LEAST_PROBABILITY))


def softmax(logits: Floats) -> Floats:
    """Return the probabilities that logits stand for, each row with the sum 1."""
    out = np.empty_like(logits)
    softmax_rows(np.ascontiguousarray(logits), out)
    return out


def fit_logit_map(
    logits: Floats,
    counts: Counts,
    method: str,
    regularization: tuple[float, float] | None = (0.0, 0.0),
    *,
    seed: int = 0,
) -> LogitMap:
    """Fit a map of logits to votes by penalised maximum likelihood.

    Parameters
    ----------
    logits, counts
        Rows x classes; every row has a vote.
    method
        ``temperature`` (one inverse temperature, at least 0), ``vector`` (a diagonal and an
        intercept) or ``matrix``.
    regularization
        Penalties of the mean squared intercept and the mean squared weight off the diagonal, not
        divided by the number of votes; None chooses both by cross-validation over `GRID`.
    seed
        Of the folds.

    Raises
    ------
    UsageError
        For cross-validated matrix scaling of more than 100 classes.

    Notes
    -----
    The loss is the mean over all votes.  All three problems are convex.  Without a penalty the
    intercept is known up to a constant: its sum is made 0.  Rows are put into an order of their
    own first, so the result does not depend on that of the file.
    """
    order = canonical_order(logits, counts)
    logits, counts = np.ascontiguousarray(logits[order]), np.ascontiguousarray(counts[order])
    before = vote_loss(logits, counts) / float(counts.sum())
    if method == "temperature":
        return replace(_fit_temperature(logits, counts), loss_before=before)
    if regularization is None:
        regularization = _cross_validated(logits, counts, method, seed)
    start = _identity(method, logits.shape[1])
    fitted = _fit_linear(logits, counts, method, regularization, start)
    return replace(fitted, loss_before=before)


def _fit_temperature(logits: Floats, counts: Counts) -> LogitMap:
    classes, votes = logits.shape[1], float(counts.sum())
    scaled, residual, sums = np.empty_like(logits), np.empty_like(logits), np.empty(classes)
    intercept = np.zeros(classes)

    def loss(beta: float) -> float:
        scaled_rows(logits, np.full(classes, beta), intercept, scaled)
        return softmax_residuals(scaled, counts, residual) / votes

    def slope(beta: float) -> float:
        loss(beta)
        paired_sums(residual, logits, sums)
        return float(np.cumsum(sums)[-1]) / votes

    high = 1.0
    while slope(high) < 0.0 and high < MOST_INVERSE_TEMPERATURE:
        high = min(4.0 * high, MOST_INVERSE_TEMPERATURE)
    beta = rising_root(slope, 0.0, high)
    value, left = loss(beta), abs(slope(beta))
    capped = beta in (0.0, MOST_INVERSE_TEMPERATURE)
    return LogitMap(
        method="temperature",
        weights=np.array([beta]),
        intercept=intercept,
        objective=value,
        loss=value,
        gradient=0.0 if capped else left,
    )


def _identity(method: str, classes: int) -> Floats:
    weights = np.ones(classes) if method == "vector" else np.eye(classes).ravel()
    return np.concatenate([weights, np.zeros(classes)])


def _fit_linear(
    logits: Floats,
    counts: Counts,
    method: str,
    regularization: tuple[float, float],
    start: Floats,
    tolerance: float = _FLAT,
) -> LogitMap:
    classes, votes = logits.shape[1], float(counts.sum())
    evaluate = _penalised(logits, counts, method, regularization)
    found = minimise(evaluate, start, tolerance=tolerance)
    shape = (classes,) if method == "vector" else (classes, classes)
    weights, intercept = found.point[:-classes].reshape(shape), found.point[-classes:]
    if regularization[0] == 0.0:
        intercept = intercept - float(np.cumsum(intercept)[-1]) / classes
    fitted = LogitMap(
        method=method,
        weights=weights,
        intercept=intercept,
        objective=found.value,
        loss=0.0,
        regularization=regularization,
        gradient=found.gradient,
        iterations=found.iterations,
        converged=found.converged,
    )
    return replace(fitted, loss=vote_loss(fitted.logits(logits), counts) / votes)


def vote_loss(logits: Floats, counts: Counts) -> float:
    """Return minus the sum over votes of the logarithm of their class's probability."""
    return float(softmax_residuals(logits, counts, np.empty_like(logits)))


def _penalised(
    logits: Floats, counts: Counts, method: str, regularization: tuple[float, float]
) -> Callable[[Floats], tuple[float, Floats]]:
    """Return the objective of vector or matrix scaling with its gradient."""
    classes, votes = logits.shape[1], float(counts.sum())
    mapped, residual = np.empty_like(logits), np.empty_like(logits)
    rise, along = np.empty(classes), np.empty(classes)
    across = np.empty((classes, classes))
    intercept_penalty = regularization[0] / classes
    weight_penalty = regularization[1] / (classes * (classes - 1))
    off = 1.0 - np.eye(classes)

    def evaluate(point: Floats) -> tuple[float, Floats]:
        weights, intercept = point[:-classes], point[-classes:]
        penalty = intercept_penalty * float(np.cumsum(intercept * intercept)[-1])
        if method == "vector":
            scaled_rows(logits, weights, intercept, mapped)
        else:
            square = np.ascontiguousarray(weights.reshape(classes, classes))
            affine_rows(logits, square, intercept, mapped)
            beside = square * off
            penalty += weight_penalty * float(np.cumsum(beside * beside)[-1])
        value = softmax_residuals(mapped, counts, residual) / votes + penalty
        column_sums(residual, rise)
        slope_intercept = rise / votes + 2.0 * intercept_penalty * intercept
        if method == "vector":
            paired_sums(residual, logits, along)
            return value, np.concatenate([along / votes, slope_intercept])
        outer_sums(residual, logits, across)
        slope = across / votes + 2.0 * weight_penalty * beside
        return value, np.concatenate([slope.ravel(), slope_intercept])

    return evaluate


def _cross_validated(logits: Floats, counts: Counts, method: str, seed: int) -> tuple[float, float]:
    """Return the penalties whose maps lose least on votes they were not fitted on."""
    if method == "matrix" and logits.shape[1] > _MOST_CLASSES:
        raise UsageError(
            f"matrix scaling of {logits.shape[1]} classes has too many weights to try penalties on; "
            "give them, as in --regularization 1,10, or use vector scaling."
        )
    keys = hashes(logits, counts, np.full((logits.shape[0], 1), seed))
    part = (keys >> np.uint64(32)) % np.uint64(_FOLDS)
    lost: dict[tuple[float, float], float] = {}
    for fold in range(_FOLDS):
        held = part == fold
        if not held.any() or held.all():
            continue
        start = _identity(method, logits.shape[1])
        for penalties in _candidates(method):
            fitted = _fit_linear(
                logits[~held], counts[~held], method, penalties, start, _ROUGHLY_FLAT
            )
            loss = vote_loss(fitted.logits(logits[held]), counts[held])
            lost[penalties] = lost.get(penalties, 0.0) + loss
            start = np.concatenate([fitted.weights.ravel(), fitted.intercept])
    return min(lost, key=lambda penalties: (lost[penalties], penalties)) if lost else (1.0, 1.0)


def _candidates(method: str) -> list[tuple[float, float]]:
    """Return penalties from strong to weak, so that each fit starts near its optimum."""
    strong = sorted(GRID, reverse=True)
    if method == "vector":
        return [(penalty, 0.0) for penalty in strong]
    return [(intercept, off) for off in strong for intercept in strong]
