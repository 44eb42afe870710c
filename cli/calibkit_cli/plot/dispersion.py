"""``calibkit plot dispersion``: where the epistemic loss comes from."""

from __future__ import annotations

import typer

from calibkit_cli import evaluate_options as own
from calibkit_cli import options, typed

from . import common

HELP = """Draw the calibration-dispersion map of class probabilities that several raters judge.

Each pattern of `--probs` is a point; calibration and dispersion loss add up to the epistemic loss
(Mimori et al., figure 2a).

Examples:

  calibkit plot dispersion votes.parquet --probs 'prob_*' --counts 'count_*' -o map.svg

  calibkit plot dispersion votes.parquet --probs 'a_*,b_*' --counts 'count_*' -o map.png
"""


def register(kinds: typer.Typer) -> None:
    """Add this kind of picture."""
    common.add_kind(kinds, "dispersion", HELP, dispersion, threads=False)


def dispersion(
    drawing: common.Drawing,
    probs: options.Probs = None,
    counts: options.Counts = None,
    scale: options.Scale = "probability",
    weight: options.Weight = None,
    groups: options.Groups = None,
    ensemble: own.Ensemble = False,
    alpha0: own.Alpha0 = None,
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
        groups=groups,
        intervals=not no_intervals,
        confidence=confidence,
    )
    drawing.evaluated(spec)
