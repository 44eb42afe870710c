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
from calibkit.summaries.tally import Tally
from calibkit_kernels.curved import TERMS, curved_sums, curved_values
from calibkit_kernels.decide import LEAST, logit
from calibkit_kernels.surface import solve_cholesky

Floats = NDArray[np.float64]
#: Expected positives and rows of the highest values to how many of them the boundary selects.
Sizes = Callable[[Floats, Floats], float]

#: The window holds so many times the rows expected to be selected, and at least so many rows.
_TIMES, _LEAST = 5.0, 1500.0
#: A window of more than this share of the rows is all of them.
_MOST = 0.7
_STEPS, _LONGEST, _SMALL = 60, 2.0, 1e-9


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
        curved = np.empty(int(inside.sum()))
        ranks = self.plain.ranks[level[inside]]
        scaled = (s[inside] - self.scale[0]) / self.scale[1]
        curved_values(scaled, ranks, self.scaling, self.weights, curved)
        values[inside] = curved
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

    Parameters
    ----------
    tally
        Finite scores (unless they are probabilities), over levels.
    sizes
        How many rows a boundary is expected to select.
    probability
        Whether scores are probabilities.
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
    fit = _newton(scaled, ranks, tally.count[inside], tally.positive[inside])
    return CurvedSurface(plain, window, scale, *fit)


def _newton(
    s: Floats, u: Floats, count: NDArray[np.integer], positive: NDArray[np.integer]
) -> tuple[Floats, Floats]:
    """Return scaling and weights of least log loss plus half the sum of squared weights."""
    sums, weights = np.zeros((TERMS + 3, TERMS)), np.zeros(TERMS)
    arrays = (s, u, count, positive)
    scaling = np.tile([0.0, 1.0], (TERMS, 1))
    curved_sums(*arrays, scaling, weights, sums)
    mean = sums[TERMS + 1] / sums[TERMS + 1, 0]
    variance = sums[TERMS + 2] / sums[TERMS + 1, 0] - mean * mean
    scaling[1:, 0] = mean[1:]
    scaling[1:, 1] = np.where(variance[1:] > 1e-12, np.sqrt(np.maximum(variance[1:], 0.0)), 0.0)
    for _ in range(_STEPS):
        curved_sums(*arrays, scaling, weights, sums)
        curvature, gradient = sums[:TERMS].copy(), sums[TERMS] + weights
        gradient[0] -= weights[0]
        curvature[0, 0] += 1e-9  # all of one class: the intercept goes as far as it can
        for k in range(1, TERMS):
            curvature[k, k] += 1.0
        step = solve_cholesky(curvature, gradient)
        longest = float(np.abs(step).max())
        weights = weights - step * min(1.0, _LONGEST / longest if longest else 1.0)
        if longest < _SMALL:
            break
    return scaling, weights
