"""How text becomes a table: CSV, TSV and NDJSON, typed by all their values, nothing repaired.

The first rows of CSV guess the types.  Where a later value contradicts them, every column is read
as text and becomes what all of its values allow.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any, Final, NoReturn

import polars as pl

from calibkit.errors import DataError
from calibkit.files.explain import repeated_name
from calibkit.files.formats import (
    HEAD_BYTES,
    SEPARATORS,
    is_compressed,
    text_problem,
    without_bom,
)
from calibkit.files.table import Table, exactly

#: Rows that guess the column types before the whole file confirms or corrects them.
_GUESS_ROWS: Final = 10_000

_TRUE_FALSE: Final = ("true", "false")

Float = pl.Float32 | pl.Float64


def text_table(
    source: Path | bytes, path: str, head: bytes, format_name: str, dtype: str, *, hold: bool
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
            return _json_table(source, path, floats, hold=hold)
        return _Delimited(source, path, SEPARATORS[format_name], floats).table(hold=hold)
    except pl.exceptions.NoDataError as error:
        raise DataError(f"{path}: the file is empty (0 rows)", file=path) from error


@dataclass(frozen=True)
class _Delimited:
    """Text with fields between separators, under a header."""

    source: Path | bytes
    path: str
    separator: str
    floats: Float

    def table(self, *, hold: bool) -> Table:
        """Return the rows; see `text_table`."""
        names = self._header()
        try:
            rows, count, nulls = _parsed(self._guessed(), hold=hold)
        except pl.exceptions.ComputeError:
            # Either a late value of another type, or a malformed row, which fails again here.
            try:
                rows, count, nulls = _parsed(self._scan(infer_schema=False), hold=hold)
            except pl.exceptions.ComputeError:
                self._refuse_ragged(len(names))
                raise
        if len(nulls) > 1 and nulls[next(reversed(nulls))]:
            # Polars reads a missing field, and every field of a blank line, as null.
            blank = self._refuse_ragged(len(nulls))
            rows, count = rows.head(count - blank), count - blank
            nulls = {name: number - blank for name, number in nulls.items()}
        rows = self._typed(rows, [name for name, number in nulls.items() if number == count])
        return Table.of(rows.collect()) if hold else Table.of(rows, count)

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

    def _typed(self, rows: pl.LazyFrame, empty: Sequence[str]) -> pl.LazyFrame:
        """Return rows whose text columns are numbers or booleans where all their values are."""
        texts = [name for name, kind in rows.collect_schema().items() if kind == pl.String]
        first = self._kinds(rows.head(_GUESS_ROWS), texts)
        kinds = self._kinds(rows, [name for name in texts if first[name] != pl.String])
        return rows.with_columns(
            _converted(name, kind)
            for name, kind in kinds.items()
            if kind != pl.String and (kind != pl.Null or name in empty)  # else all are empty text
        )

    def _kinds(self, rows: pl.LazyFrame, names: Sequence[str]) -> dict[str, pl.DataType]:
        """Return what the values of text columns all are; `pl.Null` where there is none."""
        numbers = (pl.Int64(), pl.Int128(), self.floats)
        counts: dict[str, dict[str, pl.Expr]] = {
            name: {
                "some": exactly(name).count(),
                "filled": (exactly(name) != "").sum(),
                "words": exactly(name).str.to_lowercase().is_in(_TRUE_FALSE).sum(),
                **{str(kind): _converted(name, kind).count() for kind in numbers},
            }
            for name in names
        }
        if not counts:
            return {}
        found = rows.select(
            pl.struct(one.alias(count) for count, one in these.items()).alias(name)
            for name, these in counts.items()
        )
        return {
            name: _kind(seen, numbers)
            for name, seen in found.collect(engine="streaming").row(0, named=True).items()
        }

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


def _kind(seen: Mapping[str, int], numbers: Sequence[pl.DataType]) -> pl.DataType:
    if not seen["filled"]:
        return pl.Null()
    if seen["words"] == seen["some"]:
        return pl.Boolean()
    # A field of nothing but quotes is an empty field: null among numbers.
    fitting = (kind for kind in numbers if seen[str(kind)] == seen["filled"])
    return next(fitting, pl.String())


def _converted(name: str, kind: pl.DataType) -> pl.Expr:
    """Return a text column as another type, null where a value is none of its values."""
    text = exactly(name)
    if kind == pl.Boolean:
        return text.str.to_lowercase() == "true"
    return text.str.strip_chars(" \t").cast(kind, strict=False)


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
