"""Isotonic regression: the rising step function of least squared error (and least log loss).

B. Zadrozny, C. Elkan, Transforming classifier scores into accurate multiclass probability
estimates, 2002.
"""

from __future__ import annotations

import numpy as np

from calibkit.calibrators.method import Found, Method
from calibkit.calibrators.points import Points
from calibkit.calibrators.spec import CalibratorSpec
from calibkit.calibrators.steps import apply_steps
from calibkit_kernels.isotonic import concave_hull


def fit(points: Points, spec: CalibratorSpec, _: list[Points]) -> Found:
    """Fit by pooling adjacent violators, exactly; a knot is the lowest score of its pool."""
    rows, hits = points.prefixes()
    corners = np.empty(rows.size, np.int64)
    corners = corners[: concave_hull(rows, hits, corners)]
    pool_rows = np.diff(rows[corners], prepend=0)
    pool_hits = np.diff(hits[corners], prepend=0)
    knots = points.score[corners].astype(np.float64)
    values = pool_hits / pool_rows
    return Found({"knots": knots[::-1].tolist(), "values": values[::-1].tolist()})


METHOD = Method(fit, apply_steps)
