"""How text becomes a table: CSV, TSV and NDJSON, typed by all their values, nothing repaired.

The first rows of CSV guess the types.  Where a later value contradicts them, every column is read
as text and becomes what all of its values allow.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any, Final, NoReturn

import polars as pl

from calibkit.errors import DataError
from calibkit.files.dialect import Dialect, said
from calibkit.files.explain import repeated_name
from calibkit.files.formats import (
    HEAD_BYTES,
    SEPARATORS,
    is_compressed,
    text_problem,
    without_bom,
)
from calibkit.files.table import Table, Undecided
from calibkit.files.told import Told
from calibkit.files.values import Counts, Kind, counts_of, kind_of

#: Rows that guess the column types before the whole file confirms or corrects them.
_GUESS_ROWS: Final = 10_000

#: Rows that tell of most texts that they are nothing else, before more are looked at.
_FIRST_ROWS: Final = (64, _GUESS_ROWS)

Float = pl.Float32 | pl.Float64


def text_table(
    source: Path | bytes,
    path: str,
    head: bytes,
    format_name: str,
    dtype: str,
    dialect: Dialect,
    *,
    hold: bool,
) -> Table:
    """Return the rows of a text file.

    Parameters
    ----------
    source
        Where the text is, plain or compressed by gzip or zstd.
    path
        The name of the input, for messages.
    head
        Its first bytes.
    format_name
        ``"csv"``, ``"tsv"`` or ``"ndjson"``.
    dtype
        ``"float64"`` or ``"float32"``: the type of columns with fractional numbers.  Columns of
        whole numbers stay integers.
    dialect
        How it is written: the delimiter, and what else was said.
    hold
        Whether the rows are held, else parsed whenever they are read.

    Returns
    -------
    Table
        Empty fields, and keys that a line lacks, are null.  A CSV column with no value at all has
        type `pl.Null`.

    Raises
    ------
    DataError
        Duplicate column names, rows with too many or too few fields, lines that are no JSON
        objects, unreadable text, no rows.
    """
    problem = text_problem(head)
    if problem is not None:
        raise DataError(f"{path}: {problem}", file=path)
    if not is_compressed(head) and not head.strip() and len(head) < HEAD_BYTES:
        raise DataError(f"{path}: the file is empty (nothing but white space)", file=path)
    floats: Float = pl.Float32() if dtype == "float32" else pl.Float64()
    try:
        if format_name == "ndjson":
            hold = hold or without_bom(head) != head
            table = _json_table(source, path, floats, hold=hold)
            return replace(table, remarks=tuple(said(dialect, None)))
        usual = SEPARATORS[format_name]
        text = _Delimited(source, path, dialect, usual, floats, hold)
        found = text.columns(guess=dialect.guesses)
        return found.table(found.votes)
    except pl.exceptions.NoDataError as error:
        raise DataError(f"{path}: the file is empty (0 rows)", file=path) from error


@dataclass(frozen=True)
class _Delimited:
    """Text with fields between delimiters, under a header."""

    source: Path | bytes
    path: str
    dialect: Dialect
    usual: str
    floats: Float
    hold: bool

    @property
    def separator(self) -> str:
        return str(self.dialect.delimiter)

    def columns(self, *, guess: bool) -> _Columns:
        """Return the rows; see `text_table`.  `guess`: the first ones tell types where they can."""
        names = self._header()
        try:
            rows, count, nulls = _parsed(
                self._guessed() if guess else self._scan(infer_schema=False), hold=self.hold
            )
        except pl.exceptions.ComputeError:
            # Either a late value of another type, or a malformed row, which fails again here.
            try:
                rows, count, nulls = _parsed(self._scan(infer_schema=False), hold=self.hold)
            except pl.exceptions.ComputeError:
                self._refuse_ragged(len(names))
                raise
        if len(nulls) > 1 and nulls[next(reversed(nulls))]:
            # Polars reads a missing field, and every field of a blank line, as null.
            blank = self._refuse_ragged(len(nulls))
            rows, count = rows.head(count - blank), count - blank
            nulls = {name: number - blank for name, number in nulls.items()}
        empty = frozenset(name for name, number in nulls.items() if number == count)
        return _Columns(self, rows, count, empty, self.seen(rows))

    def _scan(self, **options: Any) -> pl.LazyFrame:
        return pl.scan_csv(self.source, separator=self.separator, glob=False, **options)

    def _header(self) -> list[str]:
        """Return the column names as they stand: polars would rename duplicates."""
        first = self._scan(
            has_header=False, n_rows=1, infer_schema=False, truncate_ragged_lines=True
        )
        names = ["" if name is None else str(name) for name in first.collect().row(0)]
        if len(set(names)) < len(names):
            raise repeated_name(names, self.path)
        return names

    def _guessed(self) -> pl.LazyFrame:
        """Return the rows in the types that the first ones show."""
        guess = self._scan(infer_schema_length=_GUESS_ROWS).collect_schema()
        narrow = {name: self.floats for name, kind in guess.items() if kind.is_float()}
        return self._scan(infer_schema_length=_GUESS_ROWS, schema_overrides=narrow)

    def seen(self, rows: pl.LazyFrame) -> dict[str, Counts]:
        """Return what the texts of columns are that may be something else."""
        texts = [name for name, kind in rows.collect_schema().items() if kind == pl.String]
        for first in _FIRST_ROWS:
            kinds = self._kinds(counts_of(rows.head(first), texts, self.dialect, self.floats))
            texts = [name for name, one in kinds.items() if one.kind != pl.String or not one.sure]
        return counts_of(rows, texts, self.dialect, self.floats)

    def _kinds(self, seen: Mapping[str, Counts]) -> dict[str, Kind]:
        return {name: kind_of(one, self.dialect, self.floats, ()) for name, one in seen.items()}

    def marked(self, names: Sequence[str]) -> dict[str, Kind]:
        """Return the kinds of columns in which polars took points for decimal marks."""
        found: dict[str, Kind] = {}
        rows = self._scan(infer_schema=False)
        for part in (*map(rows.head, _FIRST_ROWS), rows):
            names = [name for name in names if name not in found or not found[name].voting]
            found |= self._kinds(counts_of(part, names, self.dialect, self.floats))
        return found

    def _refuse_ragged(self, width: int) -> int:
        """Refuse rows with another number of fields than the header; return the last blank lines."""
        text, line = pl.scan_lines(self.source, glob=False), pl.col("line")
        fields = line.str.count_matches(self.separator, literal=True) + 1
        seen = text.with_row_index("row", 1).select(
            pl.len(),
            pl.when(line != "").then("row").max().fill_null(0).alias("filled"),
            (line == "").sum().alias("blank"),
            ((line != "") & (fields != width)).sum().alias("odd"),
            line.str.contains('"', literal=True).any().alias("quoted"),
        )
        lines, filled, blank, odd, quoted = seen.collect(engine="streaming").row(0)
        if quoted or odd or blank > lines - filled:
            self._refuse_rows(_each(text.head(filled)), width)
        return int(lines - filled)

    def _refuse_rows(self, lines: Iterator[str], width: int) -> None:
        records = csv.reader(lines, delimiter=self.separator)
        next(records, None)
        ragged = [
            (row, len(fields))
            for row, fields in enumerate(records, start=1)
            if len(fields) != width
        ]
        if not ragged:
            return
        row, count = ragged[0]
        raise DataError(
            f"{self.path}: {len(ragged)} row{'s' if len(ragged) > 1 else ''} with another number "
            f"of fields than the header (first: row {row} has {count}, the header {width}); mend "
            f"the row, or quote the fields that hold {self.separator!r}",
            file=self.path,
            rows=len(ragged),
            first_rows=[number for number, _ in ragged],
        )


def _parsed(rows: pl.LazyFrame, *, hold: bool) -> tuple[pl.LazyFrame, int, dict[str, int]]:
    """Parse all rows once; return them (`hold`: held), their number, and nulls by column."""
    rows = rows.collect().lazy() if hold else rows
    # Both in one pass: for the rows alone polars would map the whole file.
    seen = rows.select(pl.len().alias("rows"), pl.struct(pl.all().null_count()).alias("nulls"))
    count, nulls = seen.collect(engine="streaming").row(0)
    return rows, count, nulls


@dataclass(frozen=True)
class _Columns:
    """The columns of a delimited text, parsed, before it is settled what its texts are.

    Attributes
    ----------
    text
        Where they come from.
    rows, count
        The rows, and how many there are.
    empty
        Columns without any text.
    seen
        What the texts of a column are, of those that may be something else.
    """

    text: _Delimited
    rows: pl.LazyFrame
    count: int
    empty: frozenset[str]
    seen: Mapping[str, Counts]

    def _kinds(self, votes: Collection[str]) -> dict[str, Kind]:
        text = self.text
        return {
            name: kind_of(seen, text.dialect, text.floats, votes)
            for name, seen in self.seen.items()
        }

    @property
    def votes(self) -> set[str]:
        """The decimal marks that columns have for certain, and those that polars took for such."""
        return {one.decimal for one in self._kinds(()).values() if one.voting} | self._guessed

    @property
    def _guessed(self) -> set[str]:
        return (
            {"."} if any(kind.is_float() for kind in self.rows.collect_schema().values()) else set()
        )

    def examined(self) -> Undecided:
        """Return these with all columns as text, where points were taken for decimal marks."""
        return self.text.columns(guess=False) if self._guessed else self

    def table(self, votes: Collection[str]) -> Table:
        """Return the rows, where other columns have such decimal marks."""
        dialect, kinds = self.text.dialect, self._kinds(votes)
        known = {name: one for name, one in kinds.items() if one.kind != pl.String}
        rows = self.rows.with_columns(
            one.read(name, dialect)
            for name, one in known.items()
            if one.plain and (one.kind != pl.Null or name in self.empty)  # else all are empty text
        )
        made = Table.of(rows.collect()) if self.text.hold else Table.of(rows, self.count)
        remarks = (*said(dialect, self.text.usual), *_remarks(known))
        odd = {name: one for name, one in known.items() if not one.plain}
        readings = {name: partial(one.read, dialect=dialect) for name, one in odd.items()}
        schema = made.schema | {name: one.kind for name, one in odd.items()}
        told = partial(self.told, votes)
        return replace(
            made, schema=schema, readings=readings, undecided=self, told=told, remarks=remarks
        )

    def told(self, votes: Collection[str], columns: Collection[str]) -> Told:
        """Return how columns were read, where others have such decimal marks."""
        kinds = self._kinds(votes)
        floats = [name for name, kind in self.rows.collect_schema().items() if kind.is_float()]
        kinds |= self.text.marked(floats)
        marks = {one.decimal for one in kinds.values() if one.voting}
        taken = {kinds[name].decimal for name in columns if name in kinds and kinds[name].open}
        said = self.text.dialect.null_values
        return Told(tuple(sorted(marks)), next(iter(taken), None), said)


def _remarks(kinds: Mapping[str, Kind]) -> Iterator[str]:
    """Yield what is unusual about the values of columns."""
    for what, names in (
        ("decimal commas", [name for name, one in kinds.items() if one.decimal == ","]),
        ("marks of thousands", [name for name, one in kinds.items() if one.grouped]),
        ("NA and the like among the numbers", [name for name, one in kinds.items() if one.marked]),
    ):
        if names:
            more = f" and {len(names) - 3} more columns" if len(names) > 3 else ""
            yield f"{what} in {', '.join(map(repr, names[:3]))}{more}"


def _each(lines: pl.LazyFrame) -> Iterator[str]:
    for frame in lines.collect_batches(maintain_order=True):
        yield from frame.to_series()


def _json_table(source: Path | bytes, path: str, floats: Float, *, hold: bool) -> Table:
    """Return the rows of newline-delimited JSON.

    All lines are looked at for keys and types: polars would silently leave out a key that
    first comes late.
    """
    if hold or any(sign in str(source) for sign in "*?["):  # a pattern to polars
        hold, source = (
            True,
            without_bom(source.read_bytes() if isinstance(source, Path) else source),
        )
    try:
        rows = pl.scan_ndjson(source, infer_schema_length=None)
        narrow = {name: floats for name, kind in rows.collect_schema().items() if kind.is_float()}
        if floats == pl.Float32:
            rows = pl.scan_ndjson(source, infer_schema_length=None, schema_overrides=narrow)
        return Table.of(rows.collect() if hold else rows)
    except pl.exceptions.PolarsError:
        with source.open("rb") if isinstance(source, Path) else BytesIO(source) as lines:
            _refuse_json(lines, path)
        raise


def _refuse_json(lines: Iterable[bytes], path: str) -> None:
    """Raise if a line is not a JSON object, naming the first such lines."""
    bad: list[int] = []
    reason, row = "", 0
    for line in lines:
        if not line.strip():
            continue
        row += 1
        try:
            value = json.loads(line, parse_constant=_not_json)
            problem = None if isinstance(value, dict) else "not an object"
        except (ValueError, RecursionError) as error:
            problem = str(error)
        if problem is not None:
            bad.append(row)
            reason = reason or problem
    if not row:
        raise DataError(f"{path}: the file is empty (0 rows)", file=path)
    if bad:
        raise DataError(
            f"{path}: {len(bad)} line{'s' if len(bad) > 1 else ''} not a JSON object "
            f"(first: row {bad[0]}: {reason}); write one object a line, missing values as null",
            file=path,
            rows=len(bad),
            first_rows=bad,
        )


def _not_json(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")
