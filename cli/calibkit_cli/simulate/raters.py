"""``calibkit simulate raters``: votes of several raters beside a model's class probabilities."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from calibkit_cli import options, typed
from calibkit_cli.console import Console
from calibkit_cli.options import option

from .common import HEAD, Keep, OutputFormat, deliver

HELP = """Simulate votes of several raters on two classes, and a model's class probabilities.

Under `ideal` the model knows how likely each vote is: its losses of calibration and dispersion are 0,
and what an estimator says beyond is its bias. Under `modes` there are clear rows, rows on which
raters agree though the model cannot see which way, and rows on which they disagree.

Columns: `id`, `prob_0`, `prob_1`, `count_0`, `count_1`; under `modes` also `true_probability`, `mode`
and the indicators `feature_0` to `feature_9`.

Examples:

  calibkit simulate raters --rows 10000 --raters 2 -o votes.parquet

  calibkit simulate raters --rows 10000 --design modes --seed 1 -o modes.parquet
"""


def register(kinds: typer.Typer) -> None:
    """Add this kind of simulation."""
    kinds.command("raters", help=HELP)(raters)


def raters(
    rows: Annotated[
        int, option("--rows", metavar="N", panel=options.OUTPUT, min=1, help="How many rows.")
    ],
    design: Annotated[
        Literal["ideal", "modes"],
        option("--design", panel="Truth", help="What the raters and the model are like."),
    ] = "ideal",
    votes: Annotated[
        int, option("--raters", metavar="N", panel="Truth", min=1, help="Votes a row.")
    ] = 5,
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
    from calibkit.simulate.raters import simulate_raters

    frame = simulate_raters(
        min(rows, HEAD) if dry_run else rows,
        seed=seed,
        design=design,
        raters=votes,
        keep=typed.listed(keep) or None,
    )
    deliver(console, frame, rows, dry_run)
