"""What a model score says about the true positivity: the Bayesian theory of Arora et al.

At an input with *evidence* n (the weight of the training rows near it, a real number >= 0) the
training data show a positivity S_train in [0, 1].  The model, a posterior network with the model
prior (p1, p0), scores it (p1 + n S_train) / (p1 + p0 + n).  The true positivity was drawn from
Beta(b1, b0), the true prior; in training, negatives were kept at the rate 1/tau.  Hence what the
score means on new data depends on the score *and* on the evidence.

Every function takes numbers or arrays of any shapes that broadcast, priors and tau included, and
returns a float64 array of the common shape.  Ranges are not checked: S_train in [0, 1], n >= 0, priors
above 0, tau from 1e-12 to 1e12.

Source: G. Arora, S. Merugu, A. Saladi, R. Rastogi, "Leveraging uncertainty estimates to improve
classifier performance", section 3 and appendix E.

The mean of a true positivity after training on thinned negatives is that of the density proportional to
r^(a-1) (1-r)^(b-1) (1 + (tau-1) r)^(-n), a = b1 + n S and b = b0 + n (1 - S), S = S_train: a ratio of
hypergeometric functions 2F1, whose series and library versions fail where prior and evidence are both
strong.  The quadrature is as exact there as elsewhere.

With x = logit r, p = expit(x) = r and q = expit(x + ln tau), the positivity in training, the
density in x is  exp(a x) (1 + e^x)^(-B) (1 + tau e^x)^(-n),  B = b1 + b0.  Its tails fall like
exp(a x) and exp(-b x): endlessly long where a or b is small.  Integration by parts (the integral
of a derivative is 0), once at each end, leads to the density D with a + 1, b + 1, B + 1, n + 1:

    E[r] = a m / (B m + n tau (B + (n + 1) M)),    m = (B + 1) M' + n,

where M and M' are the means under D of rho = (1 + e^x) / (1 + tau e^x) and of 1 / rho.  Only
positive terms; D is log-concave with tails no longer than exp(-|x|), and analytic in a strip
about the real axis, where the trapezoidal rule converges exponentially: a step of
min(0.2, sd / 2) leaves less than 1e-13 (the worst case is the density of a log-gamma variable).
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibkit.arrays import Bools, Floats, distinct_values

Prior = tuple[ArrayLike, ArrayLike]
# Asymptotic series in 1/z**2 of log-gamma and digamma; from z = 10 on the terms left out are below
# 1e-16.  R(z) = ln Gamma(z) - (z - 1/2) ln z + z - ln(2 pi)/2 is (1/z) times the first one, and
# T(z) = ln z - 1/(2 z) - digamma(z) is (1/z**2) times the second.
_LOG_GAMMA_SERIES = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156)
_DIGAMMA_SERIES = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12)
_SERIES_FROM = 10
_HALF_LOG_TWO_PI = 0.5 * math.log(2 * math.pi)


def expected_true_positivity(
    train_score: ArrayLike, evidence: ArrayLike, *, true_prior: Prior, tau: ArrayLike = 1.0
) -> Floats:
    """Return the mean of the true positivity, given what training showed: E[S_true | S_train].

    It is (b1 + n S_train) / (b1 + b0 + n) for tau = 1; otherwise by quadrature, see above, to a
    relative error below 1e-10.  S_train, the positivity in training, is in [0, 1], and n >= 0: the
    limit n -> 0 is b1 / (b1 + b0), for n -> infinity it is S_train / (S_train + tau (1 - S_train)).
    The true prior is (b1, b0), both positive; negatives were kept at the rate 1/tau in training (tau <
    1: they were multiplied).

    Arora et al., theorems E.2 and E.4 (a).  Equals the expected positivity of test rows (theorem E.3).

    Examples
    --------
    >>> expected_true_positivity([0.0, 0.5, 1.0], 10, true_prior=(2, 6), tau=1)
    array([0.11111111, 0.38888889, 0.66666667])
    >>> expected_true_positivity([0.0, 0.5, 1.0], 10, true_prior=(2, 6), tau=3).round(6)
    array([0.059494, 0.256964, 0.539849])
    """
    given = (train_score, evidence, *true_prior, tau)
    score, weight, b1, b0, rate = np.broadcast_arrays(*(np.asarray(one, float) for one in given))
    shape = score.shape
    score, weight, b1, b0, rate = (item.ravel() for item in (score, weight, b1, b0, rate))
    mean = (b1 + weight * score) / (b1 + b0 + weight)
    thinned = np.flatnonzero(rate != 1)
    mean[thinned] = _thinned_mean(*(item[thinned] for item in (score, weight, b1, b0, rate)))
    return mean.reshape(shape)


def beta_entropy(a1: ArrayLike, a0: ArrayLike) -> Floats:
    """Return the differential entropy (in nats) of Beta(a1, a0), a posterior network's uncertainty.

    ln B(a1, a0) - (a1 - 1) psi(a1) - (a0 - 1) psi(a0) + (a1 + a0 - 2) psi(a1 + a0), where a1 and a0 are
    the model prior plus the evidence of each class, both positive.

    Arora et al., footnotes 3 and 4; their sign of the last term is a misprint.  The entropy is
    *not* monotone in a1 + a0 at a fixed score where min(a1, a0) is below about 1: it then
    rises with the evidence, so that it mixes "very sure" with "sparse and extreme".  As an
    uncertainty -(a1 + a0) serves better.

    The linear terms of the three log-gammas cancel; they are left out here before they can take
    the digits with them, so that the error stays near 1e-15 for large parameters as well.

    Examples
    --------
    >>> beta_entropy([2.0, 198.0], [5.0, 2.0]).round(6)
    array([-0.484531, -3.723642])
    """
    first, second = np.asarray(a1, float), np.asarray(a0, float)
    total = first + second
    terms = _entropy_term(first) + _entropy_term(second) - _entropy_term(total)
    return np.asarray(terms - digamma(total))


def digamma(z: ArrayLike) -> Floats:
    """Return the derivative of ln Gamma(z) for z > 0, to 1e-13 of max(1, abs(value)).

    Examples
    --------
    >>> digamma([1.0]).round(12)
    array([-0.57721566])
    """
    raised, _, inverses = _raised(np.asarray(z, float))
    remainder = _series(_DIGAMMA_SERIES, raised) / (raised * raised)
    return np.asarray(np.log(raised) - 0.5 / raised - remainder - inverses)


def _raised(z: Floats) -> tuple[Floats, Floats, Floats]:
    """Return z raised by whole steps to at least 10, with what the steps cost.

    Gamma(z) = Gamma(raised) / product and digamma(z) = digamma(raised) - inverses.
    """
    raised = np.array(z, dtype=np.float64)
    product, inverses = np.ones_like(raised), np.zeros_like(raised)
    for _ in range(_SERIES_FROM):
        small = raised < _SERIES_FROM
        product = np.where(small, product * raised, product)
        inverses = np.where(small, inverses + 1 / raised, inverses)
        raised = np.where(small, raised + 1, raised)
    return raised, product, inverses


def _series(coefficients: tuple[float, ...], z: Floats) -> Floats:
    return np.asarray(np.polyval(coefficients[::-1], 1 / (z * z)), np.float64)


def _entropy_term(z: Floats) -> Floats:
    """Return ln Gamma(z) - (z - 1) digamma(z) + z, which grows like ln(z)/2 only."""
    raised, product, _ = _raised(z)
    main = (raised - 0.5) * np.log(raised) - raised + _HALF_LOG_TWO_PI
    gamma = main + _series(_LOG_GAMMA_SERIES, raised) / raised - np.log(product)
    direct = gamma - (z - 1) * digamma(z) + z
    large = np.maximum(z, _SERIES_FROM)
    square = large * large
    remainders = _series(_LOG_GAMMA_SERIES, large) / large
    remainders += (large - 1) / square * _series(_DIGAMMA_SERIES, large)
    series = 0.5 * np.log(large) + _HALF_LOG_TWO_PI + 0.5 - 0.5 / large + remainders
    return np.where(z < _SERIES_FROM, direct, series)


# The quadrature leaves out what lies this many units of the log density below the maximum.
_DEPTH = 50.0
_FEWEST_NODES = 64
_NODES_AT_ONCE = 1 << 19


def _thinned_mean(score: Floats, evidence: Floats, b1: Floats, b0: Floats, tau: Floats) -> Floats:
    """Return the mean of r under each row's density, to a relative error below 1e-10."""
    density = _Density(score, evidence, b1, b0, tau)
    left, right = density.reach(-1.0), density.reach(1.0)
    step = np.minimum(0.2, 0.5 * density.deviation)
    wanted = np.maximum((left + right) / step + 1, _FEWEST_NODES)
    rho, inverse_rho = np.empty_like(score), np.empty_like(score)
    for rows, nodes in _batches(wanted):
        part = _Density(*(item[rows] for item in (score, evidence, b1, b0, tau)))
        offsets = (left + right)[rows, None] * np.linspace(0.0, 1.0, nodes) - left[rows, None]
        log_weight, log_rho = part.at(offsets)
        weight = np.exp(log_weight)
        total = weight.sum(axis=1)
        rho[rows] = (weight * np.exp(log_rho)).sum(axis=1) / total
        inverse_rho[rows] = (weight * np.exp(-log_rho)).sum(axis=1) / total
    strength = b1 + b0
    middle = (strength + 1) * inverse_rho + evidence
    below = strength * middle + evidence * tau * (strength + (evidence + 1) * rho)
    return np.asarray((b1 + evidence * score) * (middle / below))


