"""The decisions of an evaluation by what they cost, at all costs at once."""

from __future__ import annotations

from functools import partial

import polars as pl

from calibkit.evaluation.rows import EvaluateRows
from calibkit.evaluation.slices import ALL
from calibkit.measures.decisions import confusion_of
from calibkit.measures.net_benefit import NET_BENEFIT, Flagged, curves
from calibkit.measures.views import Sample, view_of
from calibkit.options.evaluate import EvaluateOptions


def models_of(options: EvaluateOptions, rows: EvaluateRows) -> list[Flagged]:
    """Return the decisions that are judged, if any, and each score at all thresholds."""
    sample = partial(Sample, label=rows.label, weight=rows.weight, times=rows.times)
    found = []
    for name, taken in rows.decisions.items():
        judged = confusion_of(sample(score=taken), name, ALL, options.settings)
        found.append(Flagged.of_decisions(judged))
    for name, score in rows.scores.items():
        found.append(Flagged.of(view_of(sample(score=score), name, ALL, options.settings)))
    return found


def decision_curves(options: EvaluateOptions, rows: EvaluateRows) -> pl.DataFrame:
    """Return net benefit by threshold and model: see `calibkit.measures.net_benefit`."""
    confidence = options.confidence if options.intervals else None
    return curves(models_of(options, rows), NET_BENEFIT, confidence, options.seed)
