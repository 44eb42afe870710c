"""Within what a metric lies if the rows of equal scores could come in any order."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from calibkit.maths.sums import exact_sum, exact_sum_products
from calibkit.metrics.views import View
from calibkit.summaries.resolution import Range

Floats = NDArray[np.float64]


def ranges(view: View) -> dict[str, Range]:
    """Return the least and the largest AUC and average precision over all orders within ties.

    AUC: pairs within a score count as none, and as all.  Average precision is largest with the
    positive rows of each score first and tied, and least with the negative ones first and all rows
    apart; the sum over the latter is bounded by an integral.
    """
    if not view.positives or not view.negatives:
        return {}
    positive = view.positive.astype(np.float64)
    negative = view.count.astype(np.float64) - positive
    return {
        "auc": _auc(positive, negative),
        "average_precision": _average_precision(positive, negative),
    }


def _auc(positive: Floats, negative: Floats) -> Range:
    below = negative.sum() - np.cumsum(negative)  # whole numbers: exact below 2^53
    pairs = float(positive.sum()) * float(negative.sum())
    least = exact_sum_products(positive, below)
    return Range(least / pairs, min(1.0, (least + exact_sum_products(positive, negative)) / pairs))


def _average_precision(positive: Floats, negative: Floats) -> Range:
    hits = np.cumsum(positive)
    rows = np.cumsum(positive + negative)
    total = float(hits[-1])
    best = positive * (hits / np.maximum(rows - negative, 1.0))
    before = rows - positive  # of the rows of a score its negative ones come first
    harm = before - (hits - positive)
    with np.errstate(divide="ignore", invalid="ignore"):
        lost = np.where(harm > 0, harm * np.log1p(positive / before), 0.0)
    least = exact_sum(positive - lost) / total
    return Range(max(0.0, math.nextafter(least, 0.0)), min(1.0, exact_sum(best) / total))
