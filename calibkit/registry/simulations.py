"""Every kind of simulation, by the name of its command; they are loaded when one is used."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

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

    work: dict[type[kinds.SimulateOptions], Callable[[Any], pl.DataFrame]] = {
        kinds.PosteriorOptions: posterior.simulate,
        kinds.SelectionOptions: selection.simulate,
        kinds.RatersOptions: raters.simulate,
        kinds.PartitionsOptions: partitions.simulate,
    }
    return work[type(options)](options)
