"""Confidence intervals of metrics and of their differences.

    auc                                   DeLong
    rates (base_rate, precision, ...)     Wilson; F1 and brier_uncertainty as functions of a rate
    smooth metrics                        influence functions; ratios on the logarithmic scale
    calibration errors, CORP, thresholds  bootstrap: bias and standard deviation over replicates

Rows in groups and sampling weights enter each of them; see `influence`, `rates`, `resampling`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from calibkit.measures.decisions import Confusion, decision_intervals
from calibkit.measures.influence import by_rows, row_contributions, rows_variance, variance
from calibkit.measures.rates import (
    IntervalOptions,
    Level,
    effective_rows,
    on_logits,
    wilson,
)
from calibkit.measures.resampling import EXCESS, NOISE, Spread, paired_spreads, spreads
from calibkit.measures.result import Interval, Number
from calibkit.measures.views import Pair, View
from calibkit.numerics.confusion import MEASURES
from calibkit.runtime.threads import later

#: Metrics whose variance their influence function gives, and the scale on which it is symmetric.
SMOOTH = {
    "auc": "identity",
    "average_precision": "logit",
    "log_loss": "log",
    "brier": "log",
    "mean_score": "identity",
    "calibration_bias": "log of 1 +",
}

#: Metrics that are functions of the base rate.
OF_RATE = ("base_rate", "lift", "brier_uncertainty")

#: Metrics that are resampled; the last two with a bound.
RESAMPLED = (
    "ece",
    "ace",
    "mce",
    "ece_debiased",
    "smooth_ece",
    "miscalibration",
    "discrimination",
    "recall_at_precision",
    "precision_at_recall",
)


def intervals(
    values: Mapping[str, Number], data: View | Confusion, options: IntervalOptions
) -> dict[str, Interval]:
    """Return the intervals of those metrics that have one; none where a value is not defined.

    Parameters
    ----------
    values
        Metrics by name.
    data
        What they were computed from.
    options
        Confidence, seed, threads.
    """
    defined = {name: float(value) for name, value in values.items() if value is not None}
    level = options.level(data.sample)
    if level is None:
        return {}
    if isinstance(data, Confusion):
        return decision_intervals(list(defined), data, level)
    found: dict[str, Interval] = {}
    drawn = [name for name in defined if name.partition(":")[0] in RESAMPLED]
    # Beside the passes over the tally, of which each uses the processors for a part of its time.
    varied = later(options.threads if drawn else 1, spreads, data, drawn, options)
    for name, value in defined.items():
        if name in SMOOTH and _enough(name, data):
            found[name] = _smooth_interval(name, value, data, level)
        elif name in OF_RATE or name == "log_loss_reduction":
            of_rate = name in OF_RATE
            own = _of_rate(name, data, level) if of_rate else _reduction(value, data, level)
            found |= {} if own is None else {name: own}
    if drawn:
        for name in varied().keys() & drawn:
            found[name] = _resampled_interval(name, defined[name], varied(), level)
    return {name: found[name] for name in defined if name in found}


def differences(
    values: Mapping[str, float | None], pair: Pair, options: IntervalOptions
) -> dict[str, Interval]:
    """Return the intervals of paired differences, other less baseline; see `intervals`."""
    defined = {name: value for name, value in values.items() if value is not None}
    sample = pair.other.sample
    level = options.level(sample)
    if level is None:
        return {}
    found: dict[str, Interval] = {}
    for name, value in defined.items():
        if name in SMOOTH and _enough(name, pair.other):
            contribution = row_contributions(name, pair.other)
            contribution -= row_contributions(name, pair.baseline)
            square = rows_variance(contribution, sample, pair.other.settings)
            reach = level.reach * math.sqrt(square)
            found[name] = Interval(value - reach, value + reach)
    drawn = [name for name in defined if name.partition(":")[0] in RESAMPLED]
    if drawn:
        varied = paired_spreads(pair, drawn, options)
        for name in varied.keys() & drawn:
            centre = _centre(name, defined[name], varied)
            reach = level.reach * varied[name].deviation
            value = defined[name]
            found[name] = Interval(min(centre - reach, value), max(centre + reach, value))
    return {name: found[name] for name in defined if name in found}


def method(metric: str, data: View | Confusion, options: IntervalOptions) -> str | None:
    """Return how the interval of a metric is found, None where it has none."""
    plain = metric.partition(":")[0]
    if isinstance(data, Confusion):
        known = {name: measure.interval for name, measure in MEASURES.items()}
    else:
        drawn = f"bootstrap:{options.replicates}:seed:{options.seed}"
        known = {
            **dict.fromkeys(SMOOTH, "influence"),
            **dict.fromkeys(OF_RATE, "wilson"),
            **dict.fromkeys(RESAMPLED, drawn),
            "auc": "delong",
            "log_loss_reduction": "influence",
        }
    if plain not in known:
        return None
    grouped = ":groups" if data.sample.group is not None else ""
    return f"{known[plain]}{grouped}:{options.confidence:g}"


def _enough(name: str, view: View) -> bool:
    """Whether rows are enough to tell how far a metric varies."""
    positives = view.sample.positive_rows
    if name == "auc":
        return 2 <= positives <= view.rows - 2
    return name not in ("average_precision", "calibration_bias") or positives >= 2


def _smooth_interval(name: str, value: float, view: View, level: Level) -> Interval:
    scale = SMOOTH[name]
    if name in ("auc", "average_precision") and value in (0.0, 1.0):
        # Every pair agrees: no spread to be seen, yet few rows prove little.
        rows = min(view.positives, view.negatives or view.positives) * view.unit.size
        return wilson(value, rows, level)
    reach = level.reach * math.sqrt(variance(name, view))
    if scale == "log" and value > 0.0:
        return _as_ratio(value, reach / value, 0.0)
    if scale == "log of 1 +" and value > -1.0:
        return _as_ratio(1.0 + value, reach / (1.0 + value), 1.0)
    if scale == "logit" and 0.0 < value < 1.0:
        return on_logits(value, reach)
    if name == "auc":
        return Interval(max(0.0, value - reach), min(1.0, value + reach))
    return Interval(value - reach, value + reach)


def _of_rate(name: str, view: View, level: Level) -> Interval | None:
    """Return the interval of a function of the base rate."""
    if name == "lift" and (view.part == "all" or not view.base_rate):
        return None
    rate = view.positives / view.total
    rows = view.total * view.unit.size
    if by_rows(view):
        rows = effective_rows(rate, variance("base_rate", view), view.sample, view.settings)
    found = wilson(rate, rows, level)
    assert found.low is not None and found.high is not None
    if name == "lift":
        return Interval(found.low / (view.base_rate or 1.0), found.high / (view.base_rate or 1.0))
    if name == "base_rate":
        return found
    ends = sorted(end * (1.0 - end) for end in (found.low, found.high))
    return Interval(ends[0], 0.25 if found.low <= 0.5 <= found.high else ends[1])


def _reduction(value: float, view: View, level: Level) -> Interval | None:
    """Return the interval of the log loss over the baseline's, less 1, by the paired ratio."""
    base = view.baseline
    if base is None or base is view or value <= -1.0:
        return None
    from calibkit.measures.reliability import log_loss

    own, other = log_loss(view), log_loss(base)
    if not own or not other:
        return None
    contribution = row_contributions("log_loss", view) / own
    contribution -= row_contributions("log_loss", base) / other
    error = math.sqrt(rows_variance(contribution, view.sample, view.settings))
    return _as_ratio(1.0 + value, level.reach * error, 1.0)


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
    if name.startswith(("recall", "precision")) and 0.0 < value < 1.0:
        return on_logits(value, reach)
    centre = _centre(name, value, varied)
    return Interval(max(0.0, min(centre - reach, value)), min(1.0, max(centre + reach, value)))


def _as_ratio(ratio: float, reach: float, less: float) -> Interval:
    """Return an interval of a ratio less a constant that is symmetric in the ratio's logarithm."""
    factor = math.exp(reach)
    return Interval(ratio / factor - less, ratio * factor - less)
