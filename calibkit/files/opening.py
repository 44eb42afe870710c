"""One input opened: its format told, its rows as a table, the keys of its folders."""

from __future__ import annotations

import stat
import sys
from collections.abc import Iterator
from io import BytesIO
from itertools import chain
from pathlib import Path

from calibkit.errors import UsageError
from calibkit.files.formats import (
    TEXT_FORMATS,
    decompressed,
    known_suffixes,
    sniff_format,
    suffix_format,
)
from calibkit.files.inputs import STDIN, Part, folder_keys
from calibkit.files.readers import Table, head_of, open_table, reading
from calibkit.files.remote import is_remote, text_of
from calibkit.files.scratch import Scratch
from calibkit.memory import Memory


def open_part(
    path: str, relative: str, forced: str | None, dtype: str, memory: Memory | None
) -> tuple[Part, Table]:
    """Open one input; see `calibkit.files.sources.open_source`, whose errors it raises.

    Parameters
    ----------
    path, relative
        From `calibkit.files.inputs.find_files`.
    forced
        The format; None tells it by suffix, that of a stream by leading bytes.
    dtype, memory
        As for `open_source`.
    """
    large = None if memory is None else memory.text
    source = _source(path, large)
    known = forced or suffix_format(path)
    if known is None and isinstance(source, bytes | Scratch):
        known = sniff_format(head_of(source))
    if known is None:
        raise UsageError(
            f"{path}: the suffix tells no format; name it by --input-format, or use one of "
            + known_suffixes(),
            file=path,
        )
    table = open_table(path, source, known, dtype, large)
    keys = dict(folder_keys(relative))
    return Part(path, known, keys, table.rows, relative), table


def _source(path: str, large: int | None) -> Path | Scratch | bytes | str:
    """Return where an input can be read as often as need be.

    A file is that itself, and so is an address that polars reads parts of.  All else comes but once,
    and is held, from so many bytes on (`large`) in a file of its own.
    """
    with reading(path):
        if path == STDIN:
            return _held(decompressed(sys.stdin.buffer, path), large)
        if is_remote(path):
            return _held(text_of(path), large) if suffix_format(path) in TEXT_FORMATS else path
        if path.startswith("/dev/") or not stat.S_ISREG(Path(path).stat().st_mode):
            with Path(path).open("rb") as stream:
                return _held(decompressed(stream, path), large)
        return Path(path)


def _held(chunks: Iterator[bytes], large: int | None) -> bytes | Scratch:
    held = BytesIO()
    for chunk in chunks:
        held.write(chunk)
        if large is not None and held.tell() >= large:
            break
    else:
        return held.getvalue()
    scratch = Scratch()
    for chunk in chain((held.getvalue(),), chunks):
        scratch.write(chunk)
    scratch.close()
    return scratch
