"""One column as labels 0 and 1."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from typing import Any, Final, NoReturn, cast

import numpy as np
import polars as pl
from numpy.typing import NDArray

from calibkit.columns.numeric import read_only
from calibkit.columns.rows import RowFinder, is_text, refuse_missing, shown
from calibkit.errors import DataError

_POSITIVE_TEXT: Final = ("1", "t", "true")
_NEGATIVE_TEXT: Final = ("0", "f", "false")

#: Values that a message lists of a column.
_LISTED_VALUES: Final = 5


def label_column(
    column: pl.Series,
    where: RowFinder,
    *,
    positive: str | None = None,
    must_occur: bool = True,
) -> tuple[NDArray[np.uint8], tuple[str, ...]]:
    """Return labels as 0 and 1 (uint8), and warnings; refuse missing and other values.

    Without `positive` labels are 0/1 of any number type, booleans, or the words t, f, true, false, 0,
    1 in any case.  With it, as the user typed it, numbers are compared as numbers, booleans by these
    words, all else as text; every other value is negative.  A positive class that no row has is an
    error if it `must_occur`, else a warning.
    """
    advice = "label these rows, or leave them out by --unlabelled drop"
    refuse_missing(column, where, "no label", advice, empty=True)
    if positive is None:
        return _binary_labels(column, where), ()
    labels = read_only(_equal(column, positive).cast(pl.UInt8))
    if labels.any():
        return labels, ()
    seen = ", ".join(shown(value) for value in _first_values(column))
    message = f"column {column.name!r}: no row has the positive class {positive!r} (values: {seen})"
    if not must_occur:
        return labels, (message,)
    file = where.source.parts[0].path
    raise DataError(
        f"{file}: {message}; name one of its values by --positive",
        file=file,
        column=column.name,
        rows=column.len(),
    )


def _binary_labels(column: pl.Series, where: RowFinder) -> NDArray[np.uint8]:
    kind = column.dtype
    if kind == pl.Boolean:
        return read_only(column.cast(pl.UInt8))
    if kind.is_numeric():
        odd, positive = (column != 0) & (column != 1), column
    elif is_text(kind):
        words = column.cast(pl.String).str.to_lowercase()
        positive = words.is_in(_POSITIVE_TEXT)
        odd = ~(positive | words.is_in(_NEGATIVE_TEXT))
    else:
        _refuse_labels(column, None, where)
    if odd.any():
        _refuse_labels(column, odd.to_numpy(), where)
    return read_only(positive.cast(pl.UInt8))


def _refuse_labels(column: pl.Series, odd: NDArray[np.bool_] | None, where: RowFinder) -> NoReturn:
    values = column if odd is None else column.filter(pl.Series(odd))
    seen = ", ".join(shown(value) for value in _first_values(values))
    where.refuse(
        column,
        odd,
        f"labels other than 0/1, true/false, t/f ({seen})",
        "name the positive class by --positive VALUE",
    )


def _equal(column: pl.Series, positive: str) -> pl.Series:
    """Return where a column equals a value that was typed; missing labels have been refused before."""
    kind = column.dtype
    if kind == pl.Boolean:
        word = positive.strip().lower()
        meant = {**dict.fromkeys(_POSITIVE_TEXT, True), **dict.fromkeys(_NEGATIVE_TEXT, False)}
        return column.is_in([meant[word]] if word in meant else [])
    if not kind.is_numeric():
        return column.cast(pl.String) == positive
    try:
        number = Decimal(positive.strip())
    except InvalidOperation:
        return column.is_null()
    if kind.is_float():
        return column.eq(pl.Series([float(number)], dtype=pl.Float64).cast(kind))
    if kind.is_decimal():
        return column.cast(pl.Float64) == float(number)
    lowest, highest = cast(int, column.min()), cast(int, column.max())
    if not number.is_finite() or not lowest <= number <= highest or number % 1:
        return column.is_null()
    return column == int(number)


def _first_values(column: pl.Series) -> list[Any]:
    """Return the first distinct values in row order."""
    return column.unique(maintain_order=True).head(_LISTED_VALUES).to_list()
