"""``calibkit plot positivity``: positivity by score for each uncertainty level."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from calibkit_cli import evaluate_options as own
from calibkit_cli import options
from calibkit_cli.options import option

from . import common

HELP = """Draw the share of positives by score, a line for each uncertainty level.

Where the lines differ, one threshold on the score is not enough (Arora et al., figure 1a). INPUT: rows,
or a table of `calibkit bin`.

Examples:

  calibkit plot positivity test.parquet -o positivity.svg

  calibkit plot positivity test.parquet --uncertainty-bins 5 --score-bins 20 -o positivity.svg

  calibkit plot positivity grid.parquet -o positivity.png
"""


def register(kinds: typer.Typer) -> None:
    """Add this kind of picture."""
    common.add_kind(kinds, "positivity", HELP, positivity)


def positivity(
    drawing: common.Drawing,
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
            show_default="3; 1 for rows without uncertainty",
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
            show_default="12, fewer for few rows",
        ),
    ] = None,
    strategy: Annotated[
        Literal["equal-mass", "equal-width"],
        option("--strategy", panel=common.BINS, help="Bins of equal mass or of equal width."),
    ] = "equal-mass",
    confidence: own.Confidence = 0.95,
    no_intervals: own.NoIntervals = False,
    axis: common.Axis = "value",
) -> None:
    """Parse, compute, draw."""
    from calibkit.report.grid_points import GridSpec
    from calibkit.rows.columns import ColumnOptions

    spec = GridSpec(
        columns=ColumnOptions(
            score=score,
            scale=scale,
            label=label,
            positive=positive,
            unlabelled=unlabelled,
            uncertainty=uncertainty,
            weight=weight,
            on_missing=drawing.on_missing,
        ),
        uncertainty_bins=uncertainty_bins,
        score_bins=score_bins,
        strategy=strategy,
        axis=axis,
        confidence=None if no_intervals else confidence,
        threads=drawing.threads,
    )
    drawing.grid(spec)
