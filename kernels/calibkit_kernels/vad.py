"""Moments of replicate predictions on the scale of a link, in exact bins (see `sums`)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._jit import kernel
from .decide import logit
from .sums import add_float, add_product

Floats = NDArray[np.float64]
Bins = NDArray[np.int64]

#: A float times this, less its excess over itself, is its upper 26 bits (Dekker 1971).
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
def row_spread(links: Floats, row: int, first: int, last: int) -> float:
    """Return the sum of squares of a row's values in columns first to last - 1 about their mean.

    `links` has the shape (columns, rows).
    """
    mean = 0.0
    for j in range(first, last):
        mean += links[j, row]
    mean /= float(last - first)
    total = 0.0
    for j in range(first, last):
        gap = links[j, row] - mean
        total += gap * gap
    return total


@kernel
def member_sums(
    links: Floats, bits: Bins, first: int, last: int, words: Bins, base: int, bins: Bins
) -> None:
    """Add up what the moments of replicates are made of.

    Parameters
    ----------
    links
        Values of shape (columns, rows): the members, then possibly other columns.
    bits
        Their bit patterns.
    first, last
        The columns whose spread within each row is wanted.
    words
        Room for one number.
    base, bins
        Bins of shape (columns + 2, width, 2): they take the sum of each column, of the squares of
        the first column, and of the `row_spread` of each row.
    """
    columns = links.shape[0]
    spread = words.view(np.float64)
    for i in range(links.shape[1]):
        for j in range(columns):
            add_float(bins[j], base, bits[j, i])
        add_product(bins[columns], base, bits[0, i], bits[0, i])
        spread[0] = row_spread(links, i, first, last)
        add_float(bins[columns + 1], base, words[0])


@kernel
def weighted_member_sums(
    links: Floats, bits: Bins, first: int, last: int, words: Bins, base: int, bins: Bins
) -> None:
    """Add up the same with weights, the last row of `links`, which has a sum of its own.

    `words` has room for two numbers.  A square is taken apart into two numbers that are exact
    together, so that whole weights give the sums of the rows written out.
    """
    columns = links.shape[0]
    weight = columns - 1
    numbers = words.view(np.float64)
    for i in range(links.shape[1]):
        for j in range(columns - 1):
            add_product(bins[j], base, bits[weight, i], bits[j, i])
        add_float(bins[weight], base, bits[weight, i])
        value = links[0, i]
        high = _SPLITTER * value - (_SPLITTER * value - value)
        low = value - high
        square = value * value
        numbers[0] = square
        numbers[1] = ((high * high - square) + 2.0 * high * low) + low * low
        add_product(bins[columns], base, bits[weight, i], words[0])
        add_product(bins[columns], base, bits[weight, i], words[1])
        numbers[0] = row_spread(links, i, first, last)
        add_product(bins[columns + 1], base, bits[weight, i], words[0])


@kernel
def shrink(
    links: Floats, code: NDArray[np.int64], factor: Floats, offset: Floats, out: Floats
) -> None:
    """Write ``factor * link + offset`` with the factor and the offset that each code names."""
    for i in range(links.size):
        out[i] = factor[code[i]] * links[i] + offset[code[i]]
