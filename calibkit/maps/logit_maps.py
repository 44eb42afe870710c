"""Linear maps of logits that calibrate class probabilities: temperature, vector and matrix scaling.

C. Guo et al., "On calibration of modern neural networks"; M. Kull et al., "Beyond temperature
scaling"; Mimori et al., "Diagnostic uncertainty calibration", appendix D.1.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calibkit.errors import UsageError
from calibkit.maps.model import LogitMapModel
from calibkit.numerics.newton import FLAT_OF_MANY, ROUGHLY_FLAT, quasi_newton
from calibkit.numerics.roots import rising_root
from calibkit_kernels import dense

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]
Folds = NDArray[np.integer]

#: Probabilities below this count as it before their logarithm is taken.
LEAST_PROBABILITY: Final = 1e-12

#: The largest inverse temperature: beyond, predictions are certain whatever the logits say.
MOST_INVERSE_TEMPERATURE: Final = 1e6

#: What cross-validation tries, for the intercept and for the weights off the diagonal.
GRID: Final = (0.01, 0.1, 1.0, 10.0)
#: Into how many parts rows are dealt for it.
FOLDS: Final = 3
#: Classes of matrix scaling up to which cross-validation ends within minutes.
_MOST_CLASSES: Final = 100


def logits_of(probabilities: Floats) -> Floats:
    """Return logarithms of probabilities, each at least `LEAST_PROBABILITY`."""
    return np.log(np.maximum(probabilities, LEAST_PROBABILITY))


def softmax(logits: Floats) -> Floats:
    """Return the probabilities that logits stand for, each row with the sum 1."""
    out = np.empty_like(logits)
    dense.softmax_rows(np.ascontiguousarray(logits), out)
    return out


def mapped_logits(logits: Floats, weights: Floats, intercept: Floats) -> Floats:
    """Return logits after a map: weights are classes x classes, a diagonal, or one for all."""
    out = np.empty_like(logits)
    if weights.ndim == 2:
        dense.affine_rows(logits, weights, intercept, out)
    else:
        np.multiply(logits, weights, out=out)
        out += intercept
    return out


@dataclass(frozen=True, kw_only=True)
class LogitMap:
    """A fitted map z = softmax(W u + b) of logits u.

    `weights` are classes x classes, a diagonal as one number a class, or one number for a temperature;
    `objective` is the minimised loss, penalties included, `loss` the mean negative log-likelihood of a
    vote, and `loss_before` that of the logits themselves; `regularization` has the penalties of
    intercept and of weights off the diagonal.  How the minimisation ended is as in
    `calibkit.numerics.newton.Minimum`.
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

    def probabilities(self, logits: Floats) -> Floats:
        """Return the class probabilities of rows of logits."""
        return softmax(mapped_logits(logits, self.weights, self.intercept))

    def stored(self) -> LogitMapModel:
        """Return the map as a model holds it."""
        if self.method == "none":
            return LogitMapModel(method="none", loss=self.loss)
        if self.method == "temperature":
            beta = float(self.weights[0])
            temperature = None if beta == 0.0 else 1.0 / beta
            return LogitMapModel(method="temperature", temperature=temperature, loss=self.loss)
        return LogitMapModel(
            method=self.method,
            weights=self.weights.tolist(),
            intercept=self.intercept.tolist(),
            loss=self.loss,
            regularization=list(self.regularization),
        )


def fit_logit_map(
    logits: Floats,
    counts: Counts,
    method: str,
    regularization: tuple[float, float] | None = (0.0, 0.0),
    *,
    folds: Folds | None = None,
    chosen: NDArray[np.bool_] | None = None,
) -> LogitMap:
    """Fit a map of logits to votes by penalised maximum likelihood.

    Parameters
    ----------
    logits, counts
        Rows x classes; every row has a vote.  Sums run in the order of the rows.
    method
        ``temperature`` (one inverse temperature, at least 0), ``vector`` (a diagonal and an
        intercept), ``matrix`` or ``none``.
    regularization
        Penalties of the mean squared intercept and the mean squared weight off the diagonal, not
        divided by the number of votes; None chooses both by cross-validation over `GRID`.
    folds
        The fold of each row, below `FOLDS`, where penalties are to be chosen.
    chosen
        Which rows count; None: all.

    Notes
    -----
    The loss is the mean over all votes.  All three problems are convex.  Without a penalty the
    intercept is known up to a constant: its sum is made 0.
    """
    classes, votes = logits.shape[1], VotedLogits(logits, counts, chosen)
    identity = {"vector": np.ones(classes), "matrix": np.eye(classes)}.get(method, np.ones(1))
    before = votes.likelihood(identity, np.zeros(classes))
    loss = before.loss / before.votes
    if method in ("temperature", "none"):
        found = LogitMap(
            method=method,
            weights=identity,
            intercept=np.zeros(classes),
            objective=loss,
            loss=loss,
            loss_before=loss,
        )
        return found if method == "none" else _temperature(votes, found)
    start = np.concatenate([identity.ravel(), np.zeros(classes)])
    if regularization is None:
        assert folds is not None  # who asks for a choice has dealt the rows
        regularization = _chosen(votes, method, folds, start)
    found = _penalised(votes, method, regularization, start)
    after = votes.likelihood(found.weights, found.intercept)
    return replace(found, loss=after.loss / after.votes, loss_before=loss)


