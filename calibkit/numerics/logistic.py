"""Logistic regression on one or two features of weighted points, on a rising spline, and by groups.

Fitted is q = 1 / (1 + exp(-z)), z = a x + b or a x + b y + c, to points that carry a weight of
positive and a weight of negative rows: the loss is the sum of -(positive ln q + negative ln(1 - q)).
Sums run over fixed blocks of points, and over the blocks in order, so that they do not depend on
the number of threads; whoever gives the points in score order gets results that do not depend on
the order of rows.

The slope of a rising spline at each knot is a variable of at least 0; between two knots it goes over in
a line, below the first and above the last it stays.  So the logit is a sum of I-splines of order 2 with
coefficients that are not negative (J. Ramsay, Monotone regression splines in action, 1988), linear
beyond the outer knots.  On the points of one cell between knots it is a plane in two features, so that
its sums are taken cell by cell.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from calibkit.arrays import Floats
from calibkit.numerics.solve import Minimum, Sums, newton
from calibkit_kernels import logistic as kernels
from calibkit_kernels.newton import DIAGONAL_SHARE, FIXED, FREE, RISING

#: From so many points on, means of neighbouring points stand for them where that is enough.
_MANY: Final = 100_000
_FEW: Final = 10_000


class Logistic(Struct, frozen=True):
    """A fitted logistic regression."""

    slopes: tuple[float, ...]  # the factor of each feature, in the feature's own unit
    intercept: float  # z where all features are 0
    ended: Minimum  # of the sum, in standardised features


class RisingSpline(Struct, frozen=True):
    """A fitted spline."""

    #: `knots, logits, slopes`: where the slope bends, and the logit and its slope there.
    knots: Floats
    logits: Floats
    slopes: Floats
    ended: Minimum


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
    """Minimise the loss by Newton's method with step halving, over one or two arrays of finite values.

    Positive and negative are the weights of the points, not negative, some positive; float64 like the
    features.  `rising` keeps the slopes at 0 or above; without an `intercept` z has none.  The loss of
    the result is never above that of `start`, slopes and intercept.  The result does not depend on the
    threads.

    For maximum likelihood the caller asks `is_separated` first; with Platt's smoothed targets there is
    always a minimum.  The slope of a constant feature is 0.

    Features are standardised (without an intercept only scaled); many points nearly so, by means of
    neighbouring ones, a fit to which is also where the iteration starts.  Slopes at their bound
    leave it when the loss asks for it; steps end at the bounds, so the loss falls in every step.
    The loss is convex, so a point where it is flat is a minimum.  Where there is no finite minimum
    the iteration ends somewhere far out.
    """
    few = features, positive, negative
    if positive.size >= _MANY:
        few = _thinned(features, positive, negative)
    scales = [tuple(map(float, kernels.spread(values, *few[1:]))) for values in few[0]]
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
    widths = [width if intercept else math.hypot(mean, width) for mean, width in scales]
    factors = [0.0 if width < kernels.NARROWEST else 1.0 / width for width in widths]
    if start is None and few[1] is not positive:
        rough = fit_logistic(*few, rising=rising, intercept=intercept)
        start = *rough.slopes, rough.intercept
    *steep, level = [0.0] * (len(features) + 1) if start is None else start
    for slope, shift in zip(steep, shifts, strict=True):
        level += slope * shift
    point = [*(slope * width for slope, width in zip(steep, widths, strict=True)), level]
    found = newton(
        _summer(features, positive, negative, [*shifts, *factors], threads),
        point,
        kinds=[FIXED if factor == 0.0 else RISING if rising else FREE for factor in factors]
        + [FREE if intercept else FIXED],
        scale=float(np.add.reduce(positive)) + float(np.add.reduce(negative)),
        ridge=DIAGONAL_SHARE,
    )
    *scaled, level = found.point.tolist()
    slopes = tuple(value * factor for value, factor in zip(scaled, factors, strict=True))
    for value, shift in zip(slopes, shifts, strict=True):
        level -= value * shift
    return Logistic(slopes, level, found)


def _thinned(
    features: Sequence[Floats], positive: Floats, negative: Floats
) -> tuple[Sequence[Floats], Floats, Floats]:
    """Return the means of neighbouring points, with what these weigh."""
    stride = -(-positive.size // _FEW)
    starts = np.arange(0, positive.size, stride)
    means = []
    for values in features:
        out = np.empty(starts.size)
        kernels.thin_points(values, positive, negative, stride, out)
        means.append(out)
    return means, np.add.reduceat(positive, starts), np.add.reduceat(negative, starts)


def _summer(
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

    Points do not fall and are finite; their weights are not negative, some positive.  Knots rise; with
    one the spline is a line.  `bend` is how far the slope is expected to stray from the first knot to
    the last, as a share of the slope of the best line.  A random walk that does so prices each change
    from knot to knot: half its square, in units of its standard deviation, is added to the sum.

    There is a minimum unless every positive point lies at or above every negative one, or the slope
    at some knot moves points of one class only: who gives the knots sees to both.
    """
    width = float(knots[-1] - knots[0]) or float(x[-1] - x[0]) or 1.0
    places, middle = (knots - knots[0]) / width, float(knots[0])
    line = fit_logistic((x,), positive, negative, rising=True, threads=threads)
    slope = line.slopes[0] * width
    start = np.append(np.full(knots.size, slope), line.slopes[0] * middle + line.intercept)
    if x.size >= _MANY:
        (few,), ones, zeros = _thinned((x,), positive, negative)
        rough = fit_rising_spline(few, ones, zeros, knots, bend=bend)
        start = np.append(rough.slopes * width, rough.logits[0])
    cells = _cells((x - middle) / width, positive, negative, places, threads)
    # What changes of slope cost, those of a random walk that strays so far.
    stray = math.sqrt(max(knots.size - 1, 1)) / (bend * max(slope, 1.0))
    changes = np.diff(np.eye(knots.size, knots.size + 1), axis=0) * stray
    stiffness = np.add.reduce(changes[:, :, None] * changes[:, None, :], axis=0)
    flat = x[0] == x[-1]
    found = newton(
        _spline_sums(cells, stiffness),
        start,
        kinds=[FIXED if flat else RISING] * knots.size + [FREE],
        scale=float(np.add.reduce(positive)) + float(np.add.reduce(negative)),
        ridge=DIAGONAL_SHARE,
    )
    slopes, level = found.point[:-1], found.point[-1]
    rises = 0.5 * np.diff(places) * (slopes[1:] + slopes[:-1])
    logits = np.cumsum(np.append(level, rises))
    return RisingSpline(knots, logits, slopes / width, found)


