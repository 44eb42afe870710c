"""Metrics of counts and of the values of scores: sums, losses, calibration errors over bins, CORP.

Reliability diagrams are the same bins and pools as rows.

CORP is the Brier score as miscalibration less discrimination plus uncertainty: scores are compared with
their isotonic regression on the labels (Dimitriadis, Gneiting, Jordan, Stable reliability diagrams for
probabilistic classifiers, 2021, section 2).  smECE_sigma is the integral over [0, 1] of the absolute
value of the residuals smoothed by a Gaussian kernel of width sigma, reflected at both ends; smooth ECE
is that at the sigma that equals it (Blasiok, Nakkiran, Smooth ECE: principled reliability diagrams via
kernel smoothing, 2023, section 3).
"""

from __future__ import annotations

import math
from functools import partial
from itertools import pairwise

import numpy as np
import polars as pl
from msgspec import Struct

from calibkit.arrays import Floats, Int64s, Numbers
from calibkit.measures import views
from calibkit.measures.influence import sampled_rows
from calibkit.measures.result import Number
from calibkit.measures.views import Shares, View, metric, once
from calibkit.numerics.distributions import interval
from calibkit.numerics.isotonic import Pools, pool, pool_block
from calibkit.numerics.sums import added, cut, each_block
from calibkit.options.metrics import Settings
from calibkit.summaries.edges import equal_width_edges, falling_quantiles
from calibkit_kernels import metrics as kernels
from calibkit_kernels.bootstrap import ONE_ROW


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
    return views.to_mean(view, view.positives / view.total, values)


@metric("base_rate", interval="wilson", contributions=_base_rate, compared=False)
def base_rate(view: View) -> Number:
    """Return the share of positive rows."""
    return view.positives / view.total if view.total else None


def _mean_score(view: View, block: int) -> Shares:
    score = view.score if view.settings.scale == "raw" else view.probability
    assert score is not None
    own = score[view.blocks[block]].astype(np.float64)
    return views.to_mean(view, (score_sum(view) or 0.0) / view.total, (own, own))


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
    own = views.probability_of(view, block).astype(np.float64) / view.positives
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
    if score is None or not view.total or not np.isfinite(score[[0, -1]]).all():
        return None
    sums = view.each(kernels.range_sums, score, view.count, view.positive)
    return float(added(sums)[2])


class Bins(Struct, frozen=True):
    """Rows in bins of probability, from the lowest; together all rows."""

    low: Floats  # where each begins and ends: bin j is ``[low[j], high[j])``, the last closed
    high: Floats
    count: Int64s  # rows and positive rows of each, in units
    positive: Int64s
    mass: Floats  # the sum of probabilities of each
    ends: Int64s  # the entry of the tally after the last of each, from the highest bin on

    def gaps(self) -> list[tuple[int, float, float]]:
        """Return rows, mean label, and that less mean probability of each bin that has rows."""
        held = self.count > 0
        count, positive = self.count[held], self.positive[held]
        found = count, positive / count, (positive - self.mass[held]) / count
        return list(zip(*(own.tolist() for own in found), strict=True))


@once
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
    low, high = float(probability[-1]), float(probability[0])
    if strategy == "equal-width":
        low, high = 0.0, 1.0
    if strategy == "equal-mass":
        inner = falling_quantiles(probability, view.count, count)[1:]
    else:
        inner = equal_width_edges(low, high, count)
    ends = probability.size - np.append(np.searchsorted(probability[::-1], inner)[::-1], 0)
    return _summed(view, np.array([low, *inner]), np.array([*inner, high]), ends)


def _pools_as_bins(view: View) -> Bins | None:
    """Return the pools of isotonic regression, from the smallest to the largest probability in each."""
    found, probability = pools(view), view.probability
    if probability is None or not found.size:
        return None
    ends = np.cumsum(found[:, 2])
    low, high = probability[ends - 1], probability[ends - found[:, 2]]
    return _summed(view, low[::-1], high[::-1], ends)


