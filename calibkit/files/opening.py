"""One input opened, the one place that does: its format told, its rows as a table."""

from __future__ import annotations

import stat
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from calibkit.errors import DataError
from calibkit.files.dialect import SAMPLE_BYTES, UTF8, Dialect, in_utf8, western
from calibkit.files.excel import excel_table
from calibkit.files.explain import reading, repeated_name
from calibkit.files.formats import (
    ARROW_STREAM,
    HEAD_BYTES,
    TEXT_FORMATS,
    is_compressed,
    sniff_format,
    suffix_format,
    unknown_suffix,
)
from calibkit.files.inputs import STDIN, Part, folder_keys, is_remote
from calibkit.files.lines import refuse_endless
from calibkit.files.scratch import Scratch
from calibkit.files.streams import decompressed, held, text_of
from calibkit.files.table import Table
from calibkit.files.text import text_table
from calibkit.runtime.memory import Memory

if TYPE_CHECKING:
    import pyarrow as pa

#: Compressed text is taken for so many times as large as its file: numbers seldom shrink to less.
_EXPANSION = 8


def open_part(
    path: str,
    relative: str,
    forced: str | None,
    dtype: str,
    memory: Memory | None,
    dialect: Dialect,
) -> tuple[Part, Table]:
    """Open one input; see `calibkit.files.sources.open_source`, whose errors it raises.

    Parameters
    ----------
    path, relative
        From `calibkit.files.inputs.find_files`.
    forced
        The format; None tells it by suffix, that of a stream by leading bytes.
    dtype, memory, dialect
        As for `open_source`.
    """
    large = None if memory is None else memory.text
    with reading(path):
        where = _where(path, large)
        kept = where if isinstance(where, Scratch) else None
        source = where.path if isinstance(where, Scratch) else where
        head = _head(source)
        known = forced or suffix_format(path)
        if known is None and (kept or isinstance(source, bytes)):
            known = sniff_format(head)
        if known is None:
            raise unknown_suffix(path, "--input-format")
        if not head and not isinstance(source, str):
            raise DataError(f"{path}: the file is empty (0 bytes); write it again", file=path)
        if known in TEXT_FORMATS and not isinstance(source, str):
            table = _text(source, path, known, dtype, large, dialect)
        elif known == "xlsx":
            table = excel_table(source, path, dtype, dialect)
        else:
            table = _table(source, path, head, known, large)
        if kept is not None and isinstance(table.frame, pl.LazyFrame) and table.kept is None:
            table = replace(table, kept=kept)
    if not table.rows:
        raise DataError(f"{path}: the file is empty (0 rows); give a file with rows", file=path)
    return Part(path, known, dict(folder_keys(relative)), table.rows, relative), table


def _where(path: str, large: int | None) -> Path | Scratch | bytes | str:
    """Return where an input can be read as often as need be.

    A file is that itself, and so is an address that polars reads parts of.  All else comes but once,
    and is held, from so many bytes on (`large`) in a file of its own.
    """
    if path == STDIN:
        return held(decompressed(sys.stdin.buffer, path), large)
    if is_remote(path):
        return held(text_of(path), large) if suffix_format(path) in TEXT_FORMATS else path
    if path.startswith("/dev/") or not stat.S_ISREG(Path(path).stat().st_mode):
        with Path(path).open("rb") as stream:
            return held(decompressed(stream, path), large)
    return Path(path)


def _head(source: Path | bytes | str) -> bytes:
    """Return the first bytes of an input; of an address none."""
    if isinstance(source, Path):
        with source.open("rb") as file:
            return file.read(HEAD_BYTES)
    return source[:HEAD_BYTES] if isinstance(source, bytes) else b""


def _table(
    source: Path | bytes | str,
    path: str,
    head: bytes,
    format_name: str,
    large: int | None,
) -> Table:
    if format_name == "parquet":
        scan = pl.scan_parquet(source, glob=False, hive_partitioning=False)
        return replace(Table.of(scan), stored=source)
    if isinstance(source, str):
        return Table.of(pl.scan_ipc(source, glob=False, hive_partitioning=False))
    size = source.stat().st_size if isinstance(source, Path) else 0
    copy = large is not None and isinstance(source, Path) and size >= large
    return _arrow_table(source, path, stream=head.startswith(ARROW_STREAM), copy=copy)


