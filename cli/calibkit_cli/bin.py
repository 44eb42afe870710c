"""``calibkit bin``: count rows over uncertainty bins and score bins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import typer

from calibkit.options.bin import BinOptions
from calibkit.registry.methods import grid

from . import declare
from .console import Console
from .each_input import Rows, deliver_rows, write_rows
from .fitting import run_states
from .lines import OutputFormat, StateLine

if TYPE_CHECKING:
    from collections.abc import Callable

    from calibkit.bins.run import Binned
    from calibkit.files.sources import Source

HELP = """\
One row a cell, with its limits, counts, share of positives and mean score.

Examples:

  calibkit bin calib.parquet --uncertainty-bins 3 --score-bins 500 -o grid.parquet

  calibkit bin scores.csv --score-bins 10 --strategy equal-width | column -s, -t
"""


@dataclass(frozen=True, kw_only=True)
class BinLine(StateLine):
    """The rest of the line."""

    output_format: OutputFormat = None


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    declare.add(app, "bin", HELP, _run, BinOptions, BinLine)


def deliver_grid(console: Console, binned: Binned) -> None:
    """Write the grid of a state."""
    deliver_rows(console, _rows(console, binned), "arrow")


def _run(options: BinOptions, line: BinLine) -> None:
    console = line.console(
        tabular=not line.partial, output_format=None if line.partial else line.output_format
    )
    run_states(grid.run, options, line, console, _write_grids, deliver_grid)


def _write_grids(console: Console, source: Source, fit: Callable[[Source], Binned]) -> None:
    write_rows(console, source, lambda part, _tell: _rows(console, fit(part)))


def _rows(console: Console, binned: Binned) -> Rows:
    console.summary(*binned.notes)
    console.detail(*binned.details)
    return Rows([binned.frame], binned.frame.columns, binned.warnings, binned.metadata)
