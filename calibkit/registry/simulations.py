"""Every kind of simulation, by the name of its command; each is loaded when it is used."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from calibkit.options.simulate import (
    PartitionsOptions,
    PosteriorOptions,
    RatersOptions,
    SelectionOptions,
    SimulateOptions,
)

if TYPE_CHECKING:
    import polars as pl


def posterior(options: PosteriorOptions) -> pl.DataFrame:
    """Return scores with labels, uncertainty and the truth behind them."""
    from calibkit.simulate.posterior import simulate

    return simulate(options)


def selection(options: SelectionOptions) -> pl.DataFrame:
    """Return scores of replicate models."""
    from calibkit.simulate.selection import simulate

    return simulate(options)


def raters(options: RatersOptions) -> pl.DataFrame:
    """Return votes of raters with the class probabilities of a model."""
    from calibkit.simulate.raters import simulate

    return simulate(options)


def partitions(options: PartitionsOptions) -> pl.DataFrame:
    """Return labelled scores of a model that is over-confident on its training rows."""
    from calibkit.simulate.partitions import simulate

    return simulate(options)


def simulate(options: SimulateOptions) -> pl.DataFrame:
    """Return the rows of a simulation, of the kind that its options are of."""
    return next(kind.make for kind in KINDS.values() if kind.options is type(options))(options)


@dataclass(frozen=True)
class Simulation:
    """A kind of simulation.

    Attributes
    ----------
    options
        The class of its options; its docstring says what is simulated.
    make
        Returns the rows.
    examples
        What its help shows after ``calibkit simulate KIND``.
    """

    options: type[SimulateOptions]
    make: Callable[[Any], pl.DataFrame]
    examples: tuple[str, ...]


#: All kinds, in the order of the help.
KINDS: Final[Mapping[str, Simulation]] = {
    "posterior": Simulation(
        PosteriorOptions,
        posterior,
        (
            "--rows 100000 --seed 1 -o calib.parquet",
            "--rows 300 --keep 'label,score,uncertainty' | column -s, -t",
        ),
    ),
    "selection": Simulation(
        SelectionOptions,
        selection,
        (
            "--rows 30000 --part validation -o unlabelled.parquet",
            "--rows 30000 --part test -o test.parquet",
            "--rows 30000 --part train --refits 3 --seed 1 -o like_training.parquet",
        ),
    ),
    "raters": Simulation(
        RatersOptions,
        raters,
        (
            "--rows 10000 --raters 2 -o votes.parquet",
            "--rows 10000 --design modes --seed 1 -o modes.parquet",
        ),
    ),
    "partitions": Simulation(
        PartitionsOptions,
        partitions,
        ("--rows 20000 --seed 1 -o calib.parquet", "--rows 20000 --kind training -o train.parquet"),
    ),
}
