"""The rows of a shard of an evaluation as a state: counted, merged, evaluated."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

from calibkit.errors import UsageError
from calibkit.files.sources import Source
from calibkit.makers import model_hash
from calibkit.memory import Memory
from calibkit.metrics.rows import BOUNDARY, EvaluateRows, grid_of, model_of, reading_of, rows_of
from calibkit.metrics.spec import EvaluateSpec
from calibkit.summaries.plain import as_plain, from_plain
from calibkit.summaries.score_batches import summarise_scores
from calibkit.summaries.score_states import score_state, source_of, summary_of
from calibkit.summaries.states import State

KIND = "evaluate"


@dataclass(frozen=True)
class StoredSpec(EvaluateSpec):
    """What to evaluate, as a state holds it: names stand for a model and a grid."""

    boundary: str | None = None
    grid: str | None = None


@dataclass(frozen=True, kw_only=True)
class EvaluateProblem:
    """What makes metrics of the rows of all shards.

    Attributes
    ----------
    spec
        What to evaluate; a model and a grid stand in it without their paths.
    boundary, grid
        The hashes of the model that decides and of the grid whose cells are taken.
    shape
        Uncertainty levels and score bins of the grid.
    """

    spec: StoredSpec
    boundary: str | None = None
    grid: str | None = None
    shape: tuple[int, int] | None = None


def evaluate_state(source: Source, spec: EvaluateSpec, memory: Memory) -> State:
    """Return the state of the rows of a shard; errors as `read_evaluate_rows`."""
    if spec.probs:
        raise UsageError("--partial goes with scores, not with class probabilities or votes.")
    summary = summarise_scores(source, reading_of(source, spec), memory)
    table = grid_of(spec.grid)
    said = {one.name: getattr(spec, one.name) for one in fields(EvaluateSpec)}
    said["boundary"] = None if spec.boundary is None else BOUNDARY
    said["grid"] = None if spec.grid is None else "grid"
    said["settings"] = replace(spec.settings, threads=1)
    problem = EvaluateProblem(
        spec=StoredSpec(**said),
        boundary=None if spec.boundary is None else model_hash(model_of(spec.boundary)),
        grid=None if table is None else table.fingerprint,
        shape=None if table is None else table.grid.shape,
    )
    return score_state(KIND, {"problem": as_plain(problem)}, summary)


def merged_rows(state: State, memory: Memory, threads: int) -> tuple[EvaluateRows, EvaluateSpec]:
    """Return the rows of a state, and what to evaluate of them.

    Raises
    ------
    ModelError
        For a state of something else.
    ResourceError
        Rows that do not fit, and options that need them as they are.
    """
    problem = from_plain(state.header.options.get("problem"), EvaluateProblem, state.path)
    spec = replace(problem.spec, settings=replace(problem.spec.settings, threads=threads))
    rows = summary_of(state).rows(source_of(state), memory)
    if spec.needs_each is not None:
        rows.need_each(spec.needs_each)
    return rows_of(rows, spec, problem.shape), spec
