"""``calibkit plot ece-at``: calibration error by score bin."""

from __future__ import annotations

from typing import Annotated

import typer

from calibkit_cli import evaluate_options as own
from calibkit_cli import options
from calibkit_cli.options import option

from . import common

HELP = """Draw calibration error by score bin over the cells of a grid: ECE@j, and cumulative.

The grid bins the first score, or is a table of `calibkit bin` (Arora et al., section C.6, figure 8).

Examples:

  calibkit plot ece-at test.parquet --score score,calibrated -o ece.svg

  calibkit plot ece-at test.parquet --score a,b --grid grid.parquet --grid-score score -o ece.svg
"""


def register(kinds: typer.Typer) -> None:
    """Add this kind of picture."""
    common.add_kind(kinds, "ece-at", HELP, ece_at)


def ece_at(
    drawing: common.Drawing,
    score: own.Scores = None,
    label: options.Label = "label",
    positive: options.Positive = None,
    unlabelled: options.Unlabelled = "error",
    uncertainty: options.Uncertainty = None,
    weight: options.Weight = None,
    grid: own.Grid = None,
    grid_score: own.GridScore = None,
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
        int, option("--score-bins", metavar="L", panel=common.BINS, min=1, help="Score bins.")
    ] = 20,
) -> None:
    """Parse, compute, draw."""
    from calibkit.metrics.views import Settings
    from calibkit.report.ece_at import EceSpec
    from calibkit.rows.columns import ColumnOptions

    spec = EceSpec(
        scores=tuple(common.names(score) or ["score"]),
        columns=ColumnOptions(
            score=grid_score or (common.names(score) or ["score"])[0],
            label=label,
            positive=positive,
            unlabelled=unlabelled,
            uncertainty=uncertainty,
            weight=weight,
            on_missing=drawing.on_missing,
        ),
        grid=grid,
        grid_score=grid_score,
        uncertainty_bins=uncertainty_bins,
        score_bins=score_bins,
        settings=Settings(weighted=weight is not None, threads=drawing.threads),
    )
    drawing.grid(spec)
