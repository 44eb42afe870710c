"""Text that no budget has room for: lines without an end, files that unpack to far more."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from calibkit.errors import ResourceError
from calibkit.files.formats import GZIP, HEAD_BYTES, is_compressed
from calibkit.files.streams import decompressed

#: Tables that unpack to more than this, beyond the budget, are taken for damage or malice.
_MOST_EXPANSION: Final = 1000
#: A line may have so many bytes, however little memory there is.
_LEAST: Final = 2**22
#: What gzip and zstd can pack into a byte at most.
_GZIP_EXPANSION, _ZSTD_EXPANSION = 1032, 2**15


def refuse_endless(source: Path, path: str, longest: int) -> None:
    """Refuse text that a reader, which holds whole lines, could not read within the budget.

    Plain text is looked at where a line of such a length would have to end, which takes no time;
    compressed text is unpacked once, where it could hold one.

    Parameters
    ----------
    source
        The file, plain or compressed.
    path
        Its name, for the message.
    longest
        The bytes that a line may have, if not few.

    Raises
    ------
    ResourceError
        A line is longer, or the file unpacks to over a thousand times its size and to more than that.
    DataError
        A compressed file is truncated or corrupt.
    """
    longest, size = max(longest, _LEAST), source.stat().st_size
    with source.open("rb") as file:
        head = file.read(HEAD_BYTES)
        packed = is_compressed(head)
        expansion = (_GZIP_EXPANSION if head.startswith(GZIP) else _ZSTD_EXPANSION) if packed else 1
        if size * expansion <= longest:
            return
        file.seek(0)
        if not packed:
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
                _refuse_long(text, path, longest)
            return
        _refuse_packed(decompressed(file, path), path, longest, _MOST_EXPANSION * size)


def _refuse_long(text: mmap.mmap, path: str, longest: int) -> None:
    start = 0
    while len(text) - start > longest:
        end = text.rfind(b"\n", start, start + longest)
        if end < 0:
            raise _too_long(path, start, longest)
        start = end + 1


def _refuse_packed(chunks: Iterator[bytes], path: str, longest: int, most: int) -> None:
    start = done = 0
    for chunk in chunks:
        end = chunk.rfind(b"\n")
        if (done + chunk.find(b"\n") if end >= 0 else done + len(chunk)) - start > longest:
            raise _too_long(path, start, longest)
        start, done = start if end < 0 else done + end + 1, done + len(chunk)
        if done > max(most, longest):
            raise ResourceError(
                f"{path}: unpacks to more than {_MOST_EXPANSION:,} times its size; unpack it first "
                "if it is meant to, and give the plain file",
                file=path,
            )


def _too_long(path: str, start: int, longest: int) -> ResourceError:
    return ResourceError(
        f"{path}: the line that begins at byte {start:,} has more than {longest:,} bytes, for which "
        "--memory leaves no room; end the lines by a line feed, or raise --memory",
        file=path,
    )
