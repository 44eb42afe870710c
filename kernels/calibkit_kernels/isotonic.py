"""Isotonic regression as a concave hull, in exact integer arithmetic.

The isotonic regression of labels on scores (pool adjacent violators) is the slope of the least
concave majorant of the points (rows, positive rows) of the prefixes by falling score (Barlow,
Bartholomew, Bremner, Brunk, Statistical inference under order restrictions, 1972).  Blocks of equal
rate are pooled, so that the rates of successive blocks fall strictly.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ._jit import kernel
from .exact import compare_products

Int64s = NDArray[np.int64]


@kernel
def concave_hull(selected: Int64s, true_positives: Int64s, out: Int64s) -> int:
    """Write the indices of the vertices of the least concave majorant; return how many there are.

    Parameters
    ----------
    selected
        Rows of each prefix, strictly increasing from above 0.
    true_positives
        Positive rows of each prefix, non-decreasing.
    out
        Room for as many indices as there are points.

    Notes
    -----
    The origin (the empty prefix) is the first vertex and is not listed.  Points on a chord are no
    vertices.  The last point is always a vertex.
    """
    size = 0
    for i in range(selected.size):
        while size > 0:
            top = out[size - 1]
            before_x = selected[out[size - 2]] if size > 1 else 0
            before_y = true_positives[out[size - 2]] if size > 1 else 0
            # The chord from before to i is at least as steep as the step to top: top is no vertex.
            step_y = true_positives[top] - before_y
            chord_y = true_positives[i] - before_y
            if (
                compare_products(chord_y, selected[top] - before_x, step_y, selected[i] - before_x)
                < 0
            ):
                break
            size -= 1
        out[size] = i
        size += 1
    return size
