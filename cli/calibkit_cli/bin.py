"""``calibkit bin``: count rows over uncertainty bins and score bins."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from calibkit.errors import UsageError
from calibkit.options.bin import BinOptions
from calibkit.registry.methods import grid

from . import declare
from .console import Console
from .deliver import Rows, Tell, deliver_rows, write_rows
from .fitting import check_paths, run_states
from .lines import OutputFormat, StateLine

if TYPE_CHECKING:
    from calibkit.bins.run import Binned
    from calibkit.files.sources import Source

HELP = """\
One row per cell, with its limits, counts, share of positives and mean score. With --add-level the rows
themselves, each with its uncertainty bin.

Examples:
  calibkit bin calib.parquet --uncertainty-bins 3 --score-bins 500 -o grid.parquet
  calibkit bin scores.csv --score-bins 10 --strategy equal-width | column -s, -t
  calibkit bin calib.parquet --uncertainty-bins 3 --add-level -o levels.parquet
"""


@dataclass(frozen=True, kw_only=True)
class BinLine(StateLine):
    """The rest of the line."""

    output_format: OutputFormat = None


def deliver_grid(console: Console, binned: Binned) -> None:
    """Write the grid of a state."""
    deliver_rows(console, _rows(console, binned), "arrow")


def _run(options: BinOptions, line: BinLine) -> None:
    console = line.console(
        tabular=not line.partial, output_format=None if line.partial else line.output_format
    )
    if options.add_level and not line.dry_run:
        _write_levels(options, line, console)
        return
    run_states(grid, options, line, console, _write_grids, deliver_grid)


def _write_levels(options: BinOptions, line: BinLine, console: Console) -> None:
    """Write the rows with their levels: they are read a second time, once the grid is known."""
    from calibkit.apply.levels import with_levels

    if line.partial or line.dask is not None:
        raise UsageError(
            "--add-level writes rows, which a state has not and --dask does not send; fit a boundary "
            "on all shards and use `apply --add-level` on each."
        )
    check_paths(options, line, console)

    def make(part: Source, tell: Tell) -> Rows:
        plan, placed = with_levels(options, part)
        console.summary(*placed.notes)
        console.detail(*placed.details)
        frames = plan.frames(line.budget, options.workers, tell)
        return Rows(frames, ["level"], placed.warnings)

    write_rows(console, line.open(console), make)


def _write_grids(console: Console, source: Source, fit: Callable[[Source], Binned]) -> None:
    write_rows(console, source, lambda part, _tell: _rows(console, fit(part)))


def _rows(console: Console, binned: Binned) -> Rows:
    console.summary(*binned.notes)
    console.detail(*binned.details)
    return Rows([binned.frame], binned.frame.columns, binned.warnings, binned.metadata)


register = declare.command(HELP, _run, BinOptions, BinLine)
