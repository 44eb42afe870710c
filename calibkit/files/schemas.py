"""One schema for all inputs: what they may differ in, and the error where they differ more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Final, NoReturn

import polars as pl

from calibkit.errors import DataError, UsageError, nearest
from calibkit.files.explain import reading
from calibkit.files.formats import LOOSE_FORMATS
from calibkit.files.inputs import Part
from calibkit.files.table import Reading, Schema, Table, exactly
from calibkit.files.values import SETTLES_DECIMAL, UNSURE

#: What stands for null in the name of a folder.
_HIVE_NULL: Final = "__HIVE_DEFAULT_PARTITION__"


def in_one_schema(parts: Sequence[Part], tables: Sequence[Table]) -> tuple[Table, ...]:
    """Return the tables of all parts with the columns of all, in one order and of one type.

    Columns from folder names come last; of those that a file has too, the file's count.

    Raises
    ------
    DataError
        As `one_schema`.
    """
    keys = _key_types(parts)
    tables = _texts_together(tables)
    schema = one_schema(parts, tables, keys)
    keys = {name: kind for name, kind in keys.items() if name not in schema}
    shaped = []
    for part, table in zip(parts, tables, strict=True):
        frame = table.frame
        if list(table.schema.items()) != list(schema.items()):
            frame = frame.select(
                exactly(name) if name in table.readings else exactly(name).cast(kind)
                for name, kind in schema.items()
            )
        if keys:
            frame = frame.with_columns(
                pl.lit(_key_value(part, name), kind).alias(name) for name, kind in keys.items()
            )
        readings = {
            name: partial(_read_as, one, schema[name]) for name, one in table.readings.items()
        }
        shaped.append(replace(table, frame=frame, schema=schema | keys, readings=readings))
    return tuple(shaped)


def _read_as(reading: Reading, kind: pl.DataType, name: str) -> pl.Expr:
    return reading(name).cast(kind)


def _texts_together(tables: Sequence[Table]) -> list[Table]:
    """Return tables in which a column is text in all of them if it is in one, where it may be."""
    found = list(tables)
    for name in {name for table in tables for name in table.readings}:
        if any(table.schema.get(name) == pl.String for table in tables):
            found = [one.as_text(name) if name in one.readings else one for one in found]
    return found


def _key_types(parts: Sequence[Part]) -> Schema:
    """Return the types of the columns from folder names: integers or floats where all are."""
    types: Schema = {}
    for name in dict.fromkeys(name for part in parts for name in part.keys):
        values = [_key_value(part, name) for part in parts if name in part.keys]
        texts = pl.Series([value for value in values if value is not None], dtype=pl.String)
        numbers = (pl.Int64(), pl.Float64()) if texts.len() else ()
        fitting = (kind for kind in numbers if not texts.cast(kind, strict=False).null_count())
        types[name] = next(fitting, pl.String())
    return types


def _key_value(part: Part, name: str) -> str | None:
    """Return the text of a folder's key, null where it says so."""
    value = part.keys[name]
    return None if value == _HIVE_NULL else value


def one_schema(parts: Sequence[Part], tables: Sequence[Table], keys: Schema) -> Schema:
    """Return the schema of all parts, without the columns from folder names (`keys`).

    The order of columns may differ, a column without any value fits any type, and numbers read
    from text may be whole in one file and fractional in another.

    Raises
    ------
    DataError
        If the parts differ more, naming both files and the column.
    """
    first, common = parts[0], dict(tables[0].schema)
    for part, table in zip(parts[1:], tables[1:], strict=True):
        schema = table.schema
        for name in [*common, *schema]:
            if name not in schema or name not in common:
                having, lacking = (first, part) if name in common else (part, first)
                near = nearest(name, common if having is part else schema)
                raise DataError(
                    f"{lacking.path}: no column {name!r}, which {having.path} has{near}; all "
                    "inputs need the same columns",
                    file=lacking.path,
                    column=name,
                )
            inferred = part.format in LOOSE_FORMATS or first.format in LOOSE_FORMATS
            kind = _common_type(common[name], schema[name], inferred)
            if kind is None:
                _refuse_types(name, (first, tables[0]), (part, table), common[name])
            common[name] = kind
        for key in keys:
            if (key in part.keys) != (key in first.keys) and key not in common:
                having, lacking = (first, part) if key in first.keys else (part, first)
                raise DataError(
                    f"{lacking.path}: no folder {key}=…, which {having.path} has; all inputs "
                    "need the same columns",
                    file=lacking.path,
                    column=key,
                )
    return common


def _refuse_types(
    name: str, one: tuple[Part, Table], other: tuple[Part, Table], common: pl.DataType
) -> NoReturn:
    """Raise about a column of two types; where numbers meet text, name the text."""
    part, kind = other[0], other[1].schema[name]
    message = f"column {name!r} is {kind}, but {common} in {one[0].path}"
    rows, advice = list[int](), "all inputs need the same types"
    culprit, table = other if kind == pl.String else one
    if {kind.is_numeric(), common.is_numeric()} == {True, False} and pl.String in (kind, common):
        with reading(culprit.path):
            text = table.read([name]).to_series().cast(pl.String)
        odd = text.is_not_null() & text.cast(pl.Float64, strict=False).is_null()
        rows = [int(row) + 1 for row in odd.arg_true()]
        part = culprit if rows else part
        if text.str.contains(UNSURE).any():
            advice = SETTLES_DECIMAL
    where = f" ({culprit.path} row {rows[0]}: {text[rows[0] - 1]!r})" if rows else ""
    raise DataError(
        f"{part.path}: {message}{where}; {advice}",
        file=part.path,
        column=name,
        rows=len(rows) or None,
        first_rows=rows,
    )


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
    return pl.Int128() if pl.Int128 in (one, other) else pl.Int64()


def _is_number(name: str) -> bool:
    """Tell whether a column is called like a number, as where the header is missing."""
    try:
        float(name)
    except ValueError:
        return False
    return True


def refuse_pattern(name: str, role: str, file: str) -> None:
    """Raise a `UsageError` for a column whose name polars would take for a pattern of names."""
    if name.startswith("^") and name.endswith("$"):
        raise UsageError(
            f"{file}: column {name!r} for {role} has the form of a pattern (^…$), which polars would "
            "take for other columns; rename it",
            file=file,
            column=name,
        )


def misread(names: Sequence[str]) -> str:
    """Return what may be wrong with a text file whose header has these names, or nothing."""
    if all(map(_is_number, names)):
        return "; is the header line missing?"
    if len(names) == 1 and "\t" in names[0]:
        return "; are the columns parted by tabs? then add --input-format tsv"
    if len(names) == 1 and ";" in names[0]:
        return "; the columns are parted by semicolons: write commas or tabs"
    return ""
