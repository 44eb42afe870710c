"""What a fit takes and returns, whichever method it is of; and states, of which a fit can be finished.

States are summaries of parts of the rows as files, which merge in any order and any grouping: one Arrow
IPC file each, a table, and in the schema's metadata a JSON header that says what the state is of (the
kind), the options that shape the result, and which shards it holds.  It is data only and strictly read:
states may come from machines that nobody looks after.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import IO, Annotated, Any, Final, Generic, Protocol, TypeVar

import polars as pl
from msgspec import Meta, Struct, ValidationError, convert
from msgspec.structs import replace

from calibkit.errors import DataError, ModelError, UsageError
from calibkit.files.explain import first_line, reading
from calibkit.files.sinks import arrow_file
from calibkit.files.sources import Source
from calibkit.files.told import NOTHING, Noted, Told, together
from calibkit.models.lineage import makers_in, name_makers
from calibkit.models.model import Model, Provenance, canonical_text
from calibkit.numerics.hashes import merge_hashes
from calibkit.options.option import Options
from calibkit.options.option import from_plain as options_from_plain
from calibkit.options.shared import FitOptions, Threaded
from calibkit.runtime.memory import Memory
from calibkit.summaries.passes import merge_all
from calibkit.version import __version__

T = TypeVar("T")
KEY: Final = "calibkit"
MAGIC: Final = "calibkit state"
#: The version of all states: of the header and of what stands below it.
VERSION: Final = 2

#: What is said of states whose rows are not those of their headers.
OTHER_SIZE: Final = "it has not as many rows as it says"
OTHER_ROWS: Final = "its rows are not those that were written; make it again"
O = TypeVar("O", bound=Threaded)  # noqa: E741 (options)
M_co = TypeVar("M_co", bound=Model, covariant=True)
R_co = TypeVar("R_co", covariant=True)
O_contra = TypeVar("O_contra", bound=Options, contravariant=True)


class Shard(Struct, frozen=True, forbid_unknown_fields=True, order=True):
    """A part of the rows: a hash of its content, how many rows it has, and (if asked for) its files."""

    hash: Annotated[str, Meta(pattern="^[0-9a-f]{16}$")]
    rows: int
    files: tuple[str, ...] = ()


class Header(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a state says of itself: `payload` is the kind's own, `text` how text was read."""

    magic: str
    kind: str
    version: int
    options: dict[str, Any]
    shards: tuple[Shard, ...]
    payload: dict[str, Any]
    text: Told | None = None


@dataclasses.dataclass(frozen=True)
class State(ABC):
    """A state; each kind has a class of its own: see `calibkit.registry.methods.state`.

    The table is what was summed, sorted so that equal states have equal bytes; of rows it is nothing
    but the types of their columns.  `path` is for messages, as is what was `noted`
    while its rows were read: neither stands in its file.
    """

    header: Header
    table: pl.DataFrame
    path: str = "the states"
    noted: Noted = NOTHING

    @property
    def rows(self) -> int:
        """How many rows it is of."""
        return sum(shard.rows for shard in self.header.shards)

    @classmethod
    @abstractmethod
    def stored(cls, header: Header, file: Path, path: str) -> State:
        """Return the state of a file whose header was read, which messages call `path`."""

    @abstractmethod
    def check(self) -> None:
        """Raise `ModelError` for what this kind cannot be."""

    @classmethod
    @abstractmethod
    def merged(cls, states: Sequence[Any], header: Header) -> State:
        """Return the state of the rows of several of this kind; the header has no payload yet."""

    @abstractmethod
    def write(self, file: IO[bytes], compression: str = "zstd") -> None:
        """Write the state to a file; ``lz4`` is larger, and sooner written and read."""

    def to_bytes(self, compression: str = "zstd") -> bytes:
        """Return what `write` writes."""
        file = BytesIO()
        self.write(file, compression)
        return file.getvalue()


