"""``calibkit validate``: whether rows are what the other commands need, all of it in one report."""

from __future__ import annotations

from typing import Annotated

import typer

from calibkit.errors import DataError, UsageError

from . import options, typed
from .console import Console
from .options import option

HELP = """Look at rows as the other commands would, and report all that is wrong or odd with them.

Types, ranges, missing values, labels of one class, duplicates, ties, constant columns, scores on
another scale than claimed or the wrong way round. Errors are what a fit would refuse (exit code 3),
warnings what it would take and should not; --warnings error fails on these too.

Columns that are not named are looked at under their default names, where the input has them.

Examples:

  calibkit validate calib.parquet

  calibkit validate scores.csv --score p --label y --by country -o report.json

  calibkit validate votes.parquet --probs 'prob_*' --counts 'count_*' --warnings error

  calibkit validate calib.parquet --json | jq '.findings[] | select(.level == "error")'
"""

BAD_DATA = 3


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("validate", help=HELP)(validate)


def validate(
    inputs: options.Inputs,
    score: Annotated[
        list[str] | None,
        option(
            "--score",
            metavar="NAME",
            panel=options.COLUMNS,
            help="Column with the score of the positive class; may be repeated.",
            show_default="score, if the input has it",
        ),
    ] = None,
    scale: options.Scale = "probability",
    label: Annotated[
        str | None,
        option(
            "--label",
            metavar="NAME",
            panel=options.COLUMNS,
            help="Column with the label: 0/1, boolean or t/f; of class probabilities the class.",
            show_default="label, if the input has it",
        ),
    ] = None,
    positive: options.Positive = None,
    unlabelled: options.Unlabelled = "error",
    uncertainty: options.Uncertainty = None,
    weight: options.Weight = None,
    groups: options.Groups = None,
    time: options.Time = None,
    by: options.By = None,
    members: Annotated[
        list[str] | None,
        option(
            "--members",
            metavar="PATTERN",
            panel=options.COLUMNS,
            help="Scores of replicate predictors (names and globs; commas or repetition).",
            show_default="score_*, if the input has them",
        ),
    ] = None,
    probs: options.Probs = None,
    counts: options.Counts = None,
    features: options.Features = None,
    on_missing: options.OnMissing = "error",
    input_format: options.InputFormat = None,
    dtype: options.Dtype = "float64",
    output: options.Output = None,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
    warnings: options.Warnings = "show",
) -> None:
    """Parse, look, report."""
    console = Console(output, as_json, quiet)
    if console.per_input:
        raise UsageError(f"{output}: all inputs give one report; name a file.")
    from calibkit.files.sources import open_source
    from calibkit.validation.run import unreadable
    from calibkit.validation.run import validate as look
    from calibkit.validation.spec import ValidateSpec

    from .views.validation import found, said, view

    spec = ValidateSpec(
        scores=tuple(typed.listed(score)),
        scale=scale,
        label=label,
        positive=positive,
        unlabelled=unlabelled,
        uncertainty=uncertainty,
        weight=weight,
        groups=groups,
        time=time,
        by=by,
        members=tuple(typed.listed(members)),
        probs=tuple(typed.listed(probs)),
        counts=counts,
        features=tuple(typed.listed(features)),
        on_missing=on_missing,
    )
    try:
        source = open_source(inputs, input_format=input_format, dtype=dtype)
    except DataError as error:
        report = unreadable(error, inputs)
    else:
        if output not in (None, "-"):
            from calibkit.files.outputs import spare_inputs

            spare_inputs(str(output), source.parts)
        report = look(source, spec)
    console.model(report.to_json(), lambda: view(report, console))
    console.wrote("Report")
    if not as_json and (output is not None or not console.on_terminal):
        console.summary(said(report), *found(report))
    if report.errors or (warnings == "error" and report.warnings):
        raise typer.Exit(BAD_DATA)
