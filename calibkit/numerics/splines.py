"""Logistic regression on a rising spline: a logit whose slope is piecewise linear and never negative.

The slope at each knot is a variable of at least 0; between two knots it goes over in a line, below
the first and above the last it stays.  So the logit is a sum of I-splines of order 2 with coefficients
that are not negative (J. Ramsay, Monotone regression splines in action, 1988), linear beyond the outer
knots.

On the points of one cell between knots the logit is a plane in two features, so that the sums of
`calibkit.numerics.logistic` are taken cell by cell.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calibkit.numerics.logistic import MANY, fit_logistic, summer, thinned
from calibkit.numerics.newton import Sums, newton
from calibkit_kernels.newton import FIXED, FREE, RISING, TRACE_SHARE

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class RisingSpline:
    """A fitted spline.

    Attributes
    ----------
    knots, logits, slopes
        Where the slope bends, and the logit and its slope there.
    loss, gradient
        The minimised sum, and the largest slope of the mean loss left.
    """

    knots: Floats
    logits: Floats
    slopes: Floats
    loss: float
    gradient: float


@dataclass(frozen=True)
class _Cell:
    """The points between two knots.

    `rows` says how the slope below, the slope above and the level at the cell's knot follow from the
    variables: the slopes at all knots, then the level at the first.
    """

    rows: Floats
    sums: Callable[[Floats], tuple[float, Floats, Floats]]


def fit_rising_spline(
    x: Floats,
    positive: Floats,
    negative: Floats,
    knots: Floats,
    threads: int = 1,
    *,
    bend: float = np.inf,
) -> RisingSpline:
    """Minimise the sum of -(positive ln q + negative ln(1 - q)), q = expit of a rising spline of x.

    Parameters
    ----------
    x
        Points that do not fall, finite.
    positive, negative
        Their weights, not negative, some positive.
    knots
        Rising; with one the spline is a line.
    threads
        How many threads may sum; the result does not depend on it.
    bend
        How far the slope is expected to stray from the first knot to the last, as a share of the
        slope of the best line.  A random walk that does so prices each change from knot to knot:
        half its square, in units of its standard deviation, is added to the sum.

    Notes
    -----
    There is a minimum unless every positive point lies at or above every negative one, or the slope
    at some knot moves points of one class only: who gives the knots sees to both.
    """
    width = float(knots[-1] - knots[0]) or float(x[-1] - x[0]) or 1.0
    places, middle = (knots - knots[0]) / width, float(knots[0])
    line = fit_logistic((x,), positive, negative, rising=True, threads=threads)
    slope = line.slopes[0] * width
    start = np.append(np.full(knots.size, slope), line.slopes[0] * middle + line.intercept)
    if x.size >= MANY:
        (few,), ones, zeros = thinned((x,), positive, negative)
        rough = fit_rising_spline(few, ones, zeros, knots, bend=bend)
        start = np.append(rough.slopes * width, rough.logits[0])
    cells = _cells((x - middle) / width, positive, negative, places, threads)
    flat = x[0] == x[-1]
    found = newton(
        _summer(cells, _stiffness(knots.size, bend * max(slope, 1.0))),
        start,
        kinds=[FIXED if flat else RISING] * knots.size + [FREE],
        scale=float(np.add.reduce(positive)) + float(np.add.reduce(negative)),
        ridge=TRACE_SHARE,
    )
    slopes, level = found.point[:-1], found.point[-1]
    rises = 0.5 * np.diff(places) * (slopes[1:] + slopes[:-1])
    logits = np.cumsum(np.append(level, rises))
    return RisingSpline(knots, logits, slopes / width, found.value, found.gradient)


def _cells(
    x: Floats, positive: Floats, negative: Floats, places: Floats, threads: int
) -> list[_Cell]:
    """Return the cells between knots that hold points."""
    count, found = places.size, []
    ends = [0, *np.searchsorted(x, places).tolist(), x.size]
    level = np.zeros(count + 1)
    level[-1] = 1.0
    for cell in range(count + 1):
        below, above = max(cell - 1, 0), min(cell, count - 1)
        own = slice(ends[cell], ends[cell + 1])
        rows = np.zeros((3, count + 1))
        rows[0, below] = 1.0
        rows[1, above] += above > below
        rows[2] = level
        away = x[own] - places[below]
        if 0 < cell < count:
            wide = places[above] - places[below]
            bent = away * (away / wide) * 0.5
            features = away - bent, bent
            level = level.copy()
            level[[below, above]] += 0.5 * wide
        else:
            features = away, np.zeros(away.size)
        if away.size:
            weights = positive[own], negative[own]
            sums = summer(features, *weights, [0.0, 0.0, 1.0, 1.0], threads)
            found.append(_Cell(rows, sums))
    return found


def _stiffness(knots: int, bend: float) -> Floats:
    """Return the matrix of what changes of slope cost, those of a random walk that strays so far."""
    changes = np.diff(np.eye(knots, knots + 1), axis=0) * (math.sqrt(max(knots - 1, 1)) / bend)
    cost: Floats = np.add.reduce(changes[:, :, None] * changes[:, None, :], axis=0)
    return cost


def _summer(cells: list[_Cell], stiffness: Floats) -> Sums:
    """Return what sums loss, gradient and Hessian over all cells, and what bends cost."""

    def sums(point: Floats) -> tuple[float, Floats, Floats]:
        gradient, hessian = np.add.reduce(stiffness * point, axis=1), stiffness.copy()
        loss = 0.5 * float(np.add.reduce(gradient * point))
        for cell in cells:
            own = np.add.reduce(cell.rows * point, axis=1)
            value, rise, lower = cell.sums(own)
            bend = np.tril(lower) + np.tril(lower, -1).T
            loss += value
            gradient += np.add.reduce(cell.rows * rise[:, None], axis=0)
            turned = np.add.reduce(bend[:, :, None] * cell.rows, axis=1)
            hessian += np.add.reduce(cell.rows[:, :, None] * turned[:, None, :], axis=0)
        return loss, gradient, hessian

    return sums