def _batches(wanted: Floats) -> Iterator[tuple[NDArray[np.intp], int]]:
    """Yield rows that get the same number of nodes (64, 128, ...), not too many at once."""
    doublings = np.ceil(np.log2(wanted / _FEWEST_NODES)).astype(np.int64)
    for doubling in distinct_values(doublings):
        nodes = _FEWEST_NODES << int(doubling)
        rows = np.flatnonzero(doublings == doubling)
        size = max(1, _NODES_AT_ONCE // nodes)
        for start in range(0, rows.size, size):
            yield rows[start : start + size], nodes


class _Density:
    """The densities D of some rows, as functions of the distance from their modes.

    All logarithms are of ratios to the mode, so that large evidence costs no digits.
    """

    def __init__(self, *given: Floats) -> None:
        score, evidence, b1, b0, tau = given
        positive, negative = evidence * score, evidence * (1 - score)
        up, down = b1 + positive + 1, b0 + negative + 1
        # The mode solves a quadratic equation in e^x; the root without cancellation.
        linear = (positive - b0) + tau * (b1 - negative)
        root = np.sqrt(linear * linear + 4 * tau * up * down)
        odds = np.where(
            linear > 0, (linear + root) / (2 * tau * down), 2 * up / (root + np.abs(linear))
        )
        self.strength, self.evidence = b1 + b0 + 1, evidence + 1
        self.p, self.p_rest = odds / (1 + odds), 1 / (1 + odds)
        self.q, self.q_rest = tau * odds / (1 + tau * odds), 1 / (1 + tau * odds)
        curvature = self.strength * self.p * self.p_rest + self.evidence * self.q * self.q_rest
        self.deviation = 1 / np.sqrt(curvature)
        self.log_rho = np.log1p(odds) - np.log1p(tau * odds)
        self.depth = _DEPTH + np.abs(np.log(tau))
        # ln((1 + e^(x+d)) / (1 + e^x)) is log1p(p expm1(d)), and d + log1p((1-p) expm1(-d)),
        # whichever keeps its digits; the linear parts are collected here, exactly.
        self.p_high, self.q_high = self.p > 0.5, self.q > 0.5
        self.slope = np.where(
            self.p_high,
            np.where(self.q_high, -down, positive - b0),
            np.where(self.q_high, b1 - negative, up),
        )

    def at(self, offset: Floats) -> tuple[Floats, Floats]:
        """Return the log density relative to the mode, and ln rho, at `offset` (rows, nodes)."""
        grown, shrunk = np.expm1(offset), np.expm1(-offset)

        def curved(share: Floats, rest: Floats, high: Bools) -> Floats:
            factor = np.where(high, rest, share)[:, None]
            return np.asarray(np.log1p(factor * np.where(high[:, None], shrunk, grown)))

        of_p = curved(self.p, self.p_rest, self.p_high)
        of_q = curved(self.q, self.q_rest, self.q_high)
        log_weight = self.slope[:, None] * offset
        log_weight -= self.strength[:, None] * of_p + self.evidence[:, None] * of_q
        tilt = self.p_high.astype(np.float64) - self.q_high
        return log_weight, self.log_rho[:, None] + tilt[:, None] * offset + (of_p - of_q)

    def reach(self, sign: float) -> Floats:
        """Return how far from the mode, on one side, the log density has fallen by `depth`."""
        distance: Floats = np.minimum(self.deviation * np.sqrt(2 * self.depth), 20.0)
        while True:
            short = self.at(sign * distance[:, None])[0][:, 0] > -self.depth
            if not np.any(short):
                return distance
            distance = np.where(short, 1.25 * distance, distance)
