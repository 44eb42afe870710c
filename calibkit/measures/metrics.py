"""The metrics of one score by name (see `calibkit.measures.views`): values, signatures, intervals.

Intervals of metrics and of their differences are

    auc                                   DeLong
    rates (base_rate, precision, ...)     Wilson; F1 and brier_uncertainty as functions of a rate
    smooth metrics                        influence functions; ratios on the logarithmic scale
    calibration errors, CORP, thresholds  bootstrap: bias and standard deviation over replicates

Rows in groups and sampling weights enter each of them; see `influence`, `resampling`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Final

import numpy as np

from calibkit.measures import influence, ranking, reliability
from calibkit.measures.decisions import Confusion, interval_of
from calibkit.measures.influence import IntervalOptions, Level
from calibkit.measures.reliability import log_loss
from calibkit.measures.resampling import EXCESS, NOISE, Spread, spreads
from calibkit.measures.result import Difference, Interval, Number
from calibkit.measures.views import DEFINED, Metric, View
from calibkit.numerics.bounds import score_limits
from calibkit.numerics.confusion import MEASURES
from calibkit.options.metrics import OF_SCORES, Settings, stem
from calibkit.runtime.threads import later

#: The families of metrics: loading them defines their metrics.
FAMILIES: Final = (ranking, reliability)

#: All metrics of one score, without their bounds, in the order in which tables show them.
METRICS: Final[dict[str, Metric]] = {name: DEFINED[name] for name in OF_SCORES}


def names(settings: Settings) -> list[str]:
    """Return the names of all metrics of one score, with the bounds of the settings."""
    found = []
    for name, metric in METRICS.items():
        bounds = metric.bounds and metric.bounds(settings)
        found += [name] if bounds is None else [f"{name}:{bound}" for bound in bounds]
    return found


def compute(view: View, wanted: Iterable[str]) -> dict[str, Number]:
    """Return the values of metrics; one that is not defined is None, never NaN."""
    found = {}
    for name in wanted:
        metric, text = METRICS[stem(name)], name.partition(":")[2]
        bounds = metric.bounds(view.settings) if metric.bounds else ()
        value = metric.function(view, *(bound for bound in bounds if str(bound) == text))
        found[name] = value if value is None or math.isfinite(value) else None
    return found


def intervals(
    values: Mapping[str, Number], data: View | Confusion, options: IntervalOptions
) -> dict[str, Interval]:
    """Return the intervals of those metrics that have one; none where a value is not defined.

    `values`: metrics by name. `data`: what they were computed from. `options`: confidence, seed,
    threads.
    """
    defined = {name: float(value) for name, value in values.items() if value is not None}
    level = options.level(data)
    if level is None:
        return {}
    found: dict[str, Interval | None] = {}
    if isinstance(data, Confusion):
        found = {name: interval_of(name, data, level) for name in defined}
    else:
        drawn = _drawn(defined)
        # Beside the passes over the tally, of which each uses the processors for a part of its time.
        varied = later(options.threads if drawn else 1, spreads, [data], drawn, options)
        for name, value in defined.items():
            how = DEFINED[stem(name)].interval
            if how == "wilson":
                found[name] = _of_rate(name, data, level)
            elif how in ("delong", "influence"):
                found[name] = _by_influence(name, value, data, level)
            elif drawn and name in varied():
                found[name] = _resampled_interval(name, value, varied(), level)
    return {name: interval for name, interval in found.items() if interval is not None}


def _drawn(names: Iterable[str]) -> list[str]:
    """Return the metrics that are resampled."""
    return [name for name in names if DEFINED[stem(name)].interval == "bootstrap"]


def differences(
    values: Mapping[str, float | None], baseline: View, other: View, options: IntervalOptions
) -> dict[str, Difference]:
    """Return the paired differences that have intervals, other less baseline; see `intervals`."""
    defined = {name: value for name, value in values.items() if value is not None}
    level = options.level(other)
    if level is None:
        return {}
    found: dict[str, Difference] = {}
    drawn = _drawn(defined)
    varied = spreads([baseline, other], drawn, options) if drawn else {}
    for name, value in defined.items():
        if name in varied:
            reach = level.reach * varied[name].deviation
            centre = _centre(name, value, varied)
            found[name] = Difference(value, min(centre - reach, value), max(centre + reach, value))
        elif DEFINED[stem(name)].contributions and _enough(name, other):
            contribution = influence.row_contributions(name, other)
            contribution -= influence.row_contributions(name, baseline)
            square = influence.rows_variance(contribution, other)
            reach = level.reach * math.sqrt(square)
            found[name] = Difference(value, value - reach, value + reach)
    return found


def method(metric: str, data: View | Confusion, options: IntervalOptions) -> str | None:
    """Return how the interval of a metric is found, None where it has none."""
    known = MEASURES.get(stem(metric)) if isinstance(data, Confusion) else DEFINED[stem(metric)]
    how = known and known.interval
    if how is None:
        return None
    drawn = f":{options.replicates}:seed:{options.seed}" if how == "bootstrap" else ""
    grouped = ":groups" if data.sample.group is not None else ""
    return f"{how}{drawn}{grouped}:{options.confidence:g}"


def _enough(name: str, view: View) -> bool:
    """Whether rows are enough to tell how far a metric varies."""
    each, hit = view.numbers, view.sample.label == 1
    positives = float(np.count_nonzero(hit) if each is None else each[hit].sum())
    if name == "auc":
        return 2.0 <= positives <= float(hit.size if each is None else each.sum()) - 2.0
    return name not in ("average_precision", "calibration_bias") or positives >= 2


def _by_influence(name: str, value: float, view: View, level: Level) -> Interval | None:
    """Return the interval of a metric with an influence function; None of too few rows."""
    if name == "log_loss_reduction":  # the paired ratio to the baseline's
        base, own = view.baseline, log_loss(view)
        other = None if base is None or base is view else log_loss(base)
        if base is None or not own or not other or value <= -1.0:
            return None
        contribution = influence.row_contributions("log_loss", view) / own
        contribution -= influence.row_contributions("log_loss", base) / other
        error = math.sqrt(influence.rows_variance(contribution, view))
        return Interval(*influence.on_scale(value, level.reach * error * (1.0 + value), "log1p"))
    if not _enough(name, view):
        return None
    if name in ("auc", "average_precision") and value in (0.0, 1.0):
        # Every pair agrees: no spread to be seen, yet few rows prove little.
        rows = min(view.positives, view.negatives or view.positives) * view.rows_each
        return influence.wilson(value, rows, level)
    reach = level.reach * math.sqrt(influence.variance(name, view))
    if name == "auc":
        return Interval(max(0.0, value - reach), min(1.0, value + reach))
    return Interval(*influence.on_scale(value, reach, DEFINED[name].scale))


def _of_rate(name: str, view: View, level: Level) -> Interval | None:
    """Return the interval of a function of the base rate."""
    given = name == "lift" or view.settings.prevalence is not None  # the base rate of all rows
    if (given and view.part == "all") or (name == "lift" and not view.base_rate):
        return None
    rate = view.positives / view.total
    rows = view.total * view.unit.size
    if view.by_rows:
        rows = influence.effective_rows(rate, influence.variance("base_rate", view), view.sample)
    low, high = score_limits(rate, rows, level.reach)
    if name == "brier_uncertainty":
        ends = sorted(end * (1.0 - end) for end in (low, high))
        return Interval(ends[0], 0.25 if low <= 0.5 <= high else ends[1])
    base = view.base_rate if name == "lift" and view.base_rate else 1.0
    return Interval(low / base, high / base)


def _centre(name: str, value: float, varied: Mapping[str, Spread]) -> float:
    """Return a resampled metric's value less what noise adds to it."""
    own = varied[name]
    if name in ("ece", "ace", "smooth_ece"):
        return own.own
    if name in ("miscalibration", "discrimination"):
        return value - varied[NOISE].own
    if name == "mce":
        return value - (own.mean - own.own)
    return value


def _resampled_interval(
    name: str, value: float, varied: Mapping[str, Spread], level: Level
) -> Interval:
    """Return a normal interval about the centre, within [0, 1] and wide enough for the value."""
    reach = level.reach * varied[name].deviation
    if name == "ece_debiased":
        square = varied[name].own
        spread = varied[name].deviation ** 2
        # At least half of the variance is real: noise of gaps that are nil.
        reach = level.reach * math.sqrt(max(spread - varied[EXCESS].own, 0.5 * spread))
        low, high = (math.sqrt(max(0.0, end)) for end in (square - reach, square + reach))
        return Interval(min(low, value), max(high, value))
    scale = DEFINED[stem(name)].scale
    if scale == "logit" and 0.0 < value < 1.0:
        return Interval(*influence.on_scale(value, reach, scale))
    centre = _centre(name, value, varied)
    return Interval(max(0.0, min(centre - reach, value)), min(1.0, max(centre + reach, value)))
