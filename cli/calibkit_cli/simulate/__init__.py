"""``calibkit simulate``: make score files from a known truth, one module a kind."""

from __future__ import annotations

from importlib import import_module

import typer

#: One module a kind; each has a function ``register(kinds)``.
KINDS = ("posterior", "selection", "raters", "partitions")

HELP = """Make score files from a known truth, to try methods on.

Examples:

  calibkit simulate posterior --rows 10000 -o calib.parquet

  calibkit simulate selection --part test --rows 20000 -o test.parquet

  calibkit simulate raters --rows 1000 --raters 3 -o votes.parquet
"""


def register(app: typer.Typer) -> None:
    """Add the command, one sub-command a kind of simulation, to the application."""
    kinds = typer.Typer(no_args_is_help=True, rich_markup_mode="rich")
    kinds.callback()(_kinds)
    for name in KINDS:
        import_module(f"calibkit_cli.simulate.{name}").register(kinds)
    app.add_typer(kinds, name="simulate", help=HELP)


def _kinds() -> None:
    """Keep the name of the kind on the command line, however many kinds there are."""
