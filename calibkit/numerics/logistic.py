"""Logistic regression on one or two features of weighted points.

Fitted is q = 1 / (1 + exp(-z)), z = a x + b or a x + b y + c, to points that carry a weight of
positive and a weight of negative rows: the loss is the sum of -(positive ln q + negative ln(1 - q)).
Sums run over fixed blocks of points, and over the blocks in order, so that they do not depend on
the number of threads; whoever gives the points in score order gets results that do not depend on
the order of rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from calibkit.numerics.newton import Sums, newton
from calibkit_kernels import logistic as kernels
from calibkit_kernels.newton import FIXED, FREE, RISING, TRACE_SHARE

Floats = NDArray[np.float64]

#: From so many points on, means of neighbouring points stand for them where that is enough.
MANY: Final = 100_000
_THINNED: Final = 10_000


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
    if positive.size >= MANY:
        few = thinned(features, positive, negative)
    scales = []
    for values in few[0]:
        mean, width = kernels.spread(values, *few[1:])
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
        return replace(quarter, slopes=tuple(0.25 * slope for slope in quarter.slopes))
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
    found = newton(
        summer(features, positive, negative, [*shifts, *factors], threads),
        point,
        kinds=[FIXED if factor == 0.0 else RISING if rising else FREE for factor in factors]
        + [FREE if intercept else FIXED],
        scale=float(np.add.reduce(positive)) + float(np.add.reduce(negative)),
        ridge=TRACE_SHARE,
    )
    *scaled, level = found.point.tolist()
    slopes = tuple(value * factor for value, factor in zip(scaled, factors, strict=True))
    for value, shift in zip(slopes, shifts, strict=True):
        level -= value * shift
    return Logistic(slopes, level, found.value, found.gradient, found.iterations)


def thinned(
    features: Sequence[Floats], positive: Floats, negative: Floats
) -> tuple[Sequence[Floats], Floats, Floats]:
    """Return the means of neighbouring points, with what these weigh."""
    stride = -(-positive.size // _THINNED)
    starts = np.arange(0, positive.size, stride)
    thinned = []
    for values in features:
        means = np.empty(starts.size)
        kernels.thin_points(values, positive, negative, stride, means)
        thinned.append(means)
    return thinned, np.add.reduceat(positive, starts), np.add.reduceat(negative, starts)


def summer(
    features: Sequence[Floats],
    positive: Floats,
    negative: Floats,
    scaling: Sequence[float],
    threads: int,
) -> Sums:
    """Return what sums loss, gradient and Hessian at a point."""
    size = len(features) + 1
    blocks = -(-positive.size // kernels.BLOCK)
    out, total = np.empty((blocks, 10)), np.empty(10)
    cuts = [blocks * k // threads for k in range(threads + 1)]
    alone = size == 2
    x, y = features[0], np.empty(0) if alone else features[1]
    shifts_and_scales = [scaling[0], 0.0, scaling[1], 0.0] if alone else scaling
    # One feature is a plane that is flat along the second one.
    own = np.array([0, 2] if alone else [0, 1, 2])

    def sums(point: Floats) -> tuple[float, Floats, Floats]:
        plane = np.zeros(7)
        plane[own], plane[3:] = point, shifts_and_scales

        def part(first: int, last: int) -> None:
            kernels.plane_sums(x, y, positive, negative, plane, first, last, out)

        if threads == 1 or blocks < 2 * threads:
            part(0, blocks)
        else:
            with ThreadPoolExecutor(threads) as pool:
                list(pool.map(part, cuts[:-1], cuts[1:]))
        kernels.add_blocks(out, total)
        hessian = np.zeros((3, 3))
        hessian[np.triu_indices(3)[::-1]] = total[4:]
        return float(total[0]), total[1:4][own], hessian[np.ix_(own, own)]

    return sums
