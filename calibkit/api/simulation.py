"""`simulate_posterior` and the other simulations: score files from a known truth, as frames."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import polars as pl

from calibkit.api.functions import options_function
from calibkit.options import simulate as kinds
from calibkit.simulate import simulate

P = ParamSpec("P")
Asked = TypeVar("Asked", bound=kinds.SimulateOptions)

_RETURNS = """
The same seed gives the same rows, and the first rows of a longer simulation are those of a shorter
one (for one version of numpy, which may change how it draws from a distribution).

Returns
-------
DataFrame
    The rows; `id` counts from 1.

Examples
--------
>>> import calibkit as ck
>>> ck.{name}(2, keep="id")["id"].to_list()
[1, 2]
"""


def _simulated(options: Callable[P, Asked]) -> Callable[P, pl.DataFrame]:
    """Return the function that simulates the kind of a class of options."""
    kind: Any = options

    def made(own: Asked) -> pl.DataFrame:
        return simulate(own)

    name = "simulate_" + next(name for name, one in kinds.KINDS.items() if one is kind)
    made.__name__ = made.__qualname__ = name
    made.__doc__ = f"{inspect.getdoc(kind)}\n{_RETURNS.format(name=name)}"
    return options_function(options)(made)


simulate_posterior = _simulated(kinds.PosteriorOptions)
simulate_selection = _simulated(kinds.SelectionOptions)
simulate_raters = _simulated(kinds.RatersOptions)
simulate_partitions = _simulated(kinds.PartitionsOptions)
