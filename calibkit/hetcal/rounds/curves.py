"""Beta maps of the leaves in rounds: logistic regressions on two features, a Newton step a round.

The search is that of `calibkit_kernels.logistic.fit_logistic`; its sums are counted in units, as
those of `calibkit.hetcal.rounds.lines`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from calibkit.errors import ModelError
from calibkit.hetcal.maps import log_parts_of
from calibkit.hetcal.rounds.known import Curve, Seen
from calibkit.hetcal.rounds.lines import Counts, targets, worth
from calibkit.hetcal.rounds.protocol import Mapped
from calibkit_kernels import rounds as kernels
from calibkit_kernels.logistic import FLAT, free_coordinates, moved_point, newton_step

Floats = NDArray[np.float64]
Int64s = NDArray[np.int64]

#: A loss may seem to rise by so much of itself: its terms were rounded.
_ROUNDING: Final = 1e-13
_SHORTEST: Final = 1e-9

#: Slopes are at least 0, the intercept may be anything.
_BOUNDED: Final = (True, True, False)


def curve_from(line: Floats, low: float, high: float) -> Curve:
    """Return a search for the map of rows whose scores lie in between; it begins at a line (a, b)."""
    ends = np.sort(np.array([low, high]))
    shifts, scales = [], []
    for first, last in np.stack(log_parts_of(ends)).tolist():
        shifts.append(0.5 * first + 0.5 * last)
        scales.append(2.0 / (last - first) if last > first else 0.0)
    slope, level = line.tolist()
    point = [0.0, 0.0, 0.0]
    if slope > 0.0 and all(scales):
        point = [slope / scale for scale in scales]
        point.append(level + slope * sum(shifts))
    return Curve(point, shifts, scales)


def first_curves(end: Mapped, seen: Seen) -> list[Curve]:
    """Return where the searches begin: of each leaf, then of all leaves of each tree."""
    found = []
    for leaf, line in zip(end.each_leaf(), end.lines, strict=True):
        if leaf is None:
            found.append(Curve([0.0] * 3, [0.0] * 2, [0.0] * 2, done=True))
        else:
            found.append(curve_from(line[:2], leaf.low, leaf.high))
    slope, level = end.pooled.tolist()
    for rows, _ in end.counts[end.leaves :]:
        if rows > 0.0:
            found.append(curve_from(end.pooled, end.first(seen.low), end.first(seen.high)))
        else:
            found.append(Curve([slope, slope, level], [0.0] * 2, [1.0] * 2, done=True))
    return found


def curve_array(curves: Sequence[Curve], counts: Sequence[Counts]) -> Floats:
    """Return curves as `calibkit_kernels.rounds.sum_curves` takes them; `counts`: of each."""
    found = np.empty((len(curves), kernels.CURVE_WIDTH))
    for row, curve, (rows, hits) in zip(found, curves, counts, strict=True):
        point = _tried(curve)
        row[: kernels.CURVE_UNITS] = *point, *curve.shifts, *curve.scales, *targets(rows, hits)
        most = 1.0 + sum(map(abs, point))
        row[kernels.CURVE_UNITS :] = [worth(most, rows), *[worth(1.0, rows)] * 9]
    return found


def bent(curve: Curve, rows: float, asked: Floats, sums: Int64s) -> Curve:
    """Return where a search goes on.

    Parameters
    ----------
    curve, rows
        The search so far, and how many rows it is about.
    asked, sums
        Its row of `curve_array`, and what the round found.
    """
    loss, *rest = (sums / asked[kernels.CURVE_UNITS :]).tolist()
    if curve.loss is not None and not loss <= curve.loss * (1.0 + _ROUNDING):
        length = 0.5 * curve.length
        done = length < _SHORTEST
        return replace(curve, length=0.0 if done else length, done=done)
    gradient, (aa, ab, ac, bb, bc, cc) = rest[:3], rest[3:]
    hessian = [[aa, ab, ac], [ab, bb, bc], [ac, bc, cc]]
    here = _tried(curve)
    fixed = [scale == 0.0 for scale in curve.scales] + [False]
    free = free_coordinates(here, gradient, fixed, _BOUNDED)
    slope = max((abs(gradient[j]) for j in free), default=0.0) / rows
    step = newton_step(gradient, hessian, free, here, _BOUNDED)
    ahead = moved_point(here, step, 1.0, _BOUNDED)
    if slope <= FLAT or ahead == here:  # the step that is known already gains the last digits
        return replace(
            curve, point=ahead if slope > 0.0 else here, length=0.0, loss=loss, done=True
        )
    return replace(curve, point=here, step=step, length=1.0, loss=loss)


def coefficients(curves: Sequence[Curve]) -> Floats:
    """Return a, b and c of each map."""
    found = np.empty((len(curves), 3))
    for row, curve in zip(found, curves, strict=True):
        if not curve.done:
            raise ModelError("a damaged plan: a leaf has no map")
        level = curve.point[-1]
        for j in range(2):
            row[j] = curve.point[j] * curve.scales[j]
            level -= row[j] * curve.shifts[j]
        row[2] = level
    return found


def _tried(curve: Curve) -> list[float]:
    """Return the point that the next round looks at."""
    return moved_point(curve.point, curve.step, curve.length, _BOUNDED)
