"""States of rows: the rows that a fit reads, checked, as a file on which the fit can be done.

Fits that go through their rows many times have no smaller summary that is exact.  A state is then the
rows themselves, with the columns that are used and no others: training rows first, if there are some,
then those of each shard, in batches of one size.  Neither writing nor merging holds them: windows are
written as they are read, and merging reads what the headers say.  A fit opens the files as inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from math import ceil
from pathlib import Path
from typing import IO, Any, ClassVar, Final

import polars as pl
from msgspec import Struct, structs, to_builtins

from calibkit.columns.rows import NothingLeft
from calibkit.files.explain import reading
from calibkit.files.paths import Part
from calibkit.files.sinks import grouped
from calibkit.files.sources import Source
from calibkit.files.streams import Scratch, scratched
from calibkit.files.table import Table, one_schema
from calibkit.files.told import Noted
from calibkit.models.model import canonical_text
from calibkit.numerics.hashes import hash_rows, hash_text
from calibkit.options.option import plain
from calibkit.options.shared import Threaded
from calibkit.runtime.memory import memory_budget
from calibkit.summaries.passes import Passes
from calibkit.summaries.states import (
    KEY,
    OTHER_ROWS,
    OTHER_SIZE,
    Header,
    Shard,
    State,
    checked,
    files_named,
    from_plain,
    new_header,
    opened,
    options_of,
    refuse,
)

#: What columns are called in a state, before their names: those of rows, and of training rows.
_ROWS: Final = "column "
_TRAIN: Final = "train "

#: Rows of a batch: always so many but for the last one of a shard, so that equal rows are equal bytes.
_BATCH: Final = 2**14


class Reading(Struct, frozen=True):
    """What is read of an input: which columns, and what refuses values that the fit cannot use."""

    source: Source
    columns: Iterable[str]
    check: Callable[[Source], object]

    @property
    def names(self) -> tuple[str, ...]:
        """The columns, each once."""
        return tuple(dict.fromkeys(self.columns))

    def kinds(self, prefix: str) -> dict[str, pl.DataType]:
        """Return the types of the columns as a state has them."""
        return {prefix + name: _stored(self.source.schema[name]) for name in self.names}

    def frames(self, prefix: str) -> Iterator[pl.DataFrame]:
        """Yield the checked rows in windows."""

        def read(window: Source) -> pl.DataFrame:
            with suppress(NothingLeft):  # what is dropped is said of all rows together
                self.check(window)
            frame = window.read(self.names).rename(lambda name: prefix + name)  # no pattern now
            return frame.select(_plain(name, kind) for name, kind in frame.schema.items())

        memory = self.source.memory or memory_budget(None)
        most = min(memory.batch, memory.rows_of(len(self.names)))
        yield from Passes(self.source, self.names, read, memory, rows=most)


def _stored(kind: pl.DataType) -> pl.DataType:
    if kind == pl.Int128:  # which Arrow has as decimals only
        return pl.Decimal(38, 0)
    return pl.String() if isinstance(kind, pl.Categorical | pl.Enum) else kind


def _plain(name: str, kind: pl.DataType) -> pl.Expr:
    """Return a column as a state has it: categories as text, and one value in the place of nulls."""
    column, kind = pl.col(name).cast(_stored(kind)), _stored(kind)
    if kind.is_numeric() or kind.is_temporal() or kind in (pl.String, pl.Boolean):
        nothing = pl.lit("") if kind == pl.String else pl.lit(0).cast(kind)
        column = pl.when(column.is_null()).then(None).otherwise(column.fill_null(nothing))
    return column.alias(name)


class _Train(Shard, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Training rows, which all shards have to have in common."""

    columns: tuple[str, ...]
    text: bool


