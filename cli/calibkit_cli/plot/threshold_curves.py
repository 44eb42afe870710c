"""``calibkit plot roc`` and ``plot precision-recall``: two views of a score at every threshold."""

from __future__ import annotations

from typing import Annotated

import typer

from calibkit_cli import evaluate_options as own
from calibkit_cli import options
from calibkit_cli.options import option

from . import common

ROC_HELP = """Draw the ROC curve: recall against the false positive rate, and where boundaries stand.

Examples:

  calibkit plot roc test.parquet -o roc.svg

  calibkit plot roc test.parquet --score old,new --boundary boundary.json,other.json -o roc.png
"""

PRECISION_RECALL_HELP = """Draw precision against recall at every threshold, and where boundaries stand.

Steps, under which average precision is the area. Models of `--boundary` and decisions of `--decision`
are points with intervals.

Examples:

  calibkit plot precision-recall test.parquet -o pr.svg

  calibkit plot precision-recall test.parquet --score old,new --boundary boundary.json -o pr.svg
"""

#: The kinds by the name of the command.
HELPS = {"precision-recall": PRECISION_RECALL_HELP, "roc": ROC_HELP}


def register(kinds: typer.Typer) -> None:
    """Add these kinds of pictures."""
    for kind, text in HELPS.items():
        common.add_kind(kinds, kind, text, draw)


def draw(
    drawing: common.Drawing,
    score: own.Scores = None,
    scale: options.Scale = "probability",
    label: options.Label = "label",
    positive: options.Positive = None,
    unlabelled: options.Unlabelled = "error",
    uncertainty: options.Uncertainty = None,
    weight: options.Weight = None,
    weight_kind: options.WeightKind = "frequency",
    groups: options.Groups = None,
    boundary: Annotated[
        list[str] | None,
        option(
            "--boundary",
            metavar="MODEL",
            panel=own.METRICS,
            help=common.BOUNDARY_HELP,
            show_default=False,
        ),
    ] = None,
    decision: own.Decision = None,
    confidence: own.Confidence = 0.95,
    no_intervals: own.NoIntervals = False,
) -> None:
    """Parse, compute, draw the kind that the command is called by."""
    from calibkit.options.evaluate import EvaluateOptions
    from calibkit.report.ranking_curves import CurveSpec

    scores = common.names(score) or ["score"]
    evaluated = EvaluateOptions(
        scores=tuple(scores),
        scale=scale,
        label=label,
        positive=positive,
        unlabelled=unlabelled,
        weight=weight,
        on_missing=drawing.on_missing,
        weight_kind=weight_kind,
        threads=drawing.threads,
        decision=decision,
        groups=groups,
        intervals=not no_intervals,
        confidence=confidence,
    )
    spec = CurveSpec(
        evaluate=evaluated,
        boundaries=tuple(common.names(boundary)),
        uncertainty=uncertainty,
    )
    drawing.evaluated(evaluated, spec)
