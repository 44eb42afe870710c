"""States of rows: the rows that a fit reads, checked, as a file on which the fit can be done.

Fits that go through their rows many times have no smaller summary that is exact.  A state is then the
rows themselves, with the columns that are used and no others: training rows first, if there are some,
then those of each shard, in batches of one size.  Neither writing nor merging holds them: windows are
written as they are read, and merging reads what the headers say.  A fit opens the files as inputs.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from math import ceil
from pathlib import Path
from typing import IO, Any, ClassVar, Final

import msgspec
import polars as pl

from calibkit.errors import ModelError
from calibkit.files.explain import reading
from calibkit.files.inputs import Part
from calibkit.files.scratch import Scratch
from calibkit.files.sources import Source
from calibkit.files.table import Table, one_schema
from calibkit.numerics.row_hash import hash_rows, hash_text
from calibkit.options.option import plain
from calibkit.options.shared import FitOptions
from calibkit.runtime.memory import Memory, memory_budget
from calibkit.summaries.plain import as_plain, from_plain
from calibkit.summaries.row_reading import Reading
from calibkit.summaries.states import (
    Header,
    Shard,
    State,
    Stored,
    checked,
    metadata_of,
    new_header,
    opened,
)

#: What columns are called in a state, before their names: those of rows, and of training rows.
_ROWS: Final = "column "
_TRAIN: Final = "train "

#: Rows of a batch: always so many but for the last one of a shard, so that equal rows are equal bytes.
_BATCH: Final = 2**14


class _Train(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Training rows, which all shards have to have in common."""

    columns: tuple[str, ...]
    rows: int
    hash: str
    text: bool
    files: tuple[str, ...]


class _Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The options of every such state; `problem` are the command's own, `makers` of its columns."""

    problem: dict[str, Any]
    makers: dict[str, str]
    columns: tuple[str, ...]
    train: _Train | None


