"""States: summaries of parts of the rows as files, which merge in any order and any grouping.

A state is one Arrow IPC file: a table, and in the schema's metadata a JSON header that says what the
state is of (the kind), the options that shape the result, and which shards it holds.  It is data only
and strictly read: states may come from machines that nobody looks after.
"""

from __future__ import annotations

import importlib
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from typing import IO, Annotated, Any, Final

import msgspec
import polars as pl

from calibkit.errors import DataError, ModelError, nearest
from calibkit.files.explain import reading
from calibkit.files.inputs import STDIN
from calibkit.files.scratch import Scratch
from calibkit.files.sinks import arrow_file
from calibkit.maths.bounds import Bound
from calibkit.models import canonical_text, decode_as
from calibkit.rows.provenance import merge_hashes
from calibkit.summaries.summary import merge_all

_KEY: Final = "calibkit"
_MAGIC: Final = "calibkit state"

#: The version of all states: of the header and of what stands below it.
_VERSION: Final = 2

_SCORES: Final = "calibkit.summaries.score_states"
_RATERS: Final = "calibkit.raters.states"

#: The kinds of states, by the command that finishes them, and the modules of their functions:
#: ``check_state(state)`` raises `ModelError` for what this kind cannot be, ``summary_of(state)``
#: returns the summary, ``packed(summary)`` payload and table of it.
KINDS: Final = {
    **dict.fromkeys(("bin", "boundary", "calibrate", "evaluate"), _SCORES),
    "vad": "calibkit.vad.states",
    "hetcal": "calibkit.hetcal.states",
    **dict.fromkeys(("alpha-cal", "calibrate --probs"), _RATERS),
}
#: The kinds whose states are the rows themselves, which are not held: see
#: `calibkit.summaries.row_states`.  Their modules have ``merge_states(states)``, which returns payload
#: and table, and ``write_state(state, file, compression)`` instead.
OF_ROWS: Final = frozenset({"hetcal", "alpha-cal", "calibrate --probs"})


class Shard(msgspec.Struct, frozen=True, forbid_unknown_fields=True, order=True):
    """A part of the rows: a hash of its content, how many rows it has, and (if asked for) its files."""

    hash: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{16}$")]
    rows: int
    files: tuple[str, ...] = ()


