"""Metrics of the order of scores: AUC, average precision, the best single threshold."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial

import numpy as np

from calibkit.arrays import Floats, Int64s, Numbers
from calibkit.measures.views import Shares, View, filled, metric, once
from calibkit.models.model import Range
from calibkit.numerics.bounds import Bound
from calibkit.numerics.sums import ExactSum, added
from calibkit.summaries.passes import merge_all
from calibkit_kernels import metrics as kernels
from calibkit_kernels.rates import largest_ratio, ratio_at_least

#: Of thresholds, which take the rows of one score all together.
_of_thresholds = partial(metric, options=lambda _: {"ties": "whole"}, scale="logit")


@once
def ranking_sums(view: View) -> tuple[float, float]:
    """Return twice the pairs ranked right, and the sum of precision over positive rows."""
    pairs, precisions = added(
        view.each(kernels.ranking_sums, view.count, view.positive, given=view.starts[:-1])
    )
    return pairs, precisions


def _auc(view: View, block: int) -> Shares:
    """DeLong's components, each class scaled for the n - 1 of its variance."""
    centre, classes = auc(view) or 0.0, (view.positives, view.negatives)
    shares = filled(view, block, kernels.delong_shares, *view.starts[block], *classes)
    found = []
    for own, units in zip(shares, classes, strict=True):
        n = view.rows_each * units
        # A class of one row has no variance to be seen; what it has is at most that of two.
        found.append((own - centre) * (math.sqrt(n / max(n - 1.0, 1.0)) / units))
    return found[0], found[1]


@metric("auc", lambda _: {"ties": "half"}, interval="delong", contributions=_auc)
def auc(view: View) -> float | None:
    """Return the area under the ROC curve: pairs ranked right, ties counted half.

    None with one class only.
    """
    if not view.positives or not view.negatives:
        return None
    return ranking_sums(view)[0] / (2.0 * view.positives * view.negatives)


@once
def _steps_below(view: View) -> Floats:
    """Return the steps of precision summed over all blocks from each one on, and 0 at the end."""
    steps = view.each(kernels.precision_steps, view.count, view.positive, given=view.starts[:-1])
    return np.cumsum([(0.0, 0.0), *reversed(steps)], axis=0)[::-1]


def _average_precision(view: View, block: int) -> Shares:
    centre, below = average_precision(view) or 0.0, _steps_below(view)[block + 1].tolist()
    ends = view.starts[block + 1]
    plus, minus = filled(view, block, kernels.precision_shares, *ends, *below)
    return (plus - centre) / view.positives, minus / view.positives


@_of_thresholds("average_precision", interval="influence", contributions=_average_precision)
def average_precision(view: View) -> float | None:
    """Return the sum over falling thresholds of the gain in recall times precision.

    None without a positive row.
    """
    if not view.positives:
        return None
    return ranking_sums(view)[1] / view.positives


@metric("pr_auc", lambda _: {"ties": "random"}, interval="bootstrap", scale="logit")
def precision_recall_area(view: View) -> float | None:
    """Return the area under the precision-recall path of thresholds that may be random.

    Within equal scores rows are selected at random, which average precision does not do: that takes
    all of them at once.  None without a positive row.  Durfee, Gupta, Basu, "Heterogeneous
    calibration", definition 10.5, with the precision of the rows' own base rate.
    """
    if not view.positives:
        return None
    given = view.starts[:-1]
    parts = view.each(kernels.precision_integral, view.count, view.positive, given=given)
    return math.fsum(parts) / view.positives


def _cumulative(view: View) -> Iterator[Int64s]:
    """Yield the rows, then the positive rows, at or above each score."""
    return (np.cumsum(counts, dtype=np.int64) for counts in (view.count, view.positive))


@_of_thresholds("recall_at_precision", interval="bootstrap", bounds=lambda given: given.precisions)
def recall_at_precision(view: View, bound: Bound) -> float | None:
    """Return the largest recall of a single threshold with precision >= P, compared exactly.

    0 where no threshold reaches P (the empty selection does), None without a positive row.
    """
    if not view.positives:
        return None
    rows, hits = _cumulative(view)
    met = ratio_at_least(hits, rows, bound.numerator, bound.denominator)
    return int(hits[met].max(initial=0)) / view.positives


@_of_thresholds("precision_at_recall", interval="bootstrap", bounds=lambda given: given.recalls)
def precision_at_recall(view: View, bound: Bound) -> float | None:
    """Return the largest precision of a single threshold with recall >= R, compared exactly.

    None without a positive row.
    """
    if not view.positives:
        return None
    least = -(-view.positives * bound.numerator // bound.denominator)
    rows, hits = _cumulative(view)
    best = largest_ratio(hits, rows, least)
    return int(hits[best]) / int(rows[best])


def ranges(view: View) -> dict[str, Range]:
    """Return within what AUC and average precision lie, whatever the order of rows within ties.

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
    count: Numbers, positive: Numbers, rows: int, hits: int, negatives: int
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
