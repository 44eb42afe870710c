"""An evaluation from its rows to its metrics: see `calibkit.fitted.Run`."""

from __future__ import annotations

from calibkit.files.sources import Source
from calibkit.fitted import Plan
from calibkit.metrics.batches import evaluate_merged as finish
from calibkit.metrics.batches import evaluate_state as state
from calibkit.metrics.evaluate import evaluate as fit
from calibkit.metrics.rows import columns_used
from calibkit.options.evaluate import EvaluateOptions

__all__ = ["finish", "fit", "plan", "state"]


def plan(options: EvaluateOptions, source: Source) -> Plan:
    """Return what an evaluation would do."""
    return Plan(columns_used(options, source), options.steps())
