"""``calibkit hetcal``: partition the rows by their features, and calibrate each part."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from calibkit.errors import UsageError

from . import cluster, options, states, typed
from .console import Console
from .options import option

PARTITION, MAPS = "Partition", "Maps"

HELP = """Partition the rows by their features, and calibrate each part by a map of its own.

Scores are right on average and wrong in parts of the data that a model has not used enough. A tree
finds such parts; calibrating each of them brings the scores of different parts in order too.

Missing values and values not seen before have a side of their own at each split.

Examples:

  calibkit hetcal calib.parquet --train train.parquet --features 'age,job,feature_*' -o hetcal.json

  calibkit hetcal calib.csv --features 'x*' --max-depth 3 --min-leaf 500 -o hetcal.json

  calibkit hetcal calib.parquet --features 'x*' --partition boosted -o hetcal.json
"""


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("hetcal", help=HELP)(hetcal)


def hetcal(
    inputs: options.Inputs,
    train: Annotated[
        list[str] | None,
        option(
            "--train",
            metavar="TRAIN",
            panel=PARTITION,
            help="Rows to grow the partition on; may be repeated.",
            show_default="the calibration rows, cross-fitted",
        ),
    ] = None,
    partition: Annotated[
        Literal["tree", "forest", "boosted"],
        option(
            "--partition",
            panel=PARTITION,
            help="One tree, whose leaves can be read; the mean of a forest; or many shallow trees "
            "in turn, each a small step.",
        ),
    ] = "tree",
    criterion: Annotated[
        Literal["gini", "entropy", "auc"],
        option(
            "--criterion",
            panel=PARTITION,
            help="What a split improves; auc: the area under the ROC curve after calibration.",
        ),
    ] = "gini",
    max_depth: Annotated[
        int | None,
        option(
            "--max-depth",
            metavar="D",
            panel=PARTITION,
            help="Splits between the root and a leaf, at most.",
            show_default="0 to 8 by cross-validation; boosted: 5",
        ),
    ] = None,
    min_leaf: Annotated[
        int | None,
        option(
            "--min-leaf",
            metavar="N",
            panel=PARTITION,
            help="Rows of a leaf, at least.",
            show_default="100 to 2000 by cross-validation; boosted: 20",
        ),
    ] = None,
    trees: Annotated[
        int | None,
        option(
            "--trees",
            metavar="N",
            panel=PARTITION,
            help="Trees of a forest; of a boosted partition at most.",
            show_default="forest: 100; boosted: 1000, stopped early",
        ),
    ] = None,
    max_bins: Annotated[
        int | None,
        option(
            "--max-bins",
            metavar="N",
            panel=PARTITION,
            help="Search the cuts of a feature with more distinct values at N quantiles.",
            show_default="1024 beyond 65,535 values; boosted: 255",
        ),
    ] = None,
    map_: Annotated[
        Literal["platt", "beta", "isotonic", "histogram"],
        option("--map", panel=MAPS, help="The map of each leaf."),
    ] = "platt",
    shrinkage: Annotated[
        float | None,
        option(
            "--shrinkage",
            metavar="R",
            panel=MAPS,
            help="Average the map of a leaf of n rows with that of all rows, weights n and R; "
            "0: each leaf its own.",
            show_default="0 to 10,000 by cross-validation",
        ),
    ] = None,
    precalibrate: Annotated[
        Literal["platt", "none"],
        option("--precalibrate", panel=MAPS, help="What all scores go through first."),
    ] = "platt",
    clip: Annotated[
        float,
        option(
            "--clip",
            metavar="EPS",
            panel=MAPS,
            help="Keep calibrated probabilities this far from 0 and 1.",
        ),
    ] = 0.0,
    features: options.Features = None,
    score: options.Score = "score",
    scale: options.Scale = "probability",
    label: options.Label = "label",
    positive: options.Positive = None,
    unlabelled: options.Unlabelled = "error",
    weight: options.Weight = None,
    weight_kind: options.WeightKind = "frequency",
    groups: options.Groups = None,
    time: options.Time = None,
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
    if console.per_input and not partial:
        raise UsageError("hetcal writes one model; name a file by -o.")
    tags = typed.tags(tag)
    from calibkit.hetcal.spec import HetcalSpec
    from calibkit.memory import memory_budget
    from calibkit.rows.columns import ColumnOptions
    from calibkit.threads import thread_count

    from .hetcal_run import HetcalRun

    spec = HetcalSpec(
        partition=partition,
        criterion=criterion,
        max_depth=max_depth,
        min_leaf=min_leaf,
        shrinkage=shrinkage,
        trees=trees,
        map=map_,
        precalibrate=precalibrate,
        clip=clip,
        max_bins=max_bins,
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
        weight=weight,
        weight_kind=weight_kind,
        on_missing=on_missing,
    )
    run = HetcalRun(
        console=console,
        spec=spec,
        columns=columns,
        features=typed.listed(features) or ["feature_*"],
        train=train or [],
        input_format=input_format,
        dtype=dtype,
        memory=memory_budget(memory),
        provenance=provenance,
        tags=tags,
    )
    cluster.start(run, inputs, dask, input_format, dtype, dry_run=dry_run, partial=partial)
