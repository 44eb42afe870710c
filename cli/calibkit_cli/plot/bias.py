"""``calibkit plot bias``: calibration among the highest scores."""

from __future__ import annotations

import typer

from calibkit_cli import evaluate_options as own
from calibkit_cli import options, typed

from . import common

HELP = """Draw calibration bias and error among the rows with the highest scores.

Such as of scores before and after VAD. The rows of a share are the same for all scores: those with the
highest first score, or `--top-by` (Fan et al., figure 2).

Examples:

  calibkit plot bias test.parquet --score score_1,calibrated -o bias.svg

  calibkit plot bias test.parquet --score score_1,calibrated --top 0.01,0.1,1 --bins 50 -o bias.svg
"""


def register(kinds: typer.Typer) -> None:
    """Add this kind of picture."""
    common.add_kind(kinds, "bias", HELP, bias)


def bias(
    drawing: common.Drawing,
    score: own.Scores = None,
    scale: options.Scale = "probability",
    label: options.Label = "label",
    positive: options.Positive = None,
    unlabelled: options.Unlabelled = "error",
    weight: options.Weight = None,
    weight_kind: options.WeightKind = "frequency",
    groups: options.Groups = None,
    top: own.Top = None,
    top_by: own.TopBy = None,
    bins: own.Bins = 15,
    bin_strategy: own.BinStrategy = "equal-mass",
    confidence: own.Confidence = 0.95,
    no_intervals: own.NoIntervals = False,
    seed: options.Seed = 0,
) -> None:
    """Parse, compute, draw."""
    from calibkit.options.evaluate import EvaluateOptions

    scores = common.names(score) or ["score"]
    spec = EvaluateOptions(
        scores=tuple(scores),
        scale=scale,
        label=label,
        positive=positive,
        unlabelled=unlabelled,
        weight=weight,
        on_missing=drawing.on_missing,
        bins=bins,
        bin_strategy=bin_strategy,
        weight_kind=weight_kind,
        threads=drawing.threads,
        top=tuple(typed.listed(top) or common.TOPS),
        top_by=top_by,
        groups=groups,
        seed=seed,
        intervals=not no_intervals,
        confidence=confidence,
    )
    drawing.evaluated(spec)
