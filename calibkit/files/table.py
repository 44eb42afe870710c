"""One input as a table: its schema and number of rows at once, its columns on demand.

And the one schema of all inputs: what they may differ in, and the error where they differ more.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import NoReturn

import polars as pl
from msgspec import Struct
from msgspec.structs import replace

from calibkit.errors import DataError, nearest
from calibkit.files.explain import reading
from calibkit.files.formats import LOOSE_FORMATS
from calibkit.files.paths import Part
from calibkit.files.told import Told
from calibkit.files.values import SETTLES_DECIMAL, UNSURE, exactly

Schema = dict[str, pl.DataType]


class Table(Struct, frozen=True):
    """An input whose schema and number of rows are known."""

    part: Part
    frame: pl.DataFrame | pl.LazyFrame  # the rows, or the scan that reads them
    schema: Schema  # names and types, in the order of the file
    rows: int
    source: Path | str | bytes | None = None  # where they come from, to be kept and for `metadata`
    #: How columns are read, if not as `frame` holds them; and the text that some of them are read
    #: from: dates, and numbers with text for missing values, or written otherwise than here.
    columns: Mapping[str, pl.Expr] = {}
    texts: Mapping[str, pl.Expr] = {}
    undecided: object = None  # columns of text it is made of, for `calibkit.files.text.settled`
    told: Callable[[Collection[str]], Told | None] | None = None  # how columns of text were read
    remarks: tuple[str, ...] = ()  # what is unusual about how it is written

    @classmethod
    def of(
        cls,
        part: Part,
        frame: pl.DataFrame | pl.LazyFrame,
        rows: int | None = None,
        source: Path | str | bytes | None = None,
    ) -> Table:
        """Return a table of these rows; `rows`: how many they are, where that is known."""
        if isinstance(frame, pl.DataFrame):
            return cls(part, frame, dict(frame.schema), frame.height)
        schema = dict(frame.collect_schema())
        rows = rows or int(frame.select(pl.len()).collect().item())
        return cls(part, frame, schema, rows, source)

    def metadata(self) -> dict[str, str]:
        """Return the keys and values of a Parquet file's footer; other formats have none."""
        if self.part.format != "parquet" or self.source is None:
            return {}
        source = BytesIO(self.source) if isinstance(self.source, bytes) else self.source
        with reading(self.part.path):
            return pl.read_parquet_metadata(source)

    def column(self, name: str) -> pl.Expr:
        """Return how a column is read."""
        return self.columns.get(name, exactly(name))

    def as_text(self, name: str) -> Table:
        """Return the table with a column as it is written."""
        text = self.texts.get(name, self.column(name).cast(pl.String))
        texts = {key: one for key, one in self.texts.items() if key != name}
        columns, schema = {**self.columns, name: text}, {**self.schema, name: pl.String()}
        return replace(self, columns=columns, texts=texts, schema=schema)

    def read_as(
        self, name: str, read: Callable[[pl.Expr], pl.Expr], kind: pl.DataType | None = None
    ) -> Table:
        """Return the table with a column that is read from its text; `kind`: its type, if known."""
        text = self.as_text(name).column(name)
        columns = {**self.columns, name: read(text)}
        made = replace(self, columns=columns, texts={**self.texts, name: text})
        found = kind or made.select([name]).collect_schema()[name]
        return replace(made, schema={**self.schema, name: found})

    def renamed(self, old: str, new: str) -> Table:
        """Return the table with a column of another name."""
        schema = {new if name == old else name: kind for name, kind in self.schema.items()}
        texts = {new if name == old else name: one for name, one in self.texts.items()}
        columns = {**self.columns, new: self.column(old)}
        return replace(self, columns=columns, texts=texts, schema=schema)

    def stretch(self, first: int, rows: int) -> Table:
        """Return some rows from number `first` (from 0) on; of a scan they alone are read."""
        return replace(self, frame=self.frame.slice(first, rows), rows=rows)

    def select(self, names: Sequence[str]) -> pl.LazyFrame:
        """Return some columns, in this order, still to be read."""
        return self.frame.lazy().select(self.column(name).alias(name) for name in names)

    def read(self, columns: Sequence[str]) -> pl.DataFrame:
        """Return `columns`, in this order, in as many chunks as the file has."""
        with reading(self.part.path):
            frame = self.select(columns).collect()
        check_rows(self.part.path, frame.height, self.rows)
        return frame

    def batches(self, columns: Sequence[str], rows: int) -> Iterator[pl.DataFrame]:
        """Yield `columns`, in this order, at most so many rows at a time, in the file's order."""
        if isinstance(self.frame, pl.DataFrame):
            yield from self.select(columns).collect().iter_slices(rows)
            return
        # Batches as polars reads them, small ones together: to cut all to a size costs time and memory.
        held, count, done = list[pl.DataFrame](), 0, 0
        with reading(self.part.path):
            for batch in self.select(columns).collect_batches(maintain_order=True):
                if held and count + batch.height > rows:
                    yield pl.concat(held, rechunk=True)
                    held, count = [], 0
                if batch.height > rows:
                    yield from batch.iter_slices(rows)
                elif batch.height:
                    held.append(batch)
                    count += batch.height
                done += batch.height
            if held:
                yield pl.concat(held, rechunk=True)
        check_rows(self.part.path, done, self.rows)


