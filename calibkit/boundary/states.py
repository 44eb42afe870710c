"""States of a boundary: the rows of a shard, and the problem they are a part of."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from calibkit.bins.grid_table import is_grid_table
from calibkit.boundary.reading import BoundaryReader
from calibkit.boundary.spec import BoundarySpec
from calibkit.errors import UsageError
from calibkit.files.sources import Source
from calibkit.makers import makers_of
from calibkit.memory import Memory
from calibkit.rows.columns import ScoreRows
from calibkit.summaries.plain import as_plain, from_plain
from calibkit.summaries.score_states import score_state, source_of, summary_of
from calibkit.summaries.states import State

KIND = "boundary"


@dataclass(frozen=True, kw_only=True)
class BoundaryProblem:
    """What makes a boundary of the rows of all shards: what a run of the command says.

    Attributes
    ----------
    spec, auto_levels, edges
        See `calibkit.boundary.reading.BoundaryReader`.
    provenance, tags, makers
        What the model says of its origin.
    """

    spec: BoundarySpec
    auto_levels: bool = False
    edges: tuple[float, ...] = ()
    provenance: str = "hash"
    tags: dict[str, str] = field(default_factory=dict)
    makers: dict[str, str] = field(default_factory=dict)


def boundary_state(
    source: Source, reader: BoundaryReader, problem: BoundaryProblem, memory: Memory
) -> State:
    """Return the state of the rows of a shard.

    Raises
    ------
    UsageError, DataError, ResourceError
        As the reader.
    """
    if is_grid_table(source):
        raise UsageError("a grid is a summary already; --partial takes rows.")
    summary = reader.summary(source, memory)
    makers = makers_of(source, summary.options, problem.makers)
    problem = replace(problem, spec=replace(problem.spec, threads=1), makers=makers)
    files = source.paths if problem.provenance == "names" else ()
    return score_state(KIND, {"problem": as_plain(problem)}, summary, files)


def read_problem(state: State, threads: int) -> BoundaryProblem:
    """Return the problem that a state is a part of.

    Raises
    ------
    ModelError
        For a state that holds none.
    """
    problem = from_plain(state.header.options.get("problem"), BoundaryProblem, state.path)
    return replace(problem, spec=replace(problem.spec, threads=threads))


def merged_rows(state: State, problem: BoundaryProblem, memory: Memory) -> tuple[ScoreRows, Source]:
    """Return the rows of a state, and a source that names its shards.

    Raises
    ------
    ResourceError
        Rows that do not fit, and options that need them as they are.
    """
    summary, source = summary_of(state), source_of(state)
    reader = BoundaryReader(
        spec=problem.spec,
        columns=summary.options,
        auto_levels=problem.auto_levels,
        edges=problem.edges,
        memory=memory,
    )
    return reader.merged(summary, source), source
