"""Within what a metric lies if the rows of equal scores could come in any order."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibkit.columns.resolution import Range
from calibkit.measures.views import View
from calibkit.numerics.sums import ExactSum
from calibkit.summaries.passes import merge_all


def ranges(view: View) -> dict[str, Range]:
    """Return the least and the largest AUC and average precision over all orders within ties.

    AUC: pairs within a score count as none, and as all.  Average precision is largest with the
    positive rows of each score first and tied, and least with the negative ones first and all rows
    apart; the sum over the latter is bounded by an integral.
    """
    if not view.positives or not view.negatives:
        return {}
    above = [(rows, hits, view.negatives) for rows, hits in view.starts[:-1]]
    parts = view.each(_sums_of_block, view.count, view.positive, given=above)
    apart, tied, best, least = (merge_all(sums).value for sums in zip(*parts, strict=True))
    pairs = float(view.positives) * float(view.negatives)
    lowest = math.nextafter(least / view.positives, 0.0)
    return {
        "auc": Range(apart / pairs, min(1.0, (apart + tied) / pairs)),
        "average_precision": Range(max(0.0, lowest), min(1.0, best / view.positives)),
    }


def _sums_of_block(
    count: NDArray[Any], positive: NDArray[Any], rows: int, hits: int, negatives: int
) -> tuple[ExactSum, ...]:
    """Return pairs in different scores and in one, then largest and least precisions, summed.

    `rows` and `hits` say what stands above the block, `negatives` how many there are in all.
    """
    positive = positive.astype(np.int64)
    negative = count - positive
    hits_above = np.cumsum(positive) - positive + hits
    harm_above = np.cumsum(negative) - negative + (rows - hits)
    apart, tied, best, least = (ExactSum() for _ in range(4))
    apart.add(positive, negatives - harm_above - negative)
    tied.add(positive, negative)
    reached = hits_above + positive
    best.add(positive * (reached / np.maximum(reached + harm_above, 1)))
    harm = harm_above + negative  # of the rows of a score its negative ones come first
    with np.errstate(divide="ignore", invalid="ignore"):
        lost = np.where(harm > 0, harm * np.log1p(positive / (hits_above + harm)), 0.0)
    least.add(positive - lost)
    return apart, tied, best, least