def _text(
    source: Path | bytes,
    path: str,
    format_name: str,
    dtype: str,
    large: int | None,
    asked: Dialect,
) -> Table:
    """Open text of whatever encoding."""
    if large is not None and isinstance(source, Path):
        refuse_endless(source, path, large)
    sample = next(_content(source, path), b"")
    dialect = asked.settled(sample[:SAMPLE_BYTES], format_name)
    try:
        return _text_in(source, path, format_name, dtype, large, dialect)
    except pl.exceptions.ComputeError:
        if asked.encoding is not None or dialect.encoding != UTF8:
            raise
        encodings = {western(chunk) for chunk in _content(source, path)}
        if len(encodings) != 1 or UTF8 in encodings:
            raise
        found = replace(dialect, encoding=encodings.pop())
        return _text_in(source, path, format_name, dtype, large, found)


def _text_in(
    source: Path | bytes,
    path: str,
    format_name: str,
    dtype: str,
    large: int | None,
    dialect: Dialect,
) -> Table:
    kept: Scratch | None = None
    if dialect.encoding != UTF8:
        found = held(in_utf8(_content(source, path), str(dialect.encoding)), large)
        kept = found if isinstance(found, Scratch) else None
        source = found.path if isinstance(found, Scratch) else found
    head = _head(source)
    size = source.stat().st_size if isinstance(source, Path) else 0
    size *= _EXPANSION if is_compressed(head) else 1
    hold = large is None or isinstance(source, bytes) or size < large
    table = text_table(source, path, head, format_name, dtype, dialect, hold=hold)
    return replace(table, kept=kept)


def _content(source: Path | bytes, path: str) -> Iterator[bytes]:
    """Yield what a text file holds, decompressed."""
    with source.open("rb") if isinstance(source, Path) else BytesIO(source) as file:
        yield from decompressed(file, path)


def _arrow_table(source: Path | bytes, path: str, *, stream: bool, copy: bool) -> Table:
    """Open Arrow data, checked first: polars panics at repeated names and at damage.

    `copy`: a stream becomes a file of the run's own, which can be read in parts.
    """
    if stream and copy:
        # What Arrow files cannot hold is read as a whole; that also says what is damaged.
        with suppress(ValueError, NotImplementedError):
            kept = _copied(source, path)
            return replace(Table.of(pl.scan_ipc(kept.path, glob=False)), kept=kept)
    with _batches(source, path, stream=stream) as (_, batches):
        for _batch in batches:
            pass
    if stream:
        return Table.of(pl.read_ipc_stream(source))
    return Table.of(pl.scan_ipc(source, glob=False, hive_partitioning=False))


def _copied(source: Path | bytes, path: str) -> Scratch:
    import pyarrow as pa

    kept = Scratch()
    with (
        _batches(source, path, stream=True) as (schema, batches),
        closing(kept),
        pa.ipc.new_file(kept, schema) as made,
    ):
        for batch in batches:
            made.write_batch(batch)
    return kept


@contextmanager
def _batches(
    source: Path | bytes, path: str, *, stream: bool
) -> Iterator[tuple[pa.Schema, Iterator[pa.RecordBatch]]]:
    """Open Arrow data as its schema and its batches, each checked as it comes."""
    import pyarrow as pa

    def checked() -> Iterator[pa.RecordBatch]:
        numbered = () if stream else map(found.get_batch, range(found.num_record_batches))
        for batch in found if stream else numbered:
            batch.validate(full=True)
            yield batch

    try:
        with (
            pa.memory_map(str(source)) if isinstance(source, Path) else pa.BufferReader(source)
        ) as data:
            found = pa.ipc.open_stream(data) if stream else pa.ipc.open_file(data)
            if len(set(found.schema.names)) < len(found.schema.names):
                raise repeated_name(found.schema.names, path)
            yield found.schema, checked()
    except pa.ArrowNotImplementedError as error:  # such types come of damage
        raise ValueError(str(error)) from error
