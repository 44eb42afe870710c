"""Metrics of class probabilities against one label a row.

Each is a sum of metrics of scores over tallies, so that none depends on the order of rows: the top
probability against being right, the probability of the label, and each class against the rest.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from calibkit.measures import reliability
from calibkit.measures.result import Number
from calibkit.measures.views import Sample, View, view_of
from calibkit.options.metrics import Settings

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Classes:
    """One predictor in one slice."""

    #: The largest probability of each row, and whether its class is the label (of equal
    #: probabilities the first class counts).
    top: View
    chosen: View  # the probability of the label, as a score whose labels are all 1
    each: tuple[View, ...]  # the probability of each class, and whether it is the label


def classes_of(
    probability: Floats, label: NDArray[np.int64], name: str, part: str, settings: Settings
) -> Classes:
    """Return what metrics are computed from: rows x classes of probabilities, and labels."""
    rows = np.arange(label.size)

    def view(score: Floats, hit: NDArray[np.bool_]) -> View:
        sample = Sample(score=np.ascontiguousarray(score), label=hit.astype(np.uint8))
        return view_of(sample, name, part, settings)

    best = probability.argmax(axis=1)
    return Classes(
        view(probability[rows, best], best == label),
        view(probability[rows, label], np.ones(label.size, np.bool_)),
        tuple(view(probability[:, k], label == k) for k in range(probability.shape[1])),
    )


def classwise_ece(classes: Classes) -> Number:
    """Return the mean over classes of the ECE of the class's probability against the rest."""
    return _mean([reliability.expected_calibration_error(view) for view in classes.each])


def brier(classes: Classes) -> Number:
    """Return the mean over rows of the squared differences, summed over classes."""
    found = _mean([reliability.brier(view) for view in classes.each])
    return None if found is None else found * len(classes.each)


@dataclass(frozen=True)
class ClassMetric:
    """A metric of class probabilities."""

    function: Callable[[Classes], Number]  # what computes it
    #: What its signature says besides its name.
    options: Callable[[Settings], dict[str, object]] = lambda _: {}
    #: Where it is a metric of one score, whose intervals serve: that metric, and the view.
    score: str = ""
    view: Callable[[Classes], View] = lambda c: c.top


def _binned(settings: Settings) -> dict[str, object]:
    return {"bins": settings.bins, "strategy": settings.strategy, "norm": "l1"}


METRICS: Final = {
    "count": ClassMetric(lambda c: reliability.count(c.top)),
    "accuracy": ClassMetric(lambda c: reliability.base_rate(c.top), score="base_rate"),
    "log_loss": ClassMetric(
        lambda c: reliability.log_loss(c.chosen),
        lambda _: {"clip": "1e-15"},
        "log_loss",
        lambda c: c.chosen,
    ),
    "brier": ClassMetric(brier),
    "ece": ClassMetric(
        lambda c: reliability.expected_calibration_error(c.top),
        lambda settings: {"of": "top-label", **_binned(settings)},
        "ece",
    ),
    "classwise_ece": ClassMetric(classwise_ece, _binned),
}


def compute(classes: Classes, wanted: Sequence[str]) -> dict[str, Number]:
    """Return the values of metrics."""
    return {name: METRICS[name].function(classes) for name in wanted}


def _mean(values: Sequence[Number]) -> Number:
    known = [value for value in values if value is not None]
    return math.fsum(known) / len(known) if len(known) == len(values) and known else None