def check_rows(path: str, rows: int, expected: int) -> None:
    """Raise a `DataError` where a file gave another number of rows than it had."""
    if rows != expected:
        raise DataError.of(
            path,
            f"{rows} rows instead of {expected}: the file changed while it was read; "
            "run again when it is complete",
        )


def in_one_schema(tables: Sequence[Table]) -> tuple[Table, ...]:
    """Return the tables of all inputs with the columns of all, in one order and of one type.

    Columns from folder names come last, integers or floats where all are; of those that a file has
    too, the file's count.  A column is text in all files if it is in one, where it may be.

    Raises `DataError` as `one_schema` does.
    """
    keys: Schema = {}
    for key in dict.fromkeys(name for table in tables for name in table.part.keys):
        values = [table.part.keys.get(key) for table in tables]
        texts = pl.Series(values, dtype=pl.String).drop_nulls()
        numbers = (pl.Int64(), pl.Float64()) if texts.len() else ()
        fitting = (kind for kind in numbers if not texts.cast(kind, strict=False).null_count())
        keys[key] = next(fitting, pl.String())
    tables = list(tables)
    for name in {name for table in tables for name in table.texts}:
        if any(table.schema.get(name) == pl.String for table in tables):
            tables = [one.as_text(name) if name in one.texts else one for one in tables]
    schema = one_schema(tables, keys)
    keys = {name: kind for name, kind in keys.items() if name not in schema}
    shaped = []
    for table in tables:
        frame, columns = table.frame, dict(table.columns)
        for name, kind in schema.items():
            if table.schema[name] != kind:
                columns[name] = table.column(name).cast(kind)
        if keys:
            frame = frame.with_columns(
                pl.lit(table.part.keys[name], kind).alias(name) for name, kind in keys.items()
            )
        shaped.append(replace(table, frame=frame, columns=columns, schema=schema | keys))
    return tuple(shaped)


def one_schema(tables: Sequence[Table], keys: Schema) -> Schema:
    """Return the schema of all inputs, without the columns from folder names (`keys`).

    The order of columns may differ, a column without any value fits any type, and numbers read
    from text may be whole in one file and fractional in another.

    Raises `DataError` if the parts differ more, naming both files and the column.
    """
    first, common = tables[0].part, dict(tables[0].schema)
    for table in tables[1:]:
        part, schema = table.part, table.schema
        for name in [*common, *schema]:
            if name not in common:
                _refuse_lack(first, part, name, f"column {name!r}", nearest(name, common))
            if name not in schema:
                _refuse_lack(part, first, name, f"column {name!r}", nearest(name, schema))
            inferred = part.format in LOOSE_FORMATS or first.format in LOOSE_FORMATS
            kind = _common_type(common[name], schema[name], inferred)
            if kind is None:
                _refuse_types(name, tables[0], table, common[name])
            common[name] = kind
        for key in keys:
            if (key in part.keys) != (key in first.keys) and key not in common:
                lacking, having = (part, first) if key in first.keys else (first, part)
                _refuse_lack(lacking, having, key, f"folder {key}=…")
    return common


def _refuse_lack(lacking: Part, having: Part, name: str, what: str, near: str = "") -> NoReturn:
    problem = f"no {what}, which {having.path} has{near}; all inputs need the same columns"
    raise DataError.of(lacking.path, problem, column=name)


def _common_type(one: pl.DataType, other: pl.DataType, inferred: bool) -> pl.DataType | None:
    """Return the type that holds both, or None; numbers from text may differ between files."""
    if one == other:
        return one
    if pl.Null in (one, other):
        return other if one == pl.Null else one
    if not (inferred and one.is_numeric() and other.is_numeric()):
        return None
    floats = [kind for kind in (one, other) if kind.is_float()]
    if floats:
        return pl.Float64() if pl.Float64 in floats else pl.Float32()
    wide = [kind for kind in (one, other) if kind == pl.Int128 or kind.is_decimal()]
    return wide[0] if wide else pl.Int64()


def _refuse_types(name: str, one: Table, other: Table, common: pl.DataType) -> NoReturn:
    """Raise about a column of two types; where numbers meet text, name the text."""
    path, kind = other.part.path, other.schema[name]
    rows, advice = list[int](), "all inputs need the same types"
    table = other if kind == pl.String else one
    culprit = table.part.path
    if {kind.is_numeric(), common.is_numeric()} == {True, False} and pl.String in (kind, common):
        text = table.read([name]).to_series().cast(pl.String)
        odd = text.is_not_null() & text.cast(pl.Float64, strict=False).is_null()
        rows = [int(row) + 1 for row in odd.arg_true()]
        if text.str.contains(UNSURE).any():
            advice = SETTLES_DECIMAL
    where = f" ({culprit} row {rows[0]}: {text[rows[0] - 1]!r})" if rows else ""
    here, there = (kind, f"{common} in {one.part.path}")
    if rows and table is one:
        here, there, path = common, f"{kind} in {path}", culprit
    message = f"column {name!r} is {here}, but {there}"
    raise DataError.of(
        path, f"{message}{where}; {advice}", column=name, rows=len(rows) or None, first_rows=rows
    )
