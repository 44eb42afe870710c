"""Isotonic regression: the rising step function of least squared error (and least log loss).

B. Zadrozny, C. Elkan, Transforming classifier scores into accurate multiclass probability
estimates, 2002.  Between the pools a line may take the place of the step, as in scikit-learn.  Centred
isotonic regression goes from the centre of a pool to that of the next, and rises strictly between the
outer ones (A. Oron, N. Flournoy, Centered isotonic regression, 2017).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from calibkit.maps.broken_lines import broken_line_program, write_broken_line
from calibkit.maps.method import Float64s, Found, Method, Writer
from calibkit.maps.points import Points
from calibkit.maps.score_map import ScoreMap
from calibkit.maps.steps import steps_program, write_steps
from calibkit.numerics.blocks import cut, each_block
from calibkit.numerics.isotonic import pool, pool_block
from calibkit.options.maps import MapOptions

if TYPE_CHECKING:
    from calibkit.expressions.nodes import Node
    from calibkit.maps.formulas import Maker

Int64s = NDArray[np.int64]


def fit(points: Points, options: MapOptions, _: list[Points]) -> Found:
    """Fit by pooling adjacent violators, exactly; a knot is the lowest score of its pool.

    With ``interpolate`` it has a knot at its highest score, too.
    """
    starts, ends, values = _pools(points, options.workers)
    low, high = points.score[ends].astype(np.float64), points.score[starts].astype(np.float64)
    if not options.interpolate:
        return Found({"knots": low.tolist(), "values": values.tolist()})
    knots, twice = np.stack([low, high], axis=1).ravel(), np.repeat(values, 2)
    kept = np.append(True, knots[1:] > knots[:-1])
    return Found(
        {"knots": knots[kept].tolist(), "values": twice[kept].tolist(), "interpolate": True}
    )


def fit_centred(points: Points, options: MapOptions, _: list[Points]) -> Found:
    """Fit by pooling adjacent violators; a knot is the mean score of the rows of a pool."""
    starts, ends, values = _pools(points, options.workers)
    low, high = points.score[ends].astype(np.float64), points.score[starts].astype(np.float64)
    knots = np.empty(values.size)
    for place, (first, last) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
        own = slice(first, last + 1)
        count = points.count[own].astype(np.float64)
        with np.errstate(over="ignore"):
            away = np.add.reduce(count * (points.score[own].astype(np.float64) - low[place]))
        knots[place] = low[place] + away / np.add.reduce(count)
    return Found({"knots": knots.clip(low, high).tolist(), "values": values.tolist()})


def _pools(points: Points, threads: int) -> tuple[Int64s, Int64s, Float64s]:
    """Return the first and the last point of each pool, and its value, from the lowest scores up."""
    blocks = cut(0, points.score.size)
    pools = pool(each_block(pool_block, (points.count, points.positive), blocks, threads))[::-1]
    ends = np.cumsum(pools[::-1, 2])[::-1] - 1
    return ends - pools[:, 2] + 1, ends, pools[:, 1] / pools[:, 0]


def writer(one: ScoreMap, scale: str) -> Writer:
    """Return what writes steps, or lines between them."""
    return (write_broken_line if one.interpolate else write_steps)(one, scale)


def program(maker: Maker) -> tuple[Node, ...]:
    """Return steps, or lines between them; the maps of segments are of one kind."""
    lines = any(one.interpolate for one in maker.maps)
    return (broken_line_program if lines else steps_program)(maker)


METHOD = Method(fit, writer, program)
CENTRED = Method(fit_centred, write_broken_line, broken_line_program)
