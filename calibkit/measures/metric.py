"""What a metric of one score is.

A metric is a function of a `View`; `metric` registers it under the name and with the options that
its signature shows.  To add one: the kernel, the function in the file of its family, and its line
on the page docs/evaluate.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from calibkit.measures.result import Number
from calibkit.measures.views import View
from calibkit.numerics.bounds import Bound
from calibkit.options.metrics import Settings
from calibkit.version import __version__

Function = Callable[[View], Number]
Options = Callable[[Settings], dict[str, object]]

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


#: All metrics whose family is loaded; `calibkit.measures.registry` loads all of them.
DEFINED: dict[str, Metric] = {}


def metric(
    name: str, options: Options | None = None, *, compared: bool = True, **fixed: object
) -> Callable[[Function], Function]:
    """Register a function of a view as a metric; `options` and `fixed` go to its signature."""

    def register(function: Function) -> Function:
        def said(settings: Settings) -> dict[str, object]:
            return {**fixed, **(options(settings) if options else {})}

        DEFINED[name] = Metric(name=name, function=function, options=said, compared=compared)
        return function

    return register


def metric_of_bound(
    name: str, bounds: Callable[[Settings], tuple[Bound, ...]]
) -> Callable[[Callable[[View, Bound], Number]], Callable[[View, Bound], Number]]:
    """Register a function of a view and a bound: one metric for each bound of the settings."""

    def register(function: Callable[[View, Bound], Number]) -> Callable[[View, Bound], Number]:
        DEFINED[name] = Metric(name=name, function=function, options=lambda _: {"ties": "whole"})
        BOUNDS[name] = bounds
        return function

    return register


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
