"""States: summaries of parts of the rows as files, which merge in any order and any grouping.

A state is one Arrow IPC file: a table, and in the schema's metadata a JSON header that says what the
state is of (the kind), the options that shape the result, and which shards it holds.  It is data only
and strictly read: states may come from machines that nobody looks after.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import Annotated, Any, Final

import msgspec
import polars as pl

from calibkit.errors import DataError, ModelError, nearest
from calibkit.files.readers import reading
from calibkit.files.sinks import arrow_file
from calibkit.files.sources import read_bytes
from calibkit.maths.bounds import Bound
from calibkit.models import canonical_text, decode_as
from calibkit.rows.provenance import hash_text

#: The suffix of state files.
SUFFIX: Final = ".state"

_KEY: Final = "calibkit"
_MAGIC: Final = "calibkit state"


@dataclass(frozen=True)
class Kind:
    """A kind of state.

    Attributes
    ----------
    version
        Of the header's `payload` and the table; newer ones are refused.
    module
        Where its functions are: ``merge_states(states)`` returns payload and table of several,
        ``check_state(state)`` raises `ModelError` for what this kind cannot be; of kinds that leave
        out rows without a value, ``with_dropped(state, rows, remarks)`` is a payload with more such.
    rounds
        Where the functions of `calibkit.rounds.protocol.Rounds` are, of a fit that is done in rounds
        where rows do not fit.
    """

    version: int
    module: str
    rounds: str = ""

    def function(self, name: str) -> Callable[..., Any]:
        """Return one of the functions."""
        found: Callable[..., Any] = getattr(importlib.import_module(self.module), name)
        return found


#: The kinds of states, by the command that finishes them.
KINDS: Final = {
    **{
        name: Kind(2, "calibkit.summaries.score_states")
        for name in ("bin", "boundary", "calibrate", "evaluate")
    },
    "vad": Kind(2, "calibkit.vad.states"),
    "hetcal": Kind(1, "calibkit.hetcal.states"),
    "alpha-cal": Kind(1, "calibkit.raters.states"),
    "calibrate --probs": Kind(1, "calibkit.raters.states"),
}

#: Where states that answer a plan are checked and merged, by the functions that a kind has too.
_ANSWERS: Final = "calibkit.rounds.answers"


class Shard(msgspec.Struct, frozen=True, forbid_unknown_fields=True, order=True):
    """A part of the rows: a hash of its content, how many rows it has, and (if asked for) its files."""

    hash: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{16}$")]
    rows: int
    files: tuple[str, ...] = ()


class Answered(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The plan that a state answers: its hash, and the number of the round."""

    hash: str
    round: int


