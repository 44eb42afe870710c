"""A simulation of any kind, which is loaded when it is used."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from calibkit.options import simulate as kinds

if TYPE_CHECKING:
    import polars as pl


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
