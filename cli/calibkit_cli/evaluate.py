"""``calibkit evaluate``: metrics of scores, decisions and class probabilities."""

from __future__ import annotations

import typer

from calibkit.errors import UsageError

from . import cluster, options, states, typed
from . import evaluate_options as own
from .console import Console

HELP = """Judge scores by labels: ranking, calibration and decisions, with intervals.

The result is metrics.json, as DVC and MLflow read it: a number for each score, slice and metric.

Examples:

  calibkit evaluate test.parquet -o metrics.json

  calibkit evaluate test.parquet --score new --score old --baseline old --top 0.02,0.1

  calibkit evaluate test.csv --boundary boundary.json --by country -o metrics.json

  calibkit evaluate test.parquet --boundary boundary.json --report report.html -o metrics.json

  calibkit evaluate test.parquet --metrics auc,ece --fail-if 'auc<0.75' -o metrics.json

  calibkit evaluate test.parquet --probs 'prob_*' --label class -o metrics.json

  calibkit evaluate votes.parquet --probs 'prob_*' --counts 'count_*' -o metrics.json
"""


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("evaluate", help=HELP)(evaluate)


def evaluate(
    inputs: options.Inputs,
    score: own.Scores = None,
    baseline: own.Baseline = None,
    scale: options.Scale = "probability",
    label: options.Label = "label",
    positive: options.Positive = None,
    unlabelled: options.Unlabelled = "error",
    uncertainty: options.Uncertainty = None,
    weight: options.Weight = None,
    weight_kind: options.WeightKind = "frequency",
    groups: options.Groups = None,
    probs: options.Probs = None,
    counts: options.Counts = None,
    top: own.Top = None,
    top_by: own.TopBy = None,
    by: options.By = None,
    min_rows: own.MinRows = 100,
    bins: own.Bins = 15,
    bin_strategy: own.BinStrategy = "equal-width",
    recall_at_precision: own.RecallAtPrecision = None,
    precision_at_recall: own.PrecisionAtRecall = None,
    boundary: own.Boundary = None,
    decision: own.Decision = None,
    grid: own.Grid = None,
    grid_score: own.GridScore = None,
    metrics: own.MetricNames = None,
    prevalence: own.Prevalence = None,
    confidence: own.Confidence = 0.95,
    no_intervals: own.NoIntervals = False,
    ensemble: own.Ensemble = False,
    alpha0: own.Alpha0 = None,
    disagreement: own.Disagreement = None,
    class_disagreement: own.ClassDisagreement = None,
    on_missing: options.OnMissing = "error",
    input_format: options.InputFormat = None,
    dtype: options.Dtype = "float64",
    output: options.Output = None,
    reliability: own.Reliability = None,
    plot: own.Plot = None,
    report: own.Report = None,
    fail_if: options.FailIf = None,
    as_json: options.Json = False,
    seed: options.Seed = 0,
    threads: options.Threads = None,
    dask: cluster.Dask = None,
    memory: options.Memory = None,
    partial: states.Partial = False,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
    warnings: options.Warnings = "show",
    dry_run: options.DryRun = False,
) -> None:
    """Parse, evaluate, print."""
    states.check_output(output, partial)
    console = Console(
        output, as_json, quiet, verbose, warnings, texts=("json", "prom", "csv", "md")
    )
    from calibkit.memory import memory_budget
    from calibkit.metrics.settings import read_bounds, read_metrics, read_prevalence, read_shares
    from calibkit.metrics.spec import EvaluateSpec
    from calibkit.metrics.views import Settings
    from calibkit.raters.spec import read_votes
    from calibkit.rows.columns import ColumnOptions
    from calibkit.threads import thread_count

    from .evaluate_run import EvaluateRun
    from .gates import expressions

    if (probs or counts) and (score or (baseline and counts is None)):
        raise UsageError("--probs and --score: evaluate one of them at a time.")
    votes = read_votes(
        counts, ensemble, typed.listed(alpha0), disagreement, class_disagreement, baseline
    )
    if votes is not None:
        probs, baseline = probs or ["prob_*"], None
    scores = list(
        dict.fromkeys([*([baseline] if baseline else []), *(typed.listed(score) or ["score"])])
    )
    bounds = read_bounds(typed.listed(recall_at_precision), typed.listed(precision_at_recall))
    wanted = read_metrics(typed.listed(metrics), bounds)
    spec = EvaluateSpec(
        scores=tuple(scores),
        columns=ColumnOptions(
            score=scores[0],
            scale=scale,
            label=label,
            positive=positive,
            unlabelled=unlabelled,
            uncertainty=uncertainty,
            weight=weight,
            on_missing=on_missing,
        ),
        settings=Settings(
            scale=scale,
            bins=bins,
            strategy=bin_strategy,
            precisions=tuple(bounds["recall_at_precision"]),
            recalls=tuple(bounds["precision_at_recall"]),
            weighted=weight is not None,
            weight_kind=weight_kind,
            prevalence=read_prevalence(prevalence),
            threads=thread_count(threads),
        ),
        tops=read_shares(typed.listed(top)),
        top_by=top_by,
        by=by,
        min_rows=min_rows,
        metrics=wanted,
        boundary=boundary,
        decision=decision,
        grid=grid,
        grid_score=grid_score,
        groups=groups,
        intervals=not no_intervals,
        confidence=confidence,
        seed=seed,
        probs=tuple(typed.listed(probs)),
        votes=votes,
        curves=bool(reliability or plot or report),
    )
    run = EvaluateRun(
        console=console,
        spec=spec,
        reliability=reliability,
        plot=plot,
        report=report,
        gates=expressions(fail_if),
        memory=memory_budget(memory),
    )
    cluster.start(run, inputs, dask, input_format, dtype, dry_run=dry_run, partial=partial)
