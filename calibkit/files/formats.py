"""How tables are written: what a suffix, an option or the first bytes say of format and dialect."""

from __future__ import annotations

import codecs
import csv
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path, PurePath
from typing import Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from calibkit.errors import UsageError
from calibkit.runtime.memory import Memory

_SUFFIXES: Final = {
    "parquet": (".parquet", ".pq"),
    "csv": (".csv",),
    "tsv": (".tsv",),
    "ndjson": (".ndjson", ".jsonl"),
    "arrow": (".arrow", ".arrows", ".ipc", ".feather"),
    "xlsx": (".xlsx",),
}
_BY_SUFFIX: Final = {suffix: name for name, own in _SUFFIXES.items() for suffix in own}

#: The suffixes of all formats, for messages.
KNOWN_SUFFIXES: Final = f"{', '.join(_BY_SUFFIX)} (text formats also with .gz, .zst)"

#: Formats whose column types are inferred from text.
TEXT_FORMATS: Final = frozenset({"csv", "tsv", "ndjson"})

#: Formats whose files may hold one column as whole numbers here, and as fractions there.
LOOSE_FORMATS: Final = TEXT_FORMATS | {"xlsx"}

#: What stands between the fields of a text format.
SEPARATORS: Final = {"csv": ",", "tsv": "\t"}

Compression = Literal["gzip", "zstd"]
_COMPRESSIONS: Final[dict[str, Compression]] = {".gz": "gzip", ".zst": "zstd"}
UTF8_BOM: Final = b"\xef\xbb\xbf"
UTF16_BOMS: Final = (b"\xff\xfe", b"\xfe\xff")
GZIP: Final = b"\x1f\x8b"
_ZSTD: Final = b"\x28\xb5\x2f\xfd"
ARROW_STREAM: Final = b"\xff\xff\xff\xff"
_LEADING: Final = {
    "parquet": (b"PAR1", b"PARE"),
    "arrow": (b"ARROW1", ARROW_STREAM),
    "xlsx": (b"PK\x03\x04",),
}

#: Enough leading bytes for `sniff_format` and for the checks of the readers.
HEAD_BYTES: Final = 4096


def unpacked(path: str) -> tuple[PurePath, Compression | None]:
    """Return a path without the last suffix if that tells a compression, and what it tells."""
    name = PurePath(path)
    packed = _COMPRESSIONS.get(name.suffix.lower())
    return name.with_suffix("") if packed else name, packed


def suffix_format(path: str) -> str | None:
    """Return the format that the suffix of `path` names, or None if it names none.

    ``.gz`` and ``.zst`` may follow the suffix of a text format (CSV, TSV, NDJSON); Parquet and
    Arrow compress inside the file.
    """
    name, packed = unpacked(path)
    found = _BY_SUFFIX.get(name.suffix.lower())
    return found if packed is None or found in TEXT_FORMATS else None


def strip_suffixes(name: str) -> str:
    """Return a file name without the suffixes that tell its format."""
    path, _ = unpacked(name)
    return str(path.with_suffix("") if path.suffix.lower() in _BY_SUFFIX else path)


def unknown_suffix(path: str, option: str) -> UsageError:
    """Return the error for a table whose name tells no format; `option` would."""
    return UsageError.of(
        path, f"the suffix names no known format; give {option}, or use one of {KNOWN_SUFFIXES}"
    )


def sniff_format(head: bytes) -> str:
    """Return the format that leading bytes (already decompressed) show; CSV if nothing else."""
    for name, leading in _LEADING.items():
        if head.startswith(leading):
            return name
    text = head.removeprefix(UTF8_BOM).replace(b"\0", b"").lstrip(b"\xff\xfe \t\r\n")
    if re.match(rb"\[?\s*\{", text):  # also an array of objects, which the reader refuses
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


#: The delimiters that are told from the text, most usual first.
DELIMITERS: Final = (",", ";", "\t", "|")

#: Text that stands for a missing value among numbers, in any case; so does empty text.
NULL_VALUES: Final = ("NA", "N/A", "NULL", "nan", "None", "-", ".")

#: What is said instead of a format of dates for the order of text.
AS_TEXT: Final = "text"

#: Formats of dates that begin with the year: nothing is unusual about them.
YEAR_FIRST: Final = ("%Y-%m-%d", "%Y%m%d", "%G-W%V")

#: How many bytes, and lines of them, tell encoding and delimiter.
_SAMPLE_BYTES: Final = 2**18
_SAMPLE_LINES: Final = 100

UTF8: Final = "utf-8"
_WESTERN: Final = "windows-1252"
#: Control characters that no text has.
_CONTROLS: Final = frozenset(range(32)) - frozenset(b"\t\n\r\f\v\x1a")

Mark = Literal[".", ","]


