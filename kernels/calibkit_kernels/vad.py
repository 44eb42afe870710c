"""Replicate predictions on the scale of a link: what their moments are summed from."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._jit import kernel
from .decide import logit

Floats = NDArray[np.float64]

#: By it a float is split into two halves of 26 bits (Dekker, A floating-point technique, 1971).
_SPLITTER = 134217729.0


@kernel
def clipped_logits(
    values: NDArray[Any], epsilon: float, out: Floats, clipped: NDArray[np.uint8]
) -> None:
    """Write the logits of probabilities that are first moved into [epsilon, 1 - epsilon].

    `clipped` becomes 1 where a value was moved, and else stays what it was.
    """
    top = 1.0 - epsilon
    for i in range(values.size):
        p = float(values[i])
        if p < epsilon:
            p = epsilon
            clipped[i] = 1
        elif p > top:
            p = top
            clipped[i] = 1
        out[i] = logit(p)


@kernel
def row_spreads(links: Floats, first: int, last: int, mean: Floats, out: Floats) -> None:
    """Write the sum of squares of each row's values in columns first to last - 1 about their mean.

    `links` has the shape (columns, rows); the means are left in `mean`.  Each pass runs along a
    column, which a processor does several rows at a time.
    """
    mean[:] = 0.0
    out[:] = 0.0
    for j in range(first, last):
        for i in range(mean.size):
            mean[i] += links[j, i]
    for i in range(mean.size):
        mean[i] /= float(last - first)
    for j in range(first, last):
        for i in range(mean.size):
            gap = links[j, i] - mean[i]
            out[i] += gap * gap


@kernel
def squares(values: Floats, square: Floats, rest: Floats) -> None:
    """Write two numbers for each value that together are its square, without rounding."""
    for i in range(values.size):
        value = values[i]
        high = _SPLITTER * value - (_SPLITTER * value - value)
        low = value - high
        square[i] = value * value
        rest[i] = ((high * high - square[i]) + 2.0 * high * low) + low * low


@kernel
def shrink(
    links: Floats, code: NDArray[np.int64], factor: Floats, offset: Floats, out: Floats
) -> None:
    """Write ``factor * link + offset`` with the factor and the offset that each code names."""
    for i in range(links.size):
        out[i] = factor[code[i]] * links[i] + offset[code[i]]
