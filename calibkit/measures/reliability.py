"""Metrics of counts and of the values of scores: sums, losses, calibration errors over bins, CORP.

CORP is the Brier score as miscalibration less discrimination plus uncertainty: scores are compared with
their isotonic regression on the labels (Dimitriadis, Gneiting, Jordan, Stable reliability diagrams for
probabilistic classifiers, 2021, section 2).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from calibkit.measures.influence import filled, probability_of, to_mean
from calibkit.measures.metric import Options, Shares, metric
from calibkit.measures.result import Number
from calibkit.measures.views import View, once
from calibkit.numerics.isotonic import Pools, pool, pool_block
from calibkit.numerics.sums import added, cut, each_block
from calibkit.options.metrics import Settings
from calibkit.summaries.edges import equal_width_edges, falling_quantiles
from calibkit_kernels import metrics as kernels

Floats = NDArray[np.float64]


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
    own = probability_of(view, block).astype(np.float64) / view.positives
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
    sums = view.each(kernels.range_sums, score, view.count, view.positive)
    return float(added(sums)[2])


@dataclass(frozen=True)
class Bins:
    """Rows in bins of probability, from the lowest."""

    edges: Floats  # ends of the bins: bin j is ``[edges[j], edges[j + 1])``, the last closed
    #: Rows and positive rows of each bin, in units; together all rows.
    count: list[int]
    positive: list[int]
    mass: list[float]  # the sum of probabilities of each bin

    def gaps(self) -> list[tuple[int, float]]:
        """Return rows, and mean label less mean probability, of each bin that has rows."""
        return [
            (count, (positive - mass) / count)
            for count, positive, mass in zip(self.count, self.positive, self.mass, strict=True)
            if count
        ]


def bins_of(view: View, strategy: str) -> Bins | None:
    """Return the rows in bins; None where scores are no probabilities, or there are no rows.

    ``equal-width`` cuts [0, 1], ``range`` the range of the scores, both at
    ``low + (high - low) * j / bins``; ``equal-mass`` at the values that ``j * rows // bins`` rows
    do not exceed, so that equal values share a bin and bins may be empty.
    """
    probability = view.probability
    if probability is None or not view.total:
        return None
    count = view.settings.bins
    lowest, highest = float(probability[-1]), float(probability[0])
    low, high = (0.0, 1.0) if strategy == "equal-width" else (lowest, highest)
    if strategy == "equal-mass":
        inner = falling_quantiles(probability, view.count, count)[1:]
    else:
        inner = equal_width_edges(low, high, count)
    places = np.empty(count - 1, np.int64)
    kernels.entries_from(probability, inner, places)
    ends = [probability.size, *places.tolist(), 0]
    found = stretch_sums(view, [(start, end) for end, start in pairwise(ends)])
    counts, positives, masses = map(list, zip(*found, strict=True))
    return Bins(np.array([low, *inner, high]), counts, positives, masses)


def stretch_sums(view: View, stretches: Sequence[tuple[int, int]]) -> list[tuple[int, int, float]]:
    """Return rows, positive rows and the sum of probabilities of stretches of the tally."""
    assert view.probability is not None
    cuts = [cut(start, end) for start, end in stretches]
    arrays = (view.probability, view.count, view.positive)
    blocks = [block for stretch in cuts for block in stretch]
    sums = iter(each_block(kernels.range_sums, arrays, blocks, view.settings.threads))
    found = []
    for stretch in cuts:
        rows, hits, mass = added([next(sums) for _ in stretch]) if stretch else (0, 0, 0.0)
        found.append((rows, hits, mass))
    return found


@once
def chosen_bins(view: View) -> Bins | None:
    """Return the rows in the bins that the settings ask for."""
    return bins_of(view, view.settings.strategy)


@once
def equal_mass_bins(view: View) -> Bins | None:
    """Return the rows in bins of equal mass."""
    return (
        chosen_bins(view) if view.settings.strategy == "equal-mass" else bins_of(view, "equal-mass")
    )


@once
def losses(view: View) -> tuple[float, float] | None:
    """Return the means of logarithmic loss and squared error; None as `bins_of`."""
    probability = view.probability
    if probability is None or not view.total:
        return None
    _, log_loss_, squares = added(
        view.each(kernels.loss_sums, probability, view.count, view.positive)
    )
    return log_loss_ / view.total, squares / view.total


def _binned(norm: str, strategy: str | None = None) -> Options:
    def options(settings: Settings) -> dict[str, object]:
        said = {"bins": settings.bins, "strategy": strategy or settings.strategy}
        return {**said, "norm": norm, "ties": "whole"}

    return options


def _clipped(_: Settings) -> dict[str, object]:
    return {"clip": "1e-15"}


def _log_loss(view: View, block: int) -> Shares:
    probability = probability_of(view, block)

    def losses(count: Floats, positive: Floats, plus: Floats, minus: Floats) -> None:
        kernels.log_losses(probability, count, positive, plus, minus)

    return to_mean(view, log_loss(view), filled(view, block, losses))


@metric("log_loss", _clipped, interval="influence", contributions=_log_loss, scale="log")
def log_loss(view: View) -> float | None:
    """Return the mean of -ln of the probability given to the label, clipped to [1e-15, 1 - 1e-15]."""
    found = losses(view)
    return found and found[0]


@metric("log_loss_reduction", _clipped, interval="influence", scale="log1p", compared=False)
def log_loss_reduction(view: View) -> float | None:
    """Return log loss / log loss of the baseline on the same rows - 1; None if that is 0."""
    own, base = log_loss(view), log_loss(view.baseline or view)
    return own / base - 1.0 if own is not None and base else None


def _brier(view: View, block: int) -> Shares:
    p = probability_of(view, block).astype(np.float64)
    return to_mean(view, brier(view), ((1.0 - p) * (1.0 - p), p * p))


@metric("brier", interval="influence", contributions=_brier, scale="log")
def brier(view: View) -> float | None:
    """Return the mean squared difference of probability and label."""
    found = losses(view)
    return found and found[1]


@metric("ece", _binned("l1"), interval="bootstrap")
def expected_calibration_error(view: View) -> float | None:
    """Return the mean over rows of |mean label - mean probability| of the row's bin."""
    return _mean_gap(chosen_bins(view))


