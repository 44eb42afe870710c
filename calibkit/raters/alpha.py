"""alpha-calibration: how far apart raters are, as the strength of a Dirichlet distribution.

A row with class probabilities z gets the distribution Dirichlet(alpha0 z) over class probabilities:
its mean stays z, and alpha0 says how much raters agree beyond it.  Fitted to votes by the
Dirichlet-multinomial likelihood.  Mimori et al., "Diagnostic uncertainty calibration", appendix D.2.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from calibkit.minimise import minimise
from calibkit.raters.logit_maps import LEAST_PROBABILITY
from calibkit.raters.order import block_parts, canonical_order
from calibkit.roots import rising_root
from calibkit_kernels.dense import affine_rows, column_sums, outer_sums
from calibkit_kernels.dirichlet import histogram_costs

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]

#: Where ln alpha0 of a constant strength is looked for.
LEAST_LOG, MOST_LOG = -15.0, 25.0
_STEP: Final = 1.0
_SAMPLE: Final = 8192
#: Where ln alpha0 of a row is cut off, so that its exponential is a number.
_LARGEST_LOG: Final = 600.0


@dataclass(frozen=True, kw_only=True)
class Strength:
    """ln alpha0 = weights . features + intercept.

    Attributes
    ----------
    weights
        One number a feature, in the features' own units; none for a constant strength.
    intercept
        ln alpha0 where all features are 0.
    objective
        The minimised mean over rows of negative log-likelihood (without the multinomial
        coefficient) plus penalty.
    constant_objective
        The least objective of a constant strength.
    gradient, iterations, converged
        How the minimisation ended; the gradient in standardised features.
    """

    weights: Floats
    intercept: float
    objective: float
    constant_objective: float
    gradient: float
    iterations: int
    converged: bool

    def log_alpha0(self, features: Floats | None, rows: int) -> Floats:
        """Return ln alpha0 of each row."""
        return log_strength(features, rows, self.weights, self.intercept)


def log_strength(features: Floats | None, rows: int, weights: Floats, intercept: float) -> Floats:
    """Return ln alpha0 of each row, cut off where its exponential would not be a number."""
    if features is None or weights.size == 0:
        return np.full(rows, intercept)
    out = np.empty((rows, 1))
    affine_rows(np.ascontiguousarray(features), weights.reshape(1, -1), np.array([intercept]), out)
    return np.clip(out[:, 0], -_LARGEST_LOG, _LARGEST_LOG)


def positive_probabilities(probabilities: Floats) -> Floats:
    """Return probabilities of at least `LEAST_PROBABILITY`, normalised again.

    A class without probability could not have been voted for at all.
    """
    lifted = np.maximum(probabilities, LEAST_PROBABILITY)
    total = np.zeros(lifted.shape[0])
    for place in range(lifted.shape[1]):
        total += lifted[:, place]
    return np.ascontiguousarray(lifted / total[:, None])


def fit_strength(
    probabilities: Floats,
    counts: Counts,
    features: Floats | None = None,
    *,
    regularization: float = 0.005,
    threads: int = 1,
) -> Strength:
    """Fit the strength to votes.

    Parameters
    ----------
    probabilities, counts
        Rows x classes; every row has a vote.
    features
        Rows x features, or None for a constant strength.
    regularization
        The penalty of (ln alpha0)^2, a row.  Both it and the likelihood are averaged over rows, so
        its strength depends neither on the number of rows nor on that of votes.
    threads
        How many threads may work; the result does not depend on it.

    Notes
    -----
    Rows with one vote say nothing about alpha0: with such rows only, ln alpha0 is 0 under a penalty
    and not determined without one.  The objective need not be convex: the best constant is looked
    for between e^-15 and e^25, and the search on features starts there.
    """
    matrices = (probabilities, counts) if features is None else (probabilities, counts, features)
    order = canonical_order(*matrices)
    cost = _Objective(
        positive_probabilities(probabilities[order]), counts[order], regularization, threads
    )
    constant = _best_constant(cost)
    least = cost.value(np.full(order.size, constant))
    if features is None or features.shape[1] == 0:
        slope = abs(cost.mean_slope(np.full(order.size, constant)))
        inside = LEAST_LOG < constant < MOST_LOG
        return Strength(
            weights=np.empty(0),
            intercept=constant,
            objective=least,
            constant_objective=least,
            gradient=slope,
            iterations=0,
            converged=inside,
        )
    return _on_features(cost, np.ascontiguousarray(features[order]), constant, least)


class _Objective:
    """The mean cost of rows at given ln alpha0, with its slope in each."""

    def __init__(
        self, probabilities: Floats, counts: Counts, regularization: float, threads: int
    ) -> None:
        self.probabilities, self.counts = probabilities, np.ascontiguousarray(counts)
        self.regularization = regularization
        self.rows: int = counts.shape[0]
        self.parts = block_parts(self.rows, threads)
        self.cost, self.slope = np.empty((2, self.rows, 1))

    def evaluate(self, log_alpha0: Floats) -> None:
        """Fill in cost and slope of each row."""

        def part(rows: slice) -> None:
            histogram_costs(
                self.probabilities[rows],
                self.counts[rows],
                log_alpha0[rows],
                self.cost[rows, 0],
                self.slope[rows, 0],
            )

        if len(self.parts) == 1:
            part(self.parts[0])
        else:
            with ThreadPoolExecutor(len(self.parts)) as pool:
                list(pool.map(part, self.parts))
        self.cost[:, 0] += self.regularization * log_alpha0 * log_alpha0
        self.slope[:, 0] += 2.0 * self.regularization * log_alpha0

    def first(self, rows: int) -> _Objective:
        """Return the objective of the first rows."""
        if rows >= self.rows:
            return self
        return _Objective(self.probabilities[:rows], self.counts[:rows], self.regularization, 1)

    def value(self, log_alpha0: Floats) -> float:
        """Return the mean cost."""
        self.evaluate(log_alpha0)
        return _total(self.cost) / float(self.rows)

    def mean_slope(self, log_alpha0: Floats) -> float:
        """Return the derivative of the mean cost where all ln alpha0 move together."""
        self.evaluate(log_alpha0)
        return _total(self.slope) / float(self.rows)


def _total(column: Floats) -> float:
    out = np.empty(1)
    column_sums(column, out)
    return float(out[0])


def _best_constant(cost: _Objective) -> float:
    """Return the best ln alpha0 for all rows together.

    Valleys are looked for on a sample, the first rows in an order that is as good as random, and
    each is searched to its bottom on all rows.
    """
    sample = cost.first(_SAMPLE)
    places = np.arange(LEAST_LOG, MOST_LOG + _STEP / 2, _STEP)
    slopes = [sample.mean_slope(np.full(sample.rows, place)) for place in places]
    valleys = [
        (float(places[i]), float(places[i + 1]))
        for i in range(places.size - 1)
        if slopes[i] < 0.0 <= slopes[i + 1]
    ]
    ends = [LEAST_LOG] if slopes[0] >= 0.0 else []
    ends += [MOST_LOG] if slopes[-1] < 0.0 else []
    bottoms = [_bottom(cost, low, high) for low, high in [*valleys, *((end, end) for end in ends)]]
    if len(bottoms) == 1:
        return bottoms[0]
    return min(bottoms, key=lambda place: cost.value(np.full(cost.rows, place)))


def _bottom(cost: _Objective, low: float, high: float) -> float:
    """Return the least point of the valley around a bracket that a sample gave."""

    def slope(place: float) -> float:
        return cost.mean_slope(np.full(cost.rows, place))

    while low > LEAST_LOG and slope(low) >= 0.0:
        low, high = max(low - _STEP, LEAST_LOG), low
    while high < MOST_LOG and slope(high) < 0.0:
        low, high = high, min(high + _STEP, MOST_LOG)
    return rising_root(slope, low, high)


def _on_features(cost: _Objective, features: Floats, constant: float, least: float) -> Strength:
    rows, width = features.shape
    sums = np.empty(width)
    column_sums(features, sums)
    mean = sums / rows
    centred = features - mean
    squares = np.empty((1, width))
    column_sums(centred * centred, squares[0])
    scale = np.sqrt(squares[0] / rows)
    varies = scale > 1e-12 * (1.0 + np.abs(mean))
    standard = np.ascontiguousarray(centred / np.where(varies, scale, 1.0) * varies)
    out, slopes = np.empty((rows, 1)), np.empty((1, width))

    def evaluate(point: Floats) -> tuple[float, Floats]:
        affine_rows(standard, point[:-1].reshape(1, -1), point[-1:], out)
        log_alpha0 = np.clip(out[:, 0], -_LARGEST_LOG, _LARGEST_LOG)
        value = cost.value(log_alpha0)
        outer_sums(cost.slope, standard, slopes)
        return value, np.append(slopes[0], _total(cost.slope)) / rows

    found = minimise(evaluate, np.append(np.zeros(width), constant), tolerance=1e-9)
    weights = np.where(varies, found.point[:-1] / np.where(varies, scale, 1.0), 0.0)
    shift = float(np.cumsum(weights * mean)[-1])
    return Strength(
        weights=weights,
        intercept=float(found.point[-1]) - shift,
        objective=found.value,
        constant_objective=least,
        gradient=found.gradient,
        iterations=found.iterations,
        converged=found.converged,
    )
