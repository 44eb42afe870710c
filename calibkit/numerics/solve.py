"""Minima of smooth functions, by Newton's method or quasi-Newton steps, and the root of one function.

The loop of Newton's method is `calibkit_kernels.newton`, which the leaves of trees use as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
from msgspec import Struct

from calibkit.arrays import Floats
from calibkit_kernels import newton as kernels
from calibkit_kernels.classes import dot

Evaluate = Callable[[Floats], tuple[float, Floats]]
#: Value, gradient and Hessian (of which the lower half counts) at a point.
Sums = Callable[[Floats], tuple[float, Floats, Floats]]
#: Slopes at which a quasi-Newton search ends: it gains digit by digit, and a mean over rows keeps nine.
FLAT_OF_MANY: Final = 1e-9
#: Where minima are only compared: the losses are off by the square of it.
ROUGHLY_FLAT: Final = 1e-5
#: What is still to be gained, a row, where only the order of rows is wanted.
LITTLE: Final = 1e-9
#: How many past steps stand for the curvature.
_MEMORY = 20
#: A step must gain this share of what the slope promises, and leave at most that share of slope.
_GAIN, _FLATTENED = 1e-4, 0.9
_LINE_TRIALS = 60
#: A quasi-Newton search ends after so many steps at the latest.
_MOST_STEPS = 1000
#: How much a function may rise by rounding where its slope says that it falls, as a share of it.
_ROUNDING = 1e-14


class Minimum(Struct, frozen=True):
    """Where a minimisation ended: the best point, and the function there."""

    point: Floats
    value: float
    gradient: float  # the largest of its components, in absolute value
    iterations: int
    converged: bool  # whether the gradient is as small as asked, or no step gains anything more

    @property
    def told(self) -> dict[str, Any]:
        """What models say of how it ended."""
        return {name: getattr(self, name) for name in ("gradient", "iterations", "converged")}


def newton(
    sums: Sums,
    start: Sequence[float] | Floats,
    *,
    kinds: Sequence[int] | None = None,
    scale: float = 1.0,
    slope: float = kernels.FLAT,
    decrement: float = 0.0,
    ridge: float = 0.0,
    last_step: bool = True,
) -> Minimum:
    """Minimise a convex function by Newton's method with step halving.

    `sums` returns value, gradient and Hessian at a point.  Of `kinds` a variable may be `FREE` (the
    default), `RISING` (stay at 0 or above) or `FIXED`.  The search ends once no slope is larger than
    `slope`, or no more than half of `decrement` is to be gained, both of the function over `scale`, as
    a number of rows.  `ridge` is the share by which the diagonal of the Hessian grows.
    `last_step` says whether the step that is known where the function is flat is taken; value and
    gradient are those before it.

    Variables at their bound leave it when the function asks for it; steps end at the bounds, so that
    the function falls in every step.  Without a finite minimum the search ends somewhere far out.
    """
    places = np.array(start, np.float64)
    own = np.array([kernels.FREE] * places.size if kinds is None else kinds, np.int64)
    points = np.zeros((kernels.MATRIX + places.size, places.size))
    points[kernels.AHEAD] = np.where(own == kernels.RISING, np.maximum(places, 0.0), places)
    state = np.empty(8)
    kernels.begin(scale, slope, decrement, ridge, state)
    said = kernels.GO
    while said == kernels.GO:
        said = kernels.newton(*sums(points[kernels.AHEAD]), own, points, state)
    place = kernels.AHEAD if said == kernels.FOUND and last_step else kernels.POINT
    return Minimum(
        points[place],
        float(state[kernels.VALUE]),
        float(state[kernels.LEFT]),
        int(state[kernels.STEPS]),
        converged=bool(said == kernels.FOUND),
    )


def quasi_newton(evaluate: Evaluate, start: Floats, *, tolerance: float = kernels.FLAT) -> Minimum:
    """Minimise a function by L-BFGS with a weak Wolfe line search, from a point of finite value.

    `evaluate` returns value and gradient at a point; the value may be infinite, never NaN.  The search
    ends once no component of the gradient is larger than the tolerance, after a thousand steps at the
    latest.

    All sums are taken in order, so that the result is the same on every run.  J. Nocedal,
    S. Wright, *Numerical Optimization*, sections 3.1 and 7.2; the line search is that of A. Lewis,
    M. Overton, *Nonsmooth optimization via quasi-Newton methods*, section 4, near the minimum with
    the test on slopes of W. Hager, H. Zhang, *A new conjugate gradient method*, section 3.
    """
    point, (value, gradient) = start, evaluate(start)
    steps: list[tuple[Floats, Floats, float]] = []
    for taken in range(_MOST_STEPS):
        largest = float(np.abs(gradient).max(initial=0.0))
        if largest <= tolerance:
            return Minimum(point, value, largest, taken, converged=True)
        direction = _direction(gradient, steps)
        slope = dot(gradient, direction)
        first = 1.0 if steps else min(1.0, 1.0 / largest)
        found = None
        if slope < 0.0:
            found = _line_search(evaluate, point, value, direction, slope, first)
        if found is None:
            if not steps:  # not even along the gradient: rounding is all that is left
                return Minimum(point, value, largest, taken, converged=True)
            steps.clear()
            continue
        after, value, rise = found
        moved, turned = after - point, rise - gradient
        curvature = dot(moved, turned)
        if curvature > 0.0:
            steps = [*steps[1 - _MEMORY :], (moved, turned, curvature)]
        point, gradient = after, rise
    largest = float(np.abs(gradient).max(initial=0.0))
    return Minimum(point, value, largest, _MOST_STEPS, converged=largest <= tolerance)


def _direction(gradient: Floats, steps: list[tuple[Floats, Floats, float]]) -> Floats:
    """Return minus the gradient times the inverse curvature that past steps have shown."""
    direction = -gradient
    shares = []
    for moved, turned, curvature in reversed(steps):
        share = dot(moved, direction) / curvature
        direction = direction - share * turned
        shares.append(share)
    if steps:
        _, turned, curvature = steps[-1]
        direction = direction * (curvature / dot(turned, turned))
    for (moved, turned, curvature), share in zip(steps, reversed(shares), strict=True):
        direction = direction + (share - dot(turned, direction) / curvature) * moved
    return direction


def _line_search(
    evaluate: Evaluate, point: Floats, value: float, direction: Floats, slope: float, first: float
) -> tuple[Floats, float, Floats] | None:
    """Return a point along a direction that gains enough, with value and gradient there."""
    low, high, step = 0.0, np.inf, first
    for _ in range(_LINE_TRIALS):
        trial = point + step * direction
        reached, rise = evaluate(trial)
        left = dot(rise, direction)
        gained = reached < value + _GAIN * step * slope
        # Where the function is level to rounding, its slope still tells which way is down.
        level = reached <= value + _ROUNDING * abs(value) and left <= (2 * _GAIN - 1) * slope
        if not (gained or level):
            high = step
        elif left < _FLATTENED * slope:
            low = step
        else:
            return trial, reached, rise
        step = 2.0 * low if np.isinf(high) else 0.5 * (low + high)
        if step in (low, high):
            return None
    return None


def rising_root(
    function: Callable[[float], float], low: float, high: float, *, straight: float = 0.0
) -> float:
    """Return where a continuous function crosses zero upwards between two finite points, low <= high.

    It is at most 0 at `low` and at least 0 at `high`.  The secant rule, with the Illinois weight on an
    end that stays and a bisection now and then, so that the bracket closes whatever the shape; it ends
    when the two ends are neighbours, or the bracket is as narrow as rounding allows.  Between ends no
    farther apart than `straight` the function is a line to rounding, and the search ends sooner.
    """
    at_low = function(low)
    at_high = function(high)
    if at_low >= 0.0:
        return low
    if at_high <= 0.0:
        return high
    kept, of_low, of_high = 0, 1.0, 1.0
    for step in range(200):
        if high - low <= straight:
            of_low = of_high = 1.0
        weighted = of_high * at_high
        middle = high - weighted * (high - low) / (weighted - of_low * at_low)
        if high - low <= straight:
            return min(max(middle, low), high)
        if step % 4 == 3 or not low < middle < high:
            middle = 0.5 * (low + high)
        if middle in (low, high) or high - low <= 4e-16 * max(abs(low), abs(high)):
            break
        value = function(middle)
        if value == 0.0:
            return middle
        if value < 0.0:
            low, at_low, of_low = middle, value, 1.0
            of_high *= 0.5 if kept == -1 else 1.0
            kept = -1
        else:
            high, at_high, of_high = middle, value, 1.0
            of_low *= 0.5 if kept == 1 else 1.0
            kept = 1
    return 0.5 * (low + high)