class _Options(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The options of every such state; `problem` are the command's own, `makers` of its columns."""

    problem: dict[str, Any]
    makers: dict[str, str]
    columns: tuple[str, ...]
    train: _Train | None


class _Payload(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Whether numbers were read from text, so that other shards may hold them in another type."""

    text: bool


class StateFile(Struct, frozen=True):
    """A file with rows: what its own header says, where it is, and what messages call it."""

    header: Header
    where: Path
    path: str


@dataclass(frozen=True)
class RowState(State):
    """A state of rows, which are in `files` and not held."""

    KIND: ClassVar[str]
    OPTIONS: ClassVar[type[Threaded]]

    files: tuple[StateFile, ...] = ()

    def __reduce__(self) -> tuple[Any, ...]:
        """Travel as a file, so packed that it takes no longer than to send it."""
        return _unpacked, (type(self), self.header, self.to_bytes("lz4"), self.path, self.noted)

    @classmethod
    def stored(cls, header: Header, file: Path, path: str) -> State:
        """Return the state of a file whose header was read."""
        with opened(file, path) as found:
            table = checked(found.schema.empty_table())
        return cls(header, table, path, files=(StateFile(header, file, path),))

    @classmethod
    def merged(cls, states: Sequence[Any], header: Header) -> State:
        """Return the state of the rows of several of this kind, with the same training rows.

        Columns of different types are refused: see `calibkit.files.table.one_schema`.
        """
        table = _by_hash(states)[0].table
        columns = [name for name in table.columns if name.startswith(_ROWS)]
        tables = []
        for state in states:
            kinds = {name.removeprefix(_ROWS): state.table.schema[name] for name in columns}
            part = Part(state.path, "csv" if _is_text(state) else "arrow", state.path)
            tables.append(Table.of(part, pl.DataFrame(schema=kinds)))
        common = {_ROWS + name: kind for name, kind in one_schema(tables, {}).items()}
        payload = to_builtins(_Payload(text=any(map(_is_text, states))))
        files = tuple(file for state in states for file in state.files)
        rows = pl.DataFrame(schema={**table.schema, **common})
        return cls(structs.replace(header, payload=payload), rows, files=files)

    def check(self) -> None:
        """Raise `ModelError` for a state that does not hold the rows that it says.

        The hashes are counted again: a bit that flipped on the way is found.
        """
        options, (file,) = _options(self), self.files
        _is_text(self)
        needed = options_of(self, self.OPTIONS).needed
        refuse(needed is None, "it is of scores")
        for name in needed or ():
            refuse(name not in options.columns, f"it has no column {name!r}")
        known = [_ROWS + name for name in options.columns]
        known += [_TRAIN + name for name in (options.train.columns if options.train else ())]
        wrong = self.table.columns != known or not known
        refuse(wrong, f"its columns are {', '.join(self.table.columns)}")
        blocks = _blocks(file)
        with opened(file.where, file.path) as batches:
            whole = sum(map(_batches, blocks)) == batches.num_record_batches
        refuse(not whole or any(block.rows < 1 for block in blocks), OTHER_SIZE)
        for place, block in enumerate(blocks):
            rows = total = 0
            for frame in _frames(file, place):
                rows, total = rows + frame.height, total + _hash(frame)
            refuse(rows != block.rows, OTHER_SIZE)
            refuse(hash_text(total) != block.hash, OTHER_ROWS)

    def write(self, file: IO[bytes], compression: str = "zstd") -> None:
        """Write a state of rows: the same bytes whatever the order and the grouping of its files."""
        files = _by_hash(self.files)
        train = _options(self).train is not None
        places = [
            (shard, one, place)
            for one in files
            for place, shard in enumerate(_blocks(one))
            if place >= train
        ]
        metadata = {KEY: canonical_text(self.header)}
        with _writer(file, self.table, metadata, compression) as write:
            if train:
                write(_frames(files[0], 0))
            for _, one, place in sorted(places, key=lambda found: found[0]):
                write(_frames(one, place))


def _unpacked(kind: type[RowState], header: Header, data: bytes, path: str, noted: Noted) -> State:
    return replace(kind.stored(header, scratched([data]), path), noted=noted)


def row_state(
    kind: type[RowState],
    options: Threaded,
    makers: Mapping[str, str],
    rows: Reading,
    train: Reading | None = None,
) -> State:
    """Return the state of the rows of a shard, and of training rows that are the same for all shards.

    `makers` says which models made the columns of roles.  Errors are those of the checks, and
    `ResourceError` for what the disk refuses: rows are written to the temporary folder.
    """
    kinds = rows.kinds(_ROWS) | (train.kinds(_TRAIN) if train is not None else {})
    table = pl.DataFrame(schema=kinds)
    kept = Scratch()
    with closing(kept), _writer(kept, table, {}, "lz4") as write:
        known = None
        if train is not None:
            grown = _written(write, train, _TRAIN, options)
            known = _Train(columns=train.names, text=train.source.loose, **structs.asdict(grown))
        shard = _written(write, rows, _ROWS, options)
    own = _Options(problem=plain(options), makers=dict(makers), columns=rows.names, train=known)
    payload = to_builtins(_Payload(text=rows.source.loose))
    header = new_header(kind.KIND, to_builtins(own), shard, payload, rows.source)
    files = (StateFile(header, kept.path, kind.path),)
    return kind(header, table, noted=rows.source.noted, files=files)


def _written(
    write: Callable[[Iterable[pl.DataFrame]], None], rows: Reading, prefix: str, options: Threaded
) -> Shard:
    """Write the rows of an input; return what is known of them then."""
    count = total = 0

    def seen() -> Iterator[pl.DataFrame]:
        nonlocal count, total
        for frame in rows.frames(prefix):
            count, total = count + frame.height, total + _hash(frame)
            yield frame

    write(seen())
    return Shard(hash_text(total), count, files_named(options, rows.source))


def _hash(frame: pl.DataFrame) -> int:
    return hash_rows(frame.rename(lambda name: name.partition(" ")[2]))


def _options(state: State | StateFile) -> _Options:
    return from_plain(state.header.options, _Options, state.path)


def _is_text(state: State | StateFile) -> bool:
    return from_plain(state.header.payload, _Payload, state.path).text


def _by_hash(found: Sequence[Any]) -> list[Any]:
    """Return states, or files of them, in the order of their first shards."""
    return sorted(found, key=lambda one: one.header.shards[0])


def _blocks(file: StateFile) -> tuple[Shard, ...]:
    """Return what batches of a file are of: the training rows, if there are some, and each shard."""
    train = _options(file).train
    first = [] if train is None else [train]
    return (*first, *file.header.shards)


def _batches(block: Shard) -> int:
    return ceil(block.rows / _BATCH)


def _frames(file: StateFile, block: int) -> Iterator[pl.DataFrame]:
    """Yield the rows of a block, with its columns: training rows have others."""
    blocks = _blocks(file)
    prefix = _TRAIN if block < len(blocks) - len(file.header.shards) else _ROWS
    first = sum(map(_batches, blocks[:block]))
    with opened(file.where, file.path) as batches:
        for place in range(first, first + _batches(blocks[block])):
            batch = batches.get_batch(place)
            batch.validate(full=True)
            frame = pl.DataFrame(batch)
            yield frame.select(name for name in frame.columns if name.startswith(prefix))


@contextmanager
def _writer(
    file: Any, table: pl.DataFrame, metadata: dict[str, str], compression: str
) -> Iterator[Callable[[Iterable[pl.DataFrame]], None]]:
    """Give what writes the rows of a block as batches of one size; columns that they lack are null."""
    from pyarrow import ipc

    schema = _arrow(table).schema.with_metadata(metadata)
    options = ipc.IpcWriteOptions(compression=compression)
    with ipc.new_file(file, schema, options=options) as out:

        def write(frames: Iterable[pl.DataFrame]) -> None:
            filled = (pl.concat([table, one], how="diagonal").cast(table.schema) for one in frames)
            for batch in grouped(filled, _BATCH, copied=False):
                out.write_batch(_arrow(batch).combine_chunks().to_batches()[0])

        yield write


def _arrow(frame: pl.DataFrame) -> Any:
    # The oldest types: others would write text that a slice does not need.
    return frame.to_arrow(compat_level=pl.CompatLevel.oldest())


def sources_of(state: State) -> tuple[Source, Source | None]:
    """Return the rows of a state, and the training rows if it has some, as inputs."""
    assert isinstance(state, RowState)
    rows = []
    for file in state.files:
        named = [list(shard.files) for shard in file.header.shards]
        names = sorted({name for one in named for name in one}) if len(named) > 1 else named[0]
        rows += _opened(file, names or [file.path], _is_text(file))
    known = _options(state).train
    if known is None:
        return _source(rows), None
    (first, *_) = _by_hash(state.files)
    return _source(rows), _source(
        _opened(first, list(known.files) or ["--train"], known.text, True)
    )


def _source(found: Sequence[Table]) -> Source:
    source = Source(sorted(found, key=lambda one: one.part.path))
    source.warnings = ()  # shards were told apart by their rows
    return source


def _opened(file: StateFile, names: Sequence[str], text: bool, train: bool = False) -> list[Table]:
    """Return the rows of a file as an input of their first name; the others have none."""
    options, prefix, own = _options(file), _ROWS, _options(file).columns
    first, rows = 0, sum(shard.rows for shard in file.header.shards)
    scan = pl.scan_ipc(file.where, glob=False)
    if options.train is not None:
        first = options.train.rows
        if train:
            prefix, own, first, rows = _TRAIN, options.train.columns, 0, first
        scan = scan.slice(first, rows)
    scan = scan.select(pl.col(prefix + name).alias(name) for name in own)
    with reading(file.path):
        kinds = dict(scan.collect_schema())
    parts = [Part(name, "csv" if text else "arrow", name) for name in names]
    whole = Table(parts[0], scan, kinds, rows, file.where)
    return [whole, *(Table.of(part, pl.DataFrame(schema=kinds)) for part in parts[1:])]
