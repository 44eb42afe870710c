"""``calibkit boundary``: fit a decision boundary over score and uncertainty."""

from __future__ import annotations

import typer

from . import boundary_options as own
from . import cluster, options, states, typed
from .console import Console

HELP = """Fit a decision boundary over score and uncertainty.

In each uncertainty level the rows from one score threshold up are selected; the thresholds together
reach the most recall within a bound, the most precision at a recall bound, or the best value of a
measure or a cost. Recall may count value instead of rows, rates may be those of another base rate,
and each value of a column may have thresholds of its own.

Examples:

  calibkit boundary calib.parquet --precision 0.9 -o boundary.json

  calibkit boundary calib.parquet --precision 0.9 --test test.parquet --compare

  calibkit boundary calib.parquet --precision 0.9 --confidence 0.95 -o boundary.json

  calibkit boundary calib.csv --recall 0.5 --method st --test test.csv -o boundary.json

  calibkit boundary calib.parquet --precision 0.9 --value amount --by country -o boundary.json

  zcat scores.csv.gz | calibkit boundary - --precision 0.8 --score p --label y > boundary.json
"""


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("boundary", help=HELP)(boundary)


def boundary(
    inputs: options.Inputs,
    precision: own.Precision = None,
    recall: own.Recall = None,
    fpr: own.Fpr = None,
    capacity: own.Capacity = None,
    maximize: own.Maximize = None,
    minimize: own.Minimize = None,
    prevalence: own.Prevalence = None,
    method: own.Method = "auto",
    uncertainty_bins: own.UncertaintyBins = None,
    score_bins: own.ScoreBins = None,
    strategy: own.Strategy = "equal-mass",
    order: own.Order = "uncertainty-score",
    randomise: own.Randomise = "block",
    folds: own.Folds = 5,
    confidence: own.Confidence = None,
    test: own.Test = None,
    compare: own.Compare = False,
    frontier: own.Frontier = None,
    score: options.Score = "score",
    scale: options.Scale = "probability",
    label: options.Label = "label",
    positive: options.Positive = None,
    unlabelled: options.Unlabelled = "error",
    uncertainty: options.Uncertainty = None,
    value: own.Value = None,
    weight: options.Weight = None,
    weight_kind: options.WeightKind = "frequency",
    groups: options.Groups = None,
    time: options.Time = None,
    by: options.By = None,
    bound: own.Bounded = "overall",
    min_group_positives: own.MinGroupPositives = None,
    calibrator: own.Calibrator = None,
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
    uncertainty_edges: states.UncertaintyEdges = None,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
    warnings: options.Warnings = "show",
    dry_run: options.DryRun = False,
) -> None:
    """Parse, fit, print."""
    states.check_output(output, partial)
    console = Console(output, as_json, quiet, verbose, warnings)
    tags = typed.tags(tag)
    from calibkit.boundary.certificate_tests import read_confidence
    from calibkit.boundary.spec import BoundarySpec
    from calibkit.boundary.target import read_target
    from calibkit.makers import model_hash
    from calibkit.memory import memory_budget
    from calibkit.models import load
    from calibkit.rows.columns import ColumnOptions
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
        },
        value=value,
        prevalence=prevalence,
    )
    budget, edges = memory_budget(memory), states.edges(uncertainty_edges, uncertainty_bins)
    uncertainty_bins = str(len(edges) + 1) if edges else uncertainty_bins
    auto_levels = uncertainty_bins == "auto"
    spec = BoundarySpec(
        target=target,
        method=method,
        uncertainty_bins=None if auto_levels else typed.whole(uncertainty_bins, own.LEVELS),
        score_bins=score_bins,
        strategy=strategy,
        order=order,
        randomise=randomise,
        folds=folds,
        confidence=read_confidence(confidence),
        groups=groups,
        time=time,
        by=by,
        bound=bound,
        min_group_positives=min_group_positives,
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
        weight_kind=weight_kind,
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
        makers={} if calibrator is None else {"score": model_hash(load(calibrator))},
        memory=budget,
        edges=edges,
    )
    cluster.start(run, inputs, dask, input_format, dtype, dry_run=dry_run, partial=partial)
