"""Metrics of the order of scores: AUC, average precision, the best single threshold."""

from __future__ import annotations

from calibkit.measures.metric import metric, metric_of_bound
from calibkit.measures.views import View
from calibkit.numerics.blocks import added
from calibkit.numerics.bounds import Bound
from calibkit_kernels import ranking


def ranking_sums(view: View) -> tuple[float, float]:
    """Return twice the pairs ranked right, and the sum of precision over positive rows."""
    pairs, precisions = added(
        view.each(ranking.ranking_sums, view.count, view.positive, given=view.starts[:-1])
    )
    return pairs, precisions


@metric("auc", ties="half")
def auc(view: View) -> float | None:
    """Return the area under the ROC curve: pairs ranked right, ties counted half.

    None with one class only.
    """
    if not view.positives or not view.negatives:
        return None
    return view.once(ranking_sums)[0] / (2.0 * view.positives * view.negatives)


@metric("average_precision", ties="whole")
def average_precision(view: View) -> float | None:
    """Return the sum over falling thresholds of the gain in recall times precision.

    None without a positive row.
    """
    if not view.positives:
        return None
    return view.once(ranking_sums)[1] / view.positives


@metric_of_bound("recall_at_precision", lambda settings: settings.precisions)
def recall_at_precision(view: View, bound: Bound) -> float | None:
    """Return the largest recall of a single threshold with precision >= P, compared exactly.

    0 where no threshold reaches P (the empty selection does), None without a positive row.
    """
    if not view.positives:
        return None
    hits = ranking.most_hits_at_precision(
        view.count, view.positive, bound.numerator, bound.denominator
    )
    return int(hits) / view.positives


@metric_of_bound("precision_at_recall", lambda settings: settings.recalls)
def precision_at_recall(view: View, bound: Bound) -> float | None:
    """Return the largest precision of a single threshold with recall >= R, compared exactly.

    None without a positive row.
    """
    if not view.positives:
        return None
    least = -(-view.positives * bound.numerator // bound.denominator)
    rows, hits = ranking.best_precision_at_recall(view.count, view.positive, least)
    return int(hits) / int(rows)
