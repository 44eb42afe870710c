"""Inputs that come packed, or but once: unpacked, held to be read again, refused if without an end."""

from __future__ import annotations

import gzip
import mmap
import zlib
from collections.abc import Iterator
from io import BufferedReader, BytesIO
from itertools import chain
from pathlib import Path
from typing import IO, Any, Final

from calibkit.errors import DataError, ResourceError
from calibkit.files.formats import GZIP, HEAD_BYTES, is_compressed
from calibkit.files.scratch import Scratch

#: Bytes that are decompressed at a time.
_CHUNK: Final = 2**20

#: Tables that unpack to more than this, beyond the budget, are taken for damage or malice.
_MOST_EXPANSION: Final = 1000
#: A line may have so many bytes, however little memory there is.
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


def held(chunks: Iterator[bytes], large: int | None) -> tuple[bytes | Path, Scratch | None]:
    """Return all bytes; from so many on (`large`, None: never) a file with them, and its owner."""
    memory = BytesIO()
    for chunk in chunks:
        memory.write(chunk)
        if large is not None and memory.tell() >= large:
            break
    else:
        return memory.getvalue(), None
    scratch = Scratch()
    for chunk in chain((memory.getvalue(),), chunks):
        scratch.write(chunk)
    scratch.close()
    return scratch.path, scratch


def refuse_endless(source: Path, path: str, longest: int) -> None:
    """Refuse text of which a reader, which holds whole lines, could not read one within the budget.

    Plain text is looked at where a line of such a length would have to end, which takes no time;
    compressed text is unpacked once, where it could hold one.  `longest`: the bytes that a line may
    have, if not few.

    Raises `ResourceError` where a line is longer, or the file unpacks to over a thousand times its
    size and to more than that; `DataError` where a compressed file is truncated or corrupt.
    """
    longest, size = max(longest, _LEAST), source.stat().st_size
    with source.open("rb") as file:
        head = file.read(HEAD_BYTES)
        packed = is_compressed(head)
        expansion = (_GZIP_EXPANSION if head.startswith(GZIP) else _ZSTD_EXPANSION) if packed else 1
        if size * expansion <= longest:
            return
        file.seek(0)
        if packed:
            start = _endless_packed(file, path, longest, size)
        else:
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
                start = _endless(text, longest)
    if start is not None:
        raise ResourceError.of(
            path,
            f"the line that begins at byte {start:,} has more than {longest:,} bytes, for "
            "which --memory leaves no room; end the lines by a line feed, or raise --memory",
        )


def _endless(text: mmap.mmap, longest: int) -> int | None:
    """Return where a line begins that is longer."""
    start = 0
    while len(text) - start > longest:
        end = text.rfind(b"\n", start, start + longest)
        if end < 0:
            return start
        start = end + 1
    return None


def _endless_packed(file: IO[bytes], path: str, longest: int, size: int) -> int | None:
    start = done = 0
    for chunk in decompressed(file, path):
        end = chunk.rfind(b"\n")
        if (done + chunk.find(b"\n") if end >= 0 else done + len(chunk)) - start > longest:
            return start
        start, done = start if end < 0 else done + end + 1, done + len(chunk)
        if done > max(_MOST_EXPANSION * size, longest):
            raise ResourceError.of(
                path,
                f"unpacks to more than {_MOST_EXPANSION:,} times its size; unpack it first "
                "if it is meant to, and give the plain file",
            )
    return None
