"""Intervals of rates (a over b, counted in rows) and of functions of one rate."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from calibkit.measures.influence import class_contributions, group_sums, rows_variance, sampled
from calibkit.measures.result import Interval
from calibkit.measures.views import Confusion, Sample, Settings
from calibkit.numerics.normal import critical_value
from calibkit.numerics.sums import exact_sum, exact_sum_products

#: Of each rate of decisions the cells above and below the line; the cells are true negatives,
#: false negatives, false positives, true positives.  F1 is a function of tp / (tp + fp + fn).
RATES: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {
    "selected_share": ((0, 0, 1, 1), (1, 1, 1, 1)),
    "precision": ((0, 0, 0, 1), (0, 0, 1, 1)),
    "recall": ((0, 0, 0, 1), (0, 1, 0, 1)),
    "specificity": ((1, 0, 0, 0), (1, 0, 1, 0)),
    "fpr": ((0, 0, 1, 0), (1, 0, 1, 0)),
    "npv": ((1, 0, 0, 0), (1, 1, 0, 0)),
    "f1": ((0, 0, 0, 1), (0, 1, 1, 1)),
}


@dataclass(frozen=True)
class Level:
    """How far an interval reaches: by its confidence and the number of independent units.

    `units` None is so many that the normal law holds; with few groups Student's is wider.
    """

    confidence: float
    units: int | None = None

    @property
    def reach(self) -> float:
        """Standard errors to either side: Student's quantile, by its expansion about the normal.

        (Abramowitz and Stegun, Handbook of mathematical functions, 26.7.5.)
        """
        z = critical_value(self.confidence)
        if self.units is None:
            return z
        free = max(self.units - 1, 1)
        first = (z**3 + z) / 4.0
        second = (5.0 * z**5 + 16.0 * z**3 + 3.0 * z) / 96.0
        third = (3.0 * z**7 + 19.0 * z**5 + 17.0 * z**3 - 15.0 * z) / 384.0
        return z + first / free + second / free**2 + third / free**3


@dataclass(frozen=True, kw_only=True)
class IntervalOptions:
    """What intervals are wanted: their confidence, and how replicates are drawn.

    Neither the number of threads nor the order of replicates shows in a result.
    """

    confidence: float = 0.95
    seed: int = 0
    threads: int = 1
    replicates: int = 200

    def level(self, sample: Sample) -> Level | None:
        """Return how far intervals reach for some rows; None where these are too few for any."""
        units = None if sample.group is None else int(np.unique(sample.group).size)
        few = sample.rows < 2 or (units is not None and units < 2)
        return None if few else Level(self.confidence, units)


def wilson(rate: float, rows: float, level: Level) -> Interval:
    """Return the score interval of a rate (Wilson, Probable inference, 1927).

    `rows` is how many independent rows it is of, not necessarily whole.
    """
    square = level.reach**2 / rows
    centre = (rate + 0.5 * square) / (1.0 + square)
    half = math.sqrt(square * (rate * (1.0 - rate) + 0.25 * square)) / (1.0 + square)
    low = 0.0 if rate == 0.0 else max(0.0, centre - half)
    return Interval(low, 1.0 if rate == 1.0 else min(1.0, centre + half))


def effective_rows(rate: float, variance: float, sample: Sample, settings: Settings) -> float:
    """Return of how many independent rows a rate with this variance would be.

    Where every row agrees the variance says nothing; then it is Kish's number, the square of the
    sum of weights over the sum of their squares (Survey sampling, 1965), weights of groups summed.
    """
    if variance > 0.0 and 0.0 < rate < 1.0:
        return rate * (1.0 - rate) / variance
    weight = np.ones(sample.label.size) if sample.weight is None else sample.weight
    if sample.group is not None:
        weight = group_sums(weight, sample.group)
    elif not sampled(sample, settings):
        return exact_sum(weight)
    return exact_sum(weight) ** 2 / exact_sum_products(weight, weight)


def sides_of(name: str, found: Confusion) -> tuple[int, int]:
    """Return the units above and below the line of a rate of decisions."""
    cells = (found.tn, found.fn, found.fp, found.tp)
    above, below = (sum(n for n, use in zip(cells, s, strict=True) if use) for s in RATES[name])
    return above, below


def decision_intervals(names: Sequence[str], found: Confusion, level: Level) -> dict[str, Interval]:
    """Return the intervals of metrics of decisions, of which all values are defined."""
    intervals = {}
    for name in names:
        if name in RATES:
            intervals[name] = _rate_interval(name, found, level)
        elif name == "mcc":
            intervals[name] = _matthews_interval(found, level)
    return intervals


def _rate_interval(name: str, found: Confusion, level: Level) -> Interval:
    (above, below), (hits, of) = RATES[name], sides_of(name, found)
    rate, whole = hits / of, of * found.unit.size
    sample, settings = found.sample, found.settings
    if sample.group is None and not sampled(sample, settings):
        rows = whole
    else:
        shares = [(a - rate * b) / whole for a, b in zip(above, below, strict=True)]
        variance = rows_variance(class_contributions(shares, sample), sample, settings)
        inside = np.array(below, np.bool_)[2 * sample.score.astype(np.int64) + sample.label]
        part = Sample(
            score=sample.score[inside],
            label=sample.label[inside],
            weight=None if sample.weight is None else sample.weight[inside],
            group=None if sample.group is None else sample.group[inside],
        )
        rows = effective_rows(rate, variance, part, settings)
    interval = wilson(rate, rows, level)
    if name == "f1":  # F1 = 2 J / (1 + J), J the Jaccard index
        ends = (interval.low or 0.0, interval.high or 0.0)
        return Interval(*(2.0 * end / (1.0 + end) for end in ends))
    return interval


def _matthews_interval(found: Confusion, level: Level) -> Interval:
    """Return the interval of the correlation by the delta method, on Fisher's scale."""
    size = found.unit.size
    tn, fn, fp, tp = (size * float(n) for n in (found.tn, found.fn, found.fp, found.tp))
    root = math.sqrt((tp + fp) * (tp + fn) * (tn + fp) * (tn + fn))
    value = (tp * tn - fp * fn) / root

    def slope(partner: float, sums: tuple[float, float]) -> float:
        return partner / root - 0.5 * value * (1.0 / sums[0] + 1.0 / sums[1])

    slopes = [
        slope(tp, (tn + fp, tn + fn)),
        slope(-fp, (tp + fn, tn + fn)),
        slope(-fn, (tp + fp, tn + fp)),
        slope(tn, (tp + fp, tp + fn)),
    ]
    sample, settings = found.sample, found.settings
    variance = rows_variance(class_contributions(slopes, sample), sample, settings)
    if abs(value) >= 1.0 or variance == 0.0:
        return Interval(value, value)
    reach = level.reach * math.sqrt(variance) / (1.0 - value * value)
    centre = math.atanh(value)
    return Interval(math.tanh(centre - reach), math.tanh(centre + reach))
