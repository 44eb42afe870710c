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
    common.add_kind(kinds, "heatmap", HELP, heatmap)


def heatmap(
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
        boundaries=tuple(common.names(boundary)),
        threads=drawing.threads,
    )
    drawing.grid(spec)
