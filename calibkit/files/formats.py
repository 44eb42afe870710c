"""Table formats: what a suffix, an option or the leading bytes of a stream say."""

from __future__ import annotations

from pathlib import Path, PurePath
from typing import Final, Literal

from calibkit.errors import UsageError, nearest

#: The formats that calibkit reads and writes.
FORMATS: Final = ("parquet", "csv", "tsv", "ndjson", "arrow", "xlsx")

#: Formats whose column types are inferred from text.
TEXT_FORMATS: Final = frozenset({"csv", "tsv", "ndjson"})

#: Formats whose files may hold one column as whole numbers here, and as fractions there.
LOOSE_FORMATS: Final = TEXT_FORMATS | {"xlsx"}

#: What stands between the fields of a text format.
SEPARATORS: Final = {"csv": ",", "tsv": "\t"}

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
    ".xlsx": "xlsx",
}
_COMPRESSION_BY_SUFFIX: Final[dict[str, Literal["gzip", "zstd"]]] = {".gz": "gzip", ".zst": "zstd"}
UTF8_BOM: Final = b"\xef\xbb\xbf"
UTF16_BOMS: Final = (b"\xff\xfe", b"\xfe\xff")
GZIP: Final = b"\x1f\x8b"
_ZSTD: Final = b"\x28\xb5\x2f\xfd"
_ARROW_FILE: Final = b"ARROW1"
ARROW_STREAM: Final = b"\xff\xff\xff\xff"
_WORKBOOK: Final = b"PK\x03\x04"
_PARQUET: Final = (b"PAR1", b"PARE")

#: Enough leading bytes for `sniff_format` and for the checks of the readers.
HEAD_BYTES: Final = 4096


def suffix_compression(path: str) -> Literal["gzip", "zstd"] | None:
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


def strip_suffixes(name: str) -> str:
    """Return a file name without the suffixes that tell its format."""
    path = PurePath(name)
    if suffix_compression(name) is not None:
        path = path.with_suffix("")
    return str(path.with_suffix("")) if path.suffix.lower() in _BY_SUFFIX else str(path)


def known_suffixes() -> str:
    """Return the suffixes of all formats, for messages."""
    return ", ".join(_BY_SUFFIX) + " (text formats also with .gz, .zst)"


def unknown_suffix(path: str, option: str) -> UsageError:
    """Return the error for a table whose name tells no format; `option` would."""
    return UsageError.of(
        path, f"the suffix names no known format; give {option}, or use one of " + known_suffixes()
    )


def named_format(name: str, option: str) -> str:
    """Return the format that the value of `option` names.

    That is a format, or one of the suffixes of a format without its dot (``jsonl``, ``feather``).

    Raises `UsageError` if there is no such format.
    """
    found = _BY_SUFFIX.get("." + name.strip().lower())
    if found is None:
        raise UsageError(
            f"{option} {name!r} is not a format{nearest(name, FORMATS)}; use one of "
            + ", ".join(FORMATS)
        )
    return found


def sniff_format(head: bytes) -> str:
    """Return the format that leading bytes (already decompressed) show; CSV if nothing else."""
    if head.startswith(_PARQUET):
        return "parquet"
    if head.startswith((_ARROW_FILE, ARROW_STREAM)):
        return "arrow"
    if head.startswith(_WORKBOOK):
        return "xlsx"
    if head.removeprefix(UTF8_BOM).replace(b"\0", b"").lstrip(b"\xff\xfe \t\r\n")[:1] == b"{":
        return "ndjson"
    return "csv"


def is_compressed(head: bytes) -> bool:
    """Tell whether leading bytes are those of a gzip or zstd stream."""
    return head.startswith((GZIP, _ZSTD))


def head_of(source: Path | bytes | str) -> bytes:
    """Return the first bytes of an input; of an address none."""
    if isinstance(source, Path):
        with source.open("rb") as file:
            return file.read(HEAD_BYTES)
    return source[:HEAD_BYTES] if isinstance(source, bytes) else b""
