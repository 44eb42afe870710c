"""alpha-calibration: how far apart raters are, as the strength of a Dirichlet distribution.

A row with class probabilities z gets the distribution Dirichlet(alpha0 z) over class probabilities:
its mean stays z, and alpha0 says how much raters agree beyond it.  Fitted to votes by the
Dirichlet-multinomial likelihood.  Mimori et al., "Diagnostic uncertainty calibration", appendix D.2.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final, Self

import msgspec
import numpy as np
from numpy.typing import NDArray

from calibkit.maths.minimise import minimum_search
from calibkit.maths.questions import Search, Together, answered, translated
from calibkit.maths.roots import rising_search
from calibkit.raters.logit_maps import LEAST_PROBABILITY
from calibkit.raters.order import canonical_order
from calibkit_kernels.dense import affine_rows, column_sums, outer_sums, paired_sums
from calibkit_kernels.dirichlet import histogram_costs

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
    order = canonical_order(*matrices, threads=threads)
    width = 0 if features is None else features.shape[1]
    rows = _Rows(
        positive_probabilities(probabilities[order]),
        np.ascontiguousarray(counts[order]),
        np.ascontiguousarray(features[order]) if features is not None and width else None,
        regularization,
        threads,
    )
    return answered(strength_search(width), rows.answer)


class StrengthAt(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="strength"):
    """A question: the mean cost of rows at weights and intercept (the last number), and its gradient.

    The weights are those of standardised features: `mean` and `factor` of each say how (`Moments`).
    """

    point: list[float]
    mean: list[float] = []
    factor: list[float] = []


class MomentsAsked(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="moments"):
    """A question: mean and scale of each feature."""


class SampleSlopes(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="sample"):
    """A question: the derivative in one ln alpha0 at some places, on a sample of the rows.

    The sample is the first `SAMPLE` rows in the order of `calibkit.raters.order`.
    """

    places: list[float]


@dataclass(frozen=True)
class Moments:
    """What makes features standard: factor (x - mean) has mean 0 and standard deviation 1.

    A feature that does not vary has the factor 0.
    """

    mean: Floats
    factor: Floats

    @classmethod
    def of(cls, mean: Floats, variance: Floats) -> Self:
        """Return what follows from mean and variance of each feature."""
        scale = np.sqrt(variance)
        varies = scale > 1e-12 * (1.0 + np.abs(mean))
        return cls(mean, np.where(varies, 1.0 / np.where(varies, scale, 1.0), 0.0))


StrengthSearch = Search[Any, Any, Strength]


def strength_search(features: int, flat: float = 0.0) -> StrengthSearch:
    """Search for the strength of `fit_strength` that depends on so many features, by questions.

    A constant strength whose slope is at most `flat` is good enough
    (`calibkit.maths.roots.rising_search`).
    """
    constant = yield from _constant_search(flat)
    least, gradient = yield StrengthAt([constant])
    if not features:
        return Strength(
            weights=np.empty(0),
            intercept=constant,
            objective=least,
            constant_objective=least,
            gradient=abs(float(gradient[0])),
            iterations=0,
            converged=LEAST_LOG < constant < MOST_LOG,
        )
    standard: Moments = yield MomentsAsked()
    mean, factor = standard.mean.tolist(), standard.factor.tolist()
    found = yield from translated(
        minimum_search(np.append(np.zeros(features), constant), tolerance=1e-9),
        lambda point: StrengthAt(point.tolist(), mean, factor),
        lambda _, answer: answer,
    )
    weights = found.point[:-1] * standard.factor
    shift = float(np.cumsum(weights * standard.mean)[-1])
    return Strength(
        weights=weights,
        intercept=float(found.point[-1]) - shift,
        objective=found.value,
        constant_objective=least,
        gradient=found.gradient,
        iterations=found.iterations,
        converged=found.converged,
    )


def row_costs(
    probabilities: Floats,
    counts: Counts,
    features: Floats | None,
    point: Floats,
    regularization: float,
) -> tuple[Floats, Floats]:
    """Return the cost of each row, and its derivative in ln alpha0, at weights and intercept."""
    log_alpha0 = np.full((counts.shape[0], 1), point[-1])
    if features is not None:
        affine_rows(features, point[:-1].reshape(1, -1), point[-1:], log_alpha0)
    log_alpha0 = np.clip(log_alpha0, -LARGEST_LOG, LARGEST_LOG)
    cost, slope = np.empty((2, counts.shape[0], 1))
    histogram_costs(probabilities, counts, log_alpha0[:, 0], cost[:, 0], slope[:, 0])
    cost += regularization * log_alpha0 * log_alpha0
    slope += 2.0 * regularization * log_alpha0
    return cost, slope


class _Rows:
    """Rows in memory, which answer the questions of a search."""

    def __init__(
        self,
        probabilities: Floats,
        counts: Counts,
        features: Floats | None,
        regularization: float,
        threads: int,
    ) -> None:
        self.constant = Objective(probabilities, counts, None, regularization, threads)
        self.features = features
        self.featured = self.constant

    def answer(self, question: StrengthAt | MomentsAsked | SampleSlopes) -> Any:
        """Return the answer to a question."""
        if isinstance(question, StrengthAt):
            objective = self.featured if question.mean else self.constant
            return objective.at(np.array(question.point))
        if isinstance(question, SampleSlopes):
            return self.constant.first(SAMPLE).slopes(question.places)
        return self._standardise()

    def _standardise(self) -> Moments:
        assert self.features is not None  # who asks has features
        rows, width = self.features.shape
        sums = np.empty(width)
        column_sums(self.features, sums)
        mean = sums / rows
        values = self.features - mean
        paired_sums(values, values, sums)
        found = Moments.of(mean, sums / rows)
        whole = self.constant
        self.featured = Objective(
            whole.probabilities,
            whole.counts,
            np.ascontiguousarray(values * found.factor),
            whole.regularization,
            whole.threads,
        )
        return found


class Objective:
    """The mean cost of rows as a function of weights and intercept, with its gradient.

    Rows are taken in fixed blocks, whose sums are added in order: the same result for any number of
    threads.
    """

    def __init__(
        self,
        probabilities: Floats,
        counts: Counts,
        features: Floats | None,
        regularization: float,
        threads: int,
    ) -> None:
        self.probabilities, self.counts, self.features = probabilities, counts, features
        self.regularization, self.threads = regularization, threads
        self.rows: int = counts.shape[0]
        self.blocks = [slice(low, low + _BLOCK_ROWS) for low in range(0, self.rows, _BLOCK_ROWS)]

    def at(self, point: Floats) -> tuple[float, Floats]:
        """Return the mean cost at weights and intercept, and its gradient in them."""
        if self.threads == 1 or len(self.blocks) == 1:
            parts = [self._block(rows, point) for rows in self.blocks]
        else:
            with ThreadPoolExecutor(min(self.threads, len(self.blocks))) as pool:
                parts = list(pool.map(lambda rows: self._block(rows, point), self.blocks))
        value, gradient = 0.0, np.zeros(point.size)
        for cost, slopes in parts:
            value += cost
            gradient += slopes
        return value / self.rows, gradient / self.rows

    def _block(self, rows: slice, point: Floats) -> tuple[float, Floats]:
        """Return the cost of a block of rows, and its gradient."""
        features = None if self.features is None else self.features[rows]
        cost, slope = row_costs(
            self.probabilities[rows], self.counts[rows], features, point, self.regularization
        )
        gradient, total = np.empty(point.size), np.empty(1)
        if features is not None:
            outer_sums(slope, features, gradient[:-1].reshape(1, -1))
        column_sums(slope, gradient[-1:])
        column_sums(cost, total)
        return float(total[0]), gradient

    def slopes(self, places: Sequence[float]) -> list[float]:
        """Return the derivative in one ln alpha0 for all rows, at some places."""
        return [float(self.at(np.array([place]))[1][0]) for place in places]

    def first(self, rows: int) -> Objective:
        """Return the objective of the first rows."""
        if rows >= self.rows:
            return self
        z, y = self.probabilities[:rows], self.counts[:rows]
        return Objective(z, y, None, self.regularization, 1)


def _constant_search(flat: float) -> Search[Any, Any, float]:
    """Search for the best ln alpha0 for all rows together.

    Valleys are looked for on a sample, the first rows in an order that is as good as random, and
    each is searched to its bottom on all rows.
    """
    places = np.arange(LEAST_LOG, MOST_LOG + _STEP / 2, _STEP).tolist()
    slopes: list[float] = yield SampleSlopes(places)
    valleys = [
        (places[i], places[i + 1])
        for i in range(len(places) - 1)
        if slopes[i] < 0.0 <= slopes[i + 1]
    ]
    valleys += [(LEAST_LOG, LEAST_LOG)] if slopes[0] >= 0.0 else []
    valleys += [(MOST_LOG, MOST_LOG)] if slopes[-1] < 0.0 else []
    bottoms: list[float] = yield Together([_bottom_search(*valley, flat) for valley in valleys])
    if len(bottoms) == 1:
        return bottoms[0]
    values: list[float] = yield Together([_value(place) for place in bottoms])
    return bottoms[values.index(min(values))]


def _bottom_search(low: float, high: float, flat: float) -> Search[Any, Any, float]:
    """Search for the least point of the valley around a bracket that a sample gave."""
    while low > LEAST_LOG and (yield from _slope(low)) >= 0.0:
        low, high = max(low - _STEP, LEAST_LOG), low
    while high < MOST_LOG and (yield from _slope(high)) < 0.0:
        low, high = high, min(high + _STEP, MOST_LOG)
    bottom: float = yield from translated(
        rising_search(low, high, flat),
        lambda place: StrengthAt([float(place)]),
        lambda _, answer: float(answer[1][0]),
    )
    return bottom


def _slope(log_alpha0: float) -> Search[Any, Any, float]:
    """Ask for the derivative in one ln alpha0 for all rows."""
    _, gradient = yield StrengthAt([log_alpha0])
    return float(gradient[0])


def _value(log_alpha0: float) -> Search[Any, Any, float]:
    """Ask for the mean cost at one ln alpha0 for all rows."""
    value, _ = yield StrengthAt([log_alpha0])
    return float(value)
