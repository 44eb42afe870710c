"""``calibkit bin``: count rows over uncertainty bins and score bins."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from . import cluster, options, states
from .console import Console
from .options import option

BINS = "Bins"

HELP = """Count rows and positive rows over a grid of uncertainty bins by score bins.

One row a cell, with its limits, counts, share of positives and mean score.

Examples:

  calibkit bin calib.parquet --uncertainty-bins 3 --score-bins 500 -o grid.parquet

  calibkit bin scores.csv --score-bins 10 --strategy equal-width | column -s, -t
"""


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("bin", help=HELP)(bin_)


def bin_(
    inputs: options.Inputs,
    uncertainty_bins: Annotated[
        int | None,
        option(
            "--uncertainty-bins",
            metavar="K",
            panel=BINS,
            min=1,
            help="Uncertainty bins.",
            show_default="3; 1 for rows without uncertainty",
        ),
    ] = None,
    score_bins: Annotated[
        int, option("--score-bins", metavar="L", panel=BINS, min=1, help="Score bins.")
    ] = 500,
    strategy: Annotated[
        Literal["equal-mass", "equal-width"],
        option("--strategy", panel=BINS, help="Bins of equal mass or of equal width."),
    ] = "equal-mass",
    order: Annotated[
        Literal["uncertainty-score", "score-uncertainty"],
        option(
            "--order",
            panel=BINS,
            help="Which axis is binned first; the other is binned within each of its bins.",
        ),
    ] = "uncertainty-score",
    score: options.Score = "score",
    scale: options.Scale = "probability",
    label: options.Label = "label",
    positive: options.Positive = None,
    unlabelled: options.Unlabelled = "error",
    uncertainty: options.Uncertainty = None,
    weight: options.Weight = None,
    on_missing: options.OnMissing = "error",
    input_format: options.InputFormat = None,
    dtype: options.Dtype = "float64",
    output: options.Output = None,
    output_format: options.OutputFormat = None,
    as_json: options.Json = False,
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
    """Parse, count, write."""
    states.check_output(output, partial)
    console = Console(
        output,
        as_json,
        quiet,
        verbose,
        warnings,
        tabular=not partial,
        output_format=None if partial else output_format,
    )
    from calibkit.bins.grid_rows import GridProblem
    from calibkit.memory import memory_budget
    from calibkit.rows.columns import ColumnOptions
    from calibkit.threads import thread_count

    from .bin_run import BinRun

    given = None if uncertainty_bins is None else str(uncertainty_bins)
    edges = states.edges(uncertainty_edges, given)
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
    problem = GridProblem(
        uncertainty_bins=len(edges) + 1 if edges else uncertainty_bins,
        score_bins=score_bins,
        strategy=strategy,
        order=order,
        edges=edges,
    )
    run = BinRun(
        console=console,
        problem=problem,
        columns=columns,
        memory=memory_budget(memory),
        threads=thread_count(threads),
    )
    cluster.start(run, inputs, dask, input_format, dtype, dry_run=dry_run, partial=partial)
