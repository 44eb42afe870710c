"""States of calibration by parts: the rows of a shard, and what is to be fitted on all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import msgspec

from calibkit.files.sources import Source
from calibkit.hetcal.features import read_features
from calibkit.hetcal.run import Run, feature_columns, fit_source
from calibkit.hetcal.spec import HetcalSpec
from calibkit.makers import makers_in
from calibkit.memory import Memory
from calibkit.rows.columns import ColumnOptions, read_score_rows, resolve
from calibkit.rows.splits import refuse_missing
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
    "KIND",
    "HetcalProblem",
    "check_state",
    "fit_state",
    "hetcal_state",
    "merge_states",
    "write_state",
]

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
        How much of it there is: so many rows are read at a time.
    train
        Opens the rows to grow the partition on, the same for all shards.

    Raises
    ------
    UsageError, DataError
        As `calibkit.hetcal.run.fit_source`.
    ResourceError
        As `calibkit.summaries.row_states.row_state`.
    """
    columns, spec = problem.columns, replace(problem.spec, threads=1)
    names = tuple(feature_columns(source, problem.features, columns, spec))
    resolve(source, columns, label=True, uncertainty=False)
    used = {"score": columns.score, "label": columns.label, "weight": columns.weight}
    roles = {role: name for role, name in used.items() if name is not None}
    roles |= {f"feature_{place}": name for place, name in enumerate(names, 1)}
    dealt = [name for name in (spec.groups, spec.time) if name is not None]
    problem = replace(problem, features=names, spec=spec, makers=makers_in(source, roles))
    rows, other = _reading(source, problem, dealt), None
    if train is not None:
        opened = train()
        resolve(opened, columns, label=True, uncertainty=False)
        opened.require(names, "--train: --features")
        other = _reading(opened, problem, [])
    return row_state(KIND, problem, rows, memory, other)


def fit_state(state: State, memory: Memory | None, threads: int) -> Run:
    """Return the model that the rows of a state give; see `calibkit.hetcal.run.fit_source`."""
    problem = _problem(state)
    source, train = sources_of(state)
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
    model = run.fitted.model
    for role, maker in problem.makers.items():
        if role in model.columns:
            model.columns[role] = msgspec.structs.replace(model.columns[role], made_by=maker)
    return run


def check_state(state: State) -> None:
    """Raise `ModelError` for a state that holds no rows to calibrate by parts."""
    problem = _problem(state)
    columns = problem.columns
    used = (columns.score, columns.label, columns.weight, problem.spec.groups, problem.spec.time)
    check_rows(state, [name for name in (*used, *problem.features) if name is not None])


def _problem(state: State) -> HetcalProblem:
    return from_plain(problem_of(state), HetcalProblem, state.path)


def _reading(source: Source, problem: HetcalProblem, dealt: Sequence[str]) -> Reading:
    """Return what is read of an input: also the columns that deal its rows to folds."""
    columns, features = problem.columns, problem.features
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
    return Reading(source, used, check, source.paths if problem.provenance == "names" else ())
