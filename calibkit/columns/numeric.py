"""One column as checked numbers: scores, weights, labels, and whatever else holds numbers."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from typing import Any, Final, NoReturn, cast

import numpy as np
import polars as pl
from numpy.typing import NDArray

from calibkit.columns.rows import RowFinder, is_text, refuse_missing, shown
from calibkit.errors import DataError
from calibkit.files.values import SETTLES_DECIMAL, UNSURE
from calibkit.models.model import Column

FloatArray = NDArray[np.float32] | NDArray[np.float64]

#: Integers beyond this are not all float64 numbers.
_EXACT_INTEGER: Final = 2**53

#: Scores beyond this are no probabilities that were rounded badly.
_LEAST_PERCENT: Final = 2

#: Where the values of a scale end, if they do.
_ENDS: Final = {"percent": (0.0, 100.0), "probability": (0.0, 1.0)}

_SMALL_INTEGERS: Final = (pl.Int8, pl.Int16, pl.Int32, pl.UInt8, pl.UInt16, pl.UInt32)


def numeric_column(
    column: pl.Series,
    where: RowFinder,
    *,
    finite: bool = True,
    low: float | None = None,
    high: float | None = None,
    advice: str = "",
) -> FloatArray:
    """Return a column of numbers of any type, or booleans (as 0 and 1), as checked numbers.

    They are float32 for float32 and float16, else float64; contiguous and read-only, mostly the
    frame's own memory; -0.0 has become 0.0.  Refused are null and NaN, values outside `low` to `high`
    (ends included; `advice` says what to do), infinities if numbers must be `finite`, other types,
    and integers that float64 cannot hold.  A column without rows may be of any type.
    """
    if not column.len():
        return read_only(pl.Series(dtype=pl.Float64))
    array = _as_floats(column, where)
    lowest, highest = array.min(), array.max()  # NaN, if there is one
    bottom = -np.inf if low is None else low
    top = np.inf if high is None else high
    fits = bool(lowest >= bottom and highest <= top)
    if not fits or (finite and not (np.isfinite(lowest) and np.isfinite(highest))):
        if np.isnan(array).any():
            _refuse_absent(column, where)
        interval = f"[{bottom:g}, inf)" if np.isinf(top) else f"[{bottom:g}, {top:g}]"
        where.check(column, (array < bottom) | (array > top), f"not in {interval}", advice)
        said = "only finite values can be used here; correct these rows"
        where.check(column, np.isinf(array), "infinite", said)
    if lowest <= 0 <= highest:
        bits = array.view(np.uint32 if array.dtype == np.float32 else np.uint64)
        if (bits == np.uint64(1 << (8 * array.itemsize - 1))).any():  # there is a -0.0
            array = array + array.dtype.type(0.0)  # -0.0 + 0.0 = 0.0
            array.flags.writeable = False
    return array


def score_column(
    column: pl.Series, where: RowFinder, scale: str, *, finite: bool = False
) -> FloatArray:
    """Return scores as their scale allows them; `finite`: infinite ones are refused anyway."""
    advice = "percentages lie in [0, 100]; use --scale logit or --scale raw for other scores"
    if scale == "probability":
        advice = "probabilities lie in [0, 1]; use --scale logit or --scale raw for other scores"
        if column.dtype.is_numeric() and _LEAST_PERCENT < cast(float, column.max() or 0.0) <= 100:
            advice = "probabilities lie in [0, 1]; use --scale percent for scores from 0 to 100"
    return _on_scale(column, where, scale, advice, finite=finite, single=False)


def _on_scale(
    column: pl.Series, where: RowFinder, scale: str, advice: str, *, finite: bool, single: bool
) -> FloatArray:
    """Return scores as their scale allows them; percentages become probabilities.

    `single` makes them float32; infinite ones are refused on a scale with ends, or if `finite`.
    """
    low, high = _ENDS.get(scale, (None, None))
    array = numeric_column(column, where, finite=finite, low=low, high=high, advice=advice)
    if single:
        array = as_single(array, column, where, finite=finite)
    if scale == "percent":
        array = array / array.dtype.type(100.0)
        array.flags.writeable = False
    return array


def as_single(
    array: FloatArray, column: pl.Series, where: RowFinder, *, finite: bool = True
) -> NDArray[np.float32]:
    """Return the numbers of a column as float32; refuse what becomes infinite, if it must not."""
    with np.errstate(over="ignore"):
        found = array.astype(np.float32, copy=False)
    if finite and found is not array:
        problem = "too large for float32, which the model was fitted on"
        where.check(column, np.isinf(found), problem, "correct these rows, or fit on float64")
    return found


def as_fitted(
    column: Column, values: pl.Series, where: RowFinder, *, finite: bool = True
) -> NDArray[Any]:
    """Return values as numbers in the dtype of the fit, on its scale; see `score_column`."""
    advice = (
        "the model was fitted on percentages, in [0, 100]: name their column by --score"
        if column.scale == "percent"
        else "the model was fitted on probabilities, which lie in [0, 1]: name their column by "
        "--score, or fit on these scores with --scale logit or --scale raw"
    )
    single = column.dtype == "float32"
    return _on_scale(values, where, column.scale or "", advice, finite=finite, single=single)


def weightless(file: str | None, column: str | None, rows: int) -> DataError:
    """Return what is said of rows that all have weight 0, where only a summary of them is left."""
    return DataError.of(
        file,
        f"column {column!r}: weight 0 in all {rows} rows; give some row a positive weight",
        column=column,
        rows=rows,
    )


def weight_column(column: pl.Series, where: RowFinder) -> NDArray[np.float64]:
    """Return weights as float64: finite, not negative, of a sum that floats hold, not all zero.

    In a window of rows they may all be zero.
    """
    array = numeric_column(column, where, low=0.0, advice="weights cannot be negative")
    if not array.any():
        if where.source.whole:
            where.refuse(column, None, "weight 0", "give some row a positive weight")
        return array.astype(np.float64, copy=False)
    largest = float(array.max())
    if largest < 2.0**-900 or largest * array.size > 2.0**1000:
        problem = "weights too large or too small to be summed"
        where.refuse(
            column, array == largest, problem, "scale the weights; only their ratios matter"
        )
    return array.astype(np.float64, copy=False)


def _as_floats(column: pl.Series, where: RowFinder) -> FloatArray:
    kind = column.dtype
    if not (kind.is_numeric() or kind in (pl.Boolean, pl.Null)):
        _refuse_type(column, where)
    if column.null_count():
        _refuse_absent(column, where)
    if kind.is_integer() and kind not in _SMALL_INTEGERS:
        lowest, highest = cast(int, column.min()), cast(int, column.max())
        if max(-lowest, highest) > _EXACT_INTEGER:
            beyond = column > _EXACT_INTEGER
            if lowest < -_EXACT_INTEGER:  # unsigned integers cannot be compared with such a number
                beyond |= column < -_EXACT_INTEGER
            problem = "an integer beyond 2^53, which float64 cannot hold"
            where.refuse(column, beyond, problem, "write the column as floats")
    if kind in (pl.Float32, pl.Float64):
        return read_only(column)
    return read_only(column.cast(pl.Float32 if kind == pl.Float16 else pl.Float64))


def read_only(column: pl.Series) -> NDArray[Any]:
    """Return the values as a read-only array: the frame's own memory where it is in one chunk.

    Always read-only, since numba compiles a kernel once for arrays that are and once for others.
    """
    array = column.to_numpy()
    array.flags.writeable = False
    return array


def _refuse_type(column: pl.Series, where: RowFinder) -> NoReturn:
    """Refuse text and other types, naming the first values that are no numbers."""
    kind = column.dtype
    if not is_text(kind):
        where.refuse(column, None, f"{kind} instead of numbers", "name a column of numbers")
    text = column.cast(pl.String).str.strip_chars()

    def no_number(text: pl.Series) -> pl.Series:
        return text.cast(pl.Float64, strict=False).is_null() & text.is_not_null()

    if not no_number(text.str.replace(",", ".", literal=True)).any():
        marks = text.str.contains(UNSURE).fill_null(value=False)
        problem = "a mark that may stand for decimals or between thousands"
        where.check(column, marks, problem, SETTLES_DECIMAL)
    advice = "correct the values, or leave them empty; --null-values names text for missing values"
    where.check(column, no_number(text), "text instead of numbers", advice)
    where.refuse(column, None, "numbers written as text", "write the column as numbers")


def _refuse_absent(column: pl.Series, where: RowFinder) -> None:
    """Refuse rows with null or NaN, all of them at once: whoever fills them, fills both."""
    nan = column.dtype.is_float() and column.is_nan().any()
    both = " or ".join(["null"] * bool(column.null_count()) + ["NaN"] * bool(nan))
    refuse_missing(column, where, f"no value ({both})", f"fill these rows, or {where.remedy}")


_POSITIVE_TEXT: Final = ("1", "t", "true")
_NEGATIVE_TEXT: Final = ("0", "f", "false")

#: Values that a message lists of a column.
_LISTED_VALUES: Final = 5


def label_column(
    column: pl.Series, where: RowFinder, *, positive: str | None = None, must_occur: bool = True
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
    message = (
        f"column {column.name!r}: no row has the positive class {positive!r} "
        f"(values: {_first_values(column)})"
    )
    if not must_occur:
        return labels, (message,)
    raise DataError.of(
        where.source.parts[0].path,
        f"{message}; name one of its values by --positive",
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
        _refuse_labels(column, odd, where)
    return read_only(positive.cast(pl.UInt8))


def _refuse_labels(column: pl.Series, odd: pl.Series | None, where: RowFinder) -> NoReturn:
    seen = _first_values(column if odd is None else column.filter(odd))
    problem = f"labels other than 0/1, true/false, t/f ({seen})"
    where.refuse(column, odd, problem, "name the positive class by --positive VALUE")


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


def _first_values(column: pl.Series) -> str:
    """Return the first distinct values in row order, for messages."""
    values = column.unique(maintain_order=True).head(_LISTED_VALUES)
    return ", ".join(map(shown, values.to_list()))
