"""``calibkit vad``: take the bias of selection off scores, by replicates and without labels."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from . import cluster, options, states, typed
from .console import Console
from .options import option

METHOD, TANDEM = "Method", "In tandem with a calibrator"

HELP = """Shrink scores so that the highest of them are not too high: variance-adjusting debiasing.

Of rows selected for their high scores more have an error that raises the score than one that lowers
it. Replicates of the model (other seeds, bootstrap refits) tell how large such errors are; labels are
not needed, and the rows may be distributed otherwise than the training rows.

Examples:

  calibkit vad unlabelled.parquet -o vad.json

  calibkit vad unlabelled.parquet --members 'p_*' --replicates bootstrap --by country -o vad.json

  calibkit vad unlabelled.csv --calibrator cal.json --train-input like_training.csv -o vad.json
"""


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("vad", help=HELP)(vad)


def vad(
    inputs: options.Inputs,
    members: Annotated[
        list[str] | None,
        option(
            "--members",
            metavar="PATTERN",
            panel=options.COLUMNS,
            help="Scores of replicate predictors, first the one in service (names and globs; commas "
            "or repetition).",
            show_default="score_*",
        ),
    ] = None,
    link: Annotated[
        Literal["logit", "identity"],
        option("--link", panel=METHOD, help="The scale on which scores are compared and shrunk."),
    ] = "logit",
    replicates: Annotated[
        Literal["exchangeable", "bootstrap"],
        option(
            "--replicates",
            panel=METHOD,
            help="exchangeable: all members made alike, such as by other seeds. bootstrap: the first "
            "is the fit on all rows, the others (two or more) are refits on bootstrap samples.",
        ),
    ] = "exchangeable",
    min_rows: Annotated[
        int,
        option(
            "--min-rows",
            metavar="N",
            panel=METHOD,
            min=2,
            help="With --by: values with fewer rows are shrunk as all rows together.",
        ),
    ] = 100,
    calibrator: Annotated[
        str | None,
        option(
            "--calibrator",
            metavar="MODEL",
            panel=TANDEM,
            help="A calibrator to apply to the first member before; it becomes part of the model.",
            show_default=False,
        ),
    ] = None,
    calibrated: Annotated[
        str | None,
        option(
            "--calibrated",
            metavar="NAME",
            panel=TANDEM,
            help="Or the column of calibrated probabilities, which is then what apply reads.",
            show_default=False,
        ),
    ] = None,
    train_input: Annotated[
        str | None,
        option(
            "--train-input",
            metavar="FILE",
            panel=TANDEM,
            help="Unlabelled rows with the same members, distributed like the training rows.",
            show_default=False,
        ),
    ] = None,
    scale: options.Scale = "probability",
    by: options.By = None,
    weight: options.Weight = None,
    on_missing: options.OnMissing = "error",
    input_format: options.InputFormat = None,
    dtype: options.Dtype = "float64",
    output: options.Output = None,
    as_json: options.Json = False,
    partial: states.Partial = False,
    provenance: options.Provenance = "hash",
    tag: options.Tags = None,
    dask: cluster.Dask = None,
    memory: options.Memory = None,
    threads: options.Threads = None,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
    warnings: options.Warnings = "show",
    dry_run: options.DryRun = False,
) -> None:
    """Parse, fit, print."""
    console = Console(output, as_json, quiet, verbose, warnings)
    states.check_output(output, partial)
    tags = typed.tags(tag)
    from calibkit.memory import memory_budget
    from calibkit.models import load
    from calibkit.threads import thread_count
    from calibkit.vad.rows import MemberOptions
    from calibkit.vad.spec import VadSpec

    from .vad_run import VadRun

    spec = VadSpec(
        link=link,
        replicates=replicates,
        min_rows=min_rows,
        calibrator=None if calibrator is None else load(calibrator),
        threads=thread_count(threads),
    )
    columns = MemberOptions(
        members=tuple(typed.listed(members)) or ("score_*",),
        scale=scale,
        calibrated=calibrated,
        weight=weight,
        by=by,
        on_missing=on_missing,
    )
    spec.check(columns)
    budget = memory_budget(memory)
    run = VadRun(
        console=console,
        columns=columns,
        spec=spec,
        train=train_input,
        input_format=input_format,
        dtype=dtype,
        memory=budget,
        provenance=provenance,
        tags=tags,
    )
    cluster.start(run, inputs, dask, input_format, dtype, dry_run=dry_run, partial=partial)