@dataclasses.dataclass(frozen=True)
class SummedState(State):
    """A state of sums, or of counts.

    Payload and table will be made of `summary` when the state is written; None: they are there.
    """

    summary: Any = None

    @abstractmethod
    def summed(self) -> Any:
        """Return the summary; raises `ModelError` where parts of the state contradict each other."""

    def check(self) -> None:
        """Raise `ModelError` for a state without a summary of its kind."""
        try:
            self.summed()
        except UsageError as error:
            raise ModelError(f"a damaged state: {error}", file=self.path) from None

    @abstractmethod
    def packed(self) -> tuple[dict[str, Any], pl.DataFrame]:
        """Return payload and table of the summary."""

    @classmethod
    def of(
        cls, kind: str, options: dict[str, Any], shard: Shard, summary: Any, source: Source
    ) -> State:
        """Return the state of a shard that was read, with the options that its header has."""
        header = new_header(kind, options, shard, {}, source)
        return cls(header, pl.DataFrame(), noted=source.noted, summary=summary)

    @classmethod
    def stored(cls, header: Header, file: Path, path: str) -> State:
        """Read the table too."""
        with opened(file, path) as found:
            return cls(header, checked(found.read_all()), path)

    @classmethod
    def merged(cls, states: Sequence[Any], header: Header) -> State:
        """Merge the summaries."""
        return cls(header, pl.DataFrame(), summary=merge_all(one.summed() for one in states))

    def write(self, file: IO[bytes], compression: str = "zstd") -> None:
        """Write the state to a file; ``lz4`` is larger, and sooner written and read."""
        header, table = self.header, self.table
        if self.summary is not None:
            payload, table = self.packed()
            header = replace(header, payload=payload)
        file.write(arrow_file(table, {KEY: canonical_text(header)}, compression))


def checked(table: Any) -> pl.DataFrame:
    """Return a table of Arrow's after checking all of it."""
    table.validate(full=True)
    return pl.DataFrame(table)


def refuse(wrong: object, what: str) -> None:
    """Raise `ModelError` for a state that is wrong."""
    if wrong:
        raise ModelError(f"a damaged state: {what}")


def new_header(
    kind: str, options: dict[str, Any], shard: Shard, payload: dict[str, Any], source: Source
) -> Header:
    """Return the header of the state of a shard that was read, of this version."""
    return Header(
        magic=MAGIC,
        kind=kind,
        version=VERSION,
        options=options,
        shards=(shard,),
        payload=payload,
        text=source.told,
    )


def from_plain(value: object, kind: type[T], path: str) -> T:
    """Return what options or a payload hold, made by `msgspec.to_builtins` of structs or dictionaries.

    Raises `ModelError` if they hold nothing of the kind.
    """
    try:
        return convert(value, kind)
    except ValidationError as error:
        raise ModelError(f"a damaged state: {error}", file=path) from None


def options_of(state: State, kind: type[O], threads: int | None = None) -> O:
    """Return the options of the command that made a state.

    Raises `ModelError` where it does not say them.
    """
    said = state.header.options
    return options_from_plain(
        said.get("asked", said.get("problem")), kind, state.path, threads=threads
    )


def _merged(states: Sequence[State], shards: Sequence[Shard]) -> State:
    text = together((state.path, state.header.text) for state in states)
    ordered = tuple(sorted(shards))
    header = replace(states[0].header, shards=ordered, payload={}, text=text)
    found: State = type(states[0]).merged(states, header)
    return dataclasses.replace(found, noted=NOTHING.beside(*(state.noted for state in states)))


def merge_states(states: Sequence[State], expect: int | None = None) -> State:
    """Return the state of the rows of all states: the same bytes in whatever order they come.

    Refused are states of different problems, or of text that was read otherwise, a shard that two of
    them hold, and any number of shards but `expect`, unless that is None.
    """
    shards = _like_shards(states)
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
    if expect is not None and len(shards) != expect:
        raise DataError(
            f"{len(states)} state{'s' if len(states) > 1 else ''} with {len(shards)} "
            f"shard{'s' if len(shards) > 1 else ''} in all, but --expect {expect}: "
            + ("a part is missing" if len(shards) < expect else "there are too many parts")
        )
    return _merged(states, shards)


def join_states(states: Sequence[State]) -> State:
    """Return the state of the rows of all states, which are known to be of different files.

    Files may have equal rows, so no shard is looked for twice; the result is one shard.
    """
    shards = _like_shards(states)
    files = sorted({name for shard in shards for name in shard.files})
    total = merge_hashes(shard.hash for shard in shards)
    whole = Shard(total, sum(shard.rows for shard in shards), tuple(files))
    return _merged(states, [whole])


@contextmanager
def opened(file: Path, path: str) -> Iterator[Any]:
    """Open a file as Arrow does; what is wrong with it is said of states."""
    import pyarrow as pa
    from pyarrow import ipc

    try:
        with reading(path), pa.memory_map(str(file)) as mapped:
            yield ipc.open_file(mapped)
    except ModelError:
        raise
    except (DataError, pa.ArrowException) as error:
        why = first_line(error.__cause__ or error)
        raise ModelError(
            f"this is not a calibkit state, or a truncated one ({why}); make it again", file=path
        ) from None


