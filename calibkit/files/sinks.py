"""Outputs: the only module that writes files.

A file is written beside its final name under a temporary one, flushed and synced, then renamed,
so that no reader ever sees half of it.  With several outputs all are written first and renamed
after, in their order.  Standard output and special files (pipes, ``/dev/null``) are
written directly.
"""

from __future__ import annotations

import io
import os
import shutil
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from itertools import chain
from pathlib import Path
from queue import Empty, Full, Queue
from typing import IO, Any, Final, Self

import polars as pl
from polars.io.plugins import register_io_source

from calibkit.errors import UsageError
from calibkit.files.excel import write_excel
from calibkit.files.explain import writing
from calibkit.files.formats import SEPARATORS, suffix_format, unknown_suffix, unpacked
from calibkit.files.paths import STDOUT_NAMES, final_path, fresh_path

#: Rows of a row group in Parquet, and of a record batch in Arrow files, if rows are not wide: always
#: the same, so that the bytes of a file do not depend on the frames that it was written from.
_GROUP_ROWS: Final = 131_072

#: Bytes of a group, about, beyond which it has fewer rows; and the rows that it always has.
_MOST_BYTES, _FEWEST_ROWS = 2**25, 2**12

#: Bytes after which the disk is set to work on what was written: less is left to wait for at the end.
_STRETCH: Final = 2**23

#: Seconds between two looks at whether the writer is still there.
_LOOK: Final = 0.2

#: Writes all rows of a lazy frame to a file, in groups of so many rows.
Sink = Callable[[pl.LazyFrame, Any, int], None]

Write = Callable[[IO[bytes]], object]


@contextmanager
def alone_with(path: str) -> Iterator[None]:
    """Keep a file to one run at a time, from where it is read until it is written; others wait.

    They wait for the lock of a hidden file beside it, which each removes in the end.  Where the system
    has no such lock, or the folder takes no file, runs are not kept apart.
    """
    final, held = final_path(path), None
    with suppress(ImportError, OSError):
        from fcntl import LOCK_EX, flock

        while final is not None:
            held = final.with_name(f".{final.name}.lock").open("wb")
            flock(held, LOCK_EX)
            if os.fstat(held.fileno()).st_nlink:
                break
            held.close()  # the run that had it has removed the file
            held = None
    try:
        yield
    finally:
        if held is not None:
            Path(held.name).unlink(missing_ok=True)
            held.close()


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
        self._folders: list[Path] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        try:
            if kind is None:
                for output, write in self._streams:
                    with writing(output):
                        if output in STDOUT_NAMES:
                            sys.stdout.flush()
                            write(sys.stdout.buffer)
                            sys.stdout.buffer.flush()
                        else:
                            with Path(output).open("wb") as file:
                                write(file)
                for output, final, temporary in self._files:
                    with writing(output):
                        temporary.replace(final)
        finally:
            for _, _, temporary in self._files:
                temporary.unlink(missing_ok=True)
            for folder in sorted(self._folders, reverse=True):  # those within others first
                with suppress(OSError):  # which holds a result
                    folder.rmdir()

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

    def write_frames(self, frames: Iterable[pl.DataFrame], output: str, **about: Any) -> None:
        """Add a table as an output; the parameters are those of the function `write_frames`.

        The frames of a file are made and written here, those of a stream when the block ends.
        """
        self.write(_table(frames, output, **about), output)

    def make_folders(self, outputs: Sequence[str]) -> None:
        """Create the folders that `outputs` need; those in which nothing comes to stand go again.

        Raises `UsageError`, `ResourceError` if one cannot be created.
        """
        for output in outputs:
            folder = Path(output).parent
            with writing(output):
                self._folders += [one for one in (folder, *folder.parents) if not one.exists()]
                folder.mkdir(parents=True, exist_ok=True)

    def expect(self, output: str) -> str:
        """Add a file that others write, perhaps on other machines; return where they have to.

        They give it to `write_frames` as its place.  The file must be there when the block ends.
        """
        final = final_path(output)
        if final is None:
            raise UsageError.of(output, "is no file that others could write")
        return str(self._place(output, final))

    def _place(self, output: str, final: Path) -> Path:
        """Return where a file is written; from here on it is cleaned up."""
        if any(other == final for _, other, _ in self._files):
            raise UsageError(f"{output}: two outputs have this name; give each its own")
        with writing(output):
            temporary = fresh_path(final)
        self._files.append((output, final, temporary))
        return temporary


