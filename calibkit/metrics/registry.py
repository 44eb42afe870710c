"""The metrics of one score by name.

A metric is a function of a `View`; `metric` registers it under the name and with the options that
its signature shows.  To add one: the kernel, the function in the file of its family, and its line
on the page docs/evaluate.md.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache

from calibkit import __version__
from calibkit.maths.bounds import Bound
from calibkit.metrics.result import Number
from calibkit.metrics.views import Settings, View

Function = Callable[[View], Number]
Options = Callable[[Settings], dict[str, object]]

#: The modules that register metrics, in the order in which tables show them.
FAMILIES = ("basic", "ranking", "reliability", "corp", "smooth")

#: Names that stand for one metric a bound, as ``recall_at_precision:0.9``.
BOUNDS: dict[str, Callable[[Settings], tuple[Bound, ...]]] = {}


@dataclass(frozen=True, kw_only=True)
class Metric:
    """A metric of one score.

    Attributes
    ----------
    name
        As in metrics.json, without its bound.
    function
        What computes it; of a view and a bound where `BOUNDS` has its name.
    options
        What its signature says besides, given the settings.
    compared
        Whether it may differ between two scores of the same rows.
    """

    name: str
    function: Callable[..., Number]
    options: Options
    compared: bool = True


_METRICS: dict[str, Metric] = {}


def metric(
    name: str, options: Options | None = None, *, compared: bool = True, **fixed: object
) -> Callable[[Function], Function]:
    """Register a function of a view as a metric; `options` and `fixed` go to its signature."""

    def register(function: Function) -> Function:
        def said(settings: Settings) -> dict[str, object]:
            return {**fixed, **(options(settings) if options else {})}

        _METRICS[name] = Metric(name=name, function=function, options=said, compared=compared)
        return function

    return register


def metric_of_bound(
    name: str, bounds: Callable[[Settings], tuple[Bound, ...]]
) -> Callable[[Callable[[View, Bound], Number]], Callable[[View, Bound], Number]]:
    """Register a function of a view and a bound: one metric for each bound of the settings."""

    def register(function: Callable[[View, Bound], Number]) -> Callable[[View, Bound], Number]:
        _METRICS[name] = Metric(name=name, function=function, options=lambda _: {"ties": "whole"})
        BOUNDS[name] = bounds
        return function

    return register


@cache
def metrics() -> dict[str, Metric]:
    """Return all metrics of one score by name, without their bounds."""
    modules = [importlib.import_module(f"calibkit.metrics.{family}") for family in FAMILIES]
    order = {module.__name__: place for place, module in enumerate(modules)}
    ranked = sorted(_METRICS.items(), key=lambda item: order[item[1].function.__module__])
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


def signed(
    name: str, options: dict[str, object], settings: Settings, interval: str | None = None
) -> str:
    """Return the signature of a metric with these options."""
    parts = dict(options)
    if settings.scale != "probability":
        parts["scale"] = settings.scale
    if settings.weighted:
        parts["weights"] = settings.weight_kind
    if settings.prevalence is not None:
        parts["prevalence"] = settings.prevalence
    shaped = [name, *(f"{key}:{parts[key]}" for key in sorted(parts)), f"v:{__version__}"]
    return "|".join(shaped if interval is None else [*shaped, f"interval:{interval}"])


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
