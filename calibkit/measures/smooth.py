"""Smooth ECE: residuals smoothed at the width that equals the error it finds.

smECE_sigma is the integral over [0, 1] of the absolute value of the residuals smoothed by a
Gaussian kernel of width sigma, reflected at both ends; the value reported is at the sigma that
equals its smECE (Blasiok, Nakkiran, Smooth ECE: principled reliability diagrams via kernel
smoothing, 2023, section 3).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from calibkit.measures.metric import metric
from calibkit.measures.reliability import brier
from calibkit.measures.views import View
from calibkit_kernels import metrics as kernels

Floats = NDArray[np.float64]

#: How far sigma may be from where it equals its error.
TOLERANCE = 1e-6

#: Terms of the cosine series are dropped where their factor is below exp(-DROPPED^2 / 2) = 1e-11.
_DROPPED = 7.1

#: More terms than this are not computed: narrower kernels than 6e-4 smooth a little more than said.
_MOST_TERMS = 4096

#: Cells a term and moments a cell: the angle within a cell is at most pi / 8, and the first order
#: left out contributes less than 3e-11 of a residual.
_CELLS, _ORDERS = 4, 10

#: Points a term at which the smoothed residual is looked at, and points at least: a term changes
#: sign once between two zeros, and those of high frequency are damped.
_POINTS, _LEAST_POINTS = 2, 512


class Series:
    """The cosine series of the residuals of one view; terms are computed as they are needed."""

    def __init__(self, view: View) -> None:
        assert view.probability is not None
        self._view, self._probability = view, view.probability
        self._coefficients = np.empty(0)

    def smoothed(self, sigma: float) -> float:
        """Return smECE_sigma."""
        terms = min(_MOST_TERMS, 1 + math.ceil(_DROPPED / (math.pi * sigma)))
        series = np.empty((1 + max(_LEAST_POINTS, _POINTS * terms), 2))
        kernels.damped_series(self._first(terms), sigma, series)
        return float(kernels.absolute_integral(series))

    def _first(self, terms: int) -> Floats:
        """Return the first coefficients; the number computed doubles, so that it seldom grows."""
        if terms > self._coefficients.size:
            size = 64
            while size < terms:
                size *= 2
            self._coefficients = self._sums(size) / self._view.total
        return self._coefficients[:terms]

    def _sums(self, terms: int) -> Floats:
        view, cells, out = self._view, _CELLS * terms, np.zeros(terms)
        if self._probability.size <= cells:
            middle = self._probability.astype(np.float64)
            residual = view.positive - view.count * middle
            kernels.cosine_sums(middle, residual[:, None].copy(), out)
            return out
        moments = np.zeros((cells, _ORDERS))
        kernels.residual_moments(self._probability, view.count, view.positive, moments)
        kernels.cosine_sums((np.arange(cells) + 0.5) / cells, moments, out)
        return out


@metric(
    "smooth_ece",
    lambda _: {"kernel": "gaussian-reflected", "tolerance": "1e-6"},
    interval="bootstrap",
)
def smooth_calibration_error(view: View) -> float | None:
    """Return smECE_sigma at the sigma that equals it, to 1e-6."""
    squares = brier(view)
    # No width has a larger error than the mean absolute residual, which the root bounds.
    return None if squares is None else _fixed_point(Series(view), math.sqrt(squares))


def _fixed_point(series: Series, highest: float) -> float:
    """Return sigma where it equals its error, given an error that no width exceeds.

    The error falls as sigma grows, so that the two differ by at least as much as sigma is off, and
    the error at any sigma is a bound on the other side.
    """
    low, high = 0.0, min(1.0, highest)
    sigma, before = high, None
    while high - low > TOLERANCE:
        gap = series.smoothed(sigma) - sigma
        if abs(gap) <= 0.25 * TOLERANCE:
            return sigma
        low, high = max(low, min(sigma, sigma + gap)), min(high, max(sigma, sigma + gap))
        guess, margin = 0.5 * (low + high), 0.01 * (high - low)
        if before is not None and gap != before[1]:
            secant = sigma - gap * (sigma - before[0]) / (gap - before[1])
            guess = secant if low + margin < secant < high - margin else guess
        sigma, before = guess, (sigma, gap)
    return 0.5 * (low + high) if low else 0.0
