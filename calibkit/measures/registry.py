"""The metrics of one score by name; see `calibkit.measures.metric`."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Final

from calibkit.measures import basic, corp, ranking, reliability, smooth
from calibkit.measures.metric import BOUNDS, DEFINED, Function, Metric, signed
from calibkit.measures.result import Number
from calibkit.measures.views import View
from calibkit.numerics.bounds import Bound
from calibkit.options.metrics import Settings

#: The families of metrics, in the order in which tables show them.
FAMILIES: Final = (basic, ranking, reliability, corp, smooth)


@cache
def metrics() -> dict[str, Metric]:
    """Return all metrics of one score by name, without their bounds."""
    order = {family.__name__: place for place, family in enumerate(FAMILIES)}
    ranked = sorted(DEFINED.items(), key=lambda item: order[item[1].function.__module__])
    return dict(ranked)


def names(settings: Settings) -> list[str]:
    """Return the names of all metrics of one score, with the bounds of the settings."""
    found = []
    for name in metrics():
        if name in BOUNDS:
            found += [f"{name}:{bound}" for bound in BOUNDS[name](settings)]
        else:
            found.append(name)
    return found


def compute(view: View, wanted: Iterable[str]) -> dict[str, Number]:
    """Return the values of metrics; one that is not defined is None, never NaN."""
    return {name: _finite(_function(name, view.settings)(view)) for name in wanted}


def compared(name: str) -> bool:
    """Return whether a metric may differ between two scores of the same rows."""
    return metrics()[name.partition(":")[0]].compared


def signature(name: str, settings: Settings, interval: str | None = None) -> str:
    """Return what a metric's value depends on: its name, options and the version."""
    known = metrics().get(name.partition(":")[0])
    parts = dict(known.options(settings)) if known else {}
    return signed(name, parts, settings, interval)


def _function(name: str, settings: Settings) -> Function:
    plain, _, text = name.partition(":")
    found = metrics()[plain]
    if plain not in BOUNDS:
        return found.function
    bounds: Sequence[Bound] = BOUNDS[plain](settings)
    bound = next(bound for bound in bounds if str(bound) == text)
    return lambda view: found.function(view, bound)


def _finite(value: Number) -> Number:
    return value if value is None or math.isfinite(value) else None
