"""An evaluation from its rows to its metrics: see `calibkit.summaries.runs.Run`."""

from __future__ import annotations

from calibkit.evaluation.batches import evaluate_merged as finish
from calibkit.evaluation.batches import evaluate_state as state
from calibkit.evaluation.evaluate import evaluate as fit
from calibkit.evaluation.rows import columns_used
from calibkit.files.sources import Source
from calibkit.options.evaluate import EvaluateOptions
from calibkit.summaries.runs import Plan

__all__ = ["finish", "fit", "plan", "state"]


def plan(options: EvaluateOptions, source: Source) -> Plan:
    """Return what an evaluation would do."""
    return Plan(columns_used(options, source), options.steps())
