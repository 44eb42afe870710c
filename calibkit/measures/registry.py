"""The metrics of one score by name; see `calibkit.measures.metric`."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final

from calibkit.measures import ranking, reliability, smooth
from calibkit.measures.metric import DEFINED, Metric, signed
from calibkit.measures.result import Number
from calibkit.measures.views import View
from calibkit.options.metrics import OF_SCORES, Settings, stem

#: The families of metrics: loading them defines their metrics.
FAMILIES: Final = (ranking, reliability, smooth)

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


def signature(name: str, settings: Settings, interval: str | None = None) -> str:
    """Return what a metric's value depends on: its name, options and the version."""
    return signed(name, METRICS[stem(name)].options(settings), settings, interval)
