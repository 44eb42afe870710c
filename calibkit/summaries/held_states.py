"""States of held rows: these as a file, with training rows where there are some.

Where rows do not fit, a state says of them how many there are and of which types their columns are: a
fit in rounds (`calibkit.rounds`) begins with that.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec
import polars as pl

from calibkit.errors import ModelError, ResourceError
from calibkit.files.sources import Source
from calibkit.memory import Memory
from calibkit.rows.provenance import hash_text
from calibkit.summaries.condense import COUNT
from calibkit.summaries.held_rows import HELD, HeldRows, SeenRows, merge_rows
from calibkit.summaries.plain import as_plain, from_plain
from calibkit.summaries.states import KINDS, Shard, State, new_state

#: The column that tells the rows of the training inputs from the others, and what theirs are called.
_IS_TRAIN: Final = "train"
_TRAIN: Final = "train "


class _Train(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Training rows, which all shards have to have in common."""

    columns: tuple[str, ...]
    rows: int
    hash: str
    text: bool
    files: tuple[str, ...]


class _Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The options of every such state; `problem` and what is `learnt` already are the command's own."""

    problem: dict[str, Any]
    columns: tuple[str, ...]
    train: _Train | None
    learnt: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET


class _Payload(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True
):
    rows: int
    text: bool
    held: bool = True


def held_state(
    kind: str,
    problem: object,
    rows: HeldRows | SeenRows,
    *,
    files: Sequence[str] = (),
    train: HeldRows | None = None,
    train_files: Sequence[str] = (),
    learnt: object = None,
) -> State:
    """Return the state of rows.

    Parameters
    ----------
    kind, problem
        The command, and its options that shape the result.
    rows
        Those of one shard, or what was seen of them.
    files, train_files
        Where rows came from, if the state is to name it.
    train
        Further rows, which are the same whatever the shard.
    learnt
        What the command has learnt already from other rows, if it has.
    """
    own = None
    if train is not None:
        own = _Train(
            columns=train.columns,
            rows=train.rows,
            hash=train.hash,
            text=train.text,
            files=tuple(train_files),
        )
    options = _Options(
        problem=as_plain(problem),
        columns=rows.columns,
        train=own,
        learnt=msgspec.UNSET if learnt is None else as_plain(learnt),
    )
    shard = Shard(rows.hash, rows.rows, tuple(files))
    return new_state(kind, as_plain(options), [shard], _payload(rows), _table(rows, train))


def problem_of(state: State) -> dict[str, Any]:
    """Return the options of the command; raises `ModelError` where there are none."""
    return problem_in(state.header.options, state.path)


def problem_in(options: dict[str, Any], path: str) -> dict[str, Any]:
    """Return the options of the command that those of a state, or of a plan, hold."""
    return from_plain(options, _Options, path).problem


def columns_in(options: dict[str, Any], path: str) -> tuple[str, ...]:
    """Return the columns that rows have, of the options of a state or of a plan."""
    return from_plain(options, _Options, path).columns


def without_rows(state: State) -> State:
    """Return a state that says of its rows only what those of rows that do not fit say."""
    rows, train = _held(state)
    seen = SeenRows(rows.frame.clear(), rows.text, rows.rows, rows.hash)
    header = msgspec.structs.replace(state.header, payload=_payload(seen))
    return State(header, _table(seen, train), state.path)


def fits(state: State, memory: Memory) -> bool:
    """Tell whether a state holds its rows, and a fit on all of them has room."""
    return holds_rows(state) and state_rows(state) <= memory.rows_of(columns_of(state))


def bounded(states: Iterable[State], memory: Memory) -> list[State]:
    """Return states that are to be merged, without their rows where all of these do not fit.

    Rows are let go of as early as that is known, before the next state comes.  Only the first states
    of fits that have rounds can do without; others stay as they are.
    """
    found: list[State] = []
    rows, fit = 0, True
    for state in states:
        able = in_rounds(state)
        rows += state_rows(state) if able else 0
        if able and fit and rows > memory.rows_of(columns_of(state)):
            fit, found = False, [_let_go(one) for one in found]
        found.append(state if fit else _let_go(state))
    return found


def _let_go(state: State) -> State:
    return without_rows(state) if in_rounds(state) and holds_rows(state) else state


def in_rounds(state: State) -> bool:
    """Tell whether a state is the first one of a fit that has rounds."""
    return state.header.plan is msgspec.UNSET and bool(KINDS[state.header.kind].rounds)


def state_rows(state: State) -> int:
    """Return how many rows a state is of."""
    return sum(shard.rows for shard in state.header.shards)


def columns_of(state: State) -> int:
    """Return how many columns the rows of a state have."""
    return len(columns_in(state.header.options, state.path))


def holds_rows(state: State) -> bool:
    """Tell whether a state holds its rows."""
    return from_plain(state.header.payload, _Payload, state.path).held


def empty_source(state: State) -> Source:
    """Return an input without rows whose columns have the types of those of a state."""
    rows = _held(state)[0]
    return HeldRows(rows.frame.clear(), rows.text).source(_files(state))