def write_bytes(data: bytes, output: str) -> None:
    """Write `data` to a file or, if `output` is ``-``, to standard output.

    Raises what `calibkit.files.explain.writing` says.
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

    The bytes are those of all rows in one frame, wherever they were cut.  Each frame is taken when
    there is room for it; an exception that one raises ends the writing, and nothing is left of a
    file.  The format is told by the suffix if not by `format`; ``.gz`` and ``.zst`` compress text.
    `metadata` is kept in the footer of a Parquet file; other formats have no place for it.  `place`:
    where a transaction expects the file, see `Transaction.expect`; an earlier try is replaced.

    Raises `UsageError` if the suffix is unknown; else what `calibkit.files.explain.writing` says.
    """
    write = _table(frames, output, format, metadata)
    if place is None:
        with Transaction() as outputs:
            outputs.write(write, output)
        return
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
    return sink.getvalue().to_pybytes()


def _write_synced(temporary: Path, final: Path, write: Write) -> None:
    """Write a new file with the permissions of the one it replaces, from the first; else the umask."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    for name in ("O_CLOEXEC", "O_BINARY"):  # each of some systems
        flags |= getattr(os, name, 0)
    mode = 0o666
    with suppress(FileNotFoundError, PermissionError):
        mode = stat.S_IMODE(final.stat().st_mode)
    with io.BufferedWriter(_Underway(os.open(temporary, flags, mode), "wb")) as file:
        with suppress(FileNotFoundError, PermissionError):
            shutil.copymode(final, temporary)
        write(file)
        file.flush()
        os.fsync(file.fileno())


class _Underway(io.FileIO):
    """A file that goes to disk while it is written, where the system has a call for that."""

    _begun = _written = 0

    def write(self, data: Any) -> int:
        """Write bytes, as files do."""
        count = super().write(data)
        self._written += count
        behind = self._written - self._begun
        if behind >= _STRETCH and sys.platform == "linux":
            # Pages that are not on disk yet begin their way there, and stay in memory.
            with suppress(OSError):
                os.posix_fadvise(self.fileno(), self._begun, behind, os.POSIX_FADV_DONTNEED)
            self._begun = self._written
        return count


def _table(
    frames: Iterable[pl.DataFrame],
    output: str,
    format: str | None = None,  # noqa: A002 (the word of options)
    metadata: dict[str, str] | None = None,
) -> Write:
    """Return what writes a table to a file; the parameters are those of `write_frames`."""
    known = format or suffix_format(output)
    if known is None:
        raise unknown_suffix(output, "--output-format")
    if known == "xlsx":
        return partial(write_excel, frames, output)
    packed = unpacked(output)[1] or "uncompressed"

    def sink(rows: pl.LazyFrame, out: Any, size: int) -> None:
        if known == "parquet":
            # Level 1: on numbers as small as the default, in two thirds of its time.
            rows.sink_parquet(out, compression_level=1, row_group_size=size, metadata=metadata)
        elif known == "arrow":
            # The oldest types: pandas and R read these files as well.
            oldest = pl.CompatLevel.oldest()
            rows.sink_ipc(out, compression="lz4", compat_level=oldest, record_batch_size=size)
        elif known == "ndjson":
            if pl.Binary in rows.collect_schema().dtypes():  # polars would panic
                raise pl.exceptions.ComputeError("datatype binary cannot be written to NDJSON")
            rows.sink_ndjson(out, compression=packed, check_extension=False)
        else:
            separator = SEPARATORS[known]
            rows.sink_csv(out, separator=separator, compression=packed, check_extension=False)

    copied = known == "arrow"  # where the padding of a view of a larger frame shows
    return lambda file: write_groups(frames, _GROUP_ROWS, file, sink, copied=copied)


class _Output:
    """A file, open for writing, that remembers how writing failed.

    Polars would go on asking for frames, and tell of the error when it has them all.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.flush = file.flush
        self.error: OSError | None = None

    def write(self, data: bytes) -> int:
        """Write bytes, as files do."""
        try:
            return self._file.write(data)
        except OSError as error:
            self.error = error
            raise

    def close(self) -> None:
        """Do nothing: the file belongs to whoever opened it."""