class Dialect(Struct, frozen=True):
    """How text is written; None is told from the text."""

    delimiter: str | None = None  # one character
    decimal: Mark | None = None
    null_values: tuple[str, ...] | None = None  # stand for missing numbers, besides empty text
    encoding: str | None = None  # any that Python knows
    date_format: str | None = None  # `AS_TEXT`: dates are in the order of text
    marks: tuple[Mark, ...] = ()  # the decimal marks that numbers of other inputs have for certain
    dtype: str = "float64"  # what fractional numbers become, or "float32"
    #: Columns whose values are read as what they are, by name or pattern; others stay as they are
    #: written.  None: all are read.
    typed: tuple[str, ...] | None = None

    def stays(self, name: str) -> bool:
        """Return whether a column stays as it is written."""
        if self.typed is None:
            return False
        name = name.strip().casefold()
        known = [one.strip().casefold() for one in self.typed]
        return name not in known and not any(fnmatchcase(name, one) for one in known)

    def settled(self, sample: bytes, format_name: str) -> Dialect:
        """Return this with encoding and delimiter filled in for a text that begins with `sample`."""
        sample = sample[:_SAMPLE_BYTES]
        encoding = self.encoding or _told_encoding(sample)
        if format_name not in SEPARATORS:
            return replace(self, encoding=encoding)
        text = sample.removeprefix(UTF8_BOM).decode(encoding, "replace").removeprefix("\ufeff")
        delimiter = self.delimiter or _told_delimiter(text, SEPARATORS[format_name])
        return replace(self, encoding=encoding, delimiter=delimiter)

    def unusual(self, usual: str | None) -> list[str]:
        """Return in words what is unusual about it, beside the usual delimiter."""
        names = {"\t": "tabs", ";": "semicolons", "|": "bars", ",": "commas"}
        found = []
        if self.delimiter not in (None, usual):
            found.append(f"{names.get(str(self.delimiter), self.delimiter)} between fields")
        if self.encoding not in (None, UTF8):
            found.append(f"encoding {self.encoding}")
        return found


class Opening(Struct, frozen=True):
    """How inputs are opened."""

    memory: Memory | None = None  # beyond which text is parsed in batches; None holds its rows
    input_format: str | None = None  # of all inputs; None tells it by suffix, or by leading bytes
    dialect: Dialect = Dialect()  # how text is written, and the type of its fractional numbers


def codec(name: str) -> str:
    """Return the name of an encoding; a `UsageError` is raised for one that is not known."""
    try:
        known = codecs.lookup(name.strip())
        "".encode(known.name)
    except (LookupError, TypeError, ValueError):
        raise UsageError(
            f"--encoding {name!r} is not known; name one such as utf-8, utf-16, latin-1 or "
            "windows-1252"
        ) from None
    return UTF8 if known.name in ("ascii", "utf-8-sig") else known.name


def separator(text: str) -> str:
    """Return the delimiter that was typed: a character, or ``tab``; else raise a `UsageError`."""
    found = "\t" if text.lower() in ("tab", r"\t") else text
    if len(found) != 1 or not found.isascii() or found in '"\r\n\0' or found.isalnum():
        raise UsageError(
            f"--delimiter {text!r} is no delimiter; give one character, such as ';', '|' or tab"
        )
    return found


def _told_encoding(sample: bytes) -> str:
    """Return the encoding that the first bytes of a text show; UTF-8 where nothing else fits."""
    if sample.startswith(UTF16_BOMS):
        return "utf-16"
    if sample[:4].count(0) == 2 and len(sample) >= 4:  # a header of Latin letters, without a mark
        return "utf-16-le" if sample[1] == 0 == sample[3] else "utf-16-be"
    try:
        codecs.getincrementaldecoder(UTF8)().decode(sample)
    except UnicodeDecodeError:
        return western(sample)
    return UTF8


def western(data: bytes) -> str:
    """Return the encoding of text that is no UTF-8: Windows-1252, where it can be that."""
    try:
        data.decode(_WESTERN)
    except UnicodeDecodeError:
        return UTF8
    return UTF8 if _CONTROLS.intersection(data) else _WESTERN


def _told_delimiter(text: str, usual: str) -> str:
    """Return the delimiter of a text: the usual one, unless another one fits and this does not.

    One fits if it cuts all of the first lines into the same number of fields, two or more.  Where
    none does, that of the header counts.
    """
    lines = text.splitlines(keepends=True)[:_SAMPLE_LINES]
    if len(lines) > 1 and not lines[-1].endswith(("\r", "\n")):
        lines.pop()  # cut off, perhaps
    widths = {one: _widths(lines, one) for one in (usual, *DELIMITERS)}
    fitting = [one for one, found in widths.items() if len(set(found)) == 1 and found[0] > 1]
    split = fitting or [one for one, found in widths.items() if found and found[0] > 1]
    if usual in split or not split:
        return usual
    return max(split, key=lambda one: widths[one][0])


def _widths(lines: list[str], delimiter: str) -> list[int]:
    """Return how many fields a delimiter makes of each of some lines; a cut last one is left out."""
    found = []
    with suppress(csv.Error):
        for fields in filter(None, csv.reader(lines, delimiter=delimiter)):
            found.append(len(fields))
    if len(found) > 1 and lines[-1].count('"') % 2:
        found.pop()
    return found


def in_utf8(chunks: Iterable[bytes], encoding: str) -> Iterator[bytes]:
    """Yield text of an encoding as UTF-8, without a byte order mark; `UnicodeDecodeError` if none."""
    for number, text in enumerate(codecs.iterdecode(chunks, encoding)):
        yield (text if number else text.removeprefix("\ufeff")).encode(UTF8)
