"""Inputs that come but once: unpacked, and held where they can be read as often as need be."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from io import BufferedReader, BytesIO
from itertools import chain
from typing import IO, Any, Final

import polars as pl

from calibkit.errors import DataError
from calibkit.files.formats import GZIP, HEAD_BYTES, is_compressed
from calibkit.files.scratch import Scratch

#: Bytes that are decompressed at a time.
_CHUNK: Final = 2**20


def decompressed(stream: IO[bytes], path: str) -> Iterator[bytes]:
    """Yield the bytes of a stream, with every layer of gzip or zstd compression removed.

    Parameters
    ----------
    stream
        The input, read once from where it stands.
    path
        Its name, for the message.

    Raises
    ------
    DataError
        If a compressed stream is truncated or corrupt.
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
        raise DataError(
            f"{path}: the compressed data is truncated or corrupt ({error}); write the file again",
            file=path,
        ) from error


def _peekable(stream: Any) -> Any:
    return stream if hasattr(stream, "peek") else BufferedReader(stream)


def _unpacked(layer: Any, head: bytes) -> Any:
    if head.startswith(GZIP):
        return gzip.GzipFile(fileobj=layer)
    import pyarrow as pa  # polars decompresses files only

    return pa.CompressedInputStream(pa.PythonFile(layer, mode="r"), "zstd")


def text_of(path: str) -> Iterator[bytes]:
    """Yield the bytes of a text file elsewhere, decompressed."""
    for lines in pl.scan_lines(path).collect_batches(maintain_order=True):
        yield "\n".join([*lines.to_series().to_list(), ""]).encode()


def held(chunks: Iterator[bytes], large: int | None) -> bytes | Scratch:
    """Return all bytes; from so many on (`large`, None: never) in a file of the run's own."""
    memory = BytesIO()
    for chunk in chunks:
        memory.write(chunk)
        if large is not None and memory.tell() >= large:
            break
    else:
        return memory.getvalue()
    scratch = Scratch()
    for chunk in chain((memory.getvalue(),), chunks):
        scratch.write(chunk)
    scratch.close()
    return scratch