class _Payload(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Whether numbers were read from text, so that other shards may hold them in another type."""

    text: bool


@dataclass(frozen=True)
class StateFile:
    """A file with rows: what its own header says, where it is, and what messages call it."""

    header: Header
    where: Path
    path: str
    kept: Scratch | None = None


@dataclass(frozen=True)
class RowState(State):
    """A state of rows, which are not held.

    Attributes
    ----------
    files
        Where the rows are.
    """

    KIND: ClassVar[str]

    files: tuple[StateFile, ...] = ()

    @abstractmethod
    def needed(self) -> Sequence[str]:
        """Return the columns without which there is nothing to fit."""

    @classmethod
    def stored(cls, header: Header, data: Stored, path: str) -> State:
        """Return the state of a file whose header was read; bytes are put into a file."""
        kept = data if isinstance(data, Scratch) else None
        if isinstance(data, bytes):
            kept = Scratch()
            with closing(kept):
                kept.write(data)
        where = kept.path if kept is not None else data
        assert isinstance(where, Path)
        with opened(where, path) as found:
            table = checked(found.schema.empty_table())
        return cls(header, table, path, (StateFile(header, where, path, kept),))

    @classmethod
    def merged(cls, states: Sequence[Any], shards: Sequence[Shard]) -> State:
        """Return the state of the rows of several of this kind, which hold such shards.

        Training rows are the same in all of them.

        Raises
        ------
        DataError
            A column of different types; see `calibkit.files.table.one_schema`.
        """
        table = _by_hash(states)[0].table
        columns = [name for name in table.columns if name.startswith(_ROWS)]
        parts, tables = [], []
        for state in states:
            kinds = {name.removeprefix(_ROWS): state.table.schema[name] for name in columns}
            parts.append(Part(state.path, "csv" if _is_text(state) else "arrow", {}, 0, state.path))
            tables.append(Table(pl.DataFrame(schema=kinds), kinds, 0))
        common = {_ROWS + name: kind for name, kind in one_schema(parts, tables, {}).items()}
        payload = _Payload(text=any(map(_is_text, states)))
        first = states[0].header
        header = new_header(first.kind, first.options, shards, as_plain(payload))
        files = tuple(file for state in states for file in state.files)
        return cls(header, pl.DataFrame(schema={**table.schema, **common}), files=files)

    def check(self) -> None:
        """Raise `ModelError` for a state that does not hold the rows that it says.

        The hashes are counted again: a bit that flipped on the way is found.
        """
        options, (file,) = _options(self), self.files
        _is_text(self)
        for name in self.needed():
            if name not in options.columns:
                raise ModelError(f"a damaged state: it has no column {name!r}")
        known = [_ROWS + name for name in options.columns]
        known += [_TRAIN + name for name in (options.train.columns if options.train else ())]
        if self.table.columns != known or not known:
            raise ModelError(f"a damaged state: its columns are {', '.join(self.table.columns)}")
        blocks = _blocks(file)
        with opened(file.where, file.path) as batches:
            whole = sum(map(_batches, blocks)) == batches.num_record_batches
        if not whole or any(block.rows < 1 for block in blocks):
            raise ModelError("a damaged state: it has not as many rows as it says")
        for place, block in enumerate(blocks):
            prefix = _TRAIN if options.train is not None and place == 0 else _ROWS
            rows = total = 0
            for frame in _frames(file, place, prefix):
                rows, total = rows + frame.height, total + _hash(frame, prefix)
            if rows != block.rows:
                raise ModelError("a damaged state: it has not as many rows as it says")
            if hash_text(total) != block.hash:
                raise ModelError(
                    "a damaged state: its rows are not those that were written; make it again"
                )

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
        with _Writer(file, self.table, metadata_of(self.header), compression) as writer:
            if train:
                writer.block(_frames(files[0], 0, _TRAIN))
            for _, one, place in sorted(places, key=lambda found: found[0]):
                writer.block(_frames(one, place, _ROWS))


def row_state(
    kind: type[RowState],
    options: FitOptions,
    makers: Mapping[str, str],
    rows: Reading,
    train: Reading | None = None,
) -> State:
    """Return the state of the rows of a shard.

    Parameters
    ----------
    kind, options
        The kind, and the options of its command.
    makers
        Which models made the columns of roles.
    rows
        The shard; its `files` are what the state is to name.  Its memory says how many rows are read
        at a time.
    train
        Further rows, which are the same whatever the shard.

    Raises
    ------
    UsageError, DataError
        What the checks raise.
    ResourceError
        What the disk refuses: rows are written to the temporary folder.
    """
    memory = rows.source.memory or memory_budget(None)
    kinds = rows.kinds(_ROWS) | (train.kinds(_TRAIN) if train is not None else {})
    table = pl.DataFrame(schema=kinds)
    kept = Scratch()
    with closing(kept), _Writer(kept, table, {}, "lz4") as writer:
        grown = None if train is None else _written(writer, train, _TRAIN, memory)
        shard = _written(writer, rows, _ROWS, memory)
    known = None
    if train is not None and grown is not None:
        known = _Train(
            columns=train.names,
            rows=grown.rows,
            hash=grown.hash,
            text=train.text,
            files=grown.files,
        )
    problem = plain(replace(options, threads=None))
    own = as_plain(_Options(problem=problem, makers=dict(makers), columns=rows.names, train=known))
    header = new_header(kind.KIND, own, [shard], as_plain(_Payload(text=rows.text)))
    state = kind(header, table)
    return replace(state, files=(StateFile(header, kept.path, state.path, kept),))


def _written(writer: _Writer, rows: Reading, prefix: str, memory: Memory) -> Shard:
    """Write the rows of an input; return what is known of them then."""
    count = total = 0

    def seen() -> Iterator[pl.DataFrame]:
        nonlocal count, total
        for frame in rows.frames(prefix, memory):
            count, total = count + frame.height, total + _hash(frame, prefix)
            yield frame

    writer.block(seen())
    return Shard(hash_text(total), count, tuple(rows.files))


def _hash(frame: pl.DataFrame, prefix: str) -> int:
    return hash_rows(frame.rename(lambda name: name.removeprefix(prefix)))


def problem_of(state: State) -> dict[str, Any]:
    """Return the options of the command; raises `ModelError` where there are none."""
    return _options(state).problem


def makers_of(state: State) -> dict[str, str]:
    """Return which models made the columns of roles."""
    return _options(state).makers


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
    first = [] if train is None else [Shard(train.hash, train.rows)]
    return (*first, *file.header.shards)


def _batches(block: Shard) -> int:
    return ceil(block.rows / _BATCH)


def _frames(file: StateFile, block: int, prefix: str) -> Iterator[pl.DataFrame]:
    """Yield the rows of a block, with the columns whose names begin so."""
    blocks = _blocks(file)
    first = sum(map(_batches, blocks[:block]))
    with opened(file.where, file.path) as batches:
        for place in range(first, first + _batches(blocks[block])):
            batch = batches.get_batch(place)
            batch.validate(full=True)
            frame = pl.DataFrame(batch)
            yield frame.select(name for name in frame.columns if name.startswith(prefix))


class _Writer:
    """Writes frames as batches of one size, whatever the frames were."""

    def __init__(
        self, file: Any, table: pl.DataFrame, metadata: dict[str, str], compression: str
    ) -> None:
        from pyarrow import ipc

        self._table, self._held = table, [table]
        schema = _arrow(table).schema.with_metadata(metadata)
        options = ipc.IpcWriteOptions(compression=compression)
        self._file = ipc.new_file(file, schema, options=options)

    def __enter__(self) -> _Writer:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()

    def block(self, frames: Iterable[pl.DataFrame]) -> None:
        """Write the rows of a block; columns that they lack are null."""
        for frame in frames:
            self._held.append(frame)
            if sum(one.height for one in self._held) >= _BATCH:
                self._write(whole=True)
        self._write(whole=False)

    def _write(self, *, whole: bool) -> None:
        """Write what is held, or as much of it as fills batches."""
        rows = pl.concat(self._held, how="diagonal").cast(self._table.schema)
        end = rows.height - rows.height % _BATCH if whole else rows.height
        for start in range(0, end, _BATCH):
            table = _arrow(rows[start : min(start + _BATCH, end)].rechunk())
            self._file.write_batch(table.combine_chunks().to_batches()[0])
        self._held = [self._table, rows[end:]]


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


def _source(found: Sequence[tuple[Part, Table]]) -> Source:
    ordered = sorted(found, key=lambda one: one[0].path)
    source = Source([part for part, _ in ordered], [table for _, table in ordered])
    source.warnings = ()  # shards were told apart by their rows
    return source


def _opened(
    file: StateFile, names: Sequence[str], text: bool, train: bool = False
) -> list[tuple[Part, Table]]:
    """Return the rows of a file as an input of their first name; the others have none."""
    options, prefix = _options(file), _TRAIN if train else _ROWS
    before = 0 if options.train is None else options.train.rows
    rows = before if train else sum(shard.rows for shard in file.header.shards)
    scan = pl.scan_ipc(file.where, glob=False)
    if options.train is not None:
        scan = scan.slice(0 if train else before, rows)
    own = options.train.columns if train and options.train is not None else options.columns
    scan = scan.select(pl.col(prefix + name).alias(name) for name in own)
    with reading(file.path):
        kinds = dict(scan.collect_schema())
    found = [Part(name, "csv" if text else "arrow", {}, 0, name) for name in names]
    tables = [Table(pl.DataFrame(schema=kinds), kinds, 0) for _ in names]
    found[0] = replace(found[0], rows=rows)
    tables[0] = Table(scan, kinds, rows, kept=file.kept)
    return list(zip(found, tables, strict=True))