class Header(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a state says of itself; `payload` is the kind's own."""

    magic: str
    kind: str
    version: int
    options: dict[str, Any]
    shards: tuple[Shard, ...]
    payload: dict[str, Any]


class _Start(msgspec.Struct):
    magic: str
    kind: str
    version: int


@dataclass(frozen=True)
class StateFile:
    """A file with rows: what its own header says, where it is, and what messages call it."""

    header: Header
    where: Path
    path: str
    kept: Scratch | None = None


@dataclass(frozen=True)
class State:
    """A state.

    Attributes
    ----------
    header
        What it says of itself.
    table
        What was summed, sorted so that equal states have equal bytes; of rows nothing but the types
        of their columns.
    path
        Where it was read from, for messages.
    files
        Where the rows are, if it is one of rows.
    summary
        What payload and table will be made of when the state is written; None: they are there.
    """

    header: Header
    table: pl.DataFrame
    path: str = "the states"
    files: tuple[StateFile, ...] = ()
    summary: Any = None

    @property
    def rows(self) -> int:
        """How many rows it is of."""
        return sum(shard.rows for shard in self.header.shards)

    def write(self, file: IO[bytes], compression: str = "zstd") -> None:
        """Write the state to a file; ``lz4`` is larger, and sooner written and read."""
        if self.files:
            _function(self.header.kind, "write_state")(self, file, compression)
            return
        header, table = self.header, self.table
        if self.summary is not None:
            payload, table = _function(header.kind, "packed")(self.summary)
            header = msgspec.structs.replace(header, payload=payload)
        file.write(arrow_file(table, metadata_of(header), compression))

    def to_bytes(self, compression: str = "zstd") -> bytes:
        """Return what `write` writes."""
        file = BytesIO()
        self.write(file, compression)
        return file.getvalue()


def metadata_of(header: Header) -> dict[str, str]:
    """Return the metadata of the schema of a state's file."""
    return {_KEY: canonical_text(header)}


def new_state(
    kind: str,
    options: dict[str, Any],
    shards: Sequence[Shard],
    payload: dict[str, Any] | None = None,
    table: pl.DataFrame | None = None,
    summary: Any = None,
) -> State:
    """Return a state of this version: with payload and table, or with what they will be made of."""
    header = Header(
        magic=_MAGIC,
        kind=kind,
        version=_VERSION,
        options=options,
        shards=tuple(sorted(shards)),
        payload=payload or {},
    )
    return State(header, pl.DataFrame() if table is None else table, summary=summary)


def read_state(path: str) -> State:
    """Return the state in a file; ``-`` is standard input.

    Raises
    ------
    UsageError
        No such file, or no permission to read it.
    ModelError
        Not a state, an unknown kind, another version, or a damaged one.
    """
    if path != STDIN:
        return state_of(Path(path), path)
    kept = Scratch()
    with reading(path), closing(kept):
        shutil.copyfileobj(sys.stdin.buffer, kept)
    return state_of(kept, path)


def state_of(data: bytes | Path | Scratch, path: str) -> State:
    """Return the state of a file, or of the bytes of one, which messages call `path`."""
    where = data.path if isinstance(data, Scratch) else data
    text = _metadata(where, path)
    start = decode_as(text, _Start, "a calibkit state", path)
    _check_start(start, path)
    header = decode_as(text, Header, f"a {start.kind!r} state", path)
    of_rows = start.kind in OF_ROWS
    state = State(header, _table(where, path, nothing=of_rows), path)
    if of_rows:
        state = replace(state, files=(_file_of(header, data, path),))
    shards = header.shards
    if not shards or len(set(shards)) != len(shards) or tuple(sorted(shards)) != shards:
        raise ModelError("a damaged state: its shards are not in order", file=path)
    try:
        _function(start.kind, "check_state")(state)
    except ModelError as error:
        error.file = path
        raise
    return state


def _file_of(header: Header, data: bytes | Path | Scratch, path: str) -> StateFile:
    """Return where the rows of a state are; those that have come as bytes are put into a file."""
    if isinstance(data, Path):
        return StateFile(header, data, path)
    if isinstance(data, bytes):
        kept = Scratch()
        with closing(kept):
            kept.write(data)
    else:
        kept = data
    return StateFile(header, kept.path, path, kept)


def _check_start(start: _Start, path: str) -> None:
    if start.magic != _MAGIC:
        raise ModelError("this is not a calibkit state", file=path)
    if start.kind not in KINDS:
        raise ModelError(
            f"unknown kind of state {start.kind!r}{nearest(start.kind, KINDS)}; this version knows "
            f"{', '.join(sorted(KINDS))}",
            file=path,
        )
    if start.version < _VERSION:
        raise ModelError("this state was written by calibkit 0.1: make it again", file=path)
    if start.version > _VERSION:
        raise ModelError(
            f"version {start.version} of {start.kind!r} states is unknown here; this calibkit reads "
            f"version {_VERSION}: update calibkit, or make the state again",
            file=path,
        )


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
    total = merge_hashes(shard.hash for shard in shards)
    whole = Shard(total, sum(shard.rows for shard in shards), tuple(files))
    return _of_all(states, [whole])


def _of_all(states: Sequence[State], shards: Sequence[Shard]) -> State:
    kind, options = states[0].header.kind, states[0].header.options
    if kind not in OF_ROWS:
        summaries = map(_function(kind, "summary_of"), states)
        return new_state(kind, options, shards, summary=merge_all(summaries))
    payload, table = _function(kind, "merge_states")(states)
    files = tuple(file for state in states for file in state.files)
    return replace(new_state(kind, options, shards, payload, table), files=files)


def _function(kind: str, name: str) -> Callable[..., Any]:
    found: Callable[..., Any] = getattr(importlib.import_module(KINDS[kind]), name)
    return found


@contextmanager
def opened(where: Path | bytes, path: str) -> Iterator[Any]:
    """Open a file as Arrow does; what is wrong with it is said of states."""
    import pyarrow as pa
    from pyarrow import ipc

    try:
        own = isinstance(where, bytes)
        with reading(path), pa.BufferReader(where) if own else pa.memory_map(str(where)) as data:
            yield ipc.open_file(data)
    except ModelError:
        raise
    except (DataError, pa.ArrowException) as error:
        raise ModelError(
            f"this is not a calibkit state, or a truncated one: {error}; make it again", file=path
        ) from None


def _metadata(where: Path | bytes, path: str) -> bytes:
    """Return the header's text."""
    with opened(where, path) as found:
        text: bytes | None = (found.schema.metadata or {}).get(_KEY.encode())
    if text is None:
        raise ModelError("an Arrow file, but not a calibkit state", file=path)
    return text


def _table(where: Path | bytes, path: str, *, nothing: bool) -> pl.DataFrame:
    """Return the table of a file, or `nothing` but the types of its columns."""
    with opened(where, path) as found:
        table = found.schema.empty_table() if nothing else found.read_all()
        table.validate(full=True)
        return pl.DataFrame(table)


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


def _named(option: str) -> str:
    """Return what messages call an entry of a header's options."""
    for place in ("problem.", "asked.", "spec."):
        option = option.removeprefix(place)
    return option


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
