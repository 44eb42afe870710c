"""Every kind of simulation, by the name of its command and of its module, loaded when it is used."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Final

from calibkit.options import simulate as kinds

if TYPE_CHECKING:
    import polars as pl

#: All kinds, in the order of the help.
KINDS: Final[Mapping[str, type[kinds.SimulateOptions]]] = {
    "posterior": kinds.PosteriorOptions,
    "selection": kinds.SelectionOptions,
    "raters": kinds.RatersOptions,
    "partitions": kinds.PartitionsOptions,
}


def simulate(options: kinds.SimulateOptions) -> pl.DataFrame:
    """Return the rows of a simulation, of the kind that its options are of."""
    name = next(name for name, kind in KINDS.items() if kind is type(options))
    frame: pl.DataFrame = import_module(f"calibkit.simulate.{name}").simulate(options)
    return frame
