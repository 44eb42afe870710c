"""What has to be evaluated for a picture, and which curves go with an evaluation."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from calibkit.metrics.settings import read_shares
from calibkit.metrics.spec import EvaluateSpec
from calibkit.metrics.views import Settings
from calibkit.options.option import listed
from calibkit.options.plot import CurveOptions, JudgedPlot, ScorePlot, VotePlot
from calibkit.options.shared import ColumnOptions
from calibkit.raters.spec import read_votes


def judged(options: JudgedPlot) -> EvaluateSpec:
    """Return what to evaluate for a picture of metrics.

    Raises
    ------
    UsageError
        For options that do not go together.
    """
    names = options.names if isinstance(options, ScorePlot) else ("score",)
    columns = replace(options.part(ColumnOptions), score=names[0], uncertainty=None)
    asked = {
        name: getattr(options, name)
        for name in ("top_by", "by", "min_rows", "decision", "groups", "seed")
        if hasattr(options, name)
    }
    settings, votes = Settings(), None
    if isinstance(options, ScorePlot):
        columns = replace(columns, weight_kind="frequency")
        settings = Settings(
            scale=options.scale,
            bins=getattr(options, "bins", settings.bins),
            strategy=getattr(options, "bin_strategy", settings.strategy),
            weighted=options.weight is not None,
            weight_kind=options.weight_kind,
            threads=options.workers,
        )
    if isinstance(options, VotePlot):
        disagreement = getattr(options, "disagreement", None)
        alpha0 = listed(options.alpha0 or ())
        votes = read_votes(options.counts, options.ensemble, alpha0, disagreement, None, None)
    return EvaluateSpec(
        scores=names,
        columns=columns,
        settings=settings,
        tops=read_shares(getattr(options, "top", ())),
        probs=tuple(dict.fromkeys(getattr(options, "probs", None) or ())),
        votes=votes,
        intervals=options.intervals,
        confidence=options.confidence,
        **asked,
    )


def curves_of(kind: type[CurveOptions], spec: EvaluateSpec) -> CurveOptions:
    """Return which curves to draw of what was evaluated."""
    return kind(
        scores=spec.scores,
        uncertainty=spec.columns.uncertainty,
        boundary=spec.boundary if isinstance(spec.boundary, str) else (),
        decision=spec.decision,
        weight_kind=spec.settings.weight_kind,  # type: ignore[arg-type]
        groups=spec.groups,
        confidence=spec.confidence,
        intervals=spec.intervals,
        threads=spec.settings.threads,
        **columns_of(spec),
    )


def columns_of(spec: EvaluateSpec) -> dict[str, Any]:
    """Return how the columns of an evaluation are read, as options."""
    names = ("scale", "label", "positive", "unlabelled", "weight", "on_missing")
    return {name: getattr(spec.columns, name) for name in names}