def _summed(view: View, low: Floats, high: Floats, ends: Int64s) -> Bins:
    """Return bins with rows, positive rows and the sum of probabilities of each."""
    assert view.probability is not None  # whoever has bins has probabilities
    cuts = [cut(start, end) for start, end in pairwise([0, *ends.tolist()])][::-1]
    arrays = (view.probability, view.count, view.positive)
    blocks = [block for stretch in cuts for block in stretch]
    sums = iter(each_block(kernels.range_sums, arrays, blocks, view.settings.threads))
    found = [added([next(sums) for _ in own]) if own else (0, 0, 0.0) for own in cuts]
    rows, hits, mass = zip(*found, strict=True)
    count, positive = np.array([rows, hits], np.int64)
    return Bins(low, high, count, positive, np.array(mass, np.float64), ends)


@once
def losses(view: View) -> tuple[float, float] | None:
    """Return the means of logarithmic loss and squared error; None as `bins_of`."""
    probability = view.probability
    if probability is None or not view.total:
        return None
    log_loss_, squares = added(view.each(kernels.loss_sums, probability, view.count, view.positive))
    return log_loss_ / view.total, squares / view.total


def _binned(norm: str, strategy: str | None = None) -> views.Options:
    def options(settings: Settings) -> dict[str, object]:
        said = {"bins": settings.bins, "strategy": strategy or settings.strategy}
        return {**said, "norm": norm, "ties": "whole"}

    return options


def _clipped(_: Settings) -> dict[str, object]:
    return {"clip": "1e-15"}


def _log_loss(view: View, block: int) -> Shares:
    losses = partial(kernels.log_losses, views.probability_of(view, block))
    return views.to_mean(view, log_loss(view), views.filled(view, block, losses))


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
    p = views.probability_of(view, block).astype(np.float64)
    return views.to_mean(view, brier(view), ((1.0 - p) * (1.0 - p), p * p))


@metric("brier", interval="influence", contributions=_brier, scale="log")
def brier(view: View) -> float | None:
    """Return the mean squared difference of probability and label."""
    found = losses(view)
    return found and found[1]


@metric("ece", _binned("l1"), interval="bootstrap")
def expected_calibration_error(view: View) -> float | None:
    """Return the mean over rows of |mean label - mean probability| of the row's bin."""
    return _mean_gap(view, view.settings.strategy)


@metric("ace", _binned("l1", "equal-mass"), interval="bootstrap")
def adaptive_calibration_error(view: View) -> float | None:
    """Return the calibration error over bins of equal mass."""
    return _mean_gap(view, "equal-mass")


@metric("mce", _binned("max"), interval="bootstrap")
def maximum_calibration_error(view: View) -> float | None:
    """Return the largest |mean label - mean probability| of a bin that has rows."""
    found = bins_of(view, view.settings.strategy)
    return None if found is None else max(abs(gap) for *_, gap in found.gaps())


@metric("ece_debiased", _binned("l2"), interval="bootstrap")
def debiased_calibration_error(view: View) -> float | None:
    """Return the root of the mean squared gap less its expectation under sampling noise.

    Bins of one row are left out (Kumar, Liang, Ma, Verified uncertainty calibration, 2019).  Rows with
    sampling weights count as so many of equal weight.
    """
    found = bins_of(view, view.settings.strategy)
    if found is None:
        return None
    terms = []
    sizes = view.rows_each * found.count
    if view.settings.weight_kind == "sampling":
        sizes = sampled_rows(view, found.ends)[1][::-1]  # from the lowest bin on
    for (count, rate, gap), rows in zip(found.gaps(), sizes[found.count > 0], strict=True):
        if rows > ONE_ROW:
            terms.append(count * (gap**2 - rate * (1 - rate) / (rows - 1)))
    return math.sqrt(max(0.0, math.fsum(terms) / view.total))


