"""An evaluation from its rows to its metrics: see `calibkit.summaries.runs.Run`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import msgspec

from calibkit.errors import UsageError
from calibkit.evaluation.evaluate import Evaluated, evaluate_rows
from calibkit.evaluation.evaluate import evaluate as fit
from calibkit.evaluation.rows import columns_used, grid_of, reading_of, rows_of
from calibkit.files.sources import Source
from calibkit.models.lineage import model_hash
from calibkit.options.evaluate import EvaluateOptions
from calibkit.options.option import from_plain as options_from_plain
from calibkit.options.option import plain
from calibkit.runtime.memory import Memory, memory_budget
from calibkit.summaries.runs import Plan
from calibkit.summaries.score_batches import summarise_scores
from calibkit.summaries.score_states import rows_of_state, score_state
from calibkit.summaries.states import State, from_plain

__all__ = ["finish", "fit", "plan", "state"]

KIND: Final = "evaluate"


class Problem(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What makes metrics of the rows of all shards.

    Attributes
    ----------
    asked
        The options, without those that a shard has done with.
    boundary, grid
        The hashes of the model that decided and of the grid whose cells were taken.
    columns
        The uncertainties and the scores that these two read.
    shape
        Uncertainty levels and score bins of the grid.
    """

    asked: dict[str, Any]
    boundary: str | None
    grid: str | None
    columns: tuple[str | None, str | None]
    shape: tuple[int, int] | None


def plan(options: EvaluateOptions, source: Source) -> Plan:
    """Return what an evaluation would do."""
    return Plan(columns_used(options, source), options.steps())


def state(options: EvaluateOptions, source: Source) -> State:
    """Return the state of the rows of a shard; errors as `read_evaluate_rows`."""
    if options.patterns:
        raise UsageError("--partial goes with scores, not with class probabilities or votes.")
    memory = source.memory or memory_budget(None)
    summary = summarise_scores(source, reading_of(options, source), memory)
    table = grid_of(options.grid)
    left = replace(
        options, boundary=None, grid=None, grid_score=None, uncertainty=None, threads=None
    )
    problem = Problem(
        asked=plain(left),
        boundary=None if options.model is None else model_hash(options.model),
        grid=None if table is None else table.fingerprint,
        columns=(options.uncertainty, options.grid_score),
        shape=None if table is None else table.grid.shape,
    )
    return score_state(KIND, {"problem": msgspec.to_builtins(problem)}, summary)


def finish(state: State, memory: Memory, threads: int) -> Evaluated:
    """Return the metrics of the rows of a state.

    Raises
    ------
    ModelError
        For a state of something else.
    ResourceError
        Rows that do not fit, and options that need them as they are.
    """
    problem = from_plain(state.header.options.get("problem"), Problem, state.path)
    options = options_from_plain(problem.asked, EvaluateOptions, state.path, threads=threads)
    rows = rows_of_state(state, memory, options.needs_each)
    return evaluate_rows(options, rows_of(options, rows, problem.shape))
