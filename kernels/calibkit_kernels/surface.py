"""A logistic surface over score and uncertainty: its sums, and its values in order.

At an uncertainty level of rank u the surface is a line in the score s: ``a + g s`` with
``a = b0 + b2 u`` and ``g = b1 + b3 u``.  All that a Newton step needs is therefore one table of sums
a level.  Sums run over fixed blocks of a sorted tally, and the blocks are added in order.

``lines`` has one row a level, (a, g), and a last row (centre, scale): the lines are those of
``(s - centre) / scale``, so that the sums keep their digits wherever the scores lie.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._jit import kernel

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
Counts = NDArray[Any]
Int64s = NDArray[np.int64]
Levels = NDArray[np.uint16]
Parts = NDArray[np.uint8]

_SIGN = np.uint32(0x80000000)


@kernel
def moment_sums(
    score: NDArray[Any],
    level: Levels,
    count: Counts,
    positive: Counts,
    part: Parts,
    lines: Floats,
    excluded: int,
    out: Floats,
) -> None:
    """Add rows, sums and sums of squares of the scaled scores, and positives, to each level's row.

    `out` has shape (levels, 4).  Entries of part `excluded` are passed over (-1: none).
    """
    centre, scale = lines[-1]
    for i in range(score.size):
        if part.size and part[i] == excluded:
            continue
        own, rows, s = level[i], float(count[i]), (float(score[i]) - centre) / scale
        out[own, 0] += rows
        out[own, 1] += rows * s
        out[own, 2] += rows * s * s
        out[own, 3] += float(positive[i])


@kernel
def newton_sums(
    score: NDArray[Any],
    level: Levels,
    count: Counts,
    positive: Counts,
    part: Parts,
    lines: Floats,
    excluded: int,
    out: Floats,
) -> None:
    """Add to each level's row what gradient, curvature and loss of a logistic fit need.

    With p the fitted probability, r = rows p - positives and w = rows p (1 - p), the columns of
    `out`, shape (levels, 6), are the sums of r, r s, w, w s, w s^2 and of the log loss.
    """
    centre, scale = lines[-1]
    for i in range(score.size):
        if part.size and part[i] == excluded:
            continue
        own, rows, hits = level[i], float(count[i]), float(positive[i])
        s = (float(score[i]) - centre) / scale
        value = lines[own, 0] + lines[own, 1] * s
        small = math.exp(-abs(value))
        p = 1.0 / (1.0 + small) if value >= 0.0 else small / (1.0 + small)
        r, w = rows * p - hits, rows * small / ((1.0 + small) * (1.0 + small))
        out[own, 0] += r
        out[own, 1] += r * s
        out[own, 2] += w
        out[own, 3] += w * s
        out[own, 4] += w * s * s
        out[own, 5] += rows * (math.log(1.0 + small) + max(value, 0.0)) - hits * value


@kernel
def surface_words(
    regressor: NDArray[Any],
    level: Levels,
    part: Parts,
    lines: Floats,
    excluded: int,
    values: Singles,
    out: NDArray[np.uint64],
) -> int:
    """Write the surface at each entry, and words that sort the entries by it.

    Values are single floats: beyond their digits differences mean nothing, and they sort faster.
    Entries outside part `excluded` have a word, their number above 32 bits for the value; the number
    of words is returned.
    """
    size = 0
    for i in range(regressor.size):
        own = level[i]
        # The added zero turns -0.0, which would be another number, into 0.0.
        values[i] = np.float32(lines[own, 0] + lines[own, 1] * float(regressor[i])) + np.float32(
            0.0
        )
        if part.size and part[i] == excluded:
            continue
        out[size] = i
        size += 1
    bits = values.view(np.uint32)
    for k in range(size):
        i = out[k]
        b = bits[i]
        key = np.uint64(b) if b & _SIGN else np.uint64(~b & (_SIGN - np.uint32(1)))
        out[k] = i << np.uint64(32) | key
    return size


@kernel
def level_limits(
    score: NDArray[Any],
    values: Singles,
    level: Levels,
    part: Parts,
    cut: float,
    excluded: int,
    out: Floats,
) -> None:
    """Write, per level, the lowest score whose surface reaches a cut and the highest below it.

    `out` has shape (levels, 2) and keeps what it holds where there is none.  Scores fall along the
    tally.
    """
    for i in range(score.size):
        if part.size and part[i] == excluded:
            continue
        own = level[i]
        if values[i] >= cut:
            out[own, 0] = score[i]
        elif math.isnan(out[own, 1]):
            out[own, 1] = score[i]
