"""``calibkit simulate partitions``: a model that used a simple pattern too little."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from calibkit_cli import options, typed
from calibkit_cli.console import Console
from calibkit_cli.options import option

from .common import HEAD, Keep, OutputFormat, deliver

HELP = """Simulate scores of a model that memorised its training rows.

A binary pattern in the data helps; but on the rows it was trained on the model hardly needed it, and
gave it half the weight that new rows ask for. Calibrating both values of the pattern apart mends
that, and ranks better.

Columns: `id`, `label`, `score`, `feature_pattern`, `feature_noise` (of no use), `true_positivity`.

Examples:

  calibkit simulate partitions --rows 20000 --seed 1 -o calib.parquet

  calibkit simulate partitions --rows 20000 --kind training -o train.parquet
"""


def register(kinds: typer.Typer) -> None:
    """Add this kind of simulation."""
    kinds.command("partitions", help=HELP)(partitions)


def partitions(
    rows: Annotated[
        int, option("--rows", metavar="N", panel=options.OUTPUT, min=1, help="How many rows.")
    ],
    kind: Annotated[
        Literal["new", "training"],
        option("--kind", panel="Truth", help="New rows, or those the model was trained on."),
    ] = "new",
    pattern_weight: Annotated[
        float,
        option(
            "--pattern-weight",
            metavar="W",
            panel="Model",
            help="What the pattern adds to the linear score; new rows ask for 3.6 to 4.4.",
        ),
    ] = 1.8,
    keep: Keep = None,
    seed: options.Seed = 0,
    output: options.Output = None,
    output_format: OutputFormat = None,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
    warnings: options.Warnings = "show",
    dry_run: options.DryRun = False,
) -> None:
    """Parse, simulate, write."""
    console = Console(
        output, as_json, quiet, warnings=warnings, tabular=True, output_format=output_format
    )
    from calibkit.simulate.partitions import simulate_partitions

    frame = simulate_partitions(
        min(rows, HEAD) if dry_run else rows,
        seed=seed,
        kind=kind,
        weight=pattern_weight,
        keep=typed.listed(keep) or None,
    )
    deliver(console, frame, rows, dry_run)