@metric("ace", _binned("l1", "equal-mass"), interval="bootstrap")
def adaptive_calibration_error(view: View) -> float | None:
    """Return the calibration error over bins of equal mass."""
    return _mean_gap(equal_mass_bins(view))


@metric("mce", _binned("max"), interval="bootstrap")
def maximum_calibration_error(view: View) -> float | None:
    """Return the largest |mean label - mean probability| of a bin that has rows."""
    found = chosen_bins(view)
    return None if found is None else max(abs(gap) for _, gap in found.gaps())


@metric("ece_debiased", _binned("l2"), interval="bootstrap")
def debiased_calibration_error(view: View) -> float | None:
    """Return the root of the mean squared gap less its expectation under sampling noise.

    Bins of one row are left out (Kumar, Liang, Ma, Verified uncertainty calibration, 2019).
    """
    found = chosen_bins(view)
    if found is None:
        return None
    terms = []
    for count, positive, mass in zip(found.count, found.positive, found.mass, strict=True):
        rows = view.unit.amount(float(count))
        if rows > 1:
            rate = positive / count
            terms.append(
                count * (((positive - mass) / count) ** 2 - rate * (1 - rate) / (rows - 1))
            )
    return math.sqrt(max(0.0, math.fsum(terms) / view.total))


def _mean_gap(found: Bins | None) -> float | None:
    if found is None:
        return None
    gaps = found.gaps()
    return math.fsum(count * abs(gap) for count, gap in gaps) / math.fsum(
        count for count, _ in gaps
    )


@once
def pools(view: View) -> Pools:
    """Return the pools of isotonic regression by falling score: rows, positive rows, entries."""
    return pool(view.each(pool_block, view.count, view.positive))


@once
def isotonic_brier(view: View) -> float | None:
    """Return the Brier score of the isotonic regression; None without rows."""
    if not view.total:
        return None
    terms = ((hits / rows) * (rows - hits) for rows, hits, _ in pools(view).tolist())
    return math.fsum(terms) / view.total


@metric("miscalibration", interval="bootstrap")
def miscalibration(view: View) -> float | None:
    """Return how much the isotonic regression of the scores lowers their Brier score."""
    own, best = brier(view), isotonic_brier(view)
    return None if own is None or best is None else max(0.0, own - best)


@metric("discrimination", interval="bootstrap")
def discrimination(view: View) -> float | None:
    """Return how much lower the Brier score of the isotonic regression is than the base rate's."""
    base, best = brier_uncertainty(view), isotonic_brier(view)
    return None if base is None or best is None else max(0.0, base - best)


@metric("brier_uncertainty", interval="wilson", compared=False)
def brier_uncertainty(view: View) -> float | None:
    """Return the Brier score of the base rate."""
    if not view.total:
        return None
    return (view.positives / view.total) * (view.negatives / view.total)
