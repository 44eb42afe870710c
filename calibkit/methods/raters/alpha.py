"""alpha-calibration: how far apart raters are, as the strength of a Dirichlet distribution.

A row with class probabilities z gets the distribution Dirichlet(alpha0 z) over class probabilities:
its mean stays z, and alpha0 says how much raters agree beyond it.  Fitted to votes by the
Dirichlet-multinomial likelihood.  Mimori et al., "Diagnostic uncertainty calibration", appendix D.2.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from calibkit.maps.class_rows import LEAST_PROBABILITY
from calibkit.numerics.newton import FLAT_OF_MANY, quasi_newton
from calibkit.numerics.roots import rising_root
from calibkit.runtime.threads import in_order
from calibkit_kernels.dense import BLOCK_ROWS, affine_rows, column_sums, outer_sums, paired_sums
from calibkit_kernels.raters import histogram_costs

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]

#: Where ln alpha0 of a constant strength is looked for.
LEAST_LOG, MOST_LOG = -15.0, 25.0
_STEP: Final = 1.0
#: How many rows valleys are looked for on.
SAMPLE: Final = 8192
#: Rows whose costs are added up together.
_BLOCK_ROWS: Final = 8192
#: Where ln alpha0 of a row is cut off, so that its exponential is a number.
LARGEST_LOG: Final = 600.0


@dataclass(frozen=True, kw_only=True)
class Strength:
    """ln alpha0 = weights . features + intercept; no weights for a constant strength.

    `objective` is the minimised mean over rows of negative log-likelihood (without the multinomial
    coefficient) plus penalty, `constant_objective` the least one of a constant strength; `gradient`,
    in standardised features, `iterations` and `converged` say how the minimisation ended.
    """

    weights: Floats
    intercept: float
    objective: float
    constant_objective: float
    gradient: float
    iterations: int
    converged: bool


def log_strength(features: Floats | None, rows: int, weights: Floats, intercept: float) -> Floats:
    """Return ln alpha0 of each row, cut off where its exponential would not be a number."""
    if features is None or weights.size == 0:
        return np.full(rows, intercept)
    out = np.empty((rows, 1))
    affine_rows(np.ascontiguousarray(features), weights.reshape(1, -1), np.array([intercept]), out)
    return np.clip(out[:, 0], -LARGEST_LOG, LARGEST_LOG)


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
        Rows x classes; every row has a vote.  The order of the rows is as good as random.
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
    objective = Objective(probabilities, counts, regularization, threads)
    constant = _best_constant(objective)
    least, gradient = objective.at(np.array([constant]))
    if features is None or not features.shape[1]:
        return Strength(
            weights=np.empty(0),
            intercept=constant,
            objective=least,
            constant_objective=least,
            gradient=abs(float(gradient[0])),
            iterations=0,
            converged=LEAST_LOG < constant < MOST_LOG,
        )
    mean, factor = standard(features)
    start = np.append(np.zeros(features.shape[1]), constant)
    objective = replace(objective, features=features, mean=mean, factor=factor)
    found = quasi_newton(objective.at, start, tolerance=FLAT_OF_MANY)
    weights = found.point[:-1] * factor
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


def standard(features: Floats) -> tuple[Floats, Floats]:
    """Return mean and factor of features: factor (x - mean) has standard deviation 1.

    They are summed block by block; a feature that does not vary has the factor 0.
    """
    rows, width = features.shape
    blocks = [features[low : low + BLOCK_ROWS] for low in range(0, rows, BLOCK_ROWS)]
    mean, variance, own = np.zeros(width), np.zeros(width), np.empty(width)
    for block in blocks:
        column_sums(block, own)
        mean += own
    mean /= rows
    for block in blocks:
        apart = block - mean
        paired_sums(apart, apart, own)
        variance += own
    scale = np.sqrt(variance / rows)
    varies = scale > 1e-12 * (1.0 + np.abs(mean))
    return mean, np.where(varies, 1.0 / np.where(varies, scale, 1.0), 0.0)


@dataclass(frozen=True)
class Objective:
    """The mean cost of rows as a function of weights and intercept, with its gradient.

    Rows are taken in fixed blocks, whose sums are added in order: the same result for any number of
    threads.  Weights are of features less their mean, times a factor; without features one strength is
    that of all rows.
    """

    probabilities: Floats
    counts: Counts
    regularization: float
    threads: int
    features: Floats | None = None
    mean: Floats | float = 0.0
    factor: Floats | float = 1.0

    def at(self, point: Floats) -> tuple[float, Floats]:
        """Return the mean cost at weights and intercept (last), and its gradient in them."""
        rows = self.counts.shape[0]
        blocks = [slice(low, low + _BLOCK_ROWS) for low in range(0, rows, _BLOCK_ROWS)]
        value, gradient = 0.0, np.zeros(point.size)
        threads = min(self.threads, len(blocks))
        for cost, slopes in in_order(threads, lambda block: self._block(block, point), blocks):
            value += cost
            gradient += slopes
        return value / rows, gradient / rows

    def slope(self, log_alpha0: float) -> float:
        """Return the derivative of the mean cost in one ln alpha0 for all rows."""
        return float(self.at(np.array([log_alpha0]))[1][0])

    def _block(self, rows: slice, point: Floats) -> tuple[float, Floats]:
        """Return the cost of a block of rows, and its gradient."""
        counts = self.counts[rows]
        log_alpha0 = np.full((counts.shape[0], 1), point[-1])
        features = None
        if self.features is not None:
            features = np.ascontiguousarray((self.features[rows] - self.mean) * self.factor)
            affine_rows(features, point[:-1].reshape(1, -1), point[-1:], log_alpha0)
        log_alpha0 = np.clip(log_alpha0, -LARGEST_LOG, LARGEST_LOG)
        cost, slope = np.empty((2, counts.shape[0], 1))
        probabilities = positive_probabilities(self.probabilities[rows])
        histogram_costs(probabilities, counts, log_alpha0[:, 0], cost[:, 0], slope[:, 0])
        cost += self.regularization * log_alpha0 * log_alpha0
        slope += 2.0 * self.regularization * log_alpha0
        gradient, total = np.empty(point.size), np.empty(1)
        if features is not None:
            outer_sums(slope, features, gradient[:-1].reshape(1, -1))
        column_sums(slope, gradient[-1:])
        column_sums(cost, total)
        return float(total[0]), gradient


def _best_constant(objective: Objective) -> float:
    """Return the best ln alpha0 for all rows together.

    Valleys are looked for on a sample, the first rows in an order that is as good as random, and
    each is searched to its bottom on all rows.
    """
    probabilities, counts = objective.probabilities[:SAMPLE], objective.counts[:SAMPLE]
    sample = replace(objective, probabilities=probabilities, counts=counts)
    places = np.arange(LEAST_LOG, MOST_LOG + _STEP / 2, _STEP).tolist()
    slopes = [sample.slope(place) for place in places]
    valleys = [
        (places[i], places[i + 1])
        for i in range(len(places) - 1)
        if slopes[i] < 0.0 <= slopes[i + 1]
    ]
    valleys += [(LEAST_LOG, LEAST_LOG)] if slopes[0] >= 0.0 else []
    valleys += [(MOST_LOG, MOST_LOG)] if slopes[-1] < 0.0 else []
    bottoms = [_bottom(objective, *valley) for valley in valleys]
    return min(bottoms, key=lambda place: objective.at(np.array([place]))[0])


def _bottom(objective: Objective, low: float, high: float) -> float:
    """Return the least point of the valley around a bracket that a sample gave."""
    while low > LEAST_LOG and objective.slope(low) >= 0.0:
        low, high = max(low - _STEP, LEAST_LOG), low
    while high < MOST_LOG and objective.slope(high) < 0.0:
        low, high = high, min(high + _STEP, MOST_LOG)
    return rising_root(objective.slope, low, high)
