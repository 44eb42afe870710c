"""How many rows there are, how many are positive, and what the scores sum to."""

from __future__ import annotations

from calibkit.measures.metric import metric
from calibkit.measures.result import Number
from calibkit.measures.views import View
from calibkit.numerics.blocks import added
from calibkit_kernels import reliability


@metric("count", compared=False)
def count(view: View) -> Number:
    """Return the rows, or the sum of their weights."""
    return view.unit.amount(view.total)


@metric("positives", compared=False)
def positives(view: View) -> Number:
    """Return the positive rows, or the sum of their weights."""
    return view.unit.amount(view.positives)


@metric("base_rate", compared=False)
def base_rate(view: View) -> Number:
    """Return the share of positive rows."""
    return view.positives / view.total if view.total else None


@metric("mean_score")
def mean_score(view: View) -> Number:
    """Return the mean score: the mean probability of logits, None where a score is infinite."""
    mass = view.once(score_sum)
    return None if mass is None or not view.total else mass / view.total


@metric("lift", compared=False)
def lift(view: View) -> Number:
    """Return the share of positive rows over that of all rows (1 for the slice ``all``).

    None where no row at all is positive.
    """
    rate = base_rate(view)
    return rate / view.base_rate if rate is not None and view.base_rate else None


@metric("calibration_bias")
def calibration_bias(view: View) -> Number:
    """Return sum of scores / sum of labels - 1; None without a positive row."""
    mass = view.once(score_sum)
    if mass is None or view.probability is None or not view.positives:
        return None
    return mass / view.positives - 1.0


def score_sum(view: View) -> float | None:
    """Return the sum of scores over rows, in units: of probabilities, or of raw scores."""
    score = view.score if view.settings.scale == "raw" else view.probability
    if score is None or not view.total or not view.finite:
        return None
    sums = view.each(reliability.range_sums, score, view.count, view.positive)
    return float(added(sums)[2])
