"""Calibration metrics over a stretch of a tally: losses, bins, smoothed residuals.

A tally has its distinct probabilities by falling value, with rows (``count``) and positive rows
(``positive``) of each.  Sums run in this order, so they are functions of the tally alone.

Smooth calibration error has residuals smoothed by a Gaussian kernel reflected at 0 and 1.  On [0, 1]
the Gaussian kernel with all its reflections is the heat kernel with insulated ends,

    K(t, f) = 1 + 2 sum_k exp(-(pi k sigma)^2 / 2) cos(pi k t) cos(pi k f),

so the smoothed residuals are a cosine series, whose coefficients do not depend on sigma: one pass
over the rows serves every sigma (Blasiok, Nakkiran, Smooth ECE, 2023, section 3, has the kernel).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._jit import kernel
from .maps import expit_of

Counts = NDArray[Any]
Floats = NDArray[Any]
Int64s = NDArray[np.int64]
Float64s = NDArray[np.float64]

#: Probabilities are moved this far inside (0, 1) before their logarithm is taken.
CLIP = 1e-15


@kernel
def expit(score: Floats, out: NDArray[np.float64]) -> None:
    """Write ``1 / (1 + exp(-score))``, also of infinite scores."""
    for i in range(score.size):
        out[i] = expit_of(float(score[i]))


@kernel
def loss_sums(probability: Floats, count: Counts, positive: Counts) -> tuple[float, float, float]:
    """Return the sums over rows of probability, logarithmic loss and squared error."""
    mass, log_loss, squares = 0.0, 0.0, 0.0
    for i in range(probability.size):
        p = float(probability[i])
        hits, misses = float(positive[i]), float(np.int64(count[i]) - np.int64(positive[i]))
        mass += (hits + misses) * p
        clipped = min(max(p, CLIP), 1.0 - CLIP)
        if hits > 0:
            log_loss -= hits * math.log(clipped)
            squares += hits * (1.0 - p) * (1.0 - p)
        if misses > 0:
            log_loss -= misses * math.log(1.0 - clipped)
            squares += misses * p * p
    return mass, log_loss, squares


@kernel
def entries_from(probability: Floats, edges: NDArray[np.float64], out: Int64s) -> None:
    """Write how many entries are at or above each edge."""
    for j in range(edges.size):
        low, high = 0, probability.size
        while low < high:
            middle = (low + high) // 2
            if float(probability[middle]) >= edges[j]:
                low = middle + 1
            else:
                high = middle
        out[j] = low


@kernel
def range_sums(
    probability: Floats, count: Counts, positive: Counts
) -> tuple[np.int64, np.int64, float]:
    """Return rows, positive rows and the sum of probabilities over rows."""
    rows, hits, mass = np.int64(0), np.int64(0), 0.0
    for i in range(probability.size):
        rows += count[i]
        hits += positive[i]
        mass += float(count[i]) * float(probability[i])
    return rows, hits, mass


@kernel
def residual_moments(probability: Floats, count: Counts, positive: Counts, out: Float64s) -> None:
    """Add the moments of residuals about the middles of equal cells of [0, 1].

    ``out[c, m]`` takes the sum over rows in cell c of ``(label - p) * x**m / m!``, x being how far
    p lies from the middle of the cell.
    """
    cells, orders = out.shape
    for i in range(probability.size):
        p = float(probability[i])
        cell = min(int(p * cells), cells - 1)
        offset = p - (cell + 0.5) / cells
        term = float(positive[i]) - float(count[i]) * p
        for order in range(orders):
            out[cell, order] += term
            term *= offset / (order + 1)


@kernel
def cosine_sums(middle: Float64s, moments: Float64s, out: Float64s) -> None:
    """Add to ``out[k]`` the sum of residuals times ``cos(pi k p)``, from moments about middles.

    Moments of order 0 alone stand for residuals at the middles themselves.
    """
    orders = moments.shape[1]
    for i in range(middle.size):
        angle = math.pi * middle[i]
        turn_cos, turn_sin = math.cos(angle), math.sin(angle)
        cosine, sine = 1.0, 0.0
        for k in range(out.size):
            # cos(w (m + x)) = cos(w m) (1 - (w x)^2 / 2! + …) - sin(w m) (w x - (w x)^3 / 3! + …)
            even, odd, power, frequency = 0.0, 0.0, 1.0, math.pi * k
            for order in range(orders):
                sign = 1.0 if order % 4 < 2 else -1.0
                if order % 2 == 0:
                    even += sign * power * moments[i, order]
                else:
                    odd += sign * power * moments[i, order]
                power *= frequency
            out[k] += cosine * even - sine * odd
            cosine, sine = cosine * turn_cos - sine * turn_sin, sine * turn_cos + cosine * turn_sin


@kernel
def damped_series(coefficient: Float64s, sigma: float, out: Float64s) -> None:
    """Write the smoothed residuals and their integral from 0 at equally spaced points of [0, 1].

    Parameters
    ----------
    coefficient
        The sums of residuals times ``cos(pi k p)``, by k.
    sigma
        The width of the kernel.
    out
        One row a point, the first at 0, the last at 1; two columns: the smoothed residual and its
        integral.
    """
    points = out.shape[0]
    damped = np.empty(coefficient.size)
    for k in range(coefficient.size):
        width = math.pi * k * sigma
        damped[k] = (2.0 if k else 1.0) * coefficient[k] * math.exp(-0.5 * width * width)
    for i in range(points):
        t = i / (points - 1)
        turn_cos, turn_sin = math.cos(math.pi * t), math.sin(math.pi * t)
        cosine, sine = turn_cos, turn_sin
        value, integral = damped[0], damped[0] * t
        for k in range(1, coefficient.size):
            value += damped[k] * cosine
            integral += damped[k] * sine / (math.pi * k)
            cosine, sine = cosine * turn_cos - sine * turn_sin, sine * turn_cos + cosine * turn_sin
        out[i, 0] = value
        out[i, 1] = integral


@kernel
def absolute_integral(series: Float64s) -> float:
    """Return the integral of the absolute value of a function given by values and integral.

    Between two points of one sign it is the difference of the integrals; where the sign changes,
    the function is taken as linear up to its root.
    """
    total, step = 0.0, 1.0 / (series.shape[0] - 1)
    for i in range(1, series.shape[0]):
        before, after = series[i - 1, 0], series[i, 0]
        gained = series[i, 1] - series[i - 1, 1]
        if (before < 0.0) != (after < 0.0):
            share = before / (before - after)
            first = 0.5 * before * share * step
            total += abs(first) + abs(gained - first)
        else:
            total += abs(gained)
    return total
