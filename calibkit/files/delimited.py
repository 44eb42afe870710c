"""CSV and TSV text as a data frame: types inferred from the whole file, nothing repaired.

The first rows guess the types; where a later value contradicts them, every column is read as text
and converted by the rules of `_typed`, which see all values.
"""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Final

import polars as pl

from calibkit.errors import DataError

#: Rows that guess the column types before the whole file confirms or corrects them.
_GUESS_ROWS: Final = 10_000

_TRUE_FALSE: Final = ("true", "false")


def read_delimited(source: Path | bytes, path: str, separator: str, dtype: str) -> pl.DataFrame:
    """Read a CSV or TSV table.

    Parameters
    ----------
    source
        Where the text is, plain or compressed by gzip or zstd.
    path
        The name of the input, for messages.
    separator
        The character between fields.
    dtype
        ``"float64"`` or ``"float32"``: the type of columns with fractional numbers.  Columns of
        whole numbers stay integers.

    Returns
    -------
    pl.DataFrame
        Empty fields are null.  A column with no value at all has type `pl.Null`.

    Raises
    ------
    DataError
        Duplicate column names, rows with too many or too few fields, unreadable text.
    """
    header = _header(source, path, separator)
    floats = pl.Float32() if dtype == "float32" else pl.Float64()
    try:
        frame = _guessed(source, separator, floats).collect()
    except pl.exceptions.ComputeError:
        # Either a late value of another type, or a malformed row, which fails again here.
        try:
            frame = pl.scan_csv(
                source, separator=separator, glob=False, infer_schema=False
            ).collect()
        except pl.exceptions.ComputeError:
            _refuse_ragged(_lines(source), path, separator, len(header))
            raise
    if frame.width > 1 and frame.to_series(-1).null_count():
        frame = _refuse_short(source, path, separator, frame)
    return frame.with_columns(
        _typed(column, floats)
        for column in frame.iter_columns()
        if column.dtype == pl.String or column.null_count() == column.len()
    )


def scan_delimited(
    source: Path, path: str, separator: str, dtype: str
) -> tuple[pl.LazyFrame, int] | None:
    """Return a scan that gives what `read_delimited` gives, a batch at a time, and the rows.

    The file is parsed once to see whether the types that its first rows show hold throughout.

    Returns
    -------
    tuple[pl.LazyFrame, int] | None
        None where only the whole text can tell the types, or what is wrong with it.
    """
    _header(source, path, separator)
    floats = pl.Float32() if dtype == "float32" else pl.Float64()
    scan = _guessed(source, separator, floats)
    try:
        first = scan.head(_GUESS_ROWS).collect()
        count = "rows" + "".join(first.columns)  # no column has this name
        # Both in one pass: for the rows alone polars would map the whole file.
        seen = scan.select(pl.len().alias(count), pl.all().null_count())
        rows, *nulls = seen.collect(engine="streaming").row(0)
    except pl.exceptions.ComputeError:
        return None
    open_types = [
        name
        for name, kind in first.schema.items()
        if first[name].null_count() == first.height
        or (kind == pl.String and _typed(first[name], floats).dtype != pl.String)
    ]
    short = first.width > 1 and nulls[-1]
    return None if open_types or short else (scan, rows)


def _guessed(source: Path | bytes, separator: str, floats: pl.Float32 | pl.Float64) -> pl.LazyFrame:
    """Return a scan in the types that the first rows show, fractional numbers as `floats`."""

    def scan(overrides: dict[str, pl.Float32 | pl.Float64] | None = None) -> pl.LazyFrame:
        return pl.scan_csv(
            source,
            separator=separator,
            glob=False,
            infer_schema_length=_GUESS_ROWS,
            schema_overrides=overrides,
        )

    guess = scan().collect_schema()
    return scan({name: floats for name, kind in guess.items() if kind.is_float()})


def _header(source: Path | bytes, path: str, separator: str) -> list[str]:
    """Return the column names as they stand: polars would rename duplicates."""
    first = pl.scan_csv(
        source,
        separator=separator,
        glob=False,
        has_header=False,
        n_rows=1,
        infer_schema=False,
        truncate_ragged_lines=True,
    ).collect()
    names = ["" if name is None else str(name) for name in first.row(0)]
    refuse_repeated(names, path)
    return names


def refuse_repeated(names: list[str], path: str) -> None:
    """Raise a `DataError` if a column name comes twice."""
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise DataError(
            f"{path}: the header names column {repeated[0]!r} {names.count(repeated[0])} times; "
            "give every column a name of its own",
            file=path,
            column=repeated[0],
        )


def _typed(column: pl.Series, floats: pl.Float32 | pl.Float64) -> pl.Series:
    """Return a text column as numbers or booleans if all its values are, else unchanged."""
    values = column.len() - column.null_count()
    if not values:
        return column.cast(pl.Null)
    if column.drop_nulls()[0].lower() in _TRUE_FALSE:
        lowered = column.str.to_lowercase()
        return lowered == "true" if lowered.drop_nulls().is_in(_TRUE_FALSE).all() else column
    # A field of nothing but quotes is an empty field: null among numbers.
    quoted_empty = int((column == "").sum())
    if quoted_empty == values:
        return column
    stripped = column.str.strip_chars(" \t")
    for kind in (pl.Int64(), pl.Int128(), floats):
        numbers = stripped.cast(kind, strict=False)
        if numbers.null_count() == column.null_count() + quoted_empty:
            return numbers
    return column


def _lines(source: Path | bytes) -> pl.Series:
    """Return the physical lines of the text, header included."""
    frame = pl.read_lines(source, glob=False) if isinstance(source, Path) else pl.read_lines(source)
    return frame.to_series()


def _refuse_short(
    source: Path | bytes, path: str, separator: str, frame: pl.DataFrame
) -> pl.DataFrame:
    """Refuse rows that lack fields, and drop blank lines at the end.

    Polars reads a missing field, and every field of a blank line, as null.
    """
    lines = _lines(source)
    blank = 0
    while blank < lines.len() and not lines[-1 - blank]:
        blank += 1
    frame = frame.head(frame.height - blank)
    fields = lines.head(lines.len() - blank).str.count_matches(separator, literal=True) + 1
    quoted = lines.str.contains('"', literal=True).any()
    if quoted or bool((fields != frame.width).any()):
        _refuse_ragged(lines.head(lines.len() - blank), path, separator, frame.width)
    return frame


def _refuse_ragged(lines: pl.Series, path: str, separator: str, width: int) -> None:
    """Raise if any row has another number of fields than the header."""
    records = csv.reader(io.StringIO("\n".join(lines.to_list())), delimiter=separator)
    next(records, None)
    ragged = [
        (row, len(fields)) for row, fields in enumerate(records, start=1) if len(fields) != width
    ]
    if not ragged:
        return
    row, count = ragged[0]
    raise DataError(
        f"{path}: {len(ragged)} row{'s' if len(ragged) > 1 else ''} with another number of fields "
        f"than the header (first: row {row} has {count}, the header {width}); mend the row, or "
        f"quote the fields that hold {separator!r}",
        file=path,
        rows=len(ragged),
        first_rows=[number for number, _ in ragged],
    )
