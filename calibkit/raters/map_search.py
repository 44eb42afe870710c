"""The search for a linear map of logits, as questions about sums over rows.

Whoever has the rows answers: all of them in memory (`calibkit.raters.map_fit`), or shard by shard
(`calibkit.raters.rounds`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from calibkit.errors import UsageError
from calibkit.maths.minimise import minimum_search
from calibkit.maths.questions import Search, Together, translated
from calibkit.maths.roots import rising_search
from calibkit.raters.logit_maps import MOST_INVERSE_TEMPERATURE, LogitMap

Floats = NDArray[np.float64]

#: What cross-validation tries, for the intercept and for the weights off the diagonal.
GRID: Final = (0.01, 0.1, 1.0, 10.0)
#: Into how many parts rows are dealt for it.
FOLDS: Final = 3
#: Classes of matrix scaling up to which cross-validation ends within minutes.
_MOST_CLASSES: Final = 100
#: How flat the objective is made: for a model, and where maps are only compared.
_FLAT, _ROUGHLY_FLAT = 1e-9, 1e-5


class MapAt(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="map", omit_defaults=True):
    """A question: the sums over rows at a map of their logits.

    Attributes
    ----------
    weights
        Row by row; one number, one a class, or classes x classes.
    intercept
        One number a class.
    fold, held
        Over the rows of all folds but one (of `FOLDS`), or where `held` of this one only; None: over
        all rows.
    """

    weights: list[float]
    intercept: list[float]
    fold: int | None = None
    held: bool = False

    @property
    def arrays(self) -> tuple[Floats, Floats]:
        """The weights as a map has them, and the intercept."""
        weights, intercept = np.array(self.weights), np.array(self.intercept)
        square = weights.size not in (1, intercept.size)
        return weights.reshape((intercept.size, -1)) if square else weights, intercept


class FoldSizes(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="folds"):
    """A question: how many rows each of `FOLDS` folds has."""


@dataclass(frozen=True)
class MapSums:
    """The answer to `MapAt`.

    Attributes
    ----------
    votes
        How many there are.
    loss
        Minus the sum over votes of the logarithm of their class's probability.
    rise
        Its derivative in the intercept.
    products
        Its derivative in the weights: one number a class for a diagonal and for a temperature.
    """

    votes: int
    loss: float
    rise: Floats
    products: Floats


MapSearch = Search[Any, Any, LogitMap]


def map_search(
    classes: int,
    method: str,
    regularization: tuple[float, float] | None,
    flat: float = 0.0,
) -> MapSearch:
    """Search for the map of `fit_logit_map`, asking for sums (`MapAt`, `FoldSizes`).

    The first question is that of the logits as they are.  A temperature whose slope is at most
    `flat` is good enough (`calibkit.maths.roots.rising_search`).
    """
    temperature = method == "temperature"
    ones = [1.0] if temperature or method == "vector" else np.eye(classes).ravel().tolist()
    before: MapSums = yield MapAt(ones, [0.0] * classes)
    if temperature:
        found = yield from _temperature_search(classes, flat)
    else:
        if regularization is None:
            regularization = yield from _penalty_search(method, classes)
        start = _identity(method, classes)
        found = yield from _linear_search(classes, method, regularization, start)
        after: MapSums = yield MapAt(found.weights.ravel().tolist(), found.intercept.tolist())
        found = replace(found, loss=after.loss / after.votes)
    return replace(found, loss_before=before.loss / before.votes)


def _temperature_search(classes: int, flat: float) -> MapSearch:
    def ask(beta: float) -> MapAt:
        return MapAt([float(beta)], [0.0] * classes)

    def slope(beta: float, sums: MapSums) -> float:
        return float(np.cumsum(sums.products)[-1]) / sums.votes

    high = 1.0
    while slope(high, (yield ask(high))) < 0.0 and high < MOST_INVERSE_TEMPERATURE:
        high = min(4.0 * high, MOST_INVERSE_TEMPERATURE)
    beta = yield from translated(rising_search(0.0, high, flat), ask, slope)
    sums: MapSums = yield ask(beta)
    value, left = sums.loss / sums.votes, abs(slope(beta, sums))
    capped = beta in (0.0, MOST_INVERSE_TEMPERATURE)
    return LogitMap(
        method="temperature",
        weights=np.array([beta]),
        intercept=np.zeros(classes),
        objective=value,
        loss=value,
        gradient=0.0 if capped else left,
    )


def _identity(method: str, classes: int) -> Floats:
    weights = np.ones(classes) if method == "vector" else np.eye(classes).ravel()
    return np.concatenate([weights, np.zeros(classes)])


def _linear_search(
    classes: int,
    method: str,
    regularization: tuple[float, float],
    start: Floats,
    tolerance: float = _FLAT,
    fold: int | None = None,
) -> MapSearch:
    def ask(point: Floats) -> MapAt:
        return MapAt(point[:-classes].tolist(), point[-classes:].tolist(), fold)

    take = _penalised(classes, method, regularization)
    found = yield from translated(minimum_search(start, tolerance=tolerance), ask, take)
    shape = (classes,) if method == "vector" else (classes, classes)
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


def _penalised(
    classes: int, method: str, regularization: tuple[float, float]
) -> Callable[[Floats, MapSums], tuple[float, Floats]]:
    """Return what makes the objective of vector or matrix scaling, and its gradient, of sums."""
    intercept_penalty = regularization[0] / classes
    weight_penalty = regularization[1] / (classes * (classes - 1))
    off = 1.0 - np.eye(classes)

    def take(point: Floats, sums: MapSums) -> tuple[float, Floats]:
        weights, intercept = point[:-classes], point[-classes:]
        penalty = intercept_penalty * float(np.cumsum(intercept * intercept)[-1])
        slope = sums.products / sums.votes
        if method == "matrix":
            beside = weights.reshape(classes, classes) * off
            penalty += weight_penalty * float(np.cumsum(beside * beside)[-1])
            slope = slope + 2.0 * weight_penalty * beside
        value = sums.loss / sums.votes + penalty
        slope_intercept = sums.rise / sums.votes + 2.0 * intercept_penalty * intercept
        return value, np.concatenate([slope.ravel(), slope_intercept])

    return take


def _penalty_search(method: str, classes: int) -> Search[Any, Any, tuple[float, float]]:
    """Search for the penalties whose maps lose least on votes they were not fitted on."""
    if method == "matrix" and classes > _MOST_CLASSES:
        raise UsageError(
            f"matrix scaling of {classes} classes has too many weights to try penalties on; "
            "give them, as in --regularization 1,10, or use vector scaling."
        )
    sizes: list[int] = yield FoldSizes()
    folds = [fold for fold, size in enumerate(sizes) if 0 < size < sum(sizes)]
    if not folds:
        return (1.0, 1.0)
    found = yield Together([_fold_search(method, classes, fold) for fold in folds])
    lost = {penalties: sum(one[penalties] for one in found) for penalties in _candidates(method)}
    return min(lost, key=lambda penalties: (lost[penalties], penalties))


def _fold_search(
    method: str, classes: int, fold: int
) -> Search[Any, Any, dict[tuple[float, float], float]]:
    """Search for what each map loses on the rows of a fold, when it is fitted on all others."""
    lost = {}
    start = _identity(method, classes)
    for penalties in _candidates(method):
        fitted = yield from _linear_search(classes, method, penalties, start, _ROUGHLY_FLAT, fold)
        weights = fitted.weights.ravel().tolist()
        held: MapSums = yield MapAt(weights, fitted.intercept.tolist(), fold, True)
        lost[penalties] = held.loss
        start = np.concatenate([fitted.weights.ravel(), fitted.intercept])
    return lost


def _candidates(method: str) -> list[tuple[float, float]]:
    """Return penalties from strong to weak, so that each fit starts near its optimum."""
    strong = sorted(GRID, reverse=True)
    if method == "vector":
        return [(penalty, 0.0) for penalty in strong]
    return [(intercept, off) for off in strong for intercept in strong]
