"""States of a calibrator: the rows of a shard, and the problem they are a part of."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from calibkit.calibrators.rows import calibration_summary
from calibkit.calibrators.spec import CalibratorSpec
from calibkit.files.sources import Source
from calibkit.makers import makers_of
from calibkit.memory import Memory
from calibkit.rows.columns import ColumnOptions
from calibkit.summaries.plain import as_plain, from_plain
from calibkit.summaries.score_states import score_state
from calibkit.summaries.states import State

KIND = "calibrate"


@dataclass(frozen=True, kw_only=True)
class CalibratorProblem:
    """What makes a calibrator of the rows of all shards: what a run of the command says.

    Attributes
    ----------
    spec
        What to fit.
    provenance, tags, makers
        What the model says of its origin.
    """

    spec: CalibratorSpec
    provenance: str = "hash"
    tags: dict[str, str] = field(default_factory=dict)
    makers: dict[str, str] = field(default_factory=dict)


def calibrator_state(
    source: Source, columns: ColumnOptions, problem: CalibratorProblem, memory: Memory
) -> State:
    """Return the state of the rows of a shard.

    Raises
    ------
    UsageError, DataError, ResourceError
        As `calibkit.calibrators.rows.calibration_rows`.
    """
    summary = calibration_summary(source, columns, problem.spec, memory)
    makers = makers_of(source, summary.options, problem.makers)
    problem = replace(problem, spec=replace(problem.spec, threads=1), makers=makers)
    files = source.paths if problem.provenance == "names" else ()
    return score_state(KIND, {"problem": as_plain(problem)}, summary, files)


def read_problem(state: State, threads: int) -> CalibratorProblem:
    """Return the problem that a state is a part of.

    Raises
    ------
    ModelError
        For a state that holds none.
    """
    problem = from_plain(state.header.options.get("problem"), CalibratorProblem, state.path)
    return replace(problem, spec=replace(problem.spec, threads=threads))
