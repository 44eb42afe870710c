"""Ranking metrics over a stretch of a tally: sums that depend on the order of scores alone.

A tally has its distinct scores by falling score, with rows (``count``) and positive rows
(``positive``) of each.  Every kernel works on a stretch of it, given what stands above, so that
stretches may be computed beside each other and added in order.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._jit import kernel
from .exact import compare_products

Counts = NDArray[Any]


@kernel
def count_entries(count: Counts, positive: Counts) -> tuple[np.int64, np.int64]:
    """Return rows and positive rows."""
    rows, hits = np.int64(0), np.int64(0)
    for i in range(count.size):
        rows += count[i]
        hits += positive[i]
    return rows, hits


@kernel
def ranking_sums(count: Counts, positive: Counts, rows: int, hits: int) -> tuple[float, float]:
    """Return twice the pairs ranked right, and the sum of precision over positive rows.

    Parameters
    ----------
    count, positive
        A stretch of a tally.
    rows, hits
        Rows and positive rows above it.

    Returns
    -------
    pairs
        Each negative row with the positive rows above it counted twice, and once those beside it.
    precisions
        Each positive row with the precision of the selection that ends at its score.
    """
    pairs, precisions = 0.0, 0.0
    total, above = np.int64(rows), np.int64(hits)
    for i in range(count.size):
        own, good = np.int64(count[i]), np.int64(positive[i])
        if own > good:
            pairs += float(own - good) * (2.0 * float(above) + float(good))
        total += own
        above += good
        if good > 0:
            precisions += float(good) * (float(above) / float(total))
    return pairs, precisions


@kernel
def most_hits_at_precision(count: Counts, positive: Counts, a: int, q: int) -> np.int64:
    """Return the most positive rows that a single threshold selects at precision >= a / q.

    0 where none reaches it: the empty selection does.
    """
    rows, hits, best = np.int64(0), np.int64(0), np.int64(0)
    for i in range(count.size):
        rows += count[i]
        hits += positive[i]
        if positive[i] > 0 and compare_products(int(hits), q, a, int(rows)) >= 0:
            best = hits
    return best


@kernel
def best_precision_at_recall(
    count: Counts, positive: Counts, least: int
) -> tuple[np.int64, np.int64]:
    """Return rows and positive rows of the most precise single threshold with enough positives.

    Parameters
    ----------
    count, positive
        A whole tally.
    least
        How many positive rows it must select; with 0 the selection still holds a row.
    """
    rows, hits = np.int64(0), np.int64(0)
    best_rows, best_hits = np.int64(0), np.int64(0)
    for i in range(count.size):
        rows += count[i]
        hits += positive[i]
        if hits < least:
            continue
        if (
            best_rows == 0
            or compare_products(int(hits), int(best_rows), int(best_hits), int(rows)) >= 0
        ):
            best_rows, best_hits = rows, hits
    return best_rows, best_hits
