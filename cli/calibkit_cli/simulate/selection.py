"""``calibkit simulate selection``: scores of replicate models, for ``vad``."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from calibkit_cli import options, typed
from calibkit_cli.console import Console
from calibkit_cli.options import option

from .common import HEAD, Keep, OutputFormat, deliver

TRUTH, MODELS = "Truth", "Models"

HELP = """Simulate scores of a model and of its bootstrap refits, on rows unlike the training rows.

The model is unbiased, yet rows selected by its highest scores have fewer positives than the scores
say: of rows equally good, those are taken whose error raises the score. All parts of one seed are
scored by the same models.

Columns: `id`, `label` (not in validation), `score_1` (the model), `score_2`, `score_3`, … (its
refits), `true_probability`.

Examples:

  calibkit simulate selection --rows 30000 --part validation -o unlabelled.parquet

  calibkit simulate selection --rows 30000 --part test -o test.parquet

  calibkit simulate selection --rows 30000 --part train --refits 3 --seed 1 -o like_training.parquet
"""


def register(kinds: typer.Typer) -> None:
    """Add this kind of simulation."""
    kinds.command("selection", help=HELP)(selection)


def selection(
    rows: Annotated[
        int, option("--rows", metavar="N", panel=options.OUTPUT, min=1, help="How many rows.")
    ],
    part: Annotated[
        Literal["test", "validation", "train"],
        option(
            "--part",
            panel=TRUTH,
            help="test: labelled, with shifted inputs. validation: the same without labels. "
            "train: labelled, with inputs like those of the training rows.",
        ),
    ] = "test",
    shift: Annotated[
        float,
        option(
            "--shift",
            metavar="NUMBER",
            panel=TRUTH,
            help="The inputs' mean in training; elsewhere it is minus this.",
        ),
    ] = 0.05,
    inputs: Annotated[
        int, option("--inputs", metavar="D", panel=MODELS, min=1, help="How many inputs there are.")
    ] = 20,
    train_rows: Annotated[
        int,
        option(
            "--train-rows",
            metavar="N",
            panel=MODELS,
            min=2,
            help="On how many rows the models are fitted.",
        ),
    ] = 3000,
    refits: Annotated[
        int, option("--refits", metavar="S", panel=MODELS, min=1, help="Bootstrap refits.")
    ] = 2,
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
    from calibkit.simulate.selection import simulate_selection

    frame = simulate_selection(
        min(rows, HEAD) if dry_run else rows,
        part=part,
        seed=seed,
        refits=refits,
        train_rows=train_rows,
        inputs=inputs,
        shift=shift,
        keep=typed.listed(keep) or None,
    )
    deliver(console, frame, rows, dry_run)
