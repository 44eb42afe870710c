"""``calibkit bin``: count rows over uncertainty bins and score bins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from . import options
from .console import Console
from .each_input import Rows, Tell, write_rows
from .options import option

if TYPE_CHECKING:
    from calibkit.sources import Source

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
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
    warnings: options.Warnings = "show",
    dry_run: options.DryRun = False,
) -> None:
    """Parse, count, write."""
    console = Console(
        output, as_json, quiet, verbose, warnings, tabular=True, output_format=output_format
    )
    from calibkit.binning import fit_grid, grid_frame, grid_metadata
    from calibkit.columns import ColumnOptions, read_score_rows, resolve
    from calibkit.grid_table import default_bins
    from calibkit.sources import open_source
    from calibkit.threads import thread_count

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
    source = open_source(inputs, input_format=input_format, dtype=dtype)
    if dry_run:
        from .dry_run import show_plan, used_columns

        resolved = resolve(source, columns, label=True, uncertainty=True)
        bins = uncertainty_bins or default_bins(resolved)
        step = f"count {source.rows:,} rows over {bins} x {score_bins} bins ({strategy}, {order})"
        show_plan(console, source, used_columns(resolved, label=True), [step])
        return

    def make(part: Source, tell: Tell) -> Rows:
        rows = read_score_rows(part, columns)
        console.summary(*rows.notes)
        bins = uncertainty_bins or default_bins(rows.options)
        console.detail(f"{rows.score.size:,} rows used of {rows.rows_read:,} read")
        grid = fit_grid(
            rows, bins, score_bins, strategy=strategy, order=order, threads=thread_count(threads)
        )
        frame = grid_frame(grid)
        return Rows([frame], frame.columns, rows.warnings, grid_metadata(grid, rows, strategy))

    write_rows(console, source, make)
