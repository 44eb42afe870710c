"""``calibkit alpha-cal``: fit distributions over class probabilities to the votes of raters."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from calibkit.errors import UsageError

from . import cluster, options, states, typed
from .console import Console
from .options import option

METHOD = "Method"

HELP = """Fit how much raters agree: a Dirichlet distribution over class probabilities for each row.

The predicted class probabilities stay what they are (or what --map makes of them); fitted is alpha0,
how concentrated raters are around them, and with it the probability that two raters differ. Votes
are the number of raters who chose each class; rows with two votes and more tell something.

Examples:

  calibkit alpha-cal votes.parquet -o alpha.json

  calibkit alpha-cal votes.parquet --features sorted-probs --map temperature -o alpha.json

  calibkit alpha-cal votes.csv --probs 'p_*' --counts 'n_*' --features 'embedding_*' -o alpha.json
"""


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("alpha-cal", help=HELP)(alpha_cal)


def alpha_cal(
    inputs: options.Inputs,
    probs: options.Probs = None,
    counts: options.Counts = None,
    features: Annotated[
        list[str] | None,
        option(
            "--features",
            metavar="PATTERN",
            panel=options.COLUMNS,
            help="What alpha0 depends on: feature columns (names and globs), probs or sorted-probs "
            "(the logarithms of the probabilities, sorted).",
            show_default="alpha0 is constant",
        ),
    ] = None,
    scale: options.Scale = "probability",
    logit_map: Annotated[
        Literal["none", "temperature", "vector", "matrix"],
        option("--map", panel=METHOD, help="Calibrate the class probabilities first."),
    ] = "none",
    map_regularization: Annotated[
        str,
        option(
            "--map-regularization",
            metavar="INTERCEPT[,OFF]|cv",
            panel=METHOD,
            help="Penalties of --map vector and matrix; cv: chosen by cross-validation.",
        ),
    ] = "cv",
    regularization: Annotated[
        str,
        option(
            "--regularization",
            metavar="NUMBER",
            panel=METHOD,
            help="Penalty of (ln alpha0)^2, a row.",
        ),
    ] = "0.005",
    disagreement_map: Annotated[
        Literal["none", "isotonic"],
        option(
            "--disagreement-map",
            panel=METHOD,
            help="A rising step function on the predicted disagreement, which may also raise it.",
        ),
    ] = "none",
    on_missing: options.OnMissing = "error",
    input_format: options.InputFormat = None,
    dtype: options.Dtype = "float64",
    output: options.Output = None,
    as_json: options.Json = False,
    partial: states.Partial = False,
    plan: states.Plan = None,
    provenance: options.Provenance = "hash",
    tag: options.Tags = None,
    seed: options.Seed = 0,
    dask: cluster.Dask = None,
    memory: options.Memory = None,
    threads: options.Threads = None,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
    warnings: options.Warnings = "show",
    dry_run: options.DryRun = False,
) -> None:
    """Parse, fit, print."""
    states.check_output(output, partial)
    console = Console(output, as_json, quiet, verbose, warnings)
    tags = typed.tags(tag)
    from calibkit.memory import memory_budget
    from calibkit.raters.alpha_cal import AlphaSpec
    from calibkit.raters.rows import RaterOptions
    from calibkit.threads import thread_count

    from .alpha_cal_run import AlphaRun

    patterns = typed.listed(probs) or ["prob_*"]
    if len(patterns) > 1:
        raise UsageError("alpha-cal fits one predictor: give --probs one pattern.")
    spec = AlphaSpec(
        logit_map=logit_map,
        map_regularization=typed.penalties(map_regularization, "--map-regularization"),
        regularization=typed.number(regularization, "--regularization"),
        disagreement_map=disagreement_map,
        scale=scale,
        seed=seed,
        threads=thread_count(threads),
    )
    columns = RaterOptions(
        probs=(patterns[0],), counts=counts or "count_*", scale=scale, on_missing=on_missing
    )
    run = AlphaRun(
        console=console,
        columns=columns,
        features=typed.listed(features),
        spec=spec,
        memory=memory_budget(memory),
        provenance=provenance,
        tags=tags,
    )
    cluster.start(run, inputs, dask, input_format, dtype, dry_run=dry_run, partial=partial)
