"""Bytes that come packed, or but once: unpacked, held to be read again, refused if without an end."""

from __future__ import annotations

import errno
import gzip
import tempfile
import weakref
import zlib
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from io import BufferedRandom, BufferedReader, BytesIO
from itertools import chain
from pathlib import Path, PosixPath
from typing import Any, Final

from calibkit.errors import DataError, ResourceError
from calibkit.files.formats import GZIP, HEAD_BYTES, head_of, is_compressed

#: Bytes that are decompressed at a time.
_CHUNK: Final = 2**20

#: Tables that unpack to more than this, beyond the budget, are taken for damage or malice.
_MOST_EXPANSION: Final = 1000
#: A row may have so many bytes, however little memory there is.
_LEAST: Final = 2**22
#: What gzip and zstd can pack into a byte at most.
_GZIP_EXPANSION, _ZSTD_EXPANSION = 1032, 2**15


def decompressed(stream: Any, path: str) -> Iterator[bytes]:
    """Yield the bytes of a stream from where it stands, with every layer of gzip or zstd removed.

    Raises `DataError` if a compressed stream, which the message calls `path`, is truncated or
    corrupt.
    """
    layer, packed = _peekable(stream), False
    try:
        while is_compressed(head := layer.peek(HEAD_BYTES)):
            packed = True
            layer = _peekable(_unpacked(layer, head))
        while chunk := layer.read(_CHUNK):
            yield chunk
    except (OSError, EOFError, ValueError, zlib.error) as error:
        if not packed or getattr(error, "errno", None) is not None:
            raise
        raise DataError.of(
            path, f"the compressed data is truncated or corrupt ({error}); write the file again"
        ) from error


def _peekable(stream: Any) -> Any:
    return stream if hasattr(stream, "peek") else BufferedReader(stream)


def _unpacked(layer: Any, head: bytes) -> Any:
    if head.startswith(GZIP):
        return gzip.GzipFile(fileobj=layer)
    import pyarrow as pa  # polars decompresses files only

    return pa.CompressedInputStream(pa.PythonFile(layer, mode="r"), "zstd")


def content_of(source: Path | bytes, path: str) -> Iterator[bytes]:
    """Yield what a file holds, decompressed; see `decompressed`."""
    with source.open("rb") if isinstance(source, Path) else BytesIO(source) as file:
        yield from decompressed(file, path)


def held(chunks: Iterator[bytes], large: int | None) -> bytes | ScratchPath:
    """Return all bytes; from so many on (`large`, None: never) a file with them."""
    memory = BytesIO()
    for chunk in chunks:
        memory.write(chunk)
        if large is not None and memory.tell() >= large:
            return scratched(chain((memory.getvalue(),), chunks))
    return memory.getvalue()


def scratched(chunks: Iterable[bytes]) -> ScratchPath:
    """Return a file of the run's own with some bytes."""
    scratch = Scratch()
    with closing(scratch):
        for chunk in chunks:
            scratch.write(chunk)
    return scratch.path


def refuse_endless(source: Path, path: str, longest: int, *, quoted: bool) -> None:
    """Refuse text of which a reader, which holds whole rows, could not read one within the budget.

    Where fields may be `quoted` a row ends at the first line feed outside quotation marks, else at
    the first one.  `longest`: the bytes that a row may have, if not few.

    Raises `ResourceError` where a row is longer, or the file unpacks to over a thousand times its
    size and to more than that; `DataError` where a compressed file is truncated or corrupt.
    """
    longest, size, head = max(longest, _LEAST), source.stat().st_size, head_of(source)
    packed = is_compressed(head)
    expansion = (_GZIP_EXPANSION if head.startswith(GZIP) else _ZSTD_EXPANSION) if packed else 1
    if size * expansion <= longest:
        return
    start, line = 0, 1  # of a row
    done, feeds, inside = 0, 0, False  # bytes and line feeds so far, and whether in quotation marks
    for chunk in content_of(source, path):
        ends, inside = _row_ends(chunk, inside, quoted)
        if (done + ends[0] if ends else done + len(chunk)) - start > longest:
            what, advice = f"line that begins at byte {start:,}", "end the lines by a line feed"
            if inside:
                what = f"row that begins in line {line:,}, at byte {start:,},"
                advice = "close the quotation mark that is open there"
            raise ResourceError.of(
                path,
                f"the {what} has more than {longest:,} bytes, for which --memory leaves no room; "
                f"{advice}, or raise --memory",
            )
        if ends:
            start, line = done + ends[1] + 1, feeds + chunk.count(b"\n", 0, ends[1]) + 2
        done, feeds = done + len(chunk), feeds + chunk.count(b"\n")
        if packed and done > max(_MOST_EXPANSION * size, longest):
            raise ResourceError.of(
                path,
                f"unpacks to more than {_MOST_EXPANSION:,} times its size; unpack it first "
                "if it is meant to, and give the plain file",
            )


