"""What a metric of one score is.

A metric is a function of a `View`; `metric` registers it under its name, with how its interval is
found and the options that its signature shows.  To add one: the kernel, the function in the file of
its family, and its line in `calibkit.options.metrics` and on the page docs/evaluate.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from calibkit.measures.result import Number
from calibkit.measures.views import View
from calibkit.numerics.bounds import Bound
from calibkit.options.metrics import Settings
from calibkit.version import __version__

Function = Callable[..., Number]
Options = Callable[[Settings], dict[str, object]]
Decorator = Callable[[Function], Function]

#: What a positive and a negative row of each entry of a block of a view contribute to a metric.
Shares = tuple[NDArray[np.float64], NDArray[np.float64]]
Contributions = Callable[[View, int], Shares]

#: How an interval is found: see `calibkit.measures.intervals`.
How = Literal["delong", "influence", "wilson", "bootstrap"]

#: On what scale an interval is symmetric; ``log1p`` is the logarithm of the value and 1.
Scale = Literal["identity", "log", "log1p", "logit"]


@dataclass(frozen=True, kw_only=True)
class Metric:
    """A metric of one score."""

    #: What computes it from a view; from a view and a bound where there are `bounds`.
    function: Function
    options: Options  # what its signature says besides, given the settings
    compared: bool = True  # whether it may differ between two scores of the same rows
    #: How its interval is found, None where it has none, and on what scale it is symmetric.
    interval: How | None = None
    scale: Scale = "identity"
    #: The bounds it is computed at, given the settings: one number each, as ``name:0.9``.
    bounds: Callable[[Settings], tuple[Bound, ...]] | None = None
    #: Its influence function, given a view and the number of a block; see
    #: `calibkit.measures.influence`.
    contributions: Contributions | None = None


#: All metrics whose family is loaded; `calibkit.measures.registry` loads all of them.
DEFINED: dict[str, Metric] = {}


def metric(name: str, options: Options | None = None, **fields: Any) -> Decorator:
    """Register a function of a view as a metric, with these attributes of `Metric`."""

    def register(function: Function) -> Function:
        DEFINED[name] = Metric(function=function, options=options or (lambda _: {}), **fields)
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