def _files(state: State) -> list[str]:
    named = [list(shard.files) for shard in state.header.shards]
    files = named[0] if len(named) == 1 else sorted({name for one in named for name in one})
    return files or [state.path]


def sources_of(state: State, memory: Memory | None) -> tuple[Source, Source | None]:
    """Return the rows of a state, and the training rows if it has some, as inputs.

    Raises
    ------
    ModelError
        Where parts of the state contradict each other.
    ResourceError
        Where the rows do not fit.
    """
    rows, _ = _held(state)
    if isinstance(rows, SeenRows):
        raise ResourceError(f"{state.path}: this state holds no rows, for they did not fit")
    return rows.source(_files(state), memory), train_of(state, memory)


def train_of(state: State, memory: Memory | None) -> Source | None:
    """Return the training rows of a state as an input; None where it has none.

    Raises
    ------
    ResourceError
        Where they do not fit.
    """
    _, train = _held(state)
    return None if train is None else train.source(train_files(state) or ["--train"], memory)


def learnt_of(state: State) -> dict[str, Any] | None:
    """Return what the command had learnt already from other rows; None where it had not."""
    learnt = from_plain(state.header.options, _Options, state.path).learnt
    return None if learnt is msgspec.UNSET else learnt


def train_files(state: State) -> list[str]:
    """Return where the training rows of a state came from, if it names that."""
    known = from_plain(state.header.options, _Options, state.path).train
    return [] if known is None else list(known.files)


def check_rows(state: State, needed: Sequence[str]) -> None:
    """Raise `ModelError` for a state that does not hold the rows that it says.

    Parameters
    ----------
    state
        The state.
    needed
        The columns without which there is nothing to fit.
    """
    rows, train = _held(state)
    options = from_plain(state.header.options, _Options, state.path)
    payload = from_plain(state.header.payload, _Payload, state.path)
    if rows.rows < 1 or rows.rows != payload.rows:
        raise ModelError("a damaged state: it has not as many rows as it says")
    if sum(shard.rows for shard in state.header.shards) != payload.rows:
        raise ModelError("a damaged state: its shards have not as many rows as it says")
    for name in needed:
        if name not in options.columns:
            raise ModelError(f"a damaged state: it has no column {name!r}")
    known = options.train
    if known is not None and (train is None or train.rows != known.rows):
        raise ModelError("a damaged state: it has not as many training rows as it says")


def merge_states(states: Sequence[State]) -> tuple[dict[str, Any], pl.DataFrame]:
    """Return payload and table of several states, which have the same training rows."""
    held = [_held(state) for state in states]
    merged = merge_rows([rows for rows, _ in held], [state.path for state in states])
    return _payload(merged), _table(merged, held[0][1])


def _payload(rows: HeldRows | SeenRows) -> dict[str, Any]:
    own = _Payload(rows=rows.rows, text=rows.text, held=isinstance(rows, HeldRows))
    found: dict[str, Any] = as_plain(own)
    return found


def _table(rows: HeldRows | SeenRows, train: HeldRows | None) -> pl.DataFrame:
    if train is None:
        return rows.frame
    other = train.frame.rename(lambda name: name if name == COUNT else _TRAIN + name)
    both = [
        frame.with_columns(pl.lit(which).alias(_IS_TRAIN))
        for frame, which in ((rows.frame, False), (other, True))
    ]
    return pl.concat(both, how="diagonal")


def _held(state: State) -> tuple[HeldRows | SeenRows, HeldRows | None]:
    """Return the rows, and the training rows if there are any, after checking the columns."""
    options = from_plain(state.header.options, _Options, state.path)
    payload = from_plain(state.header.payload, _Payload, state.path)
    table, known = state.table, options.train
    own = [HELD + name for name in options.columns]
    others = [] if known is None else [_TRAIN + HELD + name for name in known.columns]
    expected = {*own, COUNT, *others, *([] if known is None else [_IS_TRAIN])}
    if set(table.columns) != expected or not own or table.schema[COUNT] != pl.Int64:
        raise ModelError(f"a damaged state: its columns are {', '.join(table.columns)}")
    counts = table[COUNT]
    if counts.null_count() or (counts < 1).any():
        raise ModelError("a damaged state: rows that occur less than once")
    if known is None:
        return _rows(state, table.select(*own, COUNT), payload), None
    which = table[_IS_TRAIN]
    if which.dtype != pl.Boolean or which.null_count():
        raise ModelError("a damaged state: it does not say which rows are training rows")
    train = table.filter(which).select(*others, COUNT)
    train = train.rename(lambda name: name.removeprefix(_TRAIN))
    rows = table.filter(~which).select(*own, COUNT)
    return _rows(state, rows, payload), HeldRows(train, known.text)


def _rows(state: State, frame: pl.DataFrame, payload: _Payload) -> HeldRows | SeenRows:
    if payload.held:
        return HeldRows(frame, payload.text)
    if frame.height:
        raise ModelError("a damaged state: it has rows, though it says that it has none")
    total = hash_text(sum(int(shard.hash, 16) for shard in state.header.shards))
    return SeenRows(frame, payload.text, payload.rows, total)
