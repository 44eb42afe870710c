"""Metrics of decisions, with intervals: counts, the measures of `numerics.confusion`, net benefit.

Who flags a row at probability t and above says that t false alarms cost as much as 1 - t missed
positives.  Net benefit at t is TP / n - FP / n * t / (1 - t) (Vickers and Elkin, Decision curve
analysis, 2006), expected cost (t FP + (1 - t) FN) / n.  Both are means over rows, linear in the counts
of a table of score cells by label; a bootstrap of this table gives the law of the largest deviation
over all t, in standard errors of its own, and with it a band that holds the curve of all rows
everywhere at once.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
import polars as pl
from msgspec import Struct

from calibkit.arrays import Floats, Int64s, Numbers
from calibkit.columns.weights import ROW, in_units
from calibkit.errors import DataError, UsageError
from calibkit.measures.influence import (
    Level,
    class_contributions,
    effective_rows,
    on_scale,
    rows_variance,
)
from calibkit.measures.result import Interval, Number
from calibkit.measures.views import Sample, Slice, View
from calibkit.numerics.bounds import score_limits
from calibkit.numerics.confusion import MEASURES, Cells, ConfusionMeasure, Share
from calibkit.numerics.hashes import BOOTSTRAP, stream
from calibkit.options.evaluate import EvaluateOptions
from calibkit.options.metrics import OF_DECISIONS, Settings, stem

#: A standard error below this is what rounding leaves of none.
_ROUNDED: Final = 1e-12


class Confusion(Slice, frozen=True, kw_only=True):
    """Decisions (`Sample.score`: 0 or 1) against labels in one slice."""

    cells: Cells  # rows, in units of weight; 0 / 0 is NaN


def confusion_of(sample: Sample, name: str, part: str, settings: Settings) -> Confusion:
    """Count the decisions (`Sample.score`: 0 or 1) of some rows against their labels."""
    place = 2 * sample.score.astype(bool) + sample.label.astype(bool)
    if sample.weight is None or not sample.weight.any():
        units, unit = np.ones(place.size, np.int64) * (sample.weight is None), ROW
    else:
        units, unit = in_units(sample.weight, place)
    tn, fn, fp, tp = (int(units[place == cell].sum()) for cell in range(4))
    cells = Cells(tp, fp, fn, tn, empty=math.nan)
    return Confusion(name=name, part=part, cells=cells, sample=sample, unit=unit, settings=settings)


#: What is computed where no metric of decisions is named.
DEFAULT: Final = (
    *OF_DECISIONS,
    *("selected_share", "precision", "recall", "specificity", "fpr", "npv", "f1", "mcc"),
)


def names(chosen: Sequence[str] | None) -> list[str]:
    """Return the metrics of decisions among those chosen.

    Where there is none they are the usual ones: decisions were given to be judged, so that metrics
    of scores alone do not silence them.
    """
    own = [name for name in chosen or () if stem(name) in OF_DECISIONS or stem(name) in MEASURES]
    usual = [name for name in DEFAULT if name in own]
    return list(dict.fromkeys([*usual, *own])) or list(DEFAULT)


def compute(found: Confusion, wanted: Iterable[str]) -> dict[str, Number]:
    """Return the values of metrics of decisions; one that is 0 / 0 is None."""
    values: dict[str, Number] = {}
    for name in wanted:
        if name in OF_DECISIONS:
            cells = "tp fp" if name == "selected" else name
            values[name] = found.unit.amount(found.cells.sum(cells))
        else:
            measure, parameters = _measure(name)
            value = float(measure.formula(found.cells, *parameters))
            values[name] = None if math.isnan(value) else value
    return values


def _measure(name: str) -> tuple[ConfusionMeasure, list[float]]:
    """Return the measure of a name in metrics.json, and its parameters."""
    parameters = name.partition(":")[2]
    return MEASURES[stem(name)], [float(text) for text in parameters.split(",") if text]


def interval_of(name: str, found: Confusion, level: Level) -> Interval | None:
    """Return the interval of a metric of decisions whose value is defined; counts have none."""
    if name in OF_DECISIONS:
        return None
    measure, parameters = _measure(name)
    if measure.share is None:
        return _by_slopes(measure, parameters, found, level)
    return _of_share(measure.share, found, level)


def _of_share(share: Share, found: Confusion, level: Level) -> Interval:
    """Return the interval of a share of rows, or of a rising function of one."""
    hits, of = found.cells.sum(share.above), found.cells.sum(share.below)
    rate, rows, sample = hits / of, of * found.unit.size, found.sample
    if found.by_rows:
        above, below = (
            [cell in side.split() for cell in ("tn", "fn", "fp", "tp")]
            for side in (share.above, share.below)
        )
        shares = [(a - rate * b) / rows for a, b in zip(above, below, strict=True)]
        variance = rows_variance(class_contributions(shares, sample), found)
        inside = sample.rows_of(class_contributions(below, sample))
        rows = effective_rows(rate, variance, inside)
    return Interval(*map(share.value, score_limits(rate, rows, level.reach)))


def _by_slopes(
    measure: ConfusionMeasure, parameters: list[float], found: Confusion, level: Level
) -> Interval | None:
    """Return the interval by the delta method: on log-odds between bounds, on logarithms above one.

    At a bound, and where the rows show no spread, they still prove little: then the interval is
    Wilson's for a rate of the rarer class; None where there are no two bounds.
    """
    size, (low, high) = found.unit.size, measure.bounds
    cells = found.cells
    tp, fp, fn, tn = (size * float(n) for n in (cells.tp, cells.fp, cells.fn, cells.tn))
    value = float(measure.formula(cells, *parameters))
    variance = 0.0
    if low < value < high:
        slopes = measure.slopes((tp, fp, fn, tn), *parameters)[::-1].tolist()
        contributions = class_contributions(slopes, found.sample)
        variance = rows_variance(contributions, found)
    reach = level.reach * math.sqrt(variance)
    if reach < _ROUNDED:
        reach = 0.0
    if math.isfinite(high):
        width = high - low
        share = min(max((value - low) / width, 0.0), 1.0)
        whole = tp + fn + fp + tn
        rarer = (min(tp + fn, fp + tn) or whole) * found.row_size(cells.sum("tp fp fn tn")) / size
        if reach:
            ends = on_scale(share, reach / width, "logit")
        else:
            ends = score_limits(share, rarer, level.reach)
        return Interval(*(low + width * end for end in ends))
    return Interval(*on_scale(value, reach, "log" if low == 0.0 else "identity")) if reach else None


#: Where curves are computed.
THRESHOLDS: Final[Floats] = np.arange(1, 100) / 100.0

#: Of a table of curves; ``model`` is a score, a boundary, ``all`` (every row is flagged) or ``none``.
_NUMBERS = dict.fromkeys(("net_benefit", "low", "high"), pl.Float64)
SCHEMA: Final = pl.Schema({"threshold": pl.Float64, "model": pl.String, **_NUMBERS})

#: How often a table is drawn again.
_REPLICATES: Final = 1_000


class Worth(Struct, frozen=True):
    """What rows are worth at each threshold: flagged positives, flagged negatives, missed positives."""

    hit: Floats
    alarm: Floats
    miss: Floats


_ODDS: Final = THRESHOLDS / (1.0 - THRESHOLDS)
NET_BENEFIT: Final = Worth(np.ones(THRESHOLDS.size), -_ODDS, np.zeros(THRESHOLDS.size))
COST: Final = Worth(np.zeros(THRESHOLDS.size), THRESHOLDS, 1.0 - THRESHOLDS)


class Flagged(Struct, frozen=True, kw_only=True):
    """The rows of a model by cell: a row of cell k is flagged at each of the first k thresholds."""

    name: str  # what the model is called
    #: Rows of each of the cells 0 to 99, in units of weight.
    negatives: Int64s
    positives: Int64s
    unit: float = 1.0  # how many rows a unit is

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return max(1, round(self.unit * int(self.negatives.sum() + self.positives.sum())))

    @classmethod
    def of(cls, view: View) -> Flagged:
        """Return the rows of a score that is a probability: flagged where it is at least t."""
        probability = probabilities(view)
        cell = np.searchsorted(THRESHOLDS.astype(probability.dtype), probability, side="right")
        rows, hits = np.zeros((2, THRESHOLDS.size + 1), np.int64)
        np.add.at(rows, cell, view.count.astype(np.int64))
        np.add.at(hits, cell, view.positive.astype(np.int64))
        return cls(name=view.name, negatives=rows - hits, positives=hits, unit=view.unit.size)

    @classmethod
    def of_decisions(cls, found: Confusion) -> Flagged:
        """Return the rows of decisions, which are flagged at all thresholds or at none."""
        rest, own = [0] * (THRESHOLDS.size - 1), found.cells
        negatives, positives = np.array([[own.tn, *rest, own.fp], [own.fn, *rest, own.tp]])
        return cls(name=found.name, negatives=negatives, positives=positives, unit=found.unit.size)


def refuse(options: EvaluateOptions, what: str) -> None:
    """Raise `UsageError` for options of which there are no such curves."""
    if options.patterns:
        raise UsageError(f"{what} is of scores; leave --probs and --counts out.")
    if options.scale == "raw":
        raise UsageError(f"{what} needs probabilities, and --scale is raw: calibrate first.")
    for flag, given in (
        ("--groups", options.groups),
        ("--weight-kind sampling", options.weight_kind == "sampling"),
        ("--prevalence", options.prevalence),
    ):
        if given:
            raise UsageError(f"{what} takes each row for one of its own; leave {flag} out.")


def probabilities(view: View) -> Numbers:
    """Return the scores as probabilities; refuse infinite logits, for which a view has none."""
    if view.probability is None:
        said = f"column {view.name!r}: infinite logits, which no such curve takes; clip them"
        raise DataError(said, column=view.name)
    return view.probability


def curve(flagged: Flagged, worth: Worth, confidence: float | None, seed: int) -> pl.DataFrame:
    """Return the worth of a model at each threshold, with its band, in the columns of `SCHEMA`."""
    table = np.stack([flagged.negatives, flagged.positives])
    value, error = _worth(table, worth), _error(table, worth, flagged.rows)
    low, high = np.full((2, value.size), np.nan)
    if confidence is not None:
        # Half a row of each label above all thresholds, lest what was not seen never be drawn.
        half = table + 0.5 * (np.arange(table.shape[1]) == table.shape[1] - 1)
        chances = half.ravel() / half.sum()
        again = stream(seed, BOOTSTRAP, 0).multinomial(flagged.rows, chances, _REPLICATES)
        tables = again.reshape(_REPLICATES, *table.shape)
        apart = np.abs(_worth(tables, worth) - _worth(half, worth))
        most = np.sort((apart / _error(tables, worth, flagged.rows)).max(axis=1))
        reach = most[min(_REPLICATES - 1, int(np.ceil(confidence * (_REPLICATES + 1))) - 1)]
        low, high = value - reach * error, value + reach * error
    return _rows(flagged.name, value, low, high)


def _worth(tables: Numbers, worth: Worth) -> Floats:
    """Return the mean worth of a row at each threshold, for the last two axes of some tables."""
    flagged = np.cumsum(tables[..., ::-1], axis=-1)[..., ::-1]
    alarms, hits = flagged[..., 0, 1:], flagged[..., 1, 1:]
    total, positives = flagged[..., 0, :1] + flagged[..., 1, :1], flagged[..., 1, :1]
    sums = worth.hit * hits + worth.alarm * alarms + worth.miss * (positives - hits)
    return sums / total


def _error(table: Numbers, worth: Worth, rows: int) -> Floats:
    """Return the standard error of `_worth`, as if half a row of each kind were there besides.

    So it is not 0 where no row was flagged.
    """
    squares = _worth(table, Worth(worth.hit**2, worth.alarm**2, worth.miss**2))
    spread = squares - _worth(table, worth) ** 2
    spread += 0.5 * (worth.hit**2 + worth.alarm**2 + worth.miss**2) / rows
    return np.sqrt(spread / rows)


def constant(name: str, like: Flagged, worth: Worth, confidence: float | None) -> pl.DataFrame:
    """Return the worth of flagging ``all`` rows, or ``none``: only the base rate is unsure."""
    positives, negatives = int(like.positives.sum()), int(like.negatives.sum())
    share = positives / (positives + negatives)
    own, other = (worth.hit, worth.alarm) if name == "all" else (worth.miss, 0.0 * worth.miss)
    ends = (np.nan, np.nan)
    if confidence is not None:
        ends = score_limits(share, like.rows, Level(confidence).reach)
    value, *both = (own * rate + other * (1.0 - rate) for rate in (share, *ends))
    return _rows(name, value, np.minimum(*both), np.maximum(*both))


def _rows(name: str, value: Floats, low: Floats, high: Floats) -> pl.DataFrame:
    columns = {"threshold": THRESHOLDS, "model": [name] * value.size, "net_benefit": value}
    frame = pl.DataFrame({**columns, "low": low, "high": high}, schema=SCHEMA)
    return frame.with_columns(pl.col("low", "high").fill_nan(None))


def curves(
    models: list[Flagged], worth: Worth, confidence: float | None, seed: int
) -> pl.DataFrame:
    """Return the curves of models on the same rows, then those of ``all`` and ``none``."""
    constants = (constant(name, models[0], worth, confidence) for name in ("all", "none"))
    return pl.concat([*(curve(one, worth, confidence, seed) for one in models), *constants])
