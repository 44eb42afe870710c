"""Table formats: what a suffix, an option or the leading bytes of a stream say."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from io import BufferedReader, RawIOBase
from pathlib import PurePath
from typing import Any, Final, Protocol

from calibkit.errors import DataError, UsageError, nearest

#: The formats that calibkit reads and writes.
FORMATS: Final = ("parquet", "csv", "tsv", "ndjson", "arrow")

#: Formats whose column types are inferred from text.
TEXT_FORMATS: Final = frozenset({"csv", "tsv", "ndjson"})

_BY_SUFFIX: Final = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".tsv": "tsv",
    ".ndjson": "ndjson",
    ".jsonl": "ndjson",
    ".arrow": "arrow",
    ".arrows": "arrow",
    ".ipc": "arrow",
    ".feather": "arrow",
}
_COMPRESSION_BY_SUFFIX: Final = {".gz": "gzip", ".zst": "zstd"}
_UTF8_BOM: Final = b"\xef\xbb\xbf"
_UTF16_BOMS: Final = (b"\xff\xfe", b"\xfe\xff")
_GZIP: Final = b"\x1f\x8b"
_ZSTD: Final = b"\x28\xb5\x2f\xfd"
_ARROW_FILE: Final = b"ARROW1"
_ARROW_STREAM: Final = b"\xff\xff\xff\xff"
_PARQUET: Final = (b"PAR1", b"PARE")

#: Enough leading bytes for `sniff_format` and for the checks of the readers.
HEAD_BYTES: Final = 4096

#: Bytes that are decompressed at a time.
_CHUNK: Final = 2**20


def suffix_compression(path: str) -> str | None:
    """Return ``"gzip"``, ``"zstd"`` or None, as the last suffix of `path` says."""
    return _COMPRESSION_BY_SUFFIX.get(PurePath(path).suffix.lower())


def suffix_format(path: str) -> str | None:
    """Return the format that the suffix of `path` names, or None if it names none.

    ``.gz`` and ``.zst`` may follow the suffix of a text format (CSV, TSV, NDJSON); Parquet and
    Arrow compress inside the file.
    """
    name = PurePath(path)
    if suffix_compression(path) is None:
        return _BY_SUFFIX.get(name.suffix.lower())
    inner = _BY_SUFFIX.get(name.with_suffix("").suffix.lower())
    return inner if inner in TEXT_FORMATS else None


def format_suffix(format_name: str) -> str:
    """Return the customary suffix of a format, dot included."""
    return f".{format_name}"


def strip_suffixes(name: str) -> str:
    """Return a file name without the suffixes that tell its format."""
    path = PurePath(name)
    if suffix_compression(name) is not None:
        path = path.with_suffix("")
    return str(path.with_suffix("")) if path.suffix.lower() in _BY_SUFFIX else str(path)


def known_suffixes() -> str:
    """Return the suffixes of all formats, for messages."""
    return ", ".join(_BY_SUFFIX) + " (text formats also with .gz, .zst)"


def named_format(name: str, option: str) -> str:
    """Return the format that the value of `option` names.

    Parameters
    ----------
    name
        A format, or one of the suffixes of a format without its dot (``jsonl``, ``feather``).
    option
        The option the name came from, for the message.

    Raises
    ------
    UsageError
        If there is no such format.
    """
    lowered = name.strip().lower()
    if lowered in FORMATS:
        return lowered
    alias = _BY_SUFFIX.get("." + lowered)
    if alias is not None:
        return alias
    raise UsageError(
        f"{option} {name!r} is not a format{nearest(name, FORMATS)}; use one of "
        + ", ".join(FORMATS)
    )


def sniff_format(head: bytes) -> str:
    """Return the format that leading bytes (already decompressed) show; CSV if nothing else."""
    if head.startswith(_PARQUET):
        return "parquet"
    if head.startswith((_ARROW_FILE, _ARROW_STREAM)):
        return "arrow"
    if head.removeprefix(_UTF8_BOM).lstrip()[:1] == b"{":
        return "ndjson"
    return "csv"


def is_arrow_stream(head: bytes) -> bool:
    """Tell an Arrow IPC stream from an Arrow IPC file by its leading bytes."""
    return head.startswith(_ARROW_STREAM)


def text_problem(head: bytes) -> str | None:
    """Return why bytes that should begin a text table cannot, or None.

    Compressed bytes are taken as text: the readers decompress them.
    """
    if head.startswith(_UTF16_BOMS):
        return "it is UTF-16 text; convert it to UTF-8"
    if head.startswith((*_PARQUET, _ARROW_FILE, _ARROW_STREAM)):
        return f"it holds {sniff_format(head)} data, not text; name the format by --input-format"
    return None


def without_bom(data: bytes) -> bytes:
    """Return `data` without a leading UTF-8 byte order mark."""
    return data.removeprefix(_UTF8_BOM)


def is_compressed(head: bytes) -> bool:
    """Tell whether leading bytes are those of a gzip or zstd stream."""
    return head.startswith((_GZIP, _ZSTD))


class Readable(Protocol):
    """What bytes can be read from."""

    def read(self, size: int, /) -> bytes:
        """Return at most so many bytes, none at the end."""


def decompressed(stream: Readable, path: str) -> Iterator[bytes]:
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
    layer, packed = BufferedReader(_Raw(stream)), False
    try:
        while is_compressed(head := layer.peek(HEAD_BYTES)):
            packed = True
            layer = BufferedReader(_Raw(_unpacked(layer, head)))
        while chunk := layer.read(_CHUNK):
            yield chunk
    except (OSError, EOFError, ValueError, zlib.error) as error:
        if not packed or getattr(error, "errno", None) is not None:
            raise
        raise DataError(
            f"{path}: the compressed data is truncated or corrupt ({error}); write the file again",
            file=path,
        ) from error


def _unpacked(layer: Any, head: bytes) -> Readable:
    if head.startswith(_GZIP):
        return gzip.GzipFile(fileobj=layer)
    import pyarrow as pa  # polars decompresses files only

    found: Readable = pa.CompressedInputStream(pa.PythonFile(layer, mode="r"), "zstd")
    return found


class _Raw(RawIOBase):
    """A stream with no more than `read`, as readers that buffer take it."""

    def __init__(self, stream: Readable) -> None:
        self._stream = stream

    def readable(self) -> bool:
        """Say that it is read from."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read as many bytes as there are, at most as many as asked for."""
        data = self._stream.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)