def _like_shards(states: Sequence[State]) -> list[Shard]:
    """Return the shards of states; refuse states of different problems, naming what differs."""
    one = states[0]
    mine = _flat(one.header.options)
    for other in states[1:]:
        if one.header.kind != other.header.kind:
            raise ModelError(
                f"a state of `calibkit {other.header.kind}`, but {one.path} is one of `calibkit "
                f"{one.header.kind}`; merge states of one command",
                file=other.path,
            )
        yours = _flat(other.header.options)
        for name in sorted(mine.keys() | yours.keys()):
            if mine.get(name) == yours.get(name):
                continue
            column = name.removeprefix("dtypes.column ")
            if column != name:
                column = mine.get(f"problem.asked.{column}", column)
                kinds = yours.get(name), mine.get(name)
                as_one = "" if "String" in kinds else " (1.0, not 1)"
                raise ModelError(
                    f"column {column!r} holds {kinds[0]} here, but {kinds[1]} in {one.path}; write "
                    f"its values alike in all parts{as_one}",
                    file=other.path,
                )
            called = name.removeprefix("problem.").removeprefix("asked.")
            found = (side.get(name) for side in (yours, mine))
            here, there = ("not given" if value is None else repr(value) for value in found)
            raise ModelError(
                f"a state of another problem: {called} is {here} here, but {there} in {one.path}; make "
                "all parts with the same options",
                file=other.path,
            )
    return [shard for state in states for shard in state.header.shards]


def _flat(options: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in options.items():
        if isinstance(value, dict):
            found |= _flat(value, f"{prefix}{name}.")
        else:
            found[f"{prefix}{name}"] = value
    return found


class Fitted(Struct, Generic[M_co], frozen=True):
    """A fitted model, and what the user should be told.

    The columns of the model say which models made them, where that is known.  Warnings are told
    whatever the verbosity, notes in a summary, details to those who ask for more.
    """

    model: M_co
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    details: tuple[str, ...] = ()


F = TypeVar("F", bound=Fitted[Any])


class Plan(Struct, frozen=True):
    """What a run would do: with the column of each role, the steps in words, after "would"."""

    columns: Mapping[str, str]
    steps: Sequence[str]


class Run(Protocol[O_contra, R_co]):
    """How a result is made of rows, or of a state of them: what a module ``run`` has."""

    def fit(self, options: O_contra, source: Source) -> R_co:
        """Return the result of all rows."""

    def plan(self, options: O_contra, source: Source) -> Plan:
        """Return what `fit` would do; no row is read."""

    def state(self, options: O_contra, source: Source) -> State:
        """Return what `finish` needs of the rows of a shard."""

    def finish(self, state: State, memory: Memory, threads: int) -> R_co:
        """Return the result of the rows of a merged state."""


def recorded(fitted: F, source: Source, said: Mapping[str, str] | None = None) -> F:
    """Return a fit of the rows of a source, whose model says what `makers_in` does of its columns."""
    names = {role: column.name for role, column in fitted.model.columns.items()}
    name_makers(fitted.model, makers_in(source, names, said), source.told)
    return fitted


def finished(fitted: F, state: State) -> F:
    """Return a fit of the rows of a state, whose model says which models made its columns."""
    makers = from_plain(state.header.options.get("makers"), dict[str, str], state.path)
    name_makers(fitted.model, makers, state.header.text)
    return fitted


def files_named(options: Options, source: Source) -> tuple[str, ...]:
    """Return the files that a state says it is of: none, unless a model is to name them."""
    return tuple(source.paths) if getattr(options, "provenance", None) == "names" else ()


def about(
    model: type[Model],
    options: FitOptions,
    shaped: Sequence[str],
    rows: int,
    fingerprint: str,
    files: Sequence[str],
    **more: Any,
) -> dict[str, Any]:
    """Return what every model says of itself: kind, version, tags, and of its origin as far as asked.

    That is what shaped it (those options that are not None, and more), how many rows were used, their
    hash, and the inputs they are from.
    """
    origin = None
    if options.provenance != "none":
        values = ((name, getattr(options, name)) for name in shaped)
        said = {name: value for name, value in values if value is not None} | more
        named = list(files) if options.provenance == "names" else None
        origin = Provenance(__version__, said, rows, fingerprint, named)
    tags = dict(options.tags or {})
    return {"kind": model.KIND, "version": model.VERSION, "tags": tags, "provenance": origin}
