"""Metrics of decisions: the confusion matrix and its ratios, None where a ratio is 0 / 0."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import partial

import numpy as np

from calibkit.columns.weights import ROW, in_units
from calibkit.measures.rates import RATES, sides_of
from calibkit.measures.result import Number
from calibkit.measures.views import Confusion, Sample, Settings


def confusion_of(sample: Sample, name: str, part: str, settings: Settings) -> Confusion:
    """Count the decisions (`Sample.score`: 0 or 1) of some rows against their labels."""
    taken, label = sample.score.astype(bool), sample.label.astype(bool)
    if sample.weight is None or not sample.weight.any():
        units, unit = np.ones(label.size, np.int64) * (sample.weight is None), ROW
    else:
        units, unit = in_units(sample.weight, 2 * taken + label)

    def counted(decided: bool, positive: bool) -> int:
        return int(units[(taken == decided) & (label == positive)].sum())

    return Confusion(
        name=name,
        part=part,
        tp=counted(True, True),
        fp=counted(True, False),
        fn=counted(False, True),
        tn=counted(False, False),
        sample=sample,
        unit=unit,
        settings=settings,
    )


def matthews(found: Confusion) -> float | None:
    """Return the Matthews correlation coefficient; None where a class or a decision is missing."""
    tp, fp, fn, tn = found.tp, found.fp, found.fn, found.tn
    square = (tp + fp) * (tp + fn) * (tn + fp) * (tn + fn)
    return (tp * tn - fp * fn) / math.sqrt(square) if square else None


def f1(found: Confusion) -> float | None:
    """Return the harmonic mean of precision and recall."""
    whole = 2 * found.tp + found.fp + found.fn
    return 2 * found.tp / whole if whole else None


def rate(name: str, found: Confusion) -> float | None:
    """Return a rate of decisions; None of nothing."""
    part, whole = sides_of(name, found)
    return part / whole if whole else None


#: The metrics of decisions; labels 1 are positive, decisions 1 are selected.
METRICS: dict[str, Callable[[Confusion], Number]] = {
    "tp": lambda c: c.unit.amount(c.tp),
    "fp": lambda c: c.unit.amount(c.fp),
    "fn": lambda c: c.unit.amount(c.fn),
    "tn": lambda c: c.unit.amount(c.tn),
    "selected": lambda c: c.unit.amount(c.tp + c.fp),
    **{name: partial(rate, name) for name in RATES},
    "f1": f1,
    "mcc": matthews,
}


def compute(found: Confusion, wanted: Iterable[str]) -> dict[str, Number]:
    """Return the values of metrics of decisions."""
    return {name: METRICS[name](found) for name in wanted}