class Header(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a state says of itself; `payload` is the kind's own, or what the plan asked for."""

    magic: str
    kind: str
    version: int
    options: dict[str, Any]
    shards: tuple[Shard, ...]
    payload: dict[str, Any]
    plan: Answered | msgspec.UnsetType = msgspec.UNSET


class _Start(msgspec.Struct):
    magic: str
    kind: str
    version: int


@dataclass(frozen=True)
class State:
    """A state.

    Attributes
    ----------
    header
        What it says of itself.
    table
        What was summed, sorted so that equal states have equal bytes.
    path
        Where it was read from, for messages.
    """

    header: Header
    table: pl.DataFrame
    path: str = "the states"

    @property
    def round(self) -> int:
        """The number of the round that it is of: 1 for one that answers no plan."""
        return 1 if self.header.plan is msgspec.UNSET else self.header.plan.round

    def to_bytes(self, compression: str = "zstd") -> bytes:
        """Return the state as a file; ``lz4`` is larger, and sooner written and read."""
        return arrow_file(self.table, {_KEY: canonical_text(self.header)}, compression)


def new_state(
    kind: str,
    options: dict[str, Any],
    shards: Sequence[Shard],
    payload: dict[str, Any],
    table: pl.DataFrame,
    plan: Answered | msgspec.UnsetType = msgspec.UNSET,
) -> State:
    """Return a state of this version; `plan` is the one that it answers."""
    header = Header(
        magic=_MAGIC,
        kind=kind,
        version=KINDS[kind].version,
        options=options,
        shards=tuple(sorted(shards)),
        payload=payload,
        plan=plan,
    )
    return State(header, table)


def read_state(path: str) -> State:
    """Return the state in a file; ``-`` is standard input.

    Raises
    ------
    UsageError
        No such file, or no permission to read it.
    ModelError
        Not a state, an unknown kind, a newer version, or a damaged one.
    """
    return state_of(read_bytes(path), path)


def state_of(data: bytes, path: str) -> State:
    """Return the state that the bytes of a file hold; see `read_state`."""
    text, table = _opened(data, path)
    start = decode_as(text, _Start, "a calibkit state", path)
    if start.magic != _MAGIC:
        raise ModelError("this is not a calibkit state", file=path)
    if start.kind not in KINDS:
        raise ModelError(
            f"unknown kind of state {start.kind!r}{nearest(start.kind, KINDS)}; this version knows "
            f"{', '.join(sorted(KINDS))}",
            file=path,
        )
    kind = KINDS[start.kind]
    if start.version != kind.version:
        raise ModelError(
            f"version {start.version} of {start.kind!r} states is unknown here; this calibkit reads "
            f"version {kind.version}: update calibkit, or make the state again",
            file=path,
        )
    state = State(decode_as(text, Header, f"a {start.kind!r} state", path), table, path)
    shards = state.header.shards
    if not shards or len(set(shards)) != len(shards) or tuple(sorted(shards)) != shards:
        raise ModelError("a damaged state: its shards are not in order", file=path)
    try:
        _function(state.header, "check_state")(state)
    except ModelError as error:
        error.file = path
        raise
    return state


def merge_states(states: Sequence[State], expect: int | None = None) -> State:
    """Return the state of the rows of all states: the same bytes in whatever order they come.

    Parameters
    ----------
    states
        At least one.
    expect
        How many shards they must hold together; None: any number.

    Raises
    ------
    DataError
        States of different problems, a shard that two of them hold, or another number of shards.
    """
    first = states[0]
    for other in states[1:]:
        _check_like(first, other)
    _check_shards(states)
    shards = [shard for state in states for shard in state.header.shards]
    if expect is not None and len(shards) != expect:
        raise DataError(
            f"{len(states)} state{'s' if len(states) > 1 else ''} with {len(shards)} "
            f"shard{'s' if len(shards) > 1 else ''} in all, but --expect {expect}: "
            + ("a part is missing" if len(shards) < expect else "there are too many parts")
        )
    return _of_all(states, shards)


def join_states(states: Sequence[State]) -> State:
    """Return the state of the rows of all states, which are known to be of different files.

    Files may have equal rows, so no shard is looked for twice; the result is one shard.

    Raises
    ------
    DataError
        States of different problems.
    """
    first = states[0]
    for other in states[1:]:
        _check_like(first, other)
    shards = [shard for state in states for shard in state.header.shards]
    files = sorted({name for shard in shards for name in shard.files})
    total = hash_text(sum(int(shard.hash, 16) for shard in shards))
    whole = Shard(total, sum(shard.rows for shard in shards), tuple(files))
    return _of_all(states, [whole])


def _of_all(states: Sequence[State], shards: Sequence[Shard]) -> State:
    header = states[0].header
    payload, table = _function(header, "merge_states")(states)
    return new_state(header.kind, header.options, shards, payload, table, header.plan)


def _function(header: Header, name: str) -> Callable[..., Any]:
    """Return the function that does something with a kind of states, or with answers to a plan."""
    kind = KINDS[header.kind]
    if header.plan is msgspec.UNSET:
        return kind.function(name)
    if not kind.rounds:
        raise ModelError(f"a damaged state: {header.kind!r} is not fitted in rounds")
    return Kind(kind.version, _ANSWERS).function(name)


def _opened(data: bytes, path: str) -> tuple[bytes, pl.DataFrame]:
    """Return the header's text and the table of a file."""
    import pyarrow as pa
    from pyarrow import ipc

    try:
        with reading(path):
            table = ipc.open_file(BytesIO(data)).read_all()
            table.validate(full=True)
            text = (table.schema.metadata or {}).get(_KEY.encode())
            frame = pl.DataFrame(table)
    except (DataError, pa.ArrowException) as error:
        raise ModelError(
            f"this is not a calibkit state, or a truncated one: {error}; make it again", file=path
        ) from None
    if text is None:
        raise ModelError("an Arrow file, but not a calibkit state", file=path)
    return text, frame


def _check_like(one: State, other: State) -> None:
    """Refuse states of different problems, naming what differs."""
    if one.header.kind != other.header.kind:
        raise ModelError(
            f"a state of `calibkit {other.header.kind}`, but {one.path} is one of `calibkit "
            f"{one.header.kind}`; merge states of one command",
            file=other.path,
        )
    mine, yours = _flat(one.header.options), _flat(other.header.options)
    for name in sorted(mine.keys() | yours.keys()):
        if mine.get(name) != yours.get(name):
            raise ModelError(
                f"a state of another problem: {_named(name)} is {yours.get(name)!r} here, but "
                f"{mine.get(name)!r} in {one.path}; make all parts with the same options",
                file=other.path,
            )
    if one.round != other.round:
        raise ModelError(
            f"a state of round {other.round}, but {one.path} is one of round {one.round}; make all "
            "parts by the same plan",
            file=other.path,
        )
    if one.header.plan != other.header.plan:
        raise ModelError(
            f"a state that answers another plan than {one.path}; make all parts by the same plan",
            file=other.path,
        )


def _named(option: str) -> str:
    """Return what messages call an entry of a header's options."""
    return option.removeprefix("problem.").removeprefix("spec.")


def _check_shards(states: Sequence[State]) -> None:
    """Refuse a shard that comes twice."""
    seen: dict[tuple[str, int], str] = {}
    for state in states:
        for shard in state.header.shards:
            known = seen.get((shard.hash, shard.rows))
            if known is not None:
                named = f" ({', '.join(shard.files)})" if shard.files else ""
                raise ModelError(
                    f"the same shard{named} of {shard.rows:,} rows is in {known} too; its rows "
                    "would count twice: merge each part once",
                    file=state.path,
                )
        seen |= {(shard.hash, shard.rows): state.path for shard in state.header.shards}


def _flat(options: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in options.items():
        if isinstance(value, dict) and value.keys() == Bound.__dataclass_fields__.keys():
            found[f"{prefix}{name}"] = value["text"]
        elif isinstance(value, dict):
            found |= _flat(value, f"{prefix}{name}.")
        else:
            found[f"{prefix}{name}"] = value
    return found