def _mean_gap(view: View, strategy: str) -> float | None:
    found = bins_of(view, strategy)
    if found is None:
        return None
    return math.fsum(count * abs(gap) for count, _, gap in found.gaps()) / view.total


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


#: How far sigma may be from where it equals its error.
TOLERANCE = 1e-6

#: Terms of the cosine series are dropped where their factor is below exp(-DROPPED^2 / 2) = 1e-11.
_DROPPED = 7.1

#: More terms than this are not computed: narrower kernels than 6e-4 smooth a little more than said.
_MOST_TERMS = 4096

#: Cells a term and moments a cell: the angle within a cell is at most pi / 8, and the first order
#: left out contributes less than 3e-11 of a residual.
_CELLS, _ORDERS = 4, 10

#: Points a term at which the smoothed residual is looked at, and points at least: a term changes
#: sign once between two zeros, and those of high frequency are damped.
_POINTS, _LEAST_POINTS = 2, 512


def cosine_sums(values: Floats, terms: int) -> Floats:
    """Return sums of values times ``cos(pi k p)``, by k from 0, at the middles p of equal cells.

    At equally spaced places they are a Fourier transform.
    """
    turn = np.exp(-0.5j * np.pi * np.arange(terms) / values.size)
    found: Floats = (np.fft.rfft(values, 2 * values.size)[:terms] * turn).real
    return found


def smoothed(coefficients: Floats, sigma: float, points: int) -> tuple[float, Floats]:
    """Return the mean size of residuals smoothed by a width, and these at equally spaced points.

    `coefficients` are sums of residuals times ``cos(pi k p)``, by k from 0.  Series of cosines, and of
    sines for the integral, are Fourier transforms at points from 0 to 1; these are twice as many.
    """
    frequency = np.pi * np.arange(coefficients.size)
    damped = coefficients * np.exp(-0.5 * (sigma * frequency) ** 2)
    waves = np.zeros((2, points), np.complex128)
    waves[0, : damped.size] = damped
    waves[1, 1 : damped.size] = -1j * damped[1:] / frequency[1:]
    value, integral = np.fft.irfft(2 * (points - 1) * waves, 2 * (points - 1))[:, :points]
    integral += damped[0] * np.linspace(0.0, 1.0, points)
    return float(kernels.absolute_integral(value, integral)), value


class Series:
    """The cosine series of the residuals of one view; terms are computed as they are needed."""

    def __init__(self, view: View) -> None:
        assert view.probability is not None
        self._view, self._probability = view, view.probability
        self._coefficients = np.empty(0)

    def smoothed(self, sigma: float) -> float:
        """Return smECE_sigma."""
        terms = min(_MOST_TERMS, 1 + math.ceil(_DROPPED / (math.pi * sigma)))
        if terms > self._coefficients.size:  # their number doubles, so that it seldom grows
            size = max(64, 1 << (terms - 1).bit_length())
            self._coefficients = self._sums(size) / self._view.total
        points = 1 + max(_LEAST_POINTS, _POINTS * terms)
        return smoothed(self._coefficients[:terms], sigma, points)[0]

    def _sums(self, terms: int) -> Floats:
        view, cells, out = self._view, _CELLS * terms, np.zeros(terms)
        if self._probability.size <= cells:
            middle = self._probability.astype(np.float64)
            residual = view.positive - view.count * middle
            kernels.cosine_sums(middle, residual[:, None].copy(), out)
            return out
        moments = np.zeros((cells, _ORDERS))
        kernels.residual_moments(self._probability, view.count, view.positive, moments)
        kernels.cosine_sums((np.arange(cells) + 0.5) / cells, moments, out)
        return out


@metric(
    "smooth_ece",
    lambda _: {"kernel": "gaussian-reflected", "tolerance": "1e-6"},
    interval="bootstrap",
)
def smooth_calibration_error(view: View) -> float | None:
    """Return smECE_sigma at the sigma that equals it, to 1e-6."""
    squares = brier(view)
    # No width has a larger error than the mean absolute residual, which the root bounds.
    return None if squares is None else _fixed_point(Series(view), math.sqrt(squares))


