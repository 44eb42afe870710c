"""``calibkit plot auc-lift``: AUC over that of a baseline."""

from __future__ import annotations

import typer

from calibkit_cli import evaluate_options as own
from calibkit_cli import options, typed

from . import common

HELP = """Draw by how much the AUC of scores exceeds the baseline's, on all rows or run by run.

With `--by` (a column, or `key=value` folders, one a run) a box stands over the runs of each score;
without, the paired interval (Durfee et al., figure 3).

Examples:

  calibkit plot auc-lift test.parquet --baseline score --score calibrated -o lift.svg

  calibkit plot auc-lift runs/ --baseline score --score calibrated --by run -o lift.svg
"""


def register(kinds: typer.Typer) -> None:
    """Add this kind of picture."""
    common.add_kind(kinds, "auc-lift", HELP, auc_lift)


def auc_lift(
    drawing: common.Drawing,
    score: own.Scores = None,
    baseline: own.Baseline = None,
    scale: options.Scale = "probability",
    label: options.Label = "label",
    positive: options.Positive = None,
    unlabelled: options.Unlabelled = "error",
    weight: options.Weight = None,
    weight_kind: options.WeightKind = "frequency",
    groups: options.Groups = None,
    by: options.By = None,
    min_rows: own.MinRows = 100,
    confidence: own.Confidence = 0.95,
    no_intervals: own.NoIntervals = False,
) -> None:
    """Parse, compute, draw."""
    from calibkit.options.evaluate import EvaluateOptions

    scores = list(
        dict.fromkeys([*([baseline] if baseline else []), *(typed.listed(score) or ["score"])])
    )
    spec = EvaluateOptions(
        scores=tuple(scores),
        scale=scale,
        label=label,
        positive=positive,
        unlabelled=unlabelled,
        weight=weight,
        on_missing=drawing.on_missing,
        weight_kind=weight_kind,
        threads=drawing.threads,
        by=by,
        min_rows=min_rows,
        groups=groups,
        intervals=not no_intervals,
        confidence=confidence,
    )
    drawing.evaluated(spec)
