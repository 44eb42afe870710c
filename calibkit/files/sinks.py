"""Outputs: the only module that writes files.

A file is written beside its final name under a temporary one, flushed and synced, then renamed,
so that no reader ever sees half of it.  With several outputs all are written first and renamed
after, the main one (``-o``) last.  Standard output and special files (pipes, ``/dev/null``) are
written directly.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Final, Literal, Self

import polars as pl

from calibkit.errors import UsageError
from calibkit.files.formats import suffix_compression, suffix_format
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
    unknown_suffix,
    writing,
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
    "write_expected",
    "write_frames",
]

#: Rows of a row group in Parquet, and of a record batch in Arrow files, if rows are not wide: always
#: the same, so that the bytes of a file do not depend on the frames that it was written from.
_GROUP_ROWS: Final = 131_072

Write = Callable[[IO[bytes]], object]


@dataclass
class _Staged:
    """An output of a transaction: its temporary file, or what to write to a stream at the end."""

    output: str
    final: Path | None
    temporary: Path | None
    write: Write
    main: bool


class Transaction:
    """Several outputs that appear together, or not at all.

    On leaving the ``with`` block streams are written, then the files renamed, the main one last;
    after any exception (an interrupt too) all temporary files are removed.
    """

    def __init__(self) -> None:
        self._staged: list[_Staged] = []

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
                self._commit()
        finally:
            for staged in self._staged:
                if staged.temporary is not None:
                    staged.temporary.unlink(missing_ok=True)

    def write_bytes(self, data: bytes, output: str, *, main: bool = False) -> None:
        """Add an output with the content `data`; `main` marks the one to appear last."""
        self._stage(output, lambda file: file.write(data), main)

    def write(self, write: Write, output: str) -> None:
        """Add an output whose content a function writes to the file that it gets."""
        self._stage(output, write, main=False)

    def write_table(
        self,
        frame: pl.DataFrame,
        output: str,
        *,
        format: str | None = None,  # noqa: A002 (the word of options)
        metadata: dict[str, str] | None = None,
        main: bool = False,
    ) -> None:
        """Add a table as an output; the parameters are those of the function `write_frames`."""
        self.write_frames([frame], output, format=format, metadata=metadata, main=main)

    def write_frames(
        self,
        frames: Iterable[pl.DataFrame],
        output: str,
        *,
        format: str | None = None,  # noqa: A002 (the word of options)
        metadata: dict[str, str] | None = None,
        main: bool = False,
    ) -> None:
        """Add a table as an output; the parameters are those of the function `write_frames`.

        The frames of a file are made and written here, those of a stream when the block ends.
        """
        known = format or suffix_format(output)
        if known is None:
            raise unknown_suffix(output)
        compression = suffix_compression(output)
        self._stage(output, lambda file: _encode(frames, file, known, compression, metadata), main)

    def expect(self, output: str) -> str:
        """Add a file that others write, perhaps on other machines; return where they have to.

        They use `write_expected`.  The file must be there when the block ends.
        """
        final = final_path(output)
        if final is None:
            raise UsageError(f"{output}: is no file that others could write", file=output)
        with writing(output):
            remove_stale(final)
        place = temporary_path(final)
        self._staged.append(_Staged(output, final, place, lambda _: None, main=False))
        return str(place)

    def _stage(self, output: str, write: Write, main: bool) -> None:
        final = final_path(output)
        staged = _Staged(output, final, None, write, main)
        if final is not None and any(other.final == final for other in self._staged):
            raise UsageError(f"{output}: two outputs have this name; give each its own")
        if final is not None:
            with writing(output):
                remove_stale(final)
                staged.temporary = temporary_path(final)
                self._staged.append(staged)  # from here on cleaned up
                _write_synced(staged.temporary, final, write)
        else:
            self._staged.append(staged)

    def _commit(self) -> None:
        for staged in self._staged:
            if staged.final is None:
                with writing(staged.output):
                    _write_stream(staged.output, staged.write)
        for staged in sorted(self._staged, key=lambda staged: staged.main):
            if staged.temporary is not None and staged.final is not None:
                with writing(staged.output):
                    staged.temporary.replace(staged.final)
                    staged.temporary = None


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

    Raises
    ------
    UsageError
        If the suffix is unknown, the file cannot be created, or CSV is asked to hold lists.
    ResourceError
        If the disk is full or fails.
    BrokenPipeError
        If the reader of a pipe has gone.
    """
    with Transaction() as outputs:
        outputs.write_frames(frames, output, format=format, metadata=metadata)


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


def write_expected(
    frames: Iterable[pl.DataFrame],
    output: str,
    place: str,
    *,
    metadata: dict[str, str] | None = None,
) -> None:
    """Write a table for a transaction that expects it.

    Parameters
    ----------
    frames, output, metadata
        As for `write_frames`; the suffix of `output` tells the format.
    place
        Where `Transaction.expect` says.  What is there, a part of an earlier try, is replaced.

    Raises
    ------
    UsageError, ResourceError
        As `write_frames`.
    """
    known = suffix_format(output)
    if known is None:
        raise unknown_suffix(output)
    compression, temporary = suffix_compression(output), Path(place)
    with writing(output):
        temporary.unlink(missing_ok=True)
        _write_synced(
            temporary,
            Path(output),
            lambda file: _encode(frames, file, known, compression, metadata),
        )


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
    """Write a new file with the permissions of the one it replaces, else of the umask."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    with os.fdopen(os.open(temporary, flags, 0o666), "wb") as file:
        write(file)
        file.flush()
        with suppress(FileNotFoundError, PermissionError):
            shutil.copymode(final, temporary)
        os.fsync(file.fileno())


def _write_stream(output: str, write: Write) -> None:
    if output in STDOUT_NAMES:
        sys.stdout.flush()
        write(sys.stdout.buffer)
        sys.stdout.buffer.flush()
        return
    with Path(output).open("wb") as file:
        write(file)


def _encode(
    frames: Iterable[pl.DataFrame],
    file: IO[bytes],
    format_name: str,
    compression: str | None,
    metadata: dict[str, str] | None,
) -> None:
    packed: Literal["uncompressed", "gzip", "zstd"] = "uncompressed"
    if compression is not None:
        packed = "gzip" if compression == "gzip" else "zstd"

    def sink(rows: pl.LazyFrame, out: Any, size: int) -> None:
        if format_name == "parquet":
            rows.sink_parquet(out, row_group_size=size, metadata=metadata)
        elif format_name == "arrow":
            # The oldest types: pandas and R read these files as well.
            oldest = pl.CompatLevel.oldest()
            rows.sink_ipc(out, compression="lz4", compat_level=oldest, record_batch_size=size)
        elif format_name == "ndjson":
            rows.sink_ndjson(out, compression=packed, check_extension=False)
        else:
            separator = "\t" if format_name == "tsv" else ","
            rows.sink_csv(out, separator=separator, compression=packed, check_extension=False)

    write_groups(frames, _GROUP_ROWS, file, sink)
