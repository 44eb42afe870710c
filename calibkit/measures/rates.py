"""How far an interval reaches, and those of rates (a over b, counted in rows)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from calibkit.measures.influence import group_sums, sampled
from calibkit.measures.metric import Scale
from calibkit.measures.result import Interval
from calibkit.measures.views import Sample
from calibkit.numerics.normal import critical_value
from calibkit.numerics.sums import exact_sum
from calibkit.numerics.wilson import score_limits
from calibkit.options.metrics import Settings


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
    """Return the score interval of a rate of so many independent rows, not necessarily whole."""
    return Interval(*score_limits(rate, rows, level.reach))


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
    return exact_sum(weight) ** 2 / exact_sum(weight, weight)


def on_scale(value: float, reach: float, scale: Scale) -> Interval:
    """Return an interval that is symmetric on a scale, where the value has a place on it.

    `reach` is to either side, on the scale of the value itself.
    """
    if scale == "logit" and 0.0 < value < 1.0:
        odds, reach = math.log(value / (1.0 - value)), reach / (value * (1.0 - value))
        low, high = (1.0 / (1.0 + math.exp(-x)) for x in (odds - reach, odds + reach))
        return Interval(low, high)
    less = 1.0 if scale == "log1p" else 0.0
    if scale in ("log", "log1p") and value + less > 0.0:
        factor = math.exp(reach / (value + less))
        return Interval((value + less) / factor - less, (value + less) * factor - less)
    return Interval(value - reach, value + reach)
