"""States of rows with class probabilities and votes: those of a shard, for fits that iterate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar

import msgspec

from calibkit.calibrators.classes import ClassSpec, fit_class_calibrator
from calibkit.calibrators.model import CalibratorModel
from calibkit.errors import ModelError
from calibkit.files.sources import Source
from calibkit.fitted import Fitted
from calibkit.makers import makers_in
from calibkit.memory import Memory
from calibkit.models import Column
from calibkit.raters.alpha_cal import AlphaSpec, feature_names, fit_alpha
from calibkit.raters.model import AlphaModel
from calibkit.raters.rows import RaterOptions
from calibkit.raters.stored import StoredRows, read_rater_rows, used_columns, window_reader
from calibkit.summaries.plain import from_plain
from calibkit.summaries.row_states import (
    Reading,
    check_rows,
    merge_states,
    problem_of,
    row_state,
    sources_of,
    write_state,
)
from calibkit.summaries.states import State

__all__ = [
    "ALPHA",
    "CLASSES",
    "AlphaProblem",
    "ClassProblem",
    "alpha_state",
    "check_state",
    "fit_alpha_state",
    "fit_class_state",
    "merge_states",
    "rater_state",
    "write_state",
]

#: The kinds of states: of ``alpha-cal`` and of ``calibrate --probs``.
ALPHA: Final = "alpha-cal"
CLASSES: Final = "calibrate --probs"


@dataclass(frozen=True, kw_only=True)
class _Problem:
    """What makes a model of the rows of all shards: what a run of the command says.

    Attributes
    ----------
    columns
        The columns.
    provenance, tags, makers
        What the model says of its origin.
    """

    columns: RaterOptions
    provenance: str = "hash"
    tags: dict[str, str] = field(default_factory=dict)
    makers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class AlphaProblem(_Problem):
    """See `_Problem`; `spec` says what to fit."""

    spec: AlphaSpec


@dataclass(frozen=True, kw_only=True)
class ClassProblem(_Problem):
    """See `_Problem`; `spec` says what to fit."""

    spec: ClassSpec


P = TypeVar("P", AlphaProblem, ClassProblem)


def alpha_state(
    source: Source, problem: AlphaProblem, patterns: Sequence[str], memory: Memory
) -> State:
    """Return the state of the rows of a shard, with the features that patterns stand for there.

    Raises
    ------
    UsageError, DataError
        As `rater_state`, `calibkit.raters.alpha_cal.feature_names`.
    """
    found = feature_names(source, patterns)
    others = tuple(found) if isinstance(found, list) else ()
    columns = replace(problem.columns, others=others)
    spec = replace(problem.spec, features=found)
    return rater_state(source, replace(problem, columns=columns, spec=spec), memory)


def rater_state(source: Source, problem: AlphaProblem | ClassProblem, memory: Memory) -> State:
    """Return the state of the rows of a shard.

    Raises
    ------
    UsageError, DataError
        As `calibkit.raters.rows.read_rater_rows`.
    ResourceError
        As `calibkit.summaries.row_states.row_state`.
    """
    columns = problem.columns
    kind = CLASSES
    if isinstance(problem, AlphaProblem):
        kind, problem = ALPHA, replace(problem, spec=replace(problem.spec, threads=1))
    problem = replace(problem, makers=makers_in(source, {"probs": columns.probs[0]}))
    files = source.paths if problem.provenance == "names" else ()
    rows = Reading(source, used_columns(source, columns), window_reader(columns), files)
    return row_state(kind, problem, rows, memory)


def fit_alpha_state(
    state: State, memory: Memory | None, threads: int
) -> tuple[Fitted[AlphaModel], StoredRows]:
    """Return the alpha-calibration that the rows of a state give, and these rows."""
    problem = _problem(state, AlphaProblem)
    rows = read_rater_rows(sources_of(state)[0], problem.columns, memory)
    spec = replace(problem.spec, threads=threads)
    made = fit_alpha(rows, spec, provenance=problem.provenance, tags=problem.tags)
    record_makers(made.model.columns, problem.makers)
    return made, rows


def fit_class_state(
    state: State, memory: Memory | None
) -> tuple[Fitted[CalibratorModel], StoredRows]:
    """Return the map of class probabilities that the rows of a state give, and these rows."""
    problem = _problem(state, ClassProblem)
    rows = read_rater_rows(sources_of(state)[0], problem.columns, memory)
    made = fit_class_calibrator(
        rows, problem.spec, provenance=problem.provenance, tags=problem.tags
    )
    record_makers(made.model.columns, problem.makers)
    return made, rows


def check_state(state: State) -> None:
    """Raise `ModelError` for a state that holds no rows with class probabilities."""
    kind: type[Any] = AlphaProblem if state.header.kind == ALPHA else ClassProblem
    columns = _problem(state, kind).columns
    if len(columns.probs) != 1:
        raise ModelError("a damaged state: it is not of one predictor")
    label = [columns.label] if columns.counts is None and columns.label is not None else []
    check_rows(state, [*columns.others, *label])


def _problem(state: State, kind: type[P]) -> P:
    return from_plain(problem_of(state), kind, state.path)


def record_makers(columns: dict[str, Column], makers: dict[str, str]) -> None:
    """Say of columns which model made them."""
    for role, maker in makers.items():
        columns[role] = msgspec.structs.replace(columns[role], made_by=maker)