def _cells(
    x: Floats, positive: Floats, negative: Floats, places: Floats, threads: int
) -> list[tuple[Floats, Sums]]:
    """Return, for each cell between knots that holds points, what sums over it, and of which variables.

    Three rows say how the slope below, the slope above and the level at the cell's knot follow from
    the variables: the slopes at all knots, then the level at the first.
    """
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
            found.append((rows, _summer(features, *weights, [0.0, 0.0, 1.0, 1.0], threads)))
    return found


def _spline_sums(cells: list[tuple[Floats, Sums]], stiffness: Floats) -> Sums:
    """Return what sums loss, gradient and Hessian over all cells, and what bends cost."""

    def sums(point: Floats) -> tuple[float, Floats, Floats]:
        gradient, hessian = np.add.reduce(stiffness * point, axis=1), stiffness.copy()
        loss = 0.5 * float(np.add.reduce(gradient * point))
        for rows, sums_of_cell in cells:
            value, rise, lower = sums_of_cell(np.add.reduce(rows * point, axis=1))
            curvature = np.tril(lower) + np.tril(lower, -1).T
            loss += value
            gradient += np.add.reduce(rows * rise[:, None], axis=0)
            turned = np.add.reduce(curvature[:, :, None] * rows, axis=1)
            hessian += np.add.reduce(rows[:, :, None] * turned[:, None, :], axis=0)
        return loss, gradient, hessian

    return sums


def ridge_weights(
    parts: Callable[[], Iterable[tuple[Floats, Floats, Floats]]], size: int, rows: float
) -> Floats:
    """Return weights of least log loss plus half the sum of squared weights.

    `parts` yields the points, some at a time: their regressors, of which there are `size`, the
    intercept first; their shares of positive rows, and how many rows each has, in all `rows`.
    """
    penalty = np.append(1e-9, np.ones(size - 1))  # all of one class: the intercept stays finite

    def sums(weights: Floats) -> tuple[float, Floats, Floats]:
        gradient, curvature = penalty * weights, np.diag(penalty)
        loss = 0.5 * float(np.cumsum(penalty * weights * weights)[-1])
        for terms, share, count in parts():
            loss += kernels.newton_sums(terms, share, count, weights, gradient, curvature)
        return loss, gradient, curvature

    return newton(sums, np.zeros(size), scale=rows).point


#: Steps of Newton's method, and how often one may be halved: more than ever needed.
_STEPS, _HALVINGS = 30, 12
#: A step that changes the loss by a smaller share is the last: what follows is rounding.
_SMALL = 1e-13


def ridge_lines(x: Floats, positive: Floats, rows: Floats, spread: tuple[float, float]) -> Floats:
    """Return intercept a and slope b of ``log-odds = a + (1 + b) x`` in each group, shape (groups, 2).

    `x`: the log-odds of points, as they are over all groups; `positive`, `rows`: counts of shape
    (groups, points); `spread`: the standard deviations of a and b over groups, with normal priors of
    which the lines are the modes of their posteriors.
    """
    lines = np.zeros((rows.shape[0], 2))
    penalty = 1.0 / np.square(spread)

    def loss(at: Floats) -> Floats:
        z = at[:, :1] + (1.0 + at[:, 1:]) * x
        drawn = 0.5 * (np.square(at) * penalty).sum(axis=1)
        return (rows * np.logaddexp(0.0, z) - positive * z).sum(axis=1) + drawn

    least = loss(lines)
    for _ in range(_STEPS):
        z = lines[:, :1] + (1.0 + lines[:, 1:]) * x
        rate = np.exp(-np.logaddexp(0.0, -z))
        left, weight = positive - rows * rate, rows * rate * (1.0 - rate)
        g, h = (left.sum(axis=1), left @ x) - penalty[:, None] * lines.T
        a, b, c = weight.sum(axis=1) + penalty[0], weight @ x, weight @ (x * x) + penalty[1]
        step = np.column_stack((c * g - b * h, a * h - b * g)) / (a * c - b * b)[:, None]
        moved = lines + step
        found, small = loss(moved), _SMALL * np.abs(least)
        for _ in range(_HALVINGS):
            worse = found - least > small
            if not worse.any():
                break
            step[worse] /= 2.0
            moved[worse] = lines[worse] + step[worse]
            found = loss(moved)
        better = found < least
        gained = least - found > small
        lines[better], least[better] = moved[better], found[better]
        if not gained.any():
            break
    return lines
