"""``calibkit plot recall-gain``: recall that uncertainty gains."""

from __future__ import annotations

from typing import Annotated

import typer

from calibkit_cli import options, typed
from calibkit_cli.options import option

from . import common

HELP = """Draw how much recall uncertainty gains over one threshold, by the bound on precision.

Below stands by how much each misses its bound on the rows it is judged on: a gain bought with precision
is none (Arora et al., figure 6a, shows recall alone). Each point is a fit.

Examples:

  calibkit plot recall-gain calib.parquet --test test.parquet -o gain.svg

  calibkit plot recall-gain calib.parquet --precision 0.6,0.7,0.8 --method exact,logistic -o gain.svg
"""


def register(kinds: typer.Typer) -> None:
    """Add this kind of picture."""
    common.add_kind(kinds, "recall-gain", HELP, recall_gain)


def recall_gain(
    drawing: common.Drawing,
    score: options.Score = "score",
    scale: options.Scale = "probability",
    label: options.Label = "label",
    positive: options.Positive = None,
    unlabelled: options.Unlabelled = "error",
    uncertainty: options.Uncertainty = None,
    weight: options.Weight = None,
    weight_kind: options.WeightKind = "frequency",
    precision: Annotated[
        list[str] | None,
        option(
            "--precision",
            metavar="LIST",
            panel=common.BINS,
            help="Bounds on precision.",
            show_default="0.5,0.6,0.7,0.8,0.9",
        ),
    ] = None,
    method: Annotated[
        list[str] | None,
        option(
            "--method",
            metavar="LIST",
            panel=common.BINS,
            help="Methods of `calibkit boundary` to compare with st, one threshold.",
            show_default="exact,mist,logistic",
        ),
    ] = None,
    test: Annotated[
        str | None,
        option(
            "--test",
            metavar="FILE",
            panel=common.BINS,
            help="Rows on which boundaries are judged.",
            show_default="cross-validation",
        ),
    ] = None,
    uncertainty_bins: Annotated[
        int | None,
        option(
            "--uncertainty-bins",
            metavar="K",
            panel=common.BINS,
            min=1,
            help="Uncertainty bins.",
            show_default="3 (logistic: 100); 1 for rows without uncertainty",
        ),
    ] = None,
    score_bins: Annotated[
        int | None,
        option(
            "--score-bins",
            metavar="L",
            panel=common.BINS,
            min=1,
            help="Score bins of the methods that need some.",
            show_default="500",
        ),
    ] = None,
    folds: Annotated[
        int,
        option(
            "--folds", metavar="F", panel=common.BINS, min=2, help="Folds of the cross-validation."
        ),
    ] = 5,
    seed: options.Seed = 0,
) -> None:
    """Parse, compute, draw."""
    from calibkit.files.sources import open_source
    from calibkit.report import recall_gain as gains
    from calibkit.rows.columns import ColumnOptions

    unset = gains.GainSpec()
    spec = gains.GainSpec(
        columns=ColumnOptions(
            score=score,
            scale=scale,
            label=label,
            positive=positive,
            unlabelled=unlabelled,
            uncertainty=uncertainty,
            weight=weight,
            weight_kind=weight_kind,
            on_missing=drawing.on_missing,
        ),
        methods=tuple(common.names(method)) or unset.methods,
        bounds=tuple(typed.listed(precision)) or unset.bounds,
        uncertainty_bins=uncertainty_bins,
        score_bins=score_bins,
        folds=folds,
        seed=seed,
        threads=drawing.threads,
    )
    source = drawing.source()
    held = None if test is None else open_source([test], dtype=drawing.dtype)
    drawing.draw(
        source,
        common.grid_columns(source, spec.columns),
        lambda rows: gains.points(rows, spec, held),
    )
