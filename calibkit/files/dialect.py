"""How a text table is written: its encoding and delimiter, as said or told from its first bytes."""

from __future__ import annotations

import codecs
import csv
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final, Literal

from calibkit.errors import UsageError
from calibkit.files.formats import SEPARATORS, UTF8_BOM, UTF16_BOMS

#: The delimiters that are told from the text, most usual first.
DELIMITERS: Final = (",", ";", "\t", "|")

#: Text that stands for a missing value among numbers, in any case; so does empty text.
NULL_VALUES: Final = ("NA", "N/A", "NULL", "nan", "None", "-", ".")

#: What is said instead of a format of dates for the order of text.
AS_TEXT: Final = "text"

#: Formats of dates that begin with the year: nothing is unusual about them.
YEAR_FIRST: Final = ("%Y-%m-%d", "%Y%m%d", "%G-W%V")

#: How many bytes, and lines of them, tell encoding and delimiter.
SAMPLE_BYTES: Final = 2**18
_SAMPLE_LINES: Final = 100

UTF8: Final = "utf-8"
_WESTERN: Final = "windows-1252"
#: Control characters that no text has.
_CONTROLS: Final = frozenset(range(32)) - frozenset(b"\t\n\r\f\v\x1a")

Mark = Literal[".", ","]


@dataclass(frozen=True)
class Dialect:
    """How text is written; None is told from the text."""

    delimiter: str | None = None  # one character
    decimal: Mark | None = None
    null_values: tuple[str, ...] | None = None  # stand for missing numbers, besides empty text
    encoding: str | None = None  # any that Python knows
    date_format: str | None = None  # `AS_TEXT`: dates are in the order of text
    marks: tuple[Mark, ...] = ()  # the decimal marks that numbers of other inputs have for certain
    dtype: str = "float64"  # what fractional numbers become, or "float32"

    def settled(self, sample: bytes, format_name: str) -> Dialect:
        """Return this with encoding and delimiter filled in for a text that begins with `sample`."""
        encoding = self.encoding or _told_encoding(sample)
        if format_name not in SEPARATORS:
            return replace(self, encoding=encoding)
        decoder = codecs.getincrementaldecoder(encoding)("replace")
        text = decoder.decode(sample.removeprefix(UTF8_BOM)).removeprefix("\ufeff")
        delimiter = self.delimiter or _told_delimiter(text, SEPARATORS[format_name])
        return replace(self, encoding=encoding, delimiter=delimiter)


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
    if usual in fitting:
        return usual
    split = fitting or [one for one, found in widths.items() if found and found[0] > 1]
    if usual in split or not split:
        return usual
    return max(split, key=lambda one: widths[one][0])


def _widths(lines: list[str], delimiter: str) -> list[int]:
    """Return how many fields a delimiter makes of each of some lines; a cut last one is left out."""
    found = []
    try:
        for fields in csv.reader(lines, delimiter=delimiter):
            if fields:
                found.append(len(fields))
    except csv.Error:
        pass
    if len(found) > 1 and lines[-1].count('"') % 2:
        found.pop()
    return found


def in_utf8(chunks: Iterable[bytes], encoding: str) -> Iterator[bytes]:
    """Yield text of an encoding as UTF-8, without a byte order mark; `UnicodeDecodeError` if none."""
    decoder = codecs.getincrementaldecoder(encoding)()
    first = True
    for chunk in chunks:
        text = decoder.decode(chunk)
        if first and text:
            text, first = text.removeprefix("\ufeff"), False
        yield text.encode(UTF8)
    yield decoder.decode(b"", final=True).encode(UTF8)


def said(dialect: Dialect, usual: str | None) -> list[str]:
    """Return what is unusual about a dialect, in words."""
    names = {"\t": "tabs", ";": "semicolons", "|": "bars", ",": "commas"}
    found = []
    if dialect.delimiter not in (None, usual):
        found.append(f"{names.get(str(dialect.delimiter), dialect.delimiter)} between fields")
    if dialect.encoding not in (None, UTF8):
        found.append(f"encoding {dialect.encoding}")
    return found
