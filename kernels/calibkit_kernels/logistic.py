"""Logistic regression on one or two features of weighted points, by Newton's method.

Fitted is q = 1 / (1 + exp(-z)), z = a x + b or a x + b y + c, to points that carry a weight of
positive and a weight of negative rows: the loss is the sum of -(positive ln q + negative ln(1 - q)).
Sums run over fixed blocks of points, and over the blocks in order, so that they do not depend on
the number of threads; whoever gives the points in score order gets results that do not depend on
the order of rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from .logistic_sums import BLOCK, add_blocks, line_sums, plane_sums, spread, thin_points

Floats = NDArray[np.float64]

#: Largest slope of the mean loss, in standardised features, that counts as a minimum.
FLAT: Final = 1e-10

_MOST_STEPS: Final = 200
#: From so many points on, means of neighbouring points stand for them where that is enough.
_MANY: Final = 100_000
_THINNED: Final = 10_000
#: How far the loss of a step may rise by rounding alone.
_ROUNDING: Final = 1e-14
#: Added to the diagonal of a Hessian, relative to its trace: it may be singular.
_RIDGE: Final = 1e-13


@dataclass(frozen=True)
class Logistic:
    """A fitted logistic regression.

    Attributes
    ----------
    slopes
        The factor of each feature, in the feature's own unit.
    intercept
        z where all features are 0.
    loss
        The minimised sum.
    gradient
        The largest slope of the mean loss that is left, in standardised features.
    iterations
        How many Newton steps were taken.
    """

    slopes: tuple[float, ...]
    intercept: float
    loss: float
    gradient: float
    iterations: int


def fit_line(x: Floats, positive: Floats, negative: Floats, threads: int = 1) -> Logistic:
    """Fit z = a x + b without a bound on a; see `fit_logistic`.

    For maximum likelihood the caller asks `is_separated` first; with Platt's smoothed targets there
    is always a minimum.  Constant x: a = 0.
    """
    return fit_logistic((x,), positive, negative, threads=threads)


def fit_logistic(
    features: Sequence[Floats],
    positive: Floats,
    negative: Floats,
    *,
    rising: bool = False,
    intercept: bool = True,
    start: Sequence[float] | None = None,
    threads: int = 1,
) -> Logistic:
    """Minimise the loss by Newton's method with step halving.

    Parameters
    ----------
    features
        One or two arrays of finite values.
    positive, negative
        Weights of the points, not negative, some positive; float64 like the features.
    rising
        Keep the slopes at 0 or above.
    intercept
        Whether z has one.
    start
        Slopes and intercept to start from; the loss of the result is never above theirs.
    threads
        How many threads may sum; the result does not depend on it.

    Notes
    -----
    Features are standardised (without an intercept only scaled); many points nearly so, by means of
    neighbouring ones, a fit to which is also where the iteration starts.  Slopes at their bound
    leave it when the loss asks for it; steps end at the bounds, so the loss falls in every step.
    The loss is convex, so a point where it is flat is a minimum.  Where there is no finite minimum
    the iteration ends somewhere far out: ask `is_separated` before.
    """
    few = features, positive, negative
    if positive.size >= _MANY:
        few = _thinned(features, positive, negative)
    scales = []
    for values in few[0]:
        mean, width = spread(values, *few[1:])
        scales.append((float(mean), float(width)))
    if any(math.isnan(width) for _, width in scales):
        quarter = fit_logistic(
            [values * 0.25 for values in features],
            positive,
            negative,
            rising=rising,
            intercept=intercept,
            threads=threads,
        )
        slopes = tuple(0.25 * slope for slope in quarter.slopes)
        return Logistic(slopes, *_rest(quarter))
    shifts = [mean if intercept else 0.0 for mean, _ in scales]
    widths = [
        (width if intercept else math.hypot(mean, width)) if width > 0.0 or not intercept else 0.0
        for mean, width in scales
    ]
    factors = [1.0 / width if width > 0.0 else 0.0 for width in widths]
    if start is None and few[1] is not positive:
        rough = fit_logistic(*few, rising=rising, intercept=intercept)
        start = *rough.slopes, rough.intercept
    point = [0.0] * (len(features) + 1)
    if start is not None:
        point[-1] = float(start[-1])
        for j, slope in enumerate(start[:-1]):
            point[j] = slope * widths[j]
            point[-1] += slope * shifts[j]
    sums = _summer(features, positive, negative, [*shifts, *factors], threads)
    total = float(np.add.reduce(positive)) + float(np.add.reduce(negative))
    fixed = [factor == 0.0 for factor in factors] + [not intercept]
    point, loss, slope, steps = _newton(sums, point, rising, fixed, total)
    slopes = tuple(value * factor for value, factor in zip(point, factors, strict=False))
    level = point[-1]
    for value, shift in zip(slopes, shifts, strict=True):
        level -= value * shift
    return Logistic(slopes, level, loss, slope, steps)


def _rest(found: Logistic) -> tuple[float, float, float, int]:
    return found.intercept, found.loss, found.gradient, found.iterations


def _thinned(
    features: Sequence[Floats], positive: Floats, negative: Floats
) -> tuple[Sequence[Floats], Floats, Floats]:
    """Return the means of neighbouring points, with what these weigh."""
    stride = -(-positive.size // _THINNED)
    starts = np.arange(0, positive.size, stride)
    thinned = []
    for values in features:
        means = np.empty(starts.size)
        thin_points(values, positive, negative, stride, means)
        thinned.append(means)
    return thinned, np.add.reduceat(positive, starts), np.add.reduceat(negative, starts)


Summed = tuple[float, list[float], list[list[float]]]


def _summer(
    features: Sequence[Floats],
    positive: Floats,
    negative: Floats,
    scaling: Sequence[float],
    threads: int,
) -> Callable[[Sequence[float]], Summed]:
    """Return what sums loss, gradient and Hessian at a point."""
    size = len(features) + 1
    blocks = -(-positive.size // BLOCK)
    width = 1 + size + size * (size + 1) // 2
    out, total = np.empty((blocks, width)), np.empty(width)
    cuts = [blocks * k // threads for k in range(threads + 1)]
    kernel_sums: Callable[..., None] = line_sums if len(features) == 1 else plane_sums

    def sums(point: Sequence[float]) -> Summed:
        map_ = np.array([*point, *scaling])

        def part(first: int, last: int) -> None:
            kernel_sums(*features, positive, negative, map_, first, last, out)

        if threads == 1 or blocks < 2 * threads:
            part(0, blocks)
        else:
            with ThreadPoolExecutor(threads) as pool:
                list(pool.map(part, cuts[:-1], cuts[1:]))
        add_blocks(out, total)
        found = total.tolist()
        upper = iter(found[1 + size :])
        hessian = [[0.0] * size for _ in range(size)]
        for i in range(size):
            for j in range(i, size):
                hessian[i][j] = hessian[j][i] = next(upper)
        return found[0], found[1 : 1 + size], hessian

    return sums


def _newton(
    sums: Callable[[Sequence[float]], Summed],
    point: list[float],
    rising: bool,
    fixed: Sequence[bool],
    total: float,
) -> tuple[list[float], float, float, int]:
    """Return the minimum, its loss, the slope left and the steps taken."""
    bounded = [rising and j < len(point) - 1 for j in range(len(point))]
    point = [max(0.0, value) if low else value for value, low in zip(point, bounded, strict=True)]
    loss, gradient, hessian = sums(point)
    for steps in range(_MOST_STEPS):
        free = free_coordinates(point, gradient, fixed, bounded)
        slope = max((abs(gradient[j]) for j in free), default=0.0) / total
        step = newton_step(gradient, hessian, free, point, bounded)
        if slope <= FLAT:  # the step that is known already gains the last digits
            ahead = moved_point(point, step, 1.0, bounded)
            return ahead if slope > 0.0 else point, loss, slope, steps
        length = 1.0
        while True:
            ahead = moved_point(point, step, length, bounded)
            found = sums(ahead)
            if found[0] <= loss + _ROUNDING * abs(loss) or length < 1e-9:
                break
            length *= 0.5
        if ahead == point or found[0] > loss + _ROUNDING * abs(loss):
            break
        point, (loss, gradient, hessian) = ahead, found
    return point, loss, slope, steps + 1


def free_coordinates(
    point: Sequence[float],
    gradient: Sequence[float],
    fixed: Sequence[bool],
    bounded: Sequence[bool],
) -> list[int]:
    """Return which coordinates a step may move: those at their bound only away from it."""
    return [
        j
        for j in range(len(point))
        if not fixed[j] and (not bounded[j] or point[j] > 0.0 or gradient[j] < 0.0)
    ]


def newton_step(
    gradient: Sequence[float],
    hessian: Sequence[Sequence[float]],
    free: Sequence[int],
    point: Sequence[float],
    bounded: Sequence[bool],
) -> list[float]:
    """Return the Newton step over the free coordinates; none leads out of a bound at once."""
    step = [0.0] * len(point)
    solved = _solve([[hessian[i][j] for j in free] for i in free], [-gradient[j] for j in free])
    for j, value in zip(free, solved, strict=True):
        step[j] = value
    stuck = [j for j in free if bounded[j] and point[j] == 0.0 and step[j] < 0.0]
    if stuck:
        return newton_step(gradient, hessian, [j for j in free if j not in stuck], point, bounded)
    return step


def moved_point(
    point: Sequence[float], step: Sequence[float], length: float, bounded: Sequence[bool]
) -> list[float]:
    """Return the point after a step, which ends where the first bound is met."""
    first, met = length, -1
    for j, low in enumerate(bounded):
        if low and point[j] + first * step[j] < 0.0:
            first, met = -point[j] / step[j], j
    return [0.0 if j == met else value + first * step[j] for j, value in enumerate(point)]


def _solve(matrix: list[list[float]], right: list[float]) -> list[float]:
    """Return the solution of a small system with a positive semidefinite matrix, by Cholesky."""
    size = len(right)
    ridge = _RIDGE * sum(matrix[i][i] for i in range(size)) + 1e-300
    lower = [[0.0] * size for _ in range(size)]
    for i in range(size):
        for j in range(i + 1):
            rest = matrix[i][j] + (ridge if i == j else 0.0)
            for k in range(j):
                rest -= lower[i][k] * lower[j][k]
            lower[i][j] = math.sqrt(max(rest, ridge)) if i == j else rest / lower[j][j]
    forward: list[float] = []
    for i in range(size):
        rest = right[i] - sum(lower[i][k] * forward[k] for k in range(i))
        forward.append(rest / lower[i][i])
    solution = [0.0] * size
    for i in range(size - 1, -1, -1):
        rest = forward[i] - sum(lower[k][i] * solution[k] for k in range(i + 1, size))
        solution[i] = rest / lower[i][i]
    return solution
