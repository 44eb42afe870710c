"""One input opened: its format told, its rows as a table, the keys of its folders."""

from __future__ import annotations

import stat
import sys
from pathlib import Path

from calibkit.errors import UsageError
from calibkit.files.formats import (
    TEXT_FORMATS,
    decompress,
    known_suffixes,
    sniff_format,
    suffix_format,
)
from calibkit.files.inputs import STDIN, Part, folder_keys
from calibkit.files.readers import Table, open_table, reading
from calibkit.files.remote import is_remote, read_text
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
    data = _stream(path)
    known = forced or suffix_format(path)
    if data is not None and known is None:
        known = sniff_format(data)
    if known is None:
        raise UsageError(
            f"{path}: the suffix tells no format; name it by --input-format, or use one of "
            + known_suffixes(),
            file=path,
        )
    large = None if memory is None else memory.text
    table = open_table(path, data, known, dtype, large)
    keys = dict(folder_keys(relative))
    return Part(path, known, keys, table.rows, relative), table


def _stream(path: str) -> bytes | None:
    """Return all bytes of a stream, decompressed, or None for a file: a pipe is read once only."""
    with reading(path):
        if path == STDIN:
            data = sys.stdin.buffer.read()
        elif is_remote(path):
            return read_text(path) if suffix_format(path) in TEXT_FORMATS else None
        elif path.startswith("/dev/") or not stat.S_ISREG(Path(path).stat().st_mode):
            data = Path(path).read_bytes()
        else:
            return None
    return decompress(data, path)
