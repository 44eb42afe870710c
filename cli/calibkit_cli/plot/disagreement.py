"""``calibkit plot disagreement``: reliability of the predicted disagreement."""

from __future__ import annotations

import typer

from calibkit_cli import evaluate_options as own
from calibkit_cli import options, typed

from . import common

HELP = """Draw how often raters disagree against the predicted probability that they do.

The prediction follows from the class probabilities, or is a column, `--disagreement`. With `--alpha0`,
strengths as alpha-cal adds them, it is drawn with them and without (Mimori et al., figure 2b).

Examples:

  calibkit plot disagreement votes.parquet --probs 'prob_*' --counts 'count_*' -o disagree.svg

  calibkit plot disagreement votes.parquet --probs 'prob_*' --alpha0 alpha0 -o disagree.svg
"""


def register(kinds: typer.Typer) -> None:
    """Add this kind of picture."""
    common.add_kind(kinds, "disagreement", HELP, disagreement, threads=False)


def disagreement(
    drawing: common.Drawing,
    probs: options.Probs = None,
    counts: options.Counts = None,
    scale: options.Scale = "probability",
    weight: options.Weight = None,
    groups: options.Groups = None,
    ensemble: own.Ensemble = False,
    alpha0: own.Alpha0 = None,
    disagreement: own.Disagreement = None,
    by: options.By = None,
    min_rows: own.MinRows = 100,
    confidence: own.Confidence = 0.95,
    no_intervals: own.NoIntervals = False,
) -> None:
    """Parse, compute, draw."""
    from calibkit.options.evaluate import EvaluateOptions

    spec = EvaluateOptions(
        scale=scale,
        weight=weight,
        on_missing=drawing.on_missing,
        probs=tuple(common.names(probs) or ["prob_*"]),
        counts=counts or "count_*",
        ensemble=ensemble,
        alpha0=tuple(typed.listed(alpha0)),
        disagreement=disagreement,
        by=by,
        min_rows=min_rows,
        groups=groups,
        intervals=not no_intervals,
        confidence=confidence,
    )
    drawing.evaluated(spec)
