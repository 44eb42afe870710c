"""``calibkit plot``: draw rows, scores and boundaries, one module a kind of picture."""

from __future__ import annotations

from importlib import import_module

import typer

#: One module a kind (two kinds in `threshold_curves`); each has a function ``register(kinds)``.
KINDS = (
    "reliability",
    "threshold_curves",
    "positivity",
    "heatmap",
    "recall_gain",
    "ece_at",
    "bias",
    "dispersion",
    "disagreement",
    "auc_lift",
)

HELP = """Draw rows, scores and boundaries as SVG or PNG, or write the points drawn as a table.

Examples:

  calibkit plot reliability test.parquet -o reliability.svg

  calibkit plot roc test.parquet --boundary boundary.json -o roc.png

  calibkit plot heatmap test.parquet --boundary boundary.json -o heatmap.svg
"""


def register(app: typer.Typer) -> None:
    """Add the command, one sub-command a kind of picture, to the application."""
    kinds = typer.Typer(no_args_is_help=True, rich_markup_mode="rich")
    kinds.callback()(_kinds)
    for name in KINDS:
        import_module(f"calibkit_cli.plot.{name}").register(kinds)
    app.add_typer(kinds, name="plot", help=HELP)


def _kinds() -> None:
    """Keep the name of the kind on the command line, however many kinds there are."""
