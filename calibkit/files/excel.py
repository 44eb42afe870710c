"""Excel workbooks (extra ``calibkit[excel]``): the first sheet as a table, a table as a sheet."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import IO, Any, Final

import polars as pl

from calibkit.errors import DataError, UsageError, needed
from calibkit.files.explain import first_line, repeated_name
from calibkit.files.formats import Dialect
from calibkit.files.paths import Part
from calibkit.files.table import Table
from calibkit.files.values import counts_of, floats_of, kinds_of

#: The rows that a sheet holds under its header.
_MOST_ROWS: Final = 2**20 - 1

#: What is written is what is shown: no text becomes a formula or a link.
_PLAIN: Final = {
    "in_memory": True,
    "nan_inf_to_errors": True,
    "strings_to_formulas": False,
    "strings_to_urls": False,
}


def _needed(package: str) -> Any:
    said = f"Excel files need the package {package}; install it by: pip install 'calibkit[excel]'"
    return needed(package, UsageError(said))


def excel_table(source: Path | bytes | str, part: Part, dialect: Dialect) -> Table:
    """Return the rows of the first sheet of a workbook, under its first row as a header.

    Numbers that stand as text are read as those of CSV are, and so is text for missing values.

    Raises `UsageError` without the packages that read workbooks, or for an address; `DataError` for
    what is no workbook, no rows, or columns of one name.
    """
    if isinstance(source, str):
        raise UsageError(
            f"{part.path}: Excel files are not read over the network; download it first"
        )
    fastexcel = _needed("fastexcel")
    logging.getLogger("fastexcel").addHandler(logging.NullHandler())  # else on standard error
    try:
        workbook = fastexcel.read_excel(source)
        head = workbook.load_sheet(0, header_row=None, n_rows=1, dtypes="string").to_polars()
    except fastexcel.FastExcelError as error:
        said = f"is no Excel workbook, or a damaged one ({first_line(error)}); save it again"
        raise DataError.of(part.path, f"the file {said}") from None
    names = [name for name in head.row(0) if name is not None] if head.height else []
    if len(set(names)) < len(names):
        raise repeated_name(names, part.path)
    file = BytesIO(source) if isinstance(source, bytes) else source
    frame = pl.read_excel(
        file, infer_schema_length=None, raise_if_empty=False, drop_empty_rows=False
    )
    there = pl.any_horizontal(pl.all().is_not_null()) if frame.width else pl.lit(value=False)
    last = frame.select(there.arg_true().max()).item()  # after it cells have but a format
    frame = frame.head(0 if last is None else last + 1)
    frame = frame.with_columns(pl.col(pl.Float64).cast(floats_of(dialect)))
    texts = [name for name, kind in frame.schema.items() if kind == pl.String]
    seen = counts_of(frame.lazy(), texts, dialect, {})
    votes = {one.decimal for one in kinds_of(seen, dialect).values() if one.voting}
    table = Table.of(part, frame)
    for name, one in kinds_of(seen, dialect, votes).items():
        if one.kind not in (pl.String, pl.Null):
            table = table.read_as(name, partial(one.read, dialect=dialect), one.kind)
    return table


def write_excel(frames: Iterable[pl.DataFrame], output: str, file: IO[bytes]) -> None:
    """Write a table as the only sheet of a workbook; equal tables give equal bytes.

    Raises `UsageError` without the package that writes workbooks, for more rows than a sheet holds,
    and for lists.
    """
    xlsxwriter = _needed("xlsxwriter")
    rows = pl.concat(list(frames))
    if pl.Binary in rows.dtypes:  # as polars says it of NDJSON
        raise pl.exceptions.ComputeError("datatype binary cannot be written to Excel")
    odd = any(kind.is_nested() or getattr(kind, "time_zone", None) for kind in rows.dtypes)
    if rows.height > _MOST_ROWS or odd:
        said = "lists, or times with a zone" if odd else f"more than {_MOST_ROWS:,} rows"
        raise UsageError.of(output, f"Excel cannot hold {said}; write Parquet or CSV")
    made = BytesIO()
    with xlsxwriter.Workbook(made, _PLAIN) as workbook:
        workbook.set_properties({"created": datetime(2000, 1, 1, tzinfo=UTC)})
        rows.write_excel(workbook, "rows", float_precision=6)
    file.write(made.getvalue())
