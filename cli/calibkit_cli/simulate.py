"""``calibkit simulate``: score files from a known truth, of every kind."""

from __future__ import annotations

from dataclasses import dataclass, replace

from calibkit.options.shared import of_output
from calibkit.options.simulate import KINDS, SimulateOptions

from . import declare
from .console import Console
from .deliver import Rows, deliver_rows
from .lines import DryRun, Format, Json, Output, Quiet, Warnings

#: How many rows a dry run shows.
HEAD = 5

HELP = """\
Examples:
  calibkit simulate posterior --rows 10000 -o calib.parquet
  calibkit simulate selection --part test --rows 20000 -o test.parquet
  calibkit simulate raters --rows 1000 --raters 3 -o votes.parquet
"""


@dataclass(frozen=True, kw_only=True)
class SimulateLine(DryRun):
    """What the command line of a simulation has besides its options."""

    output: Output = None
    output_format: Format | None = of_output(
        "Format of the output, whatever its suffix.", shown="by suffix; on standard output csv"
    )
    as_json: Json = False
    quiet: Quiet = False
    warnings: Warnings = "show"


def run(options: SimulateOptions, line: SimulateLine) -> None:
    """Simulate, and write the rows, or show the first of them."""
    from calibkit.simulate import simulate

    console = line.part(Console, tabular=True)
    if line.dry_run:
        frame = simulate(replace(options, rows=min(options.rows, HEAD)))
        if console.as_json:
            console.json({"dry_run": True, "rows": options.rows, "columns": frame.columns})
            return
        console.say(f"Would simulate {options.rows:,} rows; the first {frame.height}:")
        console.table(frame.columns, frame.rows())
        return
    frame = simulate(options)
    if "label" in frame.columns and frame["label"].n_unique() == 1:
        console.warn(f"every row has the label {frame['label'][0]}; a boundary needs rows of both.")
    deliver_rows(console, Rows([frame], frame.columns), "csv", f" with {', '.join(frame.columns)}")


register = declare.several(HELP, run, KINDS, SimulateLine)
