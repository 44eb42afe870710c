"""How many rows there are, how many are positive, and what the scores sum to."""

from __future__ import annotations

import numpy as np

from calibkit.measures.influence import probability_of, to_mean
from calibkit.measures.metric import Shares, metric
from calibkit.measures.result import Number
from calibkit.measures.views import View, once
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


def _base_rate(view: View, block: int) -> Shares:
    part = view.blocks[block]
    values = np.ones(part.stop - part.start), np.zeros(part.stop - part.start)
    return to_mean(view, view.positives / view.total, values)


@metric("base_rate", interval="wilson", contributions=_base_rate, compared=False)
def base_rate(view: View) -> Number:
    """Return the share of positive rows."""
    return view.positives / view.total if view.total else None


def _mean_score(view: View, block: int) -> Shares:
    score = view.score if view.settings.scale == "raw" else view.probability
    assert score is not None
    own = score[view.blocks[block]].astype(np.float64)
    return to_mean(view, (score_sum(view) or 0.0) / view.total, (own, own))


@metric("mean_score", interval="influence", contributions=_mean_score)
def mean_score(view: View) -> Number:
    """Return the mean score: the mean probability of logits, None where a score is infinite."""
    mass = score_sum(view)
    return None if mass is None or not view.total else mass / view.total


@metric("lift", interval="wilson", compared=False)
def lift(view: View) -> Number:
    """Return the share of positive rows over that of all rows (1 for the slice ``all``).

    None where no row at all is positive.
    """
    rate = base_rate(view)
    return rate / view.base_rate if rate is not None and view.base_rate else None


def _calibration_bias(view: View, block: int) -> Shares:
    """Of the ratio of the sum of scores to the sum of labels."""
    ratio = (score_sum(view) or 0.0) / view.positives
    own = probability_of(view, block) / float(view.positives)
    return own - ratio / view.positives, own


@metric("calibration_bias", interval="influence", contributions=_calibration_bias, scale="log1p")
def calibration_bias(view: View) -> Number:
    """Return sum of scores / sum of labels - 1; None without a positive row."""
    mass = score_sum(view)
    if mass is None or view.probability is None or not view.positives:
        return None
    return mass / view.positives - 1.0


@once
def score_sum(view: View) -> float | None:
    """Return the sum of scores over rows, in units: of probabilities, or of raw scores."""
    score = view.score if view.settings.scale == "raw" else view.probability
    if score is None or not view.total or not view.finite:
        return None
    sums = view.each(reliability.range_sums, score, view.count, view.positive)
    return float(added(sums)[2])
