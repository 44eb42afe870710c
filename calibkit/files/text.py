"""How text becomes a table: CSV, TSV and NDJSON, typed by all their values, nothing repaired.

The first rows of CSV guess the types.  Where a later value contradicts them, every column is read
as text and becomes what all of its values allow.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any, Final, NoReturn

import polars as pl
from msgspec.structs import replace

from calibkit.errors import DataError
from calibkit.files import formats
from calibkit.files.explain import repeated_name
from calibkit.files.formats import Dialect
from calibkit.files.paths import Part
from calibkit.files.streams import content_of, held, refuse_endless
from calibkit.files.table import Table
from calibkit.files.told import Told
from calibkit.files.values import Counts, Kind, counts_of, exactly, floats_of, kinds_of, points_of
from calibkit.runtime.progress import tell

#: Compressed text is taken for so many times as large as its file: numbers seldom shrink to less.
_EXPANSION: Final = 8

#: Python's reader takes no longer fields than it is told to, in all of a process; lines are as long
#: as memory allows.
_LONGEST_FIELD: Final = 2**31 - 1

#: Rows that guess the column types before the whole file confirms or corrects them.
_GUESS_ROWS: Final = 10_000

#: Rows that tell of most texts that they are nothing else, before more are looked at.
_FIRST_ROWS: Final = (64, _GUESS_ROWS)


def text_table(source: Path | bytes, part: Part, large: int | None, asked: Dialect) -> Table:
    """Return the rows of a text file, plain or compressed, in whatever encoding.

    Empty fields, and keys that a line lacks, are null.  A CSV column with no value at all has type
    `pl.Null`; columns of whole numbers stay integers.  Files of so many
    bytes (`large`) are parsed whenever they are read, others held.

    Raises `DataError` for duplicate column names, rows with too many or too few fields, lines that
    are no JSON objects, unreadable text, no rows; `ResourceError` for text without an end.
    """
    dialect = asked.settled(next(content_of(source, part.path), b""), part.format)
    if large is not None and isinstance(source, Path):
        quoted = part.format in formats.SEPARATORS and dialect.encoding == formats.UTF8
        refuse_endless(source, part.path, large, quoted=quoted)
    try:
        return _table_in(source, part, large, dialect)
    except pl.exceptions.ComputeError:
        if asked.encoding is not None or dialect.encoding != formats.UTF8:
            raise
        encodings = {formats.western(chunk) for chunk in content_of(source, part.path)}
        if len(encodings) != 1 or formats.UTF8 in encodings:
            raise
        return _table_in(source, part, large, replace(dialect, encoding=encodings.pop()))


def _table_in(source: Path | bytes, part: Part, large: int | None, dialect: Dialect) -> Table:
    """Return the rows of text whose encoding is known."""
    path = part.path
    if dialect.encoding != formats.UTF8:
        source = held(formats.in_utf8(content_of(source, path), str(dialect.encoding)), large)
        if large is not None and isinstance(source, Path):
            refuse_endless(source, path, large, quoted=part.format in formats.SEPARATORS)
    head = formats.head_of(source)
    shown = formats.sniff_format(head)
    if shown not in formats.TEXT_FORMATS:
        raise DataError.of(
            path, f"it holds {shown} data, not text; name the format by --input-format"
        )
    if not formats.is_compressed(head) and not head.strip() and len(head) < formats.HEAD_BYTES:
        raise DataError.of(path, "the file is empty (nothing but white space)")
    size = source.stat().st_size if isinstance(source, Path) else 0
    tell(0, size, "bytes")
    size *= _EXPANSION if formats.is_compressed(head) else 1
    hold = large is None or isinstance(source, bytes) or size < large
    try:
        if part.format == "ndjson":
            hold = hold or head.startswith(formats.UTF8_BOM)
            table = _json_table(source, part, floats_of(dialect), hold=hold)
            return replace(table, remarks=tuple(dialect.unusual(None)))
        text = _Text(source, part, dialect, hold=hold)
        return text.table(text.votes)
    except pl.exceptions.NoDataError as error:
        raise DataError.of(path, "the file is empty (0 rows)") from error


class _Text:
    """Text with fields between delimiters, under a header, before it is settled what its texts are."""

    rows: pl.LazyFrame
    count: int  # of the rows
    nulls: dict[str, int]  # of each column
    commas: list[str]  # columns of numbers with decimal commas, which polars read
    names: dict[str, str]  # of columns that polars calls otherwise

    def __init__(
        self, source: Path | bytes, part: Part, dialect: Dialect, *, hold: bool, guess: bool = True
    ) -> None:
        """Parse it; `hold`: whether its rows are held; `guess`: the first ones may tell types."""
        self.source, self.part, self.dialect, self.hold = source, part, dialect, hold
        guess = guess and dialect.decimal != "." and dialect.null_values is None
        self._with_comma = Kind(floats_of(dialect), ",", voting=True)
        self.names = {}
        head = self._scan(
            has_header=False, n_rows=1, infer_schema=False, truncate_ragged_lines=True
        )
        # As they stand: polars would rename duplicates.
        names = ["" if name is None else str(name) for name in head.collect().row(0)]
        if any("\r" in name.rstrip("\r") and "\n" not in name for name in names):
            raise DataError.of(
                part.path, "its lines end in a carriage return alone; save it with line feeds"
            )
        if len(set(names)) < len(names):
            raise repeated_name(names, part.path)
        # Polars leaves quotation marks doubled in a header, though not in rows.
        parsed = self._scan(infer_schema=False).collect_schema().names()
        self.names = {
            old: new
            for old, new in zip(parsed, names, strict=False)
            if old != new and old.replace('""', '"') == new
        }
        try:
            self._parse(guess=guess)
        except pl.exceptions.ComputeError:
            # Either a late value of another type, or a malformed row, which fails again here.
            try:
                self._parse(guess=False)
            except pl.exceptions.ComputeError:
                self._refuse_ragged(len(names))
                raise
        if len(self.nulls) > 1 and self.nulls[next(reversed(self.nulls))]:
            # Polars reads a missing field, and every field of a blank line, as null.
            blank = self._refuse_ragged(len(self.nulls))
            self.count -= blank
            self.rows = self.rows.head(self.count)
            self.nulls = {name: number - blank for name, number in self.nulls.items()}
        texts = [name for name, kind in self.rows.collect_schema().items() if kind == pl.String]
        kept = [name for name in texts if dialect.stays(name)]
        texts = [name for name in texts if name not in kept]
        texts, first = self._promising(self.rows, texts, self.count)
        #: Of the columns whose texts may be something else; those that stay only say how others are.
        self.seen = counts_of(self.rows, texts, dialect, first)
        self.seen |= counts_of(self.rows.head(_FIRST_ROWS[-1]), kept, dialect, {})

    def _scan(self, **options: Any) -> pl.LazyFrame:
        separator = str(self.dialect.delimiter)
        if self.names and "schema_overrides" in options:
            old = {new: old for old, new in self.names.items()}
            kinds = options["schema_overrides"].items()
            options["schema_overrides"] = {old.get(name, name): kind for name, kind in kinds}
        rows = pl.scan_csv(self.source, separator=separator, glob=False, **options)
        return rows.rename(self.names) if self.names else rows

    def _parse(self, *, guess: bool) -> None:
        self.commas, rows = [], self._scan(infer_schema=False)
        if guess:
            floats, kinds = floats_of(self.dialect), self._scan(infer_schema_length=_GUESS_ROWS)
            found = dict(kinds.collect_schema())
            stay: dict[str, pl.DataType] = {
                name: pl.String() for name in found if self.dialect.stays(name)
            }
            found |= stay
            texts = [name for name, kind in found.items() if kind == pl.String]
            self.commas = self._commas([name for name in texts if name not in stay])
            if self.commas:
                found |= {name: pl.String() for name, kind in found.items() if kind.is_float()}
                found |= dict.fromkeys(self.commas, floats)
                rows = self._scan(schema_overrides=found, decimal_comma=True)
            elif self.dialect.decimal is None:
                stay |= {name: floats for name, kind in found.items() if kind.is_float()}
                rows = self._scan(infer_schema_length=_GUESS_ROWS, schema_overrides=stay)
        self.rows = rows.collect().lazy() if self.hold else rows
        # Both in one pass: for the rows alone polars would map the whole file.
        nulls = pl.struct(pl.all().null_count()).alias("nulls")
        seen = self.rows.select(pl.len().alias("rows"), nulls)
        self.count, self.nulls = seen.collect(engine="streaming").row(0)

    def _commas(self, names: list[str]) -> list[str]:
        """Return the columns in which polars may read decimal commas: all values are such numbers.

        Polars would read points as decimal marks there too, and text for missing values as NaN.
        """
        rows = self._scan(infer_schema=False)
        names, seen = self._promising(rows, names)
        kinds = kinds_of(seen, self.dialect)
        found = [name for name in names if kinds[name] == self._with_comma]
        if not found or self.dialect.delimiter == ",":
            return []
        odd = rows.select(exactly(name).str.contains("[.nN]").any() for name in found)
        known = odd.collect(engine="streaming").row(0, named=True)
        return [name for name in found if not known[name]]

    def _promising(
        self, rows: pl.LazyFrame, names: list[str], count: float = math.inf
    ) -> tuple[list[str], dict[str, Counts]]:
        """Return those of some columns that may be something else than text, and of the first rows."""
        seen = dict[str, Counts]()
        for first in (one for one in _FIRST_ROWS if one < count):
            seen = counts_of(rows.head(first), names, self.dialect, {})
            kinds = kinds_of(seen, self.dialect)
            names = [
                name for name in names if kinds[name].kind != pl.String or not kinds[name].sure
            ]
        return names, seen

    def _refuse_ragged(self, width: int) -> int:
        """Refuse rows with another number of fields than the header; return the last blank lines."""
        text, line = pl.scan_lines(self.source, glob=False), pl.col("line")
        separator = str(self.dialect.delimiter)
        fields = line.str.count_matches(separator, literal=True) + 1
        seen = text.with_row_index("row", 1).select(
            pl.len(),
            pl.when(line != "").then("row").max().fill_null(0).alias("filled"),
            (line == "").sum().alias("blank"),
            ((line != "") & (fields != width)).sum().alias("odd"),
            line.str.contains('"', literal=True).any().alias("quoted"),
        )
        lines, filled, blank, odd, quoted = seen.collect(engine="streaming").row(0)
        if not (quoted or odd or blank > lines - filled):
            return int(lines - filled)
        # A return without a line feed belongs to its field, which the reader would refuse.
        plain = line.str.strip_chars_end("\r").str.replace_all("\r", " ", literal=True)
        frames = text.head(filled).select(plain).collect_batches(maintain_order=True)
        csv.field_size_limit(_LONGEST_FIELD)
        records = csv.reader(
            (one for frame in frames for one in frame["line"]), delimiter=separator
        )
        next(records, None)
        numbered = enumerate(map(len, records), start=1)
        ragged = [(row, count) for row, count in numbered if count != width]
        if ragged:
            row, count = ragged[0]
            advice = f"correct the row, or quote the fields that hold {separator!r}"
            if len(ragged) > filled / 2 > 1:
                advice = "is the first line the header, with a name for each field?"
            raise DataError.of(
                self.part.path,
                f"{len(ragged)} row{'s' if len(ragged) > 1 else ''} with another number "
                f"of fields than the header (first: row {row} has {count}, the header {width}); "
                f"{advice}",
                rows=len(ragged),
                first_rows=[number for number, _ in ragged],
            )
        return int(lines - filled)

    def _kinds(self, votes: Collection[str]) -> dict[str, Kind]:
        found = kinds_of(self.seen, self.dialect, votes) | dict.fromkeys(
            self.commas, self._with_comma
        )
        return {name: found[name] for name in self.rows.collect_schema() if name in found}

    @property
    def guessed(self) -> list[str]:
        """The columns in which polars took points for decimal marks."""
        kinds = self.rows.collect_schema()
        return [name for name in kinds if kinds[name].is_float() and name not in self.commas]

    @property
    def votes(self) -> set[str]:
        """The decimal marks that columns have for certain, and those that polars took for such."""
        certain = {one.decimal for one in self._kinds(()).values() if one.voting}
        return {*certain, "."} if self.guessed else {*certain}

    def with_commas(self, votes: Collection[str]) -> list[str]:
        """Return the columns with decimal commas, where others stay as they are written."""
        typed = self.dialect.typed is not None
        return [name for name, one in self._kinds(votes).items() if typed and one.decimal == ","]

    def table(self, votes: Collection[str]) -> Table:
        """Return the rows, where other columns have such decimal marks."""
        kinds = self._kinds(votes)
        known = {
            name: one
            for name, one in kinds.items()
            if one.kind != pl.String and not self.dialect.stays(name)
        }
        rows = self.rows.with_columns(
            one.read(exactly(name), self.dialect)
            for name, one in known.items()
            # A column of empty texts, not of none, stays one of text.
            if one.plain and (one.kind != pl.Null or self.nulls[name] == self.count)
        )
        held = rows.collect() if self.hold else rows
        made = Table.of(self.part, held, self.count, self.source)
        for name, one in known.items():
            if not one.plain and name not in self.commas:
                made = made.read_as(name, partial(one.read, dialect=self.dialect), one.kind)
        return replace(
            made,
            undecided=self,
            told=partial(self.told, votes),
            remarks=(*self.dialect.unusual(formats.SEPARATORS[self.part.format]), *_remarks(known)),
        )

    def told(self, votes: Collection[str], columns: Collection[str]) -> Told:
        """Return how columns were read, where others have such decimal marks."""
        kinds, names, rows = self._kinds(votes), self.guessed, self._scan(infer_schema=False)
        for part in (*(rows.head(first) for first in _FIRST_ROWS if first < self.count), rows):
            names = [name for name in names if name not in kinds or not kinds[name].voting]
            kinds |= points_of(part, names, self.dialect)
        marks = {one.decimal for one in kinds.values() if one.voting}
        taken = {kinds[name].decimal for name in columns if name in kinds and kinds[name].open}
        return Told(tuple(sorted(marks)), next(iter(taken), None), self.dialect.null_values)


def as_written(tables: Sequence[Table], typed: tuple[str, ...]) -> list[Table]:
    """Return tables with the columns of text as they are written, but some; see `Dialect.typed`."""
    found = list(tables)
    for place, one in enumerate(table.undecided for table in tables):
        if isinstance(one, _Text):
            dialect = replace(one.dialect, typed=typed)
            text = _Text(one.source, one.part, dialect, hold=one.hold)
            found[place] = text.table(text.votes)
    return found


def settled(tables: Sequence[Table], known: Collection[str]) -> list[Table]:
    """Return tables of which the decimal mark of one text settles those of all.

    `known`: the marks that further inputs have.
    """
    texts = {n: one.undecided for n, one in enumerate(tables) if isinstance(one.undecided, _Text)}
    found = list(tables)
    if "," in known or any("," in one.votes for one in texts.values()):
        votes = {*known, *(mark for one in texts.values() for mark in one.votes)}
        commas = {name: one for one in texts.values() for name in one.with_commas(votes)}
        read = any(not one.dialect.stays(name) for name, one in commas.items())
        for place, one in texts.items():
            if one.guessed or read:  # as text, where points were taken for decimal marks
                dialect = one.dialect
                if read:  # commas are written as points: those of all columns, or of none
                    dialect = replace(dialect, typed=(*(dialect.typed or ()), *commas))
                texts[place] = _Text(
                    one.source, one.part, dialect, hold=one.hold, guess=not one.guessed
                )
        votes = {*known, *(mark for one in texts.values() for mark in one.votes)}
        for place, one in texts.items():
            found[place] = one.table(votes)
    return found


def _remarks(kinds: Mapping[str, Kind]) -> Iterator[str]:
    """Yield what is unusual about the values of columns."""
    for what, names in (
        ("decimal commas", [name for name, one in kinds.items() if one.decimal == ","]),
        ("marks of thousands", [name for name, one in kinds.items() if one.grouped]),
        ("missing values as text", [name for name, one in kinds.items() if one.marked]),
    ):
        if names:
            more = f" and {len(names) - 3} more" if len(names) > 3 else ""
            yield f"{what} in {', '.join(map(repr, names[:3]))}{more}"


def _json_table(source: Path | bytes, part: Part, floats: pl.DataType, *, hold: bool) -> Table:
    """Return the rows of newline-delimited JSON.

    All lines are looked at for keys and types: polars would silently leave out a key that
    first comes late.
    """
    if hold or any(sign in str(source) for sign in "*?["):  # a pattern to polars
        hold, data = True, source.read_bytes() if isinstance(source, Path) else source
        source = data.removeprefix(formats.UTF8_BOM)
    try:
        rows = pl.scan_ndjson(source, infer_schema_length=None)
        narrow = {name: floats for name, kind in rows.collect_schema().items() if kind.is_float()}
        if floats == pl.Float32:
            rows = pl.scan_ndjson(source, infer_schema_length=None, schema_overrides=narrow)
        # polars has more than some dozens of keys in no order: those of the first line come first.
        names = dict.fromkeys([*_first_keys(source, part.path), *sorted(rows.collect_schema())])
        rows = rows.select(map(exactly, names))
        return Table.of(part, rows.collect() if hold else rows, source=source)
    except pl.exceptions.PolarsError:
        with source.open("rb") if isinstance(source, Path) else BytesIO(source) as lines:
            _refuse_json(lines, part.path)
        raise


def _first_keys(source: Path | bytes, path: str) -> Iterable[str]:
    """Return the keys of the first line; of what is no object none, which polars refuses."""
    begun = b""
    for chunk in content_of(source, path):
        begun = (begun + chunk).removeprefix(formats.UTF8_BOM).lstrip()
        if b"\n" in begun:
            break
    try:
        keys = json.loads(begun.partition(b"\n")[0])
    except (ValueError, RecursionError):
        return ()
    return keys if isinstance(keys, dict) else ()


def _refuse_json(lines: Iterable[bytes], path: str) -> None:
    """Raise if a line is not a JSON object, naming the first such lines."""
    bad: list[int] = []
    reason, row = "", 0
    for row, line in enumerate(filter(bytes.strip, lines), 1):  # blank lines are no rows
        try:
            value = json.loads(line, parse_constant=_not_json)
            problem = None if isinstance(value, dict) else "not an object"
        except (ValueError, RecursionError) as error:
            problem = str(error)
        if problem is not None:
            bad.append(row)
            reason = reason or problem
    if not row:
        raise DataError.of(path, "the file is empty (0 rows)")
    if bad:
        raise DataError.of(
            path,
            f"{len(bad)} line{'s' if len(bad) > 1 else ''} not a JSON object "
            f"(first: row {bad[0]}: {reason}); write one object a line, missing values as null",
            rows=len(bad),
            first_rows=bad,
        )


def _not_json(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")
