"""Ranking metrics over a stretch of a tally: sums that depend on the order of scores alone.

A tally has its distinct scores by falling score, with rows (``count``) and positive rows
(``positive``) of each.  Every kernel works on a stretch of it, given what stands above, so that
stretches may be computed beside each other and added in order.

Influence functions say what one more row changes in a metric.  Their kernels write for every entry what
a positive and what a negative row of that score contribute; what is centred and scaled is said by the
caller.  `delong_shares` are the structural components of the AUC (DeLong, DeLong, Clarke-Pearson,
Comparing the areas under two or more correlated receiver operating characteristic curves, 1988), in
one pass over the distinct scores.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._jit import kernel
from .exact import compare_products
from .reliability import CLIP

Counts = NDArray[Any]
Floats = NDArray[Any]
Float64s = NDArray[np.float64]


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
def precision_integral(count: Counts, positive: Counts, rows: int, hits: int) -> float:
    """Return the precision that positive rows meet, where rows of equal score come in random order.

    Of a positive rows among d of equal score, a share x from 0 to 1 is selected with as large a share
    of the others; the precision on the way is the mean over x.  `rows` and `hits` stand above.
    """
    found = 0.0
    total, above = float(rows), float(hits)
    for i in range(count.size):
        own, good = float(count[i]), float(positive[i])
        if good > 0.0:
            rate = good / own
            mean = rate
            if total > 0.0:
                mean += (above - rate * total) / own * math.log1p(own / total)
            found += good * mean
        total += own
        above += good
    return found


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


@kernel
def delong_shares(
    count: Counts,
    positive: Counts,
    rows: int,
    hits: int,
    positives: int,
    negatives: int,
    plus: Float64s,
    minus: Float64s,
) -> None:
    """Write the structural components of the AUC.

    Parameters
    ----------
    count, positive
        A stretch of a tally, by falling score.
    rows, hits
        Rows and positive rows above it.
    positives, negatives
        Those of the whole tally, both above 0.
    plus
        The share of negatives below a positive row of this score, ties half.
    minus
        The share of positives above a negative row of this score, ties half.
    """
    good, bad = np.int64(hits), np.int64(rows) - np.int64(hits)
    for i in range(count.size):
        own_good = np.int64(positive[i])
        own_bad = np.int64(count[i]) - own_good
        plus[i] = (float(negatives - bad - own_bad) + 0.5 * float(own_bad)) / float(negatives)
        minus[i] = (float(good) + 0.5 * float(own_good)) / float(positives)
        good += own_good
        bad += own_bad


@kernel
def precision_steps(count: Counts, positive: Counts, rows: int, hits: int) -> tuple[float, float]:
    """Return what `precision_shares` needs of the stretches below: two sums over positive rows.

    With N the rows and T the positive rows down to a row's score: the sums of 1 / N and T / N^2.
    """
    steps, falls = 0.0, 0.0
    total, above = np.int64(rows), np.int64(hits)
    for i in range(count.size):
        total += count[i]
        above += positive[i]
        if positive[i] > 0:
            step = float(positive[i]) / float(total)
            steps += step
            falls += step * (float(above) / float(total))
    return steps, falls


@kernel
def precision_shares(
    count: Counts,
    positive: Counts,
    rows: int,
    hits: int,
    steps: float,
    falls: float,
    plus: Float64s,
    minus: Float64s,
) -> None:
    """Write by how much the sum of precision over positive rows grows with one more row.

    A row raises or lowers the precision at its own score and at all below; a positive one also adds
    the precision at its score.

    Parameters
    ----------
    count, positive
        A stretch of a tally, by falling score.
    rows, hits
        Rows and positive rows down to the end of the stretch.
    steps, falls
        `precision_steps` of all below it.
    plus, minus
        Of a positive row, of a negative row.
    """
    total, above = np.int64(rows), np.int64(hits)
    for i in range(count.size - 1, -1, -1):
        precision = 0.0
        if total > 0:
            precision = float(above) / float(total)
            step = float(positive[i]) / float(total)
            steps += step
            falls += step * precision
        plus[i] = precision + steps - falls
        minus[i] = -falls
        total -= count[i]
        above -= positive[i]


@kernel
def log_losses(
    probability: Floats, count: Counts, positive: Counts, plus: Float64s, minus: Float64s
) -> None:
    """Write the logarithmic loss of a positive and of a negative row; 0 where there is none."""
    for i in range(probability.size):
        clipped = min(max(float(probability[i]), CLIP), 1.0 - CLIP)
        plus[i] = -math.log(clipped) if positive[i] > 0 else 0.0
        minus[i] = -math.log(1.0 - clipped) if count[i] > positive[i] else 0.0


@kernel
def sum_of_squares(count: Counts, positive: Counts, plus: Float64s, minus: Float64s) -> float:
    """Return the sum over rows of the square of what they contribute."""
    total = 0.0
    for i in range(count.size):
        hits = float(positive[i])
        misses = float(np.int64(count[i]) - np.int64(positive[i]))
        total += hits * plus[i] * plus[i] + misses * minus[i] * minus[i]
    return total
