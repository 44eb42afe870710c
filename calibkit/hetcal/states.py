"""States of calibration by parts: the rows of a shard, and what is to be fitted on all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import msgspec

from calibkit.files.sources import Source
from calibkit.hetcal.features import read_features
from calibkit.hetcal.model import HetcalModel
from calibkit.hetcal.run import Run, feature_columns, fit_source
from calibkit.hetcal.spec import HetcalSpec
from calibkit.makers import makers_in
from calibkit.memory import Memory
from calibkit.rows.columns import ColumnOptions, read_score_rows, resolve
from calibkit.rows.splits import refuse_missing
from calibkit.summaries.held_rows import HeldRows, hold_rows
from calibkit.summaries.held_states import (
    check_rows,
    held_state,
    merge_states,
    problem_in,
    sources_of,
)
from calibkit.summaries.plain import from_plain
from calibkit.summaries.states import State

__all__ = ["KIND", "HetcalProblem", "check_state", "fit_state", "hetcal_state", "merge_states"]

KIND: Final = "hetcal"


@dataclass(frozen=True, kw_only=True)
class HetcalProblem:
    """What makes a model of the rows of all shards: what a run of the command says.

    Attributes
    ----------
    columns, features, spec
        The roles of columns, the feature columns, and what to fit.
    provenance, tags, makers
        What the model says of its origin.
    """

    columns: ColumnOptions
    features: tuple[str, ...]
    spec: HetcalSpec
    provenance: str = "hash"
    tags: dict[str, str] = field(default_factory=dict)
    makers: dict[str, str] = field(default_factory=dict)


def hetcal_state(
    source: Source,
    problem: HetcalProblem,
    memory: Memory,
    train: Callable[[], Source] | None = None,
) -> State:
    """Return the state of the rows of a shard.

    Parameters
    ----------
    source
        The shard.
    problem
        What to fit; its features may still be globs.
    memory
        How much room there is.
    train
        Opens the rows to grow the partition on, the same for all shards.

    Raises
    ------
    UsageError, DataError
        As `calibkit.hetcal.run.fit_source`.
    ResourceError
        Where the rows do not fit.
    """
    columns, spec = problem.columns, replace(problem.spec, threads=1)
    names = tuple(feature_columns(source, problem.features, columns, spec))
    resolve(source, columns, label=True, uncertainty=False)
    used = {"score": columns.score, "label": columns.label, "weight": columns.weight}
    roles = {role: name for role, name in used.items() if name is not None}
    roles |= {f"feature_{place}": name for place, name in enumerate(names, 1)}
    dealt = [name for name in (spec.groups, spec.time) if name is not None]
    opened = None if train is None else train()
    rows = _hold(source, columns, names, dealt, memory)
    other = None
    if opened is not None:
        resolve(opened, columns, label=True, uncertainty=False)
        opened.require(names, "--train: --features")
        other = _hold(opened, columns, names, [], memory)
    problem = replace(problem, features=names, spec=spec, makers=makers_in(source, roles))
    named = problem.provenance == "names"
    return held_state(
        KIND,
        problem,
        rows,
        files=source.paths if named else (),
        train=other,
        train_files=opened.paths if named and opened is not None else (),
    )


def fit_state(state: State, memory: Memory | None, threads: int) -> Run:
    """Return the model that the rows of a state give; see `calibkit.hetcal.run.fit_source`."""
    problem = _problem(state)
    source, train = sources_of(state, memory)
    run = fit_source(
        source,
        train,
        problem.columns,
        problem.features,
        replace(problem.spec, threads=threads),
        provenance=problem.provenance,
        tags=problem.tags,
        memory=memory,
    )
    add_makers(run.fitted.model, state)
    return run


def add_makers(model: HetcalModel, state: State) -> None:
    """Write into a model which models made the columns of the rows of a state."""
    for role, maker in _problem(state).makers.items():
        if role in model.columns:
            model.columns[role] = msgspec.structs.replace(model.columns[role], made_by=maker)


def check_state(state: State) -> None:
    """Raise `ModelError` for a state that holds no rows to calibrate by parts."""
    problem = _problem(state)
    columns = problem.columns
    used = (columns.score, columns.label, columns.weight, problem.spec.groups, problem.spec.time)
    check_rows(state, [name for name in (*used, *problem.features) if name is not None])


def hetcal_problem(options: dict[str, Any], path: str) -> HetcalProblem:
    """Return the problem that the options of a state or a plan hold."""
    return from_plain(problem_in(options, path), HetcalProblem, path)


def _problem(state: State) -> HetcalProblem:
    return hetcal_problem(state.header.options, state.path)


def _hold(
    source: Source,
    columns: ColumnOptions,
    features: Sequence[str],
    dealt: Sequence[str],
    memory: Memory,
) -> HeldRows:
    """Return rows with their features, and the columns that deal them to folds."""
    beside = [*features, *dealt]

    def check(window: Source) -> None:
        rows = read_score_rows(
            window, columns, uncertainty=False, finite_scores=True, features=beside
        )
        assert rows.others is not None and rows.where is not None
        read_features(rows.others, features, rows.where)
        for name in dealt:
            refuse_missing(rows.others[name], rows.where)

    used = [columns.score, columns.label, *([columns.weight] if columns.weight else []), *beside]
    return hold_rows(source, used, check, memory)
