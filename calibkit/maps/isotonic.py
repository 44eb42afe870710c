"""Isotonic regression: the rising step function of least squared error (and least log loss).

B. Zadrozny, C. Elkan, Transforming classifier scores into accurate multiclass probability
estimates, 2002.
"""

from __future__ import annotations

import numpy as np

from calibkit.maps.method import Found, Method
from calibkit.maps.points import Points
from calibkit.maps.steps import steps_program, write_steps
from calibkit.numerics.blocks import cut, each_block
from calibkit.numerics.isotonic import pool, pool_block
from calibkit.options.maps import MapOptions


def fit(points: Points, options: MapOptions, _: list[Points]) -> Found:
    """Fit by pooling adjacent violators, exactly; a knot is the lowest score of its pool."""
    blocks = cut(0, points.score.size)
    pools = pool(each_block(pool_block, (points.count, points.positive), blocks, options.workers))
    lowest = np.cumsum(pools[:, 2]) - 1
    knots = points.score[lowest].astype(np.float64)
    values = pools[:, 1] / pools[:, 0]
    return Found({"knots": knots[::-1].tolist(), "values": values[::-1].tolist()})


METHOD = Method(fit, write_steps, steps_program)
