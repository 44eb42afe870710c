"""A logistic surface with squares, fitted where a boundary runs.

The logistic surface of `logistic` is fitted to all rows, most of which lie far
below a boundary at a high precision, and bends to suit them.  Here a surface with the squares of
score and rank is fitted to the rows near and above the boundary alone: its *window*, the rows that
the plain surface puts highest, five times as many as it expects the boundary to select.  Below the
window the order is that of the plain surface.

A boundary rises with the score at every uncertainty, so of the parabola at a level only the rising
side is taken, and the other one made level.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calibkit.methods.boundary.problem.found import Surface
from calibkit.methods.boundary.solvers.surface_fit import fit_surface
from calibkit.numerics.newton import newton
from calibkit.summaries.tally import Tally
from calibkit_kernels.decide import LEAST, logit
from calibkit_kernels.dense import affine_rows, outer_sums
from calibkit_kernels.regression import newton_sums

Floats = NDArray[np.float64]
#: Expected positives and rows of the highest values to how many of them the boundary selects.
Sizes = Callable[[Floats, Floats], float]

#: The window holds so many times the rows expected to be selected, and at least so many rows.
_TIMES, _LEAST = 5.0, 1500.0
#: A window of more than this share of the rows is all of them.
_MOST = 0.7
#: Entries whose terms are made together.
_BLOCK = 65_536
#: Intercept, s, u, s u, s^2 and u^2.
TERMS = 6


@dataclass(frozen=True)
class CurvedSurface:
    """A plain surface, a window of its highest values, and a surface with squares inside it.

    `scale` has the middle and the spread by which scores enter the squares.
    """

    plain: Surface
    window: float
    scale: tuple[float, float]
    scaling: Floats
    weights: Floats

    def probabilities(self, s: Floats, level: NDArray[np.uint16]) -> Floats:
        """Return the fitted probability of some regressors and their levels."""
        values = plain_values(self.plain, s, level)
        inside = values >= self.window
        ranks = self.plain.ranks[level[inside]]
        scaled = (s[inside] - self.scale[0]) / self.scale[1]
        curved = np.empty((scaled.size, 1))
        terms = _terms(scaled, ranks, self.scaling)
        affine_rows(terms, self.weights.reshape(1, -1), np.zeros(1), curved)
        values[inside] = curved[:, 0]
        return probability_of(values)

    def worth(self, s: Floats) -> Floats:
        """Return what orders rows, shape (levels, scores), rising with the rising scores `s`.

        It is the probability, plus 1 inside the window.  Where the parabola of a level opens upwards
        its falling side counts as its lowest point, else as its highest; the plain surface decides
        between equals.
        """
        levels = self.plain.ranks.size
        level = np.repeat(np.arange(levels, dtype=np.uint16), s.size)
        tiled = np.tile(s, levels)
        plain = plain_values(self.plain, tiled, level)
        found = self.probabilities(tiled, level) + (plain >= self.window)
        found = found.reshape(levels, s.size)
        if self.weights[4] > 0.0:
            found = np.minimum.accumulate(found[:, ::-1], axis=1)[:, ::-1]
        else:
            found = np.maximum.accumulate(found, axis=1)
        return found + 1e-6 * probability_of(plain).reshape(found.shape)


def plain_values(surface: Surface, s: Floats, level: NDArray[np.uint16]) -> Floats:
    """Return the log-odds of a plain surface."""
    lines = surface.lines()
    values: Floats = lines[level, 0] + lines[level, 1] * s
    return values


def probability_of(values: Floats) -> Floats:
    """Return the probabilities of some log-odds."""
    small = np.exp(-np.abs(values))
    return np.where(values >= 0.0, 1.0, small) / (1.0 + small)


def regressor(score: NDArray[np.floating], *, probability: bool) -> Floats:
    """Return what enters the surface: the logit of a probability clipped by 1e-6, or the score."""
    if not probability:
        return score.astype(np.float64)
    clipped = np.clip(score.astype(np.float64), LEAST, 1.0 - LEAST)
    return np.array([logit(p) for p in clipped.tolist()])


def fit_curved(tally: Tally, sizes: Sizes, *, probability: bool = True) -> CurvedSurface:
    """Fit the surface to a tally.

    `tally`: finite scores (unless they are probabilities), over levels; `sizes`: how many rows a
    boundary is expected to select; `probability`: whether scores are probabilities.
    """
    plain = fit_surface(tally, probability=probability)
    s = tally.logits[0] if probability else tally.score.astype(np.float64)
    values = plain_values(plain, s, tally.level)
    order = np.argsort(-values, kind="stable")
    count = tally.count[order].astype(np.float64)
    rows = np.cumsum(count)
    expected = sizes(np.cumsum(probability_of(values[order]) * count), rows)
    wanted = max(_TIMES * expected, _LEAST)
    window = -np.inf
    if wanted < _MOST * rows[-1]:
        window = float(values[order[int(np.searchsorted(rows, wanted))]])
    inside = values >= window
    ordered = np.sort(s[inside])
    low, middle, high = (float(ordered[k * (ordered.size - 1) // 4]) for k in (1, 2, 3))
    scale = (middle, high - low or 1.0)
    ranks = plain.ranks[tally.level[inside]]
    scaled = (s[inside] - scale[0]) / scale[1]
    rows = tally.count[inside].astype(np.float64)
    return CurvedSurface(
        plain, window, scale, *_fit(scaled, ranks, rows, tally.positive[inside] / rows)
    )


def _fit(s: Floats, u: Floats, count: Floats, share: Floats) -> tuple[Floats, Floats]:
    """Return scaling and weights of least log loss plus half the sum of squared weights.

    `share` has the positive rate of the rows of each entry.
    """
    blocks = [slice(low, low + _BLOCK) for low in range(0, s.size, _BLOCK)]
    scaling = np.tile([0.0, 1.0], (TERMS, 1))
    moments, part = np.zeros((2, TERMS)), np.empty((1, TERMS))
    for own in blocks:
        terms = _terms(s[own], u[own], scaling)
        for row, values in zip(moments, (terms, terms * terms), strict=True):
            outer_sums(count[own].reshape(-1, 1), values, part)
            row += part[0]
    mean, square = moments / moments[0, 0]
    variance = square - mean * mean
    scaling[1:, 0] = mean[1:]
    scaling[1:, 1] = np.where(variance[1:] > 1e-12, np.sqrt(np.maximum(variance[1:], 0.0)), 0.0)
    penalty = np.append(1e-9, np.ones(TERMS - 1))  # all of one class: the intercept stays finite

    def sums(weights: Floats) -> tuple[float, Floats, Floats]:
        gradient, curvature = penalty * weights, np.diag(penalty)
        loss = 0.5 * float(np.cumsum(penalty * weights * weights)[-1])
        for own in blocks:
            terms = _terms(s[own], u[own], scaling)
            loss += newton_sums(terms, share[own], count[own], weights, gradient, curvature)
        return loss, gradient, curvature

    return scaling, newton(sums, np.zeros(TERMS), scale=moments[0, 0]).point


def _terms(s: Floats, u: Floats, scaling: Floats) -> Floats:
    """Return intercept, s, u, s u, s^2 and u^2, less their means and in units of their spreads.

    `scaling` has a row (mean, spread) for each regressor; a spread of 0 leaves the regressor out.
    """
    terms = np.column_stack([np.ones(s.size), s, u, s * u, s * s, u * u])
    mean, spread = scaling.T
    varies = spread > 0.0
    terms[:, 1:] = (terms - mean)[:, 1:] / np.where(varies, spread, 1.0)[1:] * varies[1:]
    return terms