def _row_ends(chunk: bytes, inside: bool, quoted: bool) -> tuple[tuple[int, int] | None, bool]:
    """Return where the first and the last line feed stand that end a row, if one does.

    Where fields may be quoted a row ends outside quotation marks; with these comes whether the chunk
    ends inside them.
    """
    if not quoted or b'"' not in chunk:
        first = -1 if inside else chunk.find(b"\n")
        return (None if first < 0 else (first, chunk.rfind(b"\n"))), inside
    import numpy as np  # most text has no such marks

    signs = np.frombuffer(chunk, np.uint8)
    marks, feeds = np.flatnonzero(signs == ord('"')), np.flatnonzero(signs == ord("\n"))
    ends = feeds[(np.searchsorted(marks, feeds) + inside) % 2 == 0]
    return ((int(ends[0]), int(ends[-1])) if ends.size else None), bool(marks.size % 2) != inside


class ScratchPath(PosixPath):
    """The path of a file of the run's own, which is there as long as this object is held."""


class Scratch:
    """A file in the temporary folder (``TMPDIR``), open for writing at first.

    It is at `path` as long as that is held.  A `ResourceError` says what
    the disk refuses, now or while it is written.
    """

    def __init__(self) -> None:
        with disk_room():
            self._file = tempfile.NamedTemporaryFile(  # noqa: SIM115 (closed by `close`)
                prefix="calibkit-", buffering=0, delete=False
            )
        self.path = ScratchPath(self._file.name)
        weakref.finalize(self.path, Path(self.path).unlink, missing_ok=True)
        _HELD.add(self.path)

    def write(self, data: Any) -> int:
        """Write bytes, all of them, as files do."""
        rest = memoryview(data).cast("B")
        size = len(rest)
        while rest:
            with disk_room():
                rest = rest[self._file.write(rest) :]
        return size

    def flush(self) -> None:
        """Do nothing: nothing waits in memory."""

    def close(self) -> None:
        """End writing."""
        with disk_room():
            self._file.close()

    @property
    def closed(self) -> bool:
        """Whether writing has ended."""
        return self._file.closed


#: Those that there are.
_HELD: weakref.WeakSet[ScratchPath] = weakref.WeakSet()


def unnamed_file() -> BufferedRandom:
    """Return a file in the temporary folder that has no name: it is gone once it is closed."""
    return tempfile.TemporaryFile()


@contextmanager
def disk_room(size: int = 0) -> Iterator[None]:
    """Say of what the disk refuses what to do; `size`: for how many bytes, where that is known."""
    try:
        yield
    except ResourceError:
        raise
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE):
            raise ResourceError(
                f"what does not fit into --memory needs a file ({error.strerror}); let more be open "
                "by ulimit -n, or raise --memory"
            ) from error
        if error.errno == errno.ENOMEM:
            raise ResourceError(
                f"what does not fit into --memory cannot be mapped ({error.strerror}): allow more "
                "addresses by ulimit -v, or raise --memory"
            ) from error
        folder = tempfile.gettempdir()
        needed = f", {size:,} bytes are needed" if size else ""
        raise ResourceError.of(
            folder,
            f"what does not fit into --memory cannot be written there "
            f"({error.strerror or error}{needed}); name a folder with more room by TMPDIR, or raise "
            "--memory",
        ) from error


def remove_all() -> None:
    """Remove all files that are still there, for a process that ends without Python's own end."""
    for path in list(_HELD):
        path.unlink(missing_ok=True)
