"""``calibkit plot heatmap``: positivity over score and uncertainty."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from calibkit_cli import options
from calibkit_cli.options import option

from . import common

HELP = """Draw the share of positives over score and uncertainty, with boundaries drawn in.

Uncertainties stand at their rank: the height of a level is its share of the rows (Arora et al., figure
1b). INPUT: rows, or a table of `calibkit bin`.

Examples:

  calibkit plot heatmap test.parquet --boundary boundary.json -o heatmap.svg

  calibkit plot heatmap test.parquet --boundary st.json,exact.json --score-bins 30 -o heatmap.png
"""


def register(kinds: typer.Typer) -> None:
    """Add this kind of picture."""
    kinds.command("heatmap", help=HELP)(heatmap)


def heatmap(
    inputs: options.Inputs,
    score: options.Score = "score",
    scale: options.Scale = "probability",
    label: options.Label = "label",
    positive: options.Positive = None,
    unlabelled: options.Unlabelled = "error",
    uncertainty: options.Uncertainty = None,
    weight: options.Weight = None,
    uncertainty_bins: Annotated[
        int | None,
        option(
            "--uncertainty-bins",
            metavar="K",
            panel=common.BINS,
            min=1,
            help="Uncertainty bins.",
            show_default="10; 1 for rows without uncertainty",
        ),
    ] = None,
    score_bins: Annotated[
        int | None,
        option(
            "--score-bins",
            metavar="L",
            panel=common.BINS,
            min=1,
            help="Score bins.",
            show_default="20, fewer for few rows",
        ),
    ] = None,
    strategy: Annotated[
        Literal["equal-mass", "equal-width"],
        option("--strategy", panel=common.BINS, help="Bins of equal mass or of equal width."),
    ] = "equal-mass",
    boundary: Annotated[
        list[str] | None,
        option(
            "--boundary",
            metavar="MODEL",
            panel=common.BINS,
            help="A boundary to draw; may be repeated.",
            show_default=False,
        ),
    ] = None,
    axis: common.Axis = "value",
    on_missing: options.OnMissing = "error",
    input_format: options.InputFormat = None,
    dtype: options.Dtype = "float64",
    output: options.Output = None,
    output_format: common.OutputFormat = None,
    data: common.Data = None,
    size: common.Size = None,
    width: common.Width = None,
    height: common.Height = None,
    title: common.Title = None,
    dark: common.Dark = False,
    as_json: options.Json = False,
    threads: options.Threads = None,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
    warnings: options.Warnings = "show",
    dry_run: options.DryRun = False,
) -> None:
    """Parse, compute, draw."""
    delivery = common.Delivery.of(
        output,
        output_format,
        data,
        common.look_of(size, width, height, title, dark),
        as_json=as_json,
        quiet=quiet,
        verbose=verbose,
        warnings=warnings,
    )
    from calibkit.files.sources import open_source
    from calibkit.report import plots
    from calibkit.report.grid_points import GridSpec
    from calibkit.rows.columns import ColumnOptions
    from calibkit.threads import thread_count

    spec = GridSpec(
        columns=ColumnOptions(
            score=score,
            scale=scale,
            label=label,
            positive=positive,
            unlabelled=unlabelled,
            uncertainty=uncertainty,
            weight=weight,
            on_missing=on_missing,
        ),
        uncertainty_bins=uncertainty_bins,
        score_bins=score_bins,
        strategy=strategy,
        axis=axis,
        boundaries=tuple(common.names(boundary)),
        threads=thread_count(threads),
    )
    source = open_source(inputs, input_format=input_format, dtype=dtype)
    delivery.plot(
        source,
        lambda rows: plots.points("heatmap", rows, spec),
        common.grid_columns(source, spec.columns),
        dry_run=dry_run,
    )
