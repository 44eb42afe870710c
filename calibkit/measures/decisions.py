"""Metrics of decisions, with intervals: counts, and the measures of `calibkit.numerics.confusion`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from calibkit.columns.weights import ROW, Unit, in_units
from calibkit.measures.influence import (
    Level,
    by_rows,
    class_contributions,
    effective_rows,
    on_scale,
    rows_variance,
    wilson,
)
from calibkit.measures.result import Interval, Number
from calibkit.measures.views import Sample
from calibkit.numerics.confusion import MEASURES, Cells, ConfusionMeasure, Share
from calibkit.options.metrics import Settings, stem


@dataclass(frozen=True, kw_only=True)
class Confusion:
    """Decisions against labels in one slice, in units of weight."""

    name: str
    part: str
    #: True and false positives, false and true negatives.
    tp: int
    fp: int
    fn: int
    tn: int
    sample: Sample  # the rows; `Sample.score` is the decision, 0 or 1
    unit: Unit = ROW  # what one unit is worth
    settings: Settings = field(default_factory=Settings)

    @property
    def cells(self) -> Cells:
        """The counts; 0 / 0 is NaN."""
        return Cells(self.tp, self.fp, self.fn, self.tn, empty=math.nan)


def confusion_of(sample: Sample, name: str, part: str, settings: Settings) -> Confusion:
    """Count the decisions (`Sample.score`: 0 or 1) of some rows against their labels."""
    taken, label = sample.score.astype(bool), sample.label.astype(bool)
    if sample.weight is None or not sample.weight.any():
        units, unit = np.ones(label.size, np.int64) * (sample.weight is None), ROW
    else:
        units, unit = in_units(sample.weight, 2 * taken + label)

    cells = {"tp": taken & label, "fp": taken & ~label, "fn": ~taken & label, "tn": ~taken & ~label}
    counts = {cell: int(units[rows].sum()) for cell, rows in cells.items()}
    return Confusion(name=name, part=part, sample=sample, unit=unit, settings=settings, **counts)


#: Metrics that are numbers of rows.
COUNTS: Final[dict[str, Callable[[Cells], int]]] = {
    "tp": lambda c: c.tp,
    "fp": lambda c: c.fp,
    "fn": lambda c: c.fn,
    "tn": lambda c: c.tn,
    "selected": lambda c: c.tp + c.fp,
}

#: What is computed where no metric of decisions is named.
DEFAULT: Final = (
    *COUNTS,
    *("selected_share", "precision", "recall", "specificity", "fpr", "npv", "f1", "mcc"),
)


def names(chosen: Sequence[str] | None) -> list[str]:
    """Return the metrics of decisions among those chosen.

    Where there is none they are the usual ones: decisions were given to be judged, so that metrics
    of scores alone do not silence them.
    """
    own = [name for name in chosen or () if stem(name) in COUNTS or stem(name) in MEASURES]
    usual = [name for name in DEFAULT if name in own]
    return list(dict.fromkeys([*usual, *own])) or list(DEFAULT)


def compute(found: Confusion, wanted: Iterable[str]) -> dict[str, Number]:
    """Return the values of metrics of decisions; one that is 0 / 0 is None."""
    values: dict[str, Number] = {}
    for name in wanted:
        if name in COUNTS:
            values[name] = found.unit.amount(COUNTS[name](found.cells))
        else:
            measure, parameters = _measure(name)
            value = float(measure.formula(found.cells, *parameters))
            values[name] = None if math.isnan(value) else value
    return values


def _measure(name: str) -> tuple[ConfusionMeasure, list[float]]:
    """Return the measure of a name in metrics.json, and its parameters."""
    parameters = name.partition(":")[2]
    return MEASURES[stem(name)], [float(text) for text in parameters.split(",") if text]


def decision_intervals(names: Sequence[str], found: Confusion, level: Level) -> dict[str, Interval]:
    """Return the intervals of metrics of decisions, of which all values are defined."""
    intervals: dict[str, Interval | None] = {}
    for name in names:
        if name not in COUNTS:
            measure, parameters = _measure(name)
            intervals[name] = (
                _by_slopes(measure, parameters, found, level)
                if measure.share is None
                else _of_share(measure.share, found, level)
            )
    return {name: interval for name, interval in intervals.items() if interval is not None}


def _of_share(share: Share, found: Confusion, level: Level) -> Interval:
    """Return the interval of a share of rows, or of a rising function of one."""
    hits, of = found.cells.sum(share.above), found.cells.sum(share.below)
    rate, rows = hits / of, of * found.unit.size
    sample, settings = found.sample, found.settings
    if by_rows(sample, settings):
        above, below = (
            [cell in side.split() for cell in ("tn", "fn", "fp", "tp")]
            for side in (share.above, share.below)
        )
        shares = [(a - rate * b) / rows for a, b in zip(above, below, strict=True)]
        variance = rows_variance(class_contributions(shares, sample), sample, settings)
        inside = np.array(below)[2 * sample.score.astype(np.int64) + sample.label]
        rows = effective_rows(rate, variance, sample.rows_of(inside), settings)
    interval = wilson(rate, rows, level)
    return Interval(share.value(interval.low or 0.0), share.value(interval.high or 0.0))


def _by_slopes(
    measure: ConfusionMeasure, parameters: list[float], found: Confusion, level: Level
) -> Interval | None:
    """Return the interval by the delta method: on log-odds between bounds, on logarithms above one.

    At a bound, and where the rows show no spread, they still prove little: then the interval is
    Wilson's for a rate of the rarer class; None where there are no two bounds.
    """
    size, (low, high) = found.unit.size, measure.bounds
    tp, fp, fn, tn = (size * float(n) for n in (found.tp, found.fp, found.fn, found.tn))
    value = float(measure.formula(found.cells, *parameters))
    variance = 0.0
    if low < value < high:
        slopes = measure.slopes((tp, fp, fn, tn), *parameters)[::-1].tolist()
        contributions = class_contributions(slopes, found.sample)
        variance = rows_variance(contributions, found.sample, found.settings)
    reach = level.reach * math.sqrt(variance)
    if math.isfinite(high):
        width = high - low
        share = min(max((value - low) / width, 0.0), 1.0)
        rarer = min(tp + fn, fp + tn) or tp + fn + fp + tn
        own = on_scale(share, reach / width, "logit") if reach else wilson(share, rarer, level)
        return Interval(low + width * (own.low or 0.0), low + width * (own.high or 0.0))
    return on_scale(value, reach, "log" if low == 0.0 else "identity") if reach else None
