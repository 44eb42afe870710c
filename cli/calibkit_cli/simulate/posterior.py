"""``calibkit simulate posterior``: scores of a classifier, from data of varying density."""

from __future__ import annotations

import math
from typing import Annotated

import typer

from calibkit.errors import UsageError
from calibkit_cli import options, typed
from calibkit_cli.console import Console
from calibkit_cli.options import option

from .common import HEAD, Keep, OutputFormat, deliver

TRUTH, MODEL = "Truth", "Model"

HELP = """Simulate scores of a classifier trained on data of varying density.

Each row has a true positivity, some training rows near it (its evidence), the score of a model that
counted their labels, and a label. Where evidence is scarce the score is less certain, and here
a boundary over score and uncertainty finds more than a threshold on the score.

Columns: `id`, `label`, `score`, `uncertainty` (minus the strength of the model's posterior),
`evidence`, `entropy` (of that posterior), `true_positivity` (the probability of label 1).

Examples:

  calibkit simulate posterior --rows 100000 --seed 1 -o calib.parquet

  calibkit simulate posterior --rows 300 --keep 'label,score,uncertainty' | column -s, -t
"""


def register(kinds: typer.Typer) -> None:
    """Add this kind of simulation."""
    kinds.command("posterior", help=HELP)(posterior)


def posterior(
    rows: Annotated[
        int, option("--rows", metavar="N", panel=options.OUTPUT, min=1, help="How many rows.")
    ],
    true_prior: Annotated[
        str,
        option(
            "--true-prior",
            metavar="B1,B0",
            panel=TRUTH,
            help="The true positivity is drawn from Beta(B1, B0).",
        ),
    ] = "0.5,1.5",
    evidence: Annotated[
        str,
        option(
            "--evidence",
            metavar="MIN,MAX",
            panel=TRUTH,
            help="Training rows near a row: log-uniform over the whole numbers from MIN to MAX.",
        ),
    ] = "2,1000",
    tau: Annotated[
        float,
        option(
            "--tau",
            metavar="NUMBER",
            panel=TRUTH,
            help="In training, negatives were kept at the rate 1/tau.",
        ),
    ] = 3.0,
    model_prior: Annotated[
        str,
        option(
            "--model-prior",
            metavar="P1,P0",
            panel=MODEL,
            help="Prior counts of the model: score = (P1 + positives) / (P1 + P0 + evidence).",
        ),
    ] = "0.05,0.05",
    dtype: Annotated[
        options.FloatType,
        option("--dtype", panel=options.OUTPUT, help="Of the columns that hold real numbers."),
    ] = "float64",
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
    from calibkit.simulate.posterior import simulate_posterior

    frame = simulate_posterior(
        min(rows, HEAD) if dry_run else rows,
        seed=seed,
        true_prior=_pair("--true-prior", true_prior),
        model_prior=_pair("--model-prior", model_prior),
        tau=tau,
        evidence=_whole_pair("--evidence", evidence),
        dtype=dtype,
        keep=typed.listed(keep) or None,
    )
    if not dry_run and "label" in frame.columns and frame["label"].n_unique() == 1:
        console.warn(f"every row has the label {frame['label'][0]}; a boundary needs rows of both.")
    deliver(console, frame, rows, dry_run)


def _pair(name: str, text: str) -> tuple[float, float]:
    parts = text.split(",")
    try:
        first, second = (float(part) for part in parts)
    except ValueError:
        raise UsageError(f"{name} is {text!r}; expected two numbers, such as 0.5,1.5.") from None
    return first, second


def _whole_pair(name: str, text: str) -> tuple[int, int]:
    first, second = _pair(name, text)
    if not all(math.isfinite(number) and number == int(number) for number in (first, second)):
        raise UsageError(f"{name} is {text!r}; expected two whole numbers, such as 2,1000.")
    return int(first), int(second)
