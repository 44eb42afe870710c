"""``calibkit plot reliability``: the share of positives by score."""

from __future__ import annotations

import typer

from calibkit.errors import UsageError
from calibkit_cli import evaluate_options as own
from calibkit_cli import options

from . import common

HELP = """Draw reliability diagrams: bins with intervals, isotonic regression (CORP), a histogram.

Several scores, or slices by `--by`, share one picture. With `--probs` and a label: the probability of
the class that is predicted, against its being right.

Examples:

  calibkit plot reliability test.parquet -o reliability.svg

  calibkit plot reliability test.parquet --score old,new --size 6x6 -o reliability.png

  calibkit plot reliability test.csv --bins 10 --bin-strategy equal-mass --data bins.csv -o r.svg

  calibkit plot reliability test.parquet --probs 'prob_*' --label class -o reliability.svg
"""


def register(kinds: typer.Typer) -> None:
    """Add this kind of picture."""
    common.add_kind(kinds, "reliability", HELP, reliability)


def reliability(
    drawing: common.Drawing,
    score: own.Scores = None,
    scale: options.Scale = "probability",
    label: options.Label = "label",
    positive: options.Positive = None,
    unlabelled: options.Unlabelled = "error",
    weight: options.Weight = None,
    weight_kind: options.WeightKind = "frequency",
    groups: options.Groups = None,
    probs: options.Probs = None,
    by: options.By = None,
    min_rows: own.MinRows = 100,
    bins: own.Bins = 15,
    bin_strategy: own.BinStrategy = "equal-width",
    confidence: own.Confidence = 0.95,
    no_intervals: own.NoIntervals = False,
) -> None:
    """Parse, compute, draw."""
    from calibkit.options.evaluate import EvaluateOptions

    if probs and score:
        raise UsageError("--probs and --score: draw one of them at a time.")
    scores = common.names(score) or ["score"]
    spec = EvaluateOptions(
        scores=None if probs else tuple(scores),
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
        by=by,
        min_rows=min_rows,
        groups=groups,
        probs=tuple(common.names(probs)),
        intervals=not no_intervals,
        confidence=confidence,
    )
    drawing.evaluated(spec)