def row_bytes(schema: Mapping[str, pl.DataType]) -> int:
    """Return about how many bytes a row takes in memory: what its types alone tell."""
    kinds = schema.values()
    nested = sum(one.is_nested() for one in kinds)
    small = sum(one.is_numeric() or one.is_temporal() or one == pl.Boolean for one in kinds)
    return 128 * nested + 8 * small + 32 * (len(kinds) - nested - small)


def group_size(schema: Mapping[str, pl.DataType], most: int) -> int:
    """Return how many rows a group has: `most`, of wide rows a half, a quarter … of it.

    A function of the schema alone, so that files have the same bytes whatever the memory.
    """
    while most > _FEWEST_ROWS and most * row_bytes(schema) > _MOST_BYTES:
        most //= 2
    return most


def write_groups(
    frames: Iterable[pl.DataFrame], most: int, file: IO[bytes], sink: Sink, *, copied: bool
) -> None:
    """Write the rows of frames in groups of `most` rows, fewer if they are wide, each `copied` or not.

    What the sink, which runs beside the caller, gets depends on the rows alone, not on the frames in
    which they come.  These are made in the thread of the caller, so that signals reach it: polars
    looks for none while it waits for a frame.

    Raises `OSError` as the file raised it: no further frame is made then.
    """
    output = _Output(file)
    coming = iter(frames)
    first = next(coming)
    size = group_size(first.schema, most)
    groups = grouped(chain((first,), coming), size, copied=copied)
    ready: Queue[pl.DataFrame | None] = Queue(1)
    stopped = False

    def taken(*_: Any) -> Iterator[pl.DataFrame]:
        while not stopped:
            with suppress(Empty):
                group = ready.get(timeout=_LOOK)
                if group is None:
                    return
                yield group
        raise EOFError("the frames of a table end before they are all there")

    def put(group: pl.DataFrame | None) -> None:
        while not written.done():
            with suppress(Full):
                ready.put(group, timeout=_LOOK)
                break

    rows = register_io_source(taken, schema=dict(first.schema))
    with ThreadPoolExecutor(1) as pool:
        try:
            written = pool.submit(sink, rows, output, size)
            for group in groups:
                put(group)
                if output.error is not None or written.done():
                    break
            put(None)
            error = written.exception()
        except BaseException:
            stopped = True  # said nowhere else: a signal may have come within any call, half done
            raise
    if error is not None:
        raise output.error or error  # polars says it in other words


def grouped(frames: Iterable[pl.DataFrame], size: int, *, copied: bool) -> Iterator[pl.DataFrame]:
    """Yield the rows in frames of so many, the last with the rest; see `write_groups`."""
    held: list[pl.DataFrame] = []
    room = size
    for frame in frames:
        start = 0
        while frame.height - start > room:  # not where it just fits: the last group has rows
            yield _one_chunk([*held, frame.slice(start, room)], copied)
            start, room, held = start + room, size, []
        held.append(frame.slice(start))
        room -= frame.height - start
    yield _one_chunk(held, copied)


def _one_chunk(frames: Sequence[pl.DataFrame], copied: bool) -> pl.DataFrame:
    """Return frames as one of one chunk a column: chunks would show in the bytes of a file."""
    filled = [frame for frame in frames if frame.height] or frames[:1]
    if copied and len(filled) == 1:
        filled = [filled[0].head(1), filled[0].slice(1)]  # polars copies no single one
    return pl.concat(filled).rechunk()
