"""Outputs: the only module that writes files.

A file is written beside its final name under a temporary one, flushed and synced, then renamed,
so that no reader ever sees half of it.  With several outputs all are written first and renamed
after, in their order.  Standard output and special files (pipes, ``/dev/null``) are
written directly.
"""

from __future__ import annotations

import os
import shutil
import stat
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Final, Self

import polars as pl

from calibkit.errors import UsageError
from calibkit.files.excel import write_excel
from calibkit.files.explain import writing
from calibkit.files.formats import SEPARATORS, suffix_compression, suffix_format, unknown_suffix
from calibkit.files.outputs import (
    STDOUT,
    STDOUT_NAMES,
    check_output,
    directory_outputs,
    final_path,
    is_directory_output,
    is_stream,
    remove_stale,
    temporary_path,
)
from calibkit.files.row_groups import write_groups

__all__ = [
    "STDOUT",
    "Transaction",
    "check_output",
    "directory_outputs",
    "is_directory_output",
    "is_stream",
    "make_folders",
    "write_bytes",
    "write_frames",
]

#: Rows of a row group in Parquet, and of a record batch in Arrow files, if rows are not wide: always
#: the same, so that the bytes of a file do not depend on the frames that it was written from.
_GROUP_ROWS: Final = 131_072

Write = Callable[[IO[bytes]], object]


