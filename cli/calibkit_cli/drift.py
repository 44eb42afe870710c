"""``calibkit drift``: whether new rows are still like those of the fit."""

from __future__ import annotations

from typing import Annotated

import typer

from calibkit.errors import UsageError

from . import options
from .console import Console
from .options import option

HELP = """Compare new rows with those that a boundary, or each boundary of a bundle, was fitted on.

The share of rows selected, the population stability index of score and uncertainty with what chance
gives of it, the shares of rows outside the range of the fit and without a value; with labels also
precision and recall, beside what the model promised. --fail-if judges all of it, as in evaluate.

Examples:

  calibkit drift boundary.json today.parquet -o drift.json

  calibkit drift boundary.json today.parquet --fail-if 'psi_score.low>0.1' -q -o drift.json

  calibkit drift service.json march.csv --label label --fail-if 'precision.high < fit/precision'
"""


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("drift", help=HELP)(drift)


def drift(
    model: options.Model,
    inputs: options.Inputs,
    label: Annotated[
        str | None,
        option(
            "--label",
            metavar="NAME",
            panel=options.COLUMNS,
            help="Column with the label: 0/1, boolean or t/f.",
            show_default="none: nothing is judged",
        ),
    ] = None,
    positive: options.Positive = None,
    unlabelled: options.Unlabelled = "error",
    score: options.ScoreElsewhere = None,
    uncertainty: options.UncertaintyElsewhere = None,
    weight: Annotated[
        str | None,
        option(
            "--weight",
            metavar="NAME",
            panel=options.COLUMNS,
            help="Column with non-negative weights: a weight 2 is two rows.",
            show_default="as the model names it, if it was fitted on weighted rows",
        ),
    ] = None,
    confidence: Annotated[
        float,
        option(
            "--confidence",
            metavar="C",
            panel=options.OUTPUT,
            help="Confidence of the intervals.",
        ),
    ] = 0.95,
    input_format: options.InputFormat = None,
    dtype: options.Dtype = "float64",
    output: options.Output = None,
    fail_if: options.FailIf = None,
    as_json: options.Json = False,
    memory: options.Memory = None,
    threads: options.Threads = None,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
    warnings: options.Warnings = "show",
    dry_run: options.DryRun = False,
) -> None:
    """Parse, compare, deliver, judge."""
    console = Console(
        output, as_json, quiet, verbose, warnings, texts=("json", "prom", "csv", "md")
    )
    if label is None and (positive is not None or unlabelled != "error"):
        raise UsageError("--positive and --unlabelled say how --label is read; name it.")
    if not 0.0 < confidence < 1.0:
        raise UsageError(f"--confidence is {confidence:g}; expected a number above 0 and below 1.")
    from calibkit.drift.rows import DriftSpec
    from calibkit.files.sources import open_source
    from calibkit.memory import memory_budget
    from calibkit.models import load

    from .drift_run import DriftRun
    from .gates import expressions

    elsewhere = {"score": score, "uncertainty": uncertainty}
    budget = memory_budget(memory)
    run = DriftRun(
        console=console,
        model=load(model),
        spec=DriftSpec(
            columns={role: name for role, name in elsewhere.items() if name is not None},
            label=label,
            positive=positive,
            unlabelled=unlabelled,
            weight=weight,
            confidence=confidence,
        ),
        batch=budget.batch,
        gates=expressions(fail_if),
    )
    source = open_source(inputs, input_format=input_format, dtype=dtype, memory=budget)
    if dry_run:
        run.show_plan(source)
    else:
        run.compare(source)
