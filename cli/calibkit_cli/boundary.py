"""``calibkit boundary``: fit a decision boundary over score and uncertainty."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from . import options, typed
from .console import Console
from .options import option

LEVELS = "--uncertainty-bins"
OBJECTIVE, METHOD = "Objective (exactly one)", "Method"

HELP = """Fit a decision boundary over score and uncertainty.

In each uncertainty level the rows from one score threshold up are selected; the thresholds together
reach the highest recall at a precision bound, or the highest precision at a recall bound.

Examples:

  calibkit boundary calib.parquet --precision 0.9 -o boundary.json

  calibkit boundary calib.parquet --precision 0.9 --test test.parquet --compare

  calibkit boundary calib.csv --recall 0.5 --method st --test test.csv -o boundary.json

  zcat scores.csv.gz | calibkit boundary - --precision 0.8 --score p --label y > boundary.json
"""


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("boundary", help=HELP)(boundary)


def boundary(
    inputs: options.Inputs,
    precision: Annotated[
        str | None,
        option("--precision", metavar="P", panel=OBJECTIVE, help="Most recall at precision >= P."),
    ] = None,
    recall: Annotated[
        str | None,
        option("--recall", metavar="R", panel=OBJECTIVE, help="Most precision at recall >= R."),
    ] = None,
    fpr: Annotated[
        str | None,
        option(
            "--fpr", metavar="A", panel=OBJECTIVE, help="Most recall at false positive rate <= A."
        ),
    ] = None,
    capacity: Annotated[
        str | None,
        option(
            "--capacity",
            metavar="N",
            panel=OBJECTIVE,
            help="Most recall with at most N rows selected; below 1: a share of the rows.",
        ),
    ] = None,
    maximize: Annotated[
        str | None,
        option(
            "--maximize",
            metavar="METRIC",
            panel=OBJECTIVE,
            help="accuracy, weighted-accuracy:W, balanced-accuracy, precision, f1, fbeta:B, "
            "jaccard, mcc, kappa, gmean, fowlkes-mallows, youden, lift or utility:TP,FP,FN,TN.",
        ),
    ] = None,
    minimize: Annotated[
        str | None,
        option(
            "--minimize", metavar="cost:FP,FN", panel=OBJECTIVE, help="Least expected cost a row."
        ),
    ] = None,
    method: Annotated[
        str,
        option(
            "--method",
            metavar="METHOD",
            panel=METHOD,
            help="exact: the optimum, with proof. st: one threshold for all levels. stochastic: the "
            "optimum over randomised boundaries. The paper's: "
            "mist, gmt, ew-dpmt, ew-dpmt-mono, vw-dpmt, vw-dpmt-mono, staircase (see --compare).",
        ),
    ] = "exact",
    uncertainty_bins: Annotated[
        str | None,
        option(
            LEVELS,
            metavar="K|auto",
            panel=METHOD,
            help="Uncertainty levels; auto: chosen among 1, 2, 3, 5, 7 and 11 by cross-validation.",
            show_default="3; 1 for st and for rows without uncertainty",
        ),
    ] = None,
    score_bins: Annotated[
        int | None,
        option(
            "--score-bins",
            metavar="L",
            panel=METHOD,
            min=0,
            help="Score bins within each level; 0: every distinct score.",
            show_default="0; 500 for the -dpmt methods and staircase",
        ),
    ] = None,
    strategy: Annotated[
        Literal["equal-mass", "equal-width"],
        option("--strategy", panel=METHOD, help="Bins of equal mass or of equal width."),
    ] = "equal-mass",
    order: Annotated[
        Literal["uncertainty-score", "score-uncertainty"],
        option("--order", panel=METHOD, help="Which axis is binned first."),
    ] = "uncertainty-score",
    randomise: Annotated[
        Literal["block", "tie"],
        option(
            "--randomise",
            panel=METHOD,
            help="With --method stochastic: random over a block of scores in one level (the optimum "
            "over randomised boundaries), or at one score of all rows together.",
        ),
    ] = "block",
    folds: Annotated[
        int,
        option("--folds", metavar="F", panel=METHOD, help="Folds of cross-validation; 0: none."),
    ] = 5,
    test: Annotated[
        str | None,
        option("--test", metavar="FILE", panel=METHOD, help="Labelled rows to judge it on."),
    ] = None,
    compare: Annotated[
        bool,
        option("--compare", panel=METHOD, help="A table of all methods that take the objective."),
    ] = False,
    frontier: Annotated[
        str | None,
        option(
            "--frontier",
            metavar="FILE",
            panel=options.OUTPUT,
            help="Every boundary that no other beats in precision and recall, as rows.",
            show_default=False,
        ),
    ] = None,
    score: options.Score = "score",
    scale: options.Scale = "probability",
    label: options.Label = "label",
    positive: options.Positive = None,
    unlabelled: options.Unlabelled = "error",
    uncertainty: options.Uncertainty = None,
    weight: options.Weight = None,
    groups: options.Groups = None,
    time: options.Time = None,
    on_missing: options.OnMissing = "error",
    input_format: options.InputFormat = None,
    dtype: options.Dtype = "float64",
    output: options.Output = None,
    as_json: options.Json = False,
    provenance: options.Provenance = "hash",
    tag: options.Tags = None,
    seed: options.Seed = 0,
    threads: options.Threads = None,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
    warnings: options.Warnings = "show",
    dry_run: options.DryRun = False,
) -> None:
    """Parse, fit, print."""
    console = Console(output, as_json, quiet, verbose, warnings)
    tags = typed.tags(tag)
    from calibkit.boundary.spec import BoundarySpec
    from calibkit.boundary.target import read_target
    from calibkit.columns import ColumnOptions
    from calibkit.sources import open_source
    from calibkit.threads import thread_count

    from .boundary_run import BoundaryRun

    target = read_target(
        {
            "precision": precision,
            "recall": recall,
            "fpr": fpr,
            "capacity": capacity,
            "maximize": maximize,
            "minimize": minimize,
        }
    )
    auto_levels = uncertainty_bins == "auto"
    spec = BoundarySpec(
        target=target,
        method=method,
        uncertainty_bins=None if auto_levels else typed.whole(uncertainty_bins, LEVELS),
        score_bins=score_bins,
        strategy=strategy,
        order=order,
        randomise=randomise,
        folds=folds,
        groups=groups,
        time=time,
        seed=seed,
        threads=thread_count(threads),
    )
    columns = ColumnOptions(
        score=score,
        scale=scale,
        label=label,
        positive=positive,
        unlabelled=unlabelled,
        uncertainty=uncertainty,
        weight=weight,
        on_missing=on_missing,
    )
    run = BoundaryRun(
        console=console,
        spec=spec,
        columns=columns,
        dtype=dtype,
        test=test,
        frontier=frontier,
        compare=compare,
        auto_levels=auto_levels,
        provenance=provenance,
        tags=tags,
    )
    source = open_source(inputs, input_format=input_format, dtype=dtype)
    if dry_run:
        run.show_plan(source)
    else:
        run.fit(source)
