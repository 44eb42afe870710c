"""Every kind of simulation, by the name of its command; they are loaded when one is used."""

from __future__ import annotations

from collections.abc import Mapping
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
    from calibkit.simulate import partitions, posterior, raters, selection

    if isinstance(options, kinds.PosteriorOptions):
        return posterior.simulate(options)
    if isinstance(options, kinds.SelectionOptions):
        return selection.simulate(options)
    if isinstance(options, kinds.RatersOptions):
        return raters.simulate(options)
    assert isinstance(options, kinds.PartitionsOptions)
    return partitions.simulate(options)