class Likelihood(NamedTuple):
    """The number of votes, minus their log-likelihood at a map, and its derivatives.

    `rise` is that in the intercept, `products` in the weights: one number a class for a diagonal and
    for a temperature.
    """

    votes: int
    loss: float
    rise: Floats
    products: Floats


@dataclass(frozen=True)
class VotedLogits:
    """Rows x classes of logits and votes, and which rows count (None: all)."""

    logits: Floats
    counts: Counts
    chosen: NDArray[np.bool_] | None = None

    def likelihood(self, weights: Floats, intercept: Floats) -> Likelihood:
        """Return the likelihood at a map, summed block by block; weights as those of `LogitMap`."""
        square = weights.ndim == 2
        votes, loss = 0, 0.0
        rise = np.zeros(intercept.size)
        products = np.zeros(weights.shape if square else intercept.shape)
        own_rise, own_products = np.empty_like(rise), np.empty_like(products)
        for low in range(0, self.logits.shape[0], dense.BLOCK_ROWS):
            block = slice(low, low + dense.BLOCK_ROWS)
            logits, counts = self.logits[block], self.counts[block]
            if self.chosen is not None:
                logits, counts = logits[self.chosen[block]], counts[self.chosen[block]]
            residual = np.empty_like(logits)
            mapped = mapped_logits(logits, weights, intercept)
            loss += float(dense.softmax_residuals(mapped, counts, residual))
            dense.column_sums(residual, own_rise)
            (dense.outer_sums if square else dense.paired_sums)(residual, logits, own_products)
            rise += own_rise
            products += own_products
            votes += int(counts.sum())
        return Likelihood(votes, loss, rise, products)


def _temperature(votes: VotedLogits, before: LogitMap) -> LogitMap:
    def slope(beta: float) -> float:
        found = votes.likelihood(np.array([beta]), before.intercept)
        return float(np.cumsum(found.products)[-1]) / found.votes

    high = 1.0
    while slope(high) < 0.0 and high < MOST_INVERSE_TEMPERATURE:
        high = min(4.0 * high, MOST_INVERSE_TEMPERATURE)
    beta = rising_root(slope, 0.0, high)
    found = votes.likelihood(np.array([beta]), before.intercept)
    loss, capped = found.loss / found.votes, beta in (0.0, MOST_INVERSE_TEMPERATURE)
    gradient = 0.0 if capped else abs(slope(beta))
    weights = np.array([beta])
    return replace(before, weights=weights, objective=loss, loss=loss, gradient=gradient)


def _penalised(
    votes: VotedLogits,
    method: str,
    regularization: tuple[float, float],
    start: Floats,
    tolerance: float = FLAT_OF_MANY,
) -> LogitMap:
    """Return the map of vector or matrix scaling under penalties; its `loss` is not filled in."""
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
    return LogitMap(
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


def _chosen(votes: VotedLogits, method: str, folds: Folds, identity: Floats) -> tuple[float, float]:
    """Return the penalties whose maps lose least on votes they were not fitted on."""
    if method == "matrix" and votes.logits.shape[1] > _MOST_CLASSES:
        raise UsageError(
            f"matrix scaling of {votes.logits.shape[1]} classes has too many weights to try penalties "
            "on; give them, as in --regularization 1,10, or use vector scaling."
        )
    # From strong to weak, so that each fit starts near its optimum.
    strong = sorted(GRID, reverse=True)
    candidates = (
        [(penalty, 0.0) for penalty in strong]
        if method == "vector"
        else [(intercept, off) for off in strong for intercept in strong]
    )
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
            fitted = _penalised(others, method, penalties, start, ROUGHLY_FLAT)
            lost[penalties] += apart.likelihood(fitted.weights, fitted.intercept).loss
            start = np.concatenate([fitted.weights.ravel(), fitted.intercept])
    return min(lost, key=lambda penalties: (lost[penalties], penalties))