class Transaction:
    """Several outputs that appear together, or not at all.

    On leaving the ``with`` block streams are written, then the files renamed, in the order in which
    they were added: the main one comes last.  After any exception (an interrupt too) all temporary
    files are removed.
    """

    def __init__(self) -> None:
        #: Where each output that is a file was named, where it goes, and where it is until then.
        self._files: list[tuple[str, Path, Path]] = []
        self._streams: list[tuple[str, Write]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            if kind is None:
                for output, write in self._streams:
                    with writing(output):
                        _write_stream(output, write)
                for output, final, temporary in self._files:
                    with writing(output):
                        temporary.replace(final)
        finally:
            for _, _, temporary in self._files:
                temporary.unlink(missing_ok=True)

    def write(self, write: Write, output: str) -> None:
        """Add an output whose content a function writes to the file that it gets."""
        final = final_path(output)
        if final is None:
            self._streams.append((output, write))
            return
        temporary = self._place(output, final)
        with writing(output):
            _write_synced(temporary, final, write)

    def write_bytes(self, data: bytes, output: str) -> None:
        """Add an output with the content `data`."""
        self.write(lambda file: file.write(data), output)

    def write_frames(
        self,
        frames: Iterable[pl.DataFrame],
        output: str,
        *,
        format: str | None = None,  # noqa: A002 (the word of options)
        metadata: dict[str, str] | None = None,
    ) -> None:
        """Add a table as an output; the parameters are those of the function `write_frames`.

        The frames of a file are made and written here, those of a stream when the block ends.
        """
        self.write(_table(frames, output, format, metadata), output)

    def expect(self, output: str) -> str:
        """Add a file that others write, perhaps on other machines; return where they have to.

        They give it to `write_frames` as its place.  The file must be there when the block ends.
        """
        final = final_path(output)
        if final is None:
            raise UsageError(f"{output}: is no file that others could write", file=output)
        return str(self._place(output, final))

    def _place(self, output: str, final: Path) -> Path:
        """Return where a file is written; from here on it is cleaned up."""
        if any(other == final for _, other, _ in self._files):
            raise UsageError(f"{output}: two outputs have this name; give each its own")
        with writing(output):
            remove_stale(final)
        temporary = temporary_path(final)
        self._files.append((output, final, temporary))
        return temporary


def write_bytes(data: bytes, output: str) -> None:
    """Write `data` to a file or, if `output` is ``-``, to standard output.

    Raises
    ------
    UsageError
        If the output cannot be created.
    ResourceError
        If the disk is full or fails.
    BrokenPipeError
        If the reader of a pipe has gone.
    """
    with Transaction() as outputs:
        outputs.write_bytes(data, output)


def write_frames(
    frames: Iterable[pl.DataFrame],
    output: str,
    *,
    format: str | None = None,  # noqa: A002 (the word of options)
    metadata: dict[str, str] | None = None,
    place: str | None = None,
) -> None:
    """Write a table that comes in frames of one schema, of which few are in memory at a time.

    The bytes are those of all rows in one frame, wherever they were cut.

    Parameters
    ----------
    frames
        One or more, each taken when there is room for it; an exception that one raises ends the
        writing, and nothing is left of a file.
    output
        A file, or ``-`` for standard output.  ``.gz`` and ``.zst`` compress text formats.
    format
        One of `calibkit.files.formats.FORMATS`; None tells it by the suffix.
    metadata
        Keys and values kept in the footer of a Parquet file; other formats have no place for
        them and leave them out.
    place
        Where to write what a transaction expects, as `Transaction.expect` says; what is there, a
        part of an earlier try, is replaced.

    Raises
    ------
    UsageError
        If the suffix is unknown, the file cannot be created, or CSV is asked to hold lists.
    ResourceError
        If the disk is full or fails.
    BrokenPipeError
        If the reader of a pipe has gone.
    """
    if place is None:
        with Transaction() as outputs:
            outputs.write_frames(frames, output, format=format, metadata=metadata)
        return
    write = _table(frames, output, format, metadata)
    with writing(output):
        Path(place).unlink(missing_ok=True)
        _write_synced(Path(place), Path(output), write)


def arrow_file(frame: pl.DataFrame, metadata: dict[str, str], compression: str = "zstd") -> bytes:
    """Return a frame as an Arrow IPC file with entries in the metadata of its schema.

    Equal frames and entries give equal bytes.
    """
    import pyarrow as pa
    from pyarrow import ipc

    table = frame.rechunk().to_arrow().replace_schema_metadata(metadata)
    sink = pa.BufferOutputStream()
    options = ipc.IpcWriteOptions(compression=compression)
    with ipc.new_file(sink, table.schema, options=options) as file:
        file.write_table(table)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def make_folders(outputs: Sequence[str]) -> None:
    """Create the folders that `outputs` need.

    Raises
    ------
    UsageError, ResourceError
        If one cannot be created.
    """
    for output in outputs:
        with writing(output):
            Path(output).parent.mkdir(parents=True, exist_ok=True)


def _write_synced(temporary: Path, final: Path, write: Write) -> None:
    """Write a new file with the permissions of the one it replaces, from the first; else the umask."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    mode = 0o666
    with suppress(FileNotFoundError, PermissionError):
        mode = stat.S_IMODE(final.stat().st_mode)
    with os.fdopen(os.open(temporary, flags, mode), "wb") as file:
        with suppress(FileNotFoundError, PermissionError):
            shutil.copymode(final, temporary)
        write(file)
        file.flush()
        os.fsync(file.fileno())


def _write_stream(output: str, write: Write) -> None:
    if output in STDOUT_NAMES:
        sys.stdout.flush()
        write(sys.stdout.buffer)
        sys.stdout.buffer.flush()
        return
    with Path(output).open("wb") as file:
        write(file)


def _table(
    frames: Iterable[pl.DataFrame],
    output: str,
    format_name: str | None,
    metadata: dict[str, str] | None,
) -> Write:
    """Return what writes a table to a file; the parameters are those of `write_frames`."""
    known = format_name or suffix_format(output)
    if known is None:
        raise unknown_suffix(output, "--output-format")
    if known == "xlsx":
        return partial(write_excel, frames, output)
    packed = suffix_compression(output) or "uncompressed"

    def sink(rows: pl.LazyFrame, out: Any, size: int) -> None:
        if known == "parquet":
            rows.sink_parquet(out, row_group_size=size, metadata=metadata)
        elif known == "arrow":
            # The oldest types: pandas and R read these files as well.
            oldest = pl.CompatLevel.oldest()
            rows.sink_ipc(out, compression="lz4", compat_level=oldest, record_batch_size=size)
        elif known == "ndjson":
            rows.sink_ndjson(out, compression=packed, check_extension=False)
        else:
            separator = SEPARATORS[known]
            rows.sink_csv(out, separator=separator, compression=packed, check_extension=False)

    return lambda file: write_groups(frames, _GROUP_ROWS, file, sink)
