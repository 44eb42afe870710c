"""One input opened, the one place that does: its format told, its rows as a table."""

from __future__ import annotations

import stat
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

import polars as pl

from calibkit.errors import DataError
from calibkit.files.dialect import Dialect
from calibkit.files.excel import excel_table
from calibkit.files.explain import reading, repeated_name
from calibkit.files.formats import (
    ARROW_STREAM,
    TEXT_FORMATS,
    head_of,
    sniff_format,
    suffix_format,
    unknown_suffix,
)
from calibkit.files.inputs import STDIN, Part, is_remote
from calibkit.files.scratch import Scratch
from calibkit.files.streams import decompressed, held
from calibkit.files.table import Table
from calibkit.files.text import text_table
from calibkit.runtime.memory import Memory

if TYPE_CHECKING:
    import pyarrow as pa

#: What stands for null in the name of a folder.
_HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"


def open_part(
    path: str, relative: str, forced: str | None, memory: Memory | None, dialect: Dialect
) -> Table:
    """Open one input from `calibkit.files.inputs.find_files`.

    `forced`: the format; None tells it by suffix, that of a stream by leading bytes.  All else, and
    the errors, are those of `calibkit.files.sources.open_source`.
    """
    large = None if memory is None else memory.text
    with reading(path):
        source, kept = _where(path, large)
        head = head_of(source)
        known = forced or suffix_format(path)
        if known is None and (kept or isinstance(source, bytes)):
            known = sniff_format(head)
        if known is None:
            raise unknown_suffix(path, "--input-format")
        if not head and not isinstance(source, str):
            raise DataError.of(path, "the file is empty (0 bytes); write it again")
        named = (folder.partition("=") for folder in Path(relative).parts[:-1])
        keys = {
            unquote(key): None if unquote(value) == _HIVE_NULL else unquote(value)
            for key, equals, value in named
            if equals and key
        }
        part = Part(path, known, relative, keys)
        if known in TEXT_FORMATS and not isinstance(source, str):
            table = text_table(source, part, large, dialect)
        elif known == "xlsx":
            table = excel_table(source, part, dialect)
        elif known == "parquet":
            scan = pl.scan_parquet(source, glob=False, hive_partitioning=False)
            table = replace(Table.of(part, scan), stored=source)
        elif isinstance(source, str):
            table = Table.of(part, pl.scan_ipc(source, glob=False, hive_partitioning=False))
        else:
            table = _arrow_table(source, part, large, stream=head.startswith(ARROW_STREAM))
        if kept is not None and isinstance(table.frame, pl.LazyFrame) and table.kept is None:
            table = replace(table, kept=kept)
    if not table.rows:
        raise DataError.of(path, "the file is empty (0 rows); give a file with rows")
    return replace(table, part=replace(part, path=getattr(path, "known_as", path)))


def _where(path: str, large: int | None) -> tuple[Path | bytes | str, Scratch | None]:
    """Return where an input can be read as often as need be, and what has to be kept for that.

    A file is that itself, and so is an address that polars reads parts of.  All else comes but once,
    and is held, from so many bytes on (`large`) in a file of its own.
    """
    if path == STDIN:
        return held(decompressed(sys.stdin.buffer, path), large)
    if is_remote(path):
        if suffix_format(path) not in TEXT_FORMATS:
            return path, None
        batches = pl.scan_lines(path).collect_batches(maintain_order=True)
        return held(("\n".join([*rows["line"], ""]).encode() for rows in batches), large)
    if path.startswith("/dev/") or not stat.S_ISREG(Path(path).stat().st_mode):
        with Path(path).open("rb") as stream:
            return held(decompressed(stream, path), large)
    return Path(path), None


def _arrow_table(source: Path | bytes, part: Part, large: int | None, *, stream: bool) -> Table:
    """Open Arrow data, checked first: polars panics at repeated names and at damage.

    A large stream becomes a file of the run's own, which can be read in parts.
    """
    if stream and large is not None and isinstance(source, Path) and source.stat().st_size >= large:
        import pyarrow as pa

        # What Arrow files cannot hold is read as a whole; that also says what is damaged.
        with suppress(ValueError, NotImplementedError):
            kept = Scratch()
            with (
                _batches(source, part.path, stream=True) as (schema, batches),
                closing(kept),
                pa.ipc.new_file(kept, schema) as made,
            ):
                for batch in batches:
                    made.write_batch(batch)
            return replace(Table.of(part, pl.scan_ipc(kept.path, glob=False)), kept=kept)
    with _batches(source, part.path, stream=stream) as (_, batches):
        for _batch in batches:
            pass
    if stream:
        return Table.of(part, pl.read_ipc_stream(source))
    return Table.of(part, pl.scan_ipc(source, glob=False, hive_partitioning=False))


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
