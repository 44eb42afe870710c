"""``calibkit calibrate``: fit a map from scores to probabilities."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from calibkit.calibrators.spec import DEFAULT_BINS, METHODS
from calibkit.errors import UsageError

from . import cluster, options, states, typed
from .console import Console
from .options import option

METHOD = "Method"

HELP = """Fit a map from scores to probabilities on labelled rows.

The default, beta calibration, has three parameters and keeps the order of the scores. No map gives
exactly 0 or 1 unless --clip 0 asks for it: one wrong label there would make the log loss infinite.

Examples:

  calibkit calibrate calib.parquet -o cal.json

  calibkit calibrate calib.csv --method platt --scale logit --score logit -o cal.json

  calibkit calibrate calib.parquet --method venn-abers --by country -o cal.json

  calibkit calibrate votes.parquet --probs 'prob_*' --counts 'count_*' --method vector -o cal.json
"""


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("calibrate", help=HELP)(calibrate)


def calibrate(
    inputs: options.Inputs,
    method: Annotated[
        str | None,
        option(
            "--method",
            metavar="METHOD",
            panel=METHOD,
            help=f"{', '.join(METHODS[:-1])} or {METHODS[-1]}; of class probabilities: "
            "temperature, vector or matrix.",
            show_default="beta; temperature with --probs",
        ),
    ] = None,
    targets: Annotated[
        Literal["smoothed", "mle"] | None,
        option(
            "--targets",
            panel=METHOD,
            help="What platt is fitted to: Platt's smoothed targets, or the labels themselves.",
            show_default="smoothed",
        ),
    ] = None,
    bins: Annotated[
        int | None,
        option(
            "--bins",
            metavar="M",
            panel=METHOD,
            min=1,
            help="Bins of histogram and scaling-binning.",
            show_default=str(DEFAULT_BINS),
        ),
    ] = None,
    bin_strategy: Annotated[
        Literal["equal-mass", "equal-width"] | None,
        option(
            "--bin-strategy",
            panel=METHOD,
            help="Bins with equally many rows, or equally wide over [0, 1].",
            show_default="equal-mass",
        ),
    ] = None,
    split: Annotated[
        Literal["same", "thirds"] | None,
        option(
            "--split",
            panel=METHOD,
            help="The three steps of scaling-binning on the same rows, or on a third each.",
            show_default="same",
        ),
    ] = None,
    negatives_kept: Annotated[
        str | None,
        option(
            "--negatives-kept",
            metavar="R",
            panel=METHOD,
            help="For prior-shift: the share of the negatives that the training rows kept.",
            show_default=False,
        ),
    ] = None,
    regularization: Annotated[
        str | None,
        option(
            "--regularization",
            metavar="INTERCEPT[,OFF]|cv",
            panel=METHOD,
            help="Penalties of vector and matrix; cv: chosen by cross-validation.",
            show_default="cv",
        ),
    ] = None,
    by: options.By = None,
    min_rows: Annotated[
        int,
        option(
            "--min-rows",
            metavar="N",
            panel=METHOD,
            min=1,
            help="With --by: values with fewer rows use the map of all rows.",
        ),
    ] = 100,
    clip: Annotated[
        str | None,
        option(
            "--clip",
            metavar="EPS",
            panel=METHOD,
            help="Keep results so far inside (0, 1); 0: leave them as they are.",
            show_default="1 / (rows + 2)",
        ),
    ] = None,
    out_of_range: Annotated[
        Literal["error", "clip"] | None,
        option(
            "--out-of-range",
            panel=options.INPUT,
            help="Probabilities outside [0, 1], now and when the map is applied: refuse or clip them.",
            show_default="error",
        ),
    ] = None,
    score: options.Score = "score",
    scale: options.Scale = "probability",
    probs: options.Probs = None,
    counts: options.Counts = None,
    label: options.Label = "label",
    positive: options.Positive = None,
    unlabelled: options.Unlabelled = "error",
    weight: options.Weight = None,
    on_missing: options.OnMissing = "error",
    input_format: options.InputFormat = None,
    dtype: options.Dtype = "float64",
    output: options.Output = None,
    as_json: options.Json = False,
    provenance: options.Provenance = "hash",
    tag: options.Tags = None,
    seed: options.Seed = 0,
    threads: options.Threads = None,
    dask: cluster.Dask = None,
    memory: options.Memory = None,
    partial: states.Partial = False,
    plan: states.Plan = None,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
    warnings: options.Warnings = "show",
    dry_run: options.DryRun = False,
) -> None:
    """Parse, fit, print."""
    states.check_output(output, partial)
    console = Console(output, as_json, quiet, verbose, warnings)
    tags = typed.tags(tag)
    from calibkit.calibrators.spec import CalibratorSpec
    from calibkit.memory import memory_budget
    from calibkit.rows.columns import ColumnOptions
    from calibkit.threads import thread_count

    from .calibrate_run import CalibrateRun

    if probs or counts:
        from .calibrate_classes import ClassRun, class_options

        classes, roles = class_options(
            method=method,
            regularization=regularization,
            probs=probs,
            counts=counts,
            label=label,
            scale=scale,
            on_missing=on_missing,
            unlabelled=unlabelled,
            seed=seed,
            refused={
                "--targets": targets,
                "--bins": bins,
                "--bin-strategy": bin_strategy,
                "--split": split,
                "--negatives-kept": negatives_kept,
                "--by": by,
                "--clip": clip,
                "--out-of-range": out_of_range,
                "--positive": positive,
                "--weight": weight,
            },
        )
        budget, workers = memory_budget(memory), thread_count(threads)
        run: cluster.Run = ClassRun(console, classes, roles, provenance, tags, budget, workers)
        cluster.start(run, inputs, dask, input_format, dtype, dry_run=dry_run, partial=partial)
        return
    if regularization is not None:
        raise UsageError("--regularization goes with --probs, for vector and matrix scaling.")
    spec = CalibratorSpec(
        method=method or "beta",
        targets=targets,
        bins=bins,
        bin_strategy=bin_strategy,
        split=split,
        negatives_kept=typed.given(negatives_kept, "--negatives-kept"),
        by=by,
        min_rows=min_rows,
        clip=typed.given(clip, "--clip"),
        out_of_range=out_of_range or "error",
        seed=seed,
        threads=thread_count(threads),
    )
    columns = ColumnOptions(
        score=score,
        scale=scale,
        label=label,
        positive=positive,
        unlabelled=unlabelled,
        weight=weight,
        on_missing=on_missing,
    )
    run = CalibrateRun(console, spec, columns, provenance, tags, memory_budget(memory))
    cluster.start(run, inputs, dask, input_format, dtype, dry_run=dry_run, partial=partial)