def _fixed_point(series: Series, highest: float) -> float:
    """Return sigma where it equals its error, given an error that no width exceeds.

    The error falls as sigma grows, so that the two differ by at least as much as sigma is off, and
    the error at any sigma is a bound on the other side.
    """
    low, high = 0.0, min(1.0, highest)
    sigma, before = high, None
    while high - low > TOLERANCE:
        gap = series.smoothed(sigma) - sigma
        if abs(gap) <= 0.25 * TOLERANCE:
            return sigma
        low, high = max(low, min(sigma, sigma + gap)), min(high, max(sigma, sigma + gap))
        guess, margin = 0.5 * (low + high), 0.01 * (high - low)
        if before is not None and gap != before[1]:
            secant = sigma - gap * (sigma - before[0]) / (gap - before[1])
            guess = secant if low + margin < secant < high - margin else guess
        sigma, before = guess, (sigma, gap)
    return 0.5 * (low + high) if low else 0.0


#: Columns of the table: ``low`` and ``high`` are of the mean label.
SCHEMA = pl.Schema(
    {
        **dict.fromkeys(("score", "slice", "curve"), pl.String),
        "bin": pl.Int64,
        **dict.fromkeys(("score_low", "score_high", "count", "positives"), pl.Float64),
        **dict.fromkeys(("mean_score", "mean_label", "low", "high"), pl.Float64),
    }
)


def curve_rows(view: View, confidence: float | None) -> pl.DataFrame:
    """Return the reliability diagram of a score in a slice, one row a bin, from the lowest.

    ``curve`` is ``bins`` (the bins of `ece`, empty ones too, ends as cut) or ``corp`` (the pools of
    isotonic regression, ends the smallest and the largest probability in them; ``mean_label`` is the
    fitted probability).  With a confidence, bins of whole rows have the exact interval (Clopper and
    Pearson) of their mean label.  No rows where scores are no probabilities.
    """
    counted = view.unit.size == 1.0 and view.settings.weight_kind == "frequency"
    bounded = {"bins": confidence if counted and view.sample.group is None else None}
    frames = [pl.DataFrame(schema=SCHEMA)]
    for curve, bins in (
        ("bins", bins_of(view, view.settings.strategy)),
        ("corp", _pools_as_bins(view)),
    ):
        if bins is not None:
            own = {
                "score": view.name,
                "slice": view.part,
                "curve": curve,
                "bin": np.arange(bins.count.size),
                "score_low": bins.low.astype(np.float64),
                "score_high": bins.high.astype(np.float64),
                "count": bins.count * view.unit.size,
                "positives": bins.positive * view.unit.size,
                "mean_score": _shares(bins.mass, bins.count),
                "mean_label": _shares(bins.positive, bins.count),
            }
            frames.append(with_intervals(pl.DataFrame(own), bounded.get(curve)).cast(SCHEMA))
    return pl.concat(frames)


def _shares(part: Numbers, whole: Numbers) -> pl.Series:
    """Return the ratios, null where there is no row."""
    with np.errstate(invalid="ignore"):
        return pl.Series(part / whole, nan_to_null=True)


def with_intervals(frame: pl.DataFrame, confidence: float | None) -> pl.DataFrame:
    """Add the exact interval (Clopper, Pearson) of the share of positives of each bin with rows."""
    count, positive = frame["count"].to_numpy(), frame["positives"].to_numpy()
    held, ends = count > 0, np.full((2, count.size), np.nan)
    if confidence is not None:
        ends[:, held] = interval(positive[held], count[held], confidence)
    named = zip(("low", "high"), ends, strict=True)
    return frame.with_columns(pl.Series(name, end, nan_to_null=True) for name, end in named)
