"""What all kinds of simulation share: two options, and how the rows are delivered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from calibkit_cli import options
from calibkit_cli.console import Console
from calibkit_cli.options import option

if TYPE_CHECKING:
    import polars as pl

#: How many rows a dry run shows.
HEAD = 5

Keep = Annotated[
    list[str] | None,
    option(
        "--keep",
        metavar="PATTERN",
        panel=options.OUTPUT,
        help="Columns to write (globs; commas or repetition).",
        show_default="all",
    ),
]

OutputFormat = Annotated[
    options.Format | None,
    option(
        "--output-format",
        panel=options.OUTPUT,
        help="Format of the output, whatever its suffix says.",
        show_default="by suffix; on standard output csv",
    ),
]


def deliver(console: Console, frame: pl.DataFrame, rows: int, dry_run: bool) -> None:
    """Write simulated rows, or show the first of them."""
    if not dry_run:
        console.rows([frame], input_format="csv", columns_added=frame.columns)
        console.wrote(f"{frame.height:,} rows with {', '.join(frame.columns)}")
    elif console.as_json:
        console.json({"dry_run": True, "rows": rows, "columns": frame.columns})
    else:
        console.say(f"Would simulate {rows:,} rows; the first {frame.height}:")
        console.table(frame.columns, frame.rows())
