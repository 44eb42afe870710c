"""Venn-Abers predictors: two probabilities a score, one for each label it might have.

V. Vovk, I. Petej, Venn-Abers predictors, 2014; the inductive form, as tables of V. Vovk, I. Petej,
V. Fedorova, Large-scale probabilistic predictors with and without guarantees of validity, 2015.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from calibkit.errors import DataError
from calibkit.maps.calibrator import ScoreMap
from calibkit.maps.method import Float64s, Floats, Found, Method, Points, Writer
from calibkit.maps.steps import starts_of
from calibkit.options.maps import MapOptions
from calibkit.runtime.threads import later
from calibkit_kernels.isotonic import added_row_fits, next_corners
from calibkit_kernels.maps import step_map

if TYPE_CHECKING:
    from calibkit.expressions.nodes import Node
    from calibkit.maps.formulas import Maker

Int64s = NDArray[np.int64]


def fit(points: Points, options: MapOptions, _: list[Points]) -> Found:
    """Fill the tables: the isotonic fit at each score with one row added there, label 0 and 1.

    Between two scores a row of label 0 is pooled as if it had the lower one, a row of label 1 as if
    it had the higher one; so the tables answer for every score.

    Raises
    ------
    DataError
        For weights so small that one row outweighs what integers hold.
    """
    size = max(points.unit.size, 2.0**-62)
    weight = max(1, round(1.0 / size))
    if weight + points.totals[0] >= 2**62:
        raise DataError(
            f"{points.what} have weights too small for venn-abers, where a new row has weight 1; "
            "multiply the weights so that a row has about weight 1"
        )
    negative = points.count.astype(np.int64) - points.positive
    below = later(options.workers, _added, points.count, negative, weight, True)
    rising = points.count[::-1], points.positive[::-1]
    high = _added(*rising, weight, False)
    low = below()[::-1]
    score = points.score[::-1].astype(np.float64)
    first = np.append(low[:1] > 0.0, low[1:] != low[:-1])
    last = np.append(high[1:] != high[:-1], high[-1:] < 1.0)
    return Found(
        {
            "low_knots": score[first].tolist(),
            "low": low[first].tolist(),
            "high_knots": score[last].tolist(),
            "high": high[last].tolist(),
        }
    )


def _added(count: Int64s, positive: Int64s, weight: int, complement: bool) -> Float64s:
    """Return the isotonic fit at each point with a positive row added there, or 1 minus it."""
    rows, hits = (_from_zero(column) for column in (count, positive))
    corners, out = np.empty(rows.size, np.int64), np.empty(count.size)
    next_corners(rows, hits, corners)
    added_row_fits(rows, hits, corners, weight, complement, out)
    return out


def _from_zero(column: Int64s) -> Int64s:
    out = np.zeros(column.size + 1, np.int64)
    np.cumsum(column, dtype=np.int64, out=out[1:])
    return out


def writer(one: ScoreMap, _: str) -> Writer:
    """Return what writes the merged probability p1 / (1 - p0 + p1), p0 and p1."""
    low_values, high_values = np.append(0.0, one.low or []), np.append(one.high or [], 1.0)
    low_knots = np.array(one.low_knots or [])
    high_knots = np.nextafter(np.array(one.high_knots or []), np.inf)  # a step begins right above
    low_starts, high_starts = starts_of(low_knots), starts_of(high_knots)

    def write(score: Floats, out: tuple[Float64s, ...]) -> None:
        calibrated, low, high = out
        step_map(score, low_knots, low_values, low_starts, 0.0, low)
        step_map(score, high_knots, high_values, high_starts, 0.0, high)
        whole = 1.0 - low + high
        calibrated[:] = 0.5  # of (1, 0)
        np.divide(high, whole, out=calibrated, where=whole > 0.0)
        np.clip(calibrated, one.clip, 1.0 - one.clip, out=calibrated)
        if one.clip > 0.0:
            np.clip(low, one.clip, 1.0 - one.clip, out=low)
            np.clip(high, one.clip, 1.0 - one.clip, out=high)

    return write


def program(maker: Maker) -> tuple[Node, ...]:
    """Return the merged probability p1 / (1 - p0 + p1), p0 and p1."""

    def low(one: ScoreMap) -> tuple[list[float], list[float]]:
        return one.low_knots or [], [0.0, *(one.low or [])]

    def high(one: ScoreMap) -> tuple[list[float], list[float]]:
        return one.high_knots or [], [*(one.high or []), 1.0]

    p0 = maker.program.bind("low", maker.steps("low", low))
    return maker.merged(p0, maker.program.bind("high", maker.steps("high", high, strict=True)))


METHOD = Method(fit, writer, program, added=("calibrated", "calibrated_low", "calibrated_high"))
