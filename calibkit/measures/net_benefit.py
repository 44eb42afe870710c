"""Net benefit and expected cost of decisions over all costs at once, with bands that hold for all.

Who flags a row at probability t and above says that t false alarms cost as much as 1 - t missed
positives.  Net benefit at t is TP / n - FP / n * t / (1 - t) (Vickers and Elkin, Decision curve
analysis, 2006), expected cost (t FP + (1 - t) FN) / n.  Both are means over rows, linear in the counts
of a table of score cells by label; a bootstrap of this table gives the law of the largest deviation
over all t, in standard errors of its own, and with it a band that holds the curve of all rows
everywhere at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from calibkit.errors import UsageError
from calibkit.measures.decisions import Confusion
from calibkit.measures.influence import Level, wilson
from calibkit.measures.views import View
from calibkit.numerics.hashes import BOOTSTRAP, stream
from calibkit.options.evaluate import EvaluateOptions

Floats = NDArray[np.float64]

#: Where curves are computed.
THRESHOLDS: Final[Floats] = np.arange(1, 100) / 100.0

#: Of a table of curves; ``model`` is a score, a boundary, ``all`` (every row is flagged) or ``none``.
SCHEMA: Final = pl.Schema(
    {
        "threshold": pl.Float64,
        "model": pl.String,
        "net_benefit": pl.Float64,
        "low": pl.Float64,
        "high": pl.Float64,
    }
)

#: How often a table is drawn again.
_REPLICATES: Final = 1_000


@dataclass(frozen=True)
class Worth:
    """What rows are worth at each threshold: flagged positives, flagged negatives, missed positives."""

    hit: Floats
    alarm: Floats
    miss: Floats


_ODDS: Final = THRESHOLDS / (1.0 - THRESHOLDS)
NET_BENEFIT: Final = Worth(np.ones(THRESHOLDS.size), -_ODDS, np.zeros(THRESHOLDS.size))
COST: Final = Worth(np.zeros(THRESHOLDS.size), THRESHOLDS, 1.0 - THRESHOLDS)


@dataclass(frozen=True, kw_only=True)
class Flagged:
    """The rows of a model by cell: a row of cell k is flagged at each of the first k thresholds."""

    name: str  # what the model is called
    #: Rows of each of the cells 0 to 99, in units of weight.
    negatives: NDArray[np.int64]
    positives: NDArray[np.int64]
    unit: float = 1.0  # how many rows a unit is

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return max(1, round(self.unit * int(self.negatives.sum() + self.positives.sum())))

    @classmethod
    def of(cls, view: View) -> Flagged:
        """Return the rows of a score that is a probability: flagged where it is at least t."""
        probability = view.probability
        assert probability is not None  # `refuse` saw to it
        cell = np.searchsorted(THRESHOLDS.astype(probability.dtype), probability, side="right")
        rows, hits = np.zeros((2, THRESHOLDS.size + 1), np.int64)
        np.add.at(rows, cell, view.count.astype(np.int64))
        np.add.at(hits, cell, view.positive.astype(np.int64))
        return cls(name=view.name, negatives=rows - hits, positives=hits, unit=view.unit.size)

    @classmethod
    def of_decisions(cls, found: Confusion) -> Flagged:
        """Return the rows of decisions, which are flagged at all thresholds or at none."""
        rest = [0] * (THRESHOLDS.size - 1)
        negatives, positives = np.array([found.tn, *rest, found.fp]), [found.fn, *rest, found.tp]
        name, unit = found.name, found.unit.size
        return cls(name=name, negatives=negatives, positives=np.array(positives), unit=unit)


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


def _worth(tables: NDArray[Any], worth: Worth) -> Floats:
    """Return the mean worth of a row at each threshold, for the last two axes of some tables."""
    flagged = np.cumsum(tables[..., ::-1], axis=-1)[..., ::-1]
    alarms, hits = flagged[..., 0, 1:], flagged[..., 1, 1:]
    total, positives = flagged[..., 0, :1] + flagged[..., 1, :1], flagged[..., 1, :1]
    sums = worth.hit * hits + worth.alarm * alarms + worth.miss * (positives - hits)
    found: Floats = sums / total
    return found


def _error(table: NDArray[Any], worth: Worth, rows: int) -> Floats:
    """Return the standard error of `_worth`, as if half a row of each kind were there besides.

    So it is not 0 where no row was flagged.
    """
    squares = _worth(table, Worth(worth.hit**2, worth.alarm**2, worth.miss**2))
    spread = squares - _worth(table, worth) ** 2
    spread += 0.5 * (worth.hit**2 + worth.alarm**2 + worth.miss**2) / rows
    found: Floats = np.sqrt(spread / rows)
    return found


def constant(name: str, like: Flagged, worth: Worth, confidence: float | None) -> pl.DataFrame:
    """Return the worth of flagging ``all`` rows, or ``none``: only the base rate is unsure."""
    positives, negatives = int(like.positives.sum()), int(like.negatives.sum())
    share = positives / (positives + negatives)
    own, other = (worth.hit, worth.alarm) if name == "all" else (worth.miss, 0.0 * worth.miss)
    ends = (np.nan, np.nan)
    if confidence is not None:
        interval = wilson(share, like.rows, Level(confidence))
        ends = (float(interval.low or 0.0), float(interval.high or 1.0))
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
