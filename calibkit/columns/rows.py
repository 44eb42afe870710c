"""Rows of the inputs: read together, dropped as asked, found again for messages; columns as numbers.

Whoever needs a column checked takes a function of here: it returns an array, or refuses the rows that
offend.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from functools import partial
from typing import Any, Final, NoReturn, cast

import numpy as np
import polars as pl
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from calibkit.arrays import Bools, Floats, Int64s, Numbers, UInt8s, fixed
from calibkit.errors import FIRST_ROWS, DataError
from calibkit.files.sources import Source
from calibkit.files.values import SETTLES_DECIMAL, UNSURE
from calibkit.models.model import Column

#: Of each row whether something holds.
Mask = Bools | pl.Series


#: What to do about rows without a value where no option drops them.
LEAVE_OUT: Final = "leave them out of the input"


class RowFinder(Struct, frozen=True):
    """Where the rows of a frame stand in the inputs, for messages.

    `kept` has the numbers of the rows in the inputs if some were dropped, less `start`; rows that were
    `counted` have lost their places: messages then name none.  `remedy` is what the user can do about
    rows without a value, apart from filling them.
    """

    source: Source
    kept: Int64s | None = None
    remedy: str = "leave them out by --on-missing drop"
    start: int = 0
    counted: bool = False

    def numbers(self, rows: Int64s) -> Int64s:
        """Return the numbers of rows in the inputs, from 0."""
        return self.start + (rows if self.kept is None else self.kept[rows])

    def check(self, column: pl.Series, offends: Mask, problem: str, advice: str) -> None:
        """Raise an `OffendingRows` about the rows of `column` that offend, if any does."""
        if offends.any():
            self.refuse(column, offends, problem, advice)

    def only(self, rows: Int64s) -> RowFinder:
        """Return where some of the rows stand, named by their place."""
        return replace(self, kept=rows if self.kept is None else self.kept[rows])

    def refuse(
        self, column: pl.Series, offends: Mask | None, problem: str, advice: str
    ) -> NoReturn:
        """Raise an `OffendingRows` about the rows of `column` that offend (None: all rows)."""
        rows = np.arange(column.len()) if offends is None else np.flatnonzero(np.asarray(offends))
        count, rows = rows.size, rows[:FIRST_ROWS]
        value = column.slice(int(rows[0]), 1).to_list()[0]
        if column.dtype == pl.Float32 and value is not None:
            value = np.float32(value)  # shown as it was written, not with the digits of float64
        file, local = self.source.file, list[int]()
        if not self.counted:
            file, local = self.source.locate(self.numbers(rows).tolist())
        raise OffendingRows(file, column.name, problem, shown(value), advice, count, local)


class OffendingRows(DataError):  # noqa: N818 (its kin say what they are about)
    """Rows of a column whose value cannot be used; those of several batches add up.

    `count` is how many there are, `first` the numbers of the first of them within `file`, from 1.
    """

    def __init__(
        self,
        file: str,
        column: str,
        problem: str,
        value: str,
        advice: str,
        count: int,
        first: list[int],
    ) -> None:
        self.about = file, column, problem, value, advice
        more = ", …" if count > len(first) else ""
        places = f"first: row{'s' if len(first) > 1 else ''} {', '.join(map(str, first))}{more}"
        seen = "; ".join([*[places] * bool(first), *[f"value {value}"] * (value != "None")])
        super().__init__(
            f"{file}: column {column!r}: {problem} in {count} row{'s' if count > 1 else ''}"
            f"{f' ({seen})' if seen else ''}; {advice}",
            file=file,
            column=column,
            rows=count,
            first_rows=first,
        )

    def merge(self, *later: OffendingRows) -> OffendingRows:
        """Return this with the rows of later batches that offend in the same way."""
        like = [one for one in (self, *later) if one.about[1:3] == self.about[1:3]]
        first = [row for one in like if one.file == self.file for row in one.first_rows]
        return OffendingRows(*self.about, sum(one.rows or 0 for one in like), first[:FIRST_ROWS])


class Remark(Struct, frozen=True, forbid_unknown_fields=True):
    """Something the user has to be told about so many rows, or values."""

    before: str
    noun: str
    after: str
    count: int

    @property
    def text(self) -> str:
        """The sentence."""
        plural = "" if self.count == 1 else "s"
        return f"{self.before}{self.count} {self.noun}{plural} {self.after}"


def merge_remarks(remarks: Iterable[Remark]) -> tuple[Remark, ...]:
    """Return remarks that differ in their number only as one."""
    found = Counter[tuple[str, str, str]]()
    for one in remarks:
        found[one.before, one.noun, one.after] += one.count
    return tuple(Remark(*like, count) for like, count in found.items())


class NothingLeft(DataError):  # noqa: N818 (its kin say what they are about)
    """All rows were dropped; `remarks` says why."""

    def __init__(self, file: str, rows: int, remarks: Iterable[Remark]) -> None:
        self.remarks = tuple(remarks)
        super().__init__(
            f"{file}: all {rows} rows lack a value and were dropped: "
            + "; ".join(remark.text for remark in self.remarks),
            file=file,
            rows=rows,
        )


class Rows(Struct, frozen=True, kw_only=True):
    """Columns as read, after rows were dropped, for the reasons in `remarks`."""

    frame: pl.DataFrame
    where: RowFinder
    rows_read: int
    remarks: tuple[Remark, ...] = ()


def read_rows(
    source: Source,
    columns: Sequence[str],
    *,
    missing: Sequence[str] = (),
    unlabelled: str | None = None,
) -> Rows:
    """Read columns together, without the rows that are to be dropped; `NothingLeft` if all are.

    What is null, NaN or empty text in the columns `missing` drops its row, and so does a label in the
    column `unlabelled`.
    """
    names = list(dict.fromkeys(columns))
    frame = source.read(names, rechunk=False)
    remarks, masks = list[Remark](), list[Bools]()
    tasks = [(name, "--on-missing drop") for name in dict.fromkeys(missing)]
    tasks += [(unlabelled, "--unlabelled drop")] if unlabelled is not None else []
    for name, reason in tasks:
        absent = missing_mask(frame[name], empty=True)
        if absent is not None:
            masks.append(absent)
            after, count = f"without a value dropped ({reason})", int(np.count_nonzero(absent))
            remarks.append(Remark(f"column {name!r}: ", "row", after, count))
    if not masks:
        return Rows(frame=frame, where=RowFinder(source), rows_read=frame.height)
    keep = ~np.logical_or.reduce(masks)
    if not keep.any():
        raise NothingLeft(source.file, frame.height, remarks)
    return Rows(
        frame=frame.filter(pl.Series(keep)),
        where=RowFinder(source, np.flatnonzero(keep)),
        rows_read=frame.height,
        remarks=tuple(remarks),
    )


def missing_mask(column: pl.Series, *, empty: bool) -> Bools | None:
    """Return which values are null, NaN or (if `empty`) empty text, or lists with such a number.

    None: none is.
    """
    absent = column.is_null()
    if isinstance(column.dtype, pl.List | pl.Array) and column.dtype.inner.is_numeric():
        inner = column.cast(pl.List(pl.Float64)).list
        absent |= (inner.contains(None) | inner.contains(float("nan"))).fill_null(value=False)
    if column.dtype.is_float():
        absent |= column.is_nan().fill_null(value=False)
    elif empty and is_text(column.dtype):
        absent |= (column.cast(pl.String) == "").fill_null(value=False)
    return absent.to_numpy() if absent.any() else None


def refuse_missing(
    column: pl.Series,
    where: RowFinder,
    problem: str = "no value",
    advice: str | None = None,
    *,
    empty: bool = False,
) -> None:
    """Raise a `DataError` for rows that are null, NaN or (if `empty`) empty text."""
    absent = missing_mask(column, empty=empty)
    if absent is not None:
        where.refuse(column, absent, problem, advice or f"fill these rows, or {where.remedy}")


def refuse_lists(column: pl.Series, where: RowFinder) -> None:
    """Raise a `DataError` for a column whose rows hold several values each."""
    if column.dtype.is_nested():
        problem = f"{column.dtype} holds several values"
        where.refuse(column, None, problem, "name a column of single ones")


def need_single(column: pl.Series, where: RowFinder, *, empty: bool = False) -> None:
    """Refuse what can part no rows: no value, or several; see `refuse_missing`."""
    refuse_missing(column, where, empty=empty)
    refuse_lists(column, where)


def is_text(kind: pl.DataType) -> bool:
    """Tell whether a column holds text, also as categories."""
    return isinstance(kind, pl.String | pl.Categorical | pl.Enum)


def texts_of(column: pl.Series) -> pl.Series:
    r"""Return single values as text; bytes, which need not be any, with escapes such as ``\xff``."""
    if column.dtype not in (pl.Binary, pl.Duration):
        return column.cast(pl.String)
    found = [
        one.decode(errors="backslashreplace") if isinstance(one, bytes) else str(one)
        for one in column.to_list()
    ]
    return pl.Series(column.name, found, dtype=pl.String)


def shown(value: Any) -> str:
    """Return a value as messages show it."""
    text = repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= 60 else text[:57] + "…"


def present_in(columns: Sequence[pl.Series]) -> Bools | None:
    """Return where all columns have a value, or None where no row lacks one."""
    masks = [missing_mask(column, empty=False) for column in columns]
    lacking = [mask for mask in masks if mask is not None]
    return ~np.logical_or.reduce(lacking) if lacking else None


def placed(values: pl.Series, present: Bools | None) -> pl.Series:
    """Return values spread over all rows, null where a value was missing."""
    if present is None:
        return values
    if not len(values):
        return pl.Series(values.name, [None] * present.size, dtype=values.dtype)
    place = pl.Series(np.where(present, np.cumsum(present) - 1, 0))
    return values.gather(place.set(pl.Series(~present), None))


# One column as checked numbers: scores, weights, labels, and whatever else holds numbers -------

FloatArray = NDArray[np.float32] | Floats

#: Integers beyond this are not all float64 numbers.
_EXACT_INTEGER: Final = 2**53

#: What to do about values, or what tells it.
Advice = str | Callable[[], str]

#: Scores beyond the first are no probabilities that were rounded badly.
_LEAST_PERCENT, _PERCENT = 2, 100
#: Larger numbers are no log-odds that a model gives.
_LARGEST_LOGIT = 50
#: Fewer values outside [0, 1] are mistakes, not another scale.
_MANY = 0.1

#: Where the values of a scale end, if they do.
_ENDS: Final = {"percent": (0.0, 100.0), "probability": (0.0, 1.0)}

_SMALL_INTEGERS: Final = (pl.Int8, pl.Int16, pl.Int32, pl.UInt8, pl.UInt16, pl.UInt32)


def numeric_column(
    column: pl.Series,
    where: RowFinder,
    *,
    finite: bool = True,
    low: float = -np.inf,
    high: float = np.inf,
    advice: Advice = "",
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
    low, high = np.float64(low), np.float64(high)  # float32 may be too narrow for them
    fits = bool(lowest >= low and highest <= high)
    if not fits or (finite and not (np.isfinite(lowest) and np.isfinite(highest))):
        if np.isnan(array).any():
            _refuse_absent(column, where)
        interval = f"[{low:g}, inf)" if np.isinf(high) else f"[{low:g}, {high:g}]"
        outside = (array < low) | (array > high)
        if outside.any():
            said = advice if isinstance(advice, str) else advice()
            where.refuse(column, outside, f"not in {interval}", said)
        said = "only finite values can be used here; correct these rows"
        where.check(column, np.isinf(array), "infinite", said)
    if lowest <= 0 <= highest:
        bits = array.view(np.uint32 if array.dtype == np.float32 else np.uint64)
        if (bits == np.uint64(1 << (8 * array.itemsize - 1))).any():  # there is a -0.0
            return fixed(array + array.dtype.type(0.0))  # -0.0 + 0.0 = 0.0
    return array


def score_column(
    column: pl.Series, where: RowFinder, scale: str, *, finite: bool = False
) -> FloatArray:
    """Return scores as their scale allows them; `finite`: infinite ones are refused anyway."""
    advice: Advice = partial(other_scale, column, where.source)
    if scale != "probability":
        advice = "percentages lie in [0, 100]; use --scale logit or --scale raw for other scores"
    return _on_scale(column, where, scale, advice, finite=finite, dtype=None)


def other_scale(column: pl.Series, source: Source) -> str:
    """Return what to do about scores that are no probabilities, by what they look like."""
    plain = "probabilities lie in [0, 1]; use --scale logit or --scale raw for other scores"
    if source.loose:
        plain += ", and --null-values for a number that stands for none"
    if not column.dtype.is_numeric():
        return plain
    array = column.drop_nulls().cast(pl.Float64).to_numpy()
    least, most, many = float(array.min()), float(array.max()), _MANY * array.size
    above, below = np.count_nonzero(array > 1), np.count_nonzero(array < 0)
    if not below and above > many and _LEAST_PERCENT < most <= _PERCENT:
        return "these look like percentages: use --scale percent, or --scale logit or raw if not"
    if below > many and max(-least, most) <= _LARGEST_LOGIT:
        return "these look like logits: use --scale logit, or --scale raw"
    return plain


def _on_scale(
    column: pl.Series, where: RowFinder, scale: str, advice: Advice, *, finite: bool, dtype: object
) -> FloatArray:
    """Return scores as their scale allows them; percentages become probabilities.

    They are of the `dtype` of a fit (None: as they come), without percentages at most of it; infinite
    ones are refused on a scale with ends, or if `finite`.
    """
    low, high = _ENDS.get(scale, (-np.inf, np.inf))
    array = numeric_column(column, where, finite=finite, low=low, high=high, advice=advice)
    if dtype == "float32":
        array = as_single(array, column, where, finite=finite)
    if scale == "percent":
        if dtype == "float64":
            array = array.astype(np.float64, copy=False)
        return fixed(array / array.dtype.type(100.0))
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
) -> Numbers:
    """Return values as numbers in the dtype of the fit, on its scale; see `score_column`."""
    advice = (
        "the model was fitted on percentages, in [0, 100]: name their column by --score"
        if column.scale == "percent"
        else "the model was fitted on probabilities, which lie in [0, 1]: name their column by "
        "--score, or fit on these scores with --scale logit or --scale raw"
    )
    return _on_scale(values, where, column.scale or "", advice, finite=finite, dtype=column.dtype)


def arrays_as_fitted(
    columns: Mapping[str, Column], names: Mapping[str, str], frame: pl.DataFrame, where: RowFinder
) -> dict[str, Numbers]:
    """Return columns by role as `as_fitted` does; a threshold has a side for infinite scores too.

    `columns` are those of the fit, `names` what the frame calls them.
    """
    return {
        role: as_fitted(columns[role], frame[name], where, finite=role != "score")
        for role, name in names.items()
    }


def weightless(file: str | None, column: str | None, rows: int) -> DataError:
    """Return what is said of rows that all have weight 0, where only a summary of them is left."""
    return DataError.of(
        file,
        f"column {column!r}: weight 0 in all {rows} rows; give some row a positive weight",
        column=column,
        rows=rows,
    )


def weight_column(column: pl.Series, where: RowFinder) -> Floats:
    """Return weights as float64: finite, not negative, of a sum that floats hold, not all zero.

    In a window of rows they may all be zero.
    """
    array = numeric_column(column, where, low=0.0, advice="weights cannot be negative")
    largest = float(array.max(initial=0.0))
    if not largest:
        if where.source.whole:
            where.refuse(column, None, "weight 0", "give some row a positive weight")
    elif largest < 2.0**-900 or largest * array.size > 2.0**1000:
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


def read_only(column: pl.Series) -> Numbers:
    """Return the values as a read-only array: the frame's own memory where it is in one chunk.

    Always read-only, since numba compiles a kernel once for arrays that are and once for others.
    """
    return fixed(column.to_numpy())


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
    advice = "correct the values, or leave them empty"
    if where.source.loose:
        advice += "; --null-values names text for missing values"
    where.check(column, no_number(text), "text instead of numbers", advice)
    where.refuse(column, None, "numbers written as text", "write the column as numbers")


def _refuse_absent(column: pl.Series, where: RowFinder) -> None:
    """Refuse rows with null or NaN, all of them at once: whoever fills them, fills both."""
    nan = column.dtype.is_float() and column.is_nan().any()
    both = " or ".join(["null"] * bool(column.null_count()) + ["NaN"] * bool(nan))
    refuse_missing(column, where, f"no value ({both})")


_POSITIVE_TEXT: Final = ("1", "t", "true")
_NEGATIVE_TEXT: Final = ("0", "f", "false")

#: Values that a message lists of a column.
_LISTED_VALUES: Final = 5


def label_column(
    column: pl.Series, where: RowFinder, *, positive: str | None = None, must_occur: bool = True
) -> tuple[UInt8s, tuple[str, ...]]:
    """Return labels as 0 and 1 (uint8), and warnings; refuse missing and other values.

    Without `positive` labels are 0/1 of any number type, booleans, or the words t, f, true, false, 0,
    1 in any case.  With it, as the user typed it, numbers are compared as numbers, booleans by these
    words, all else as text; every other value is negative.  A positive class that no row has is an
    error if it `must_occur`, else a warning.
    """
    advice = "label these rows, or leave them out by --unlabelled drop"
    refuse_missing(column, where, "no label", advice, empty=True)
    if positive is None:
        return _binary(column, where, "labels", "name the positive class by --positive VALUE"), ()
    refuse_lists(column, where)
    labels = read_only(_equal(column, positive).cast(pl.UInt8))
    if labels.any():
        return labels, ()
    message = (
        f"column {column.name!r}: no row has the positive class {positive!r} "
        f"(values: {_first_values(column)})"
    )
    if not must_occur:
        return labels, (message,)
    raise never_positive(where.source.file, message, column.name, column.len())


def never_positive(file: str, said: str, column: str, rows: int) -> DataError:
    """Return what is `said` of labels among which the positive class is not, as an error."""
    said += "; name one of its values by --positive VALUE"
    return DataError.of(file, said, column=column, rows=rows)


def decision_column(column: pl.Series, where: RowFinder) -> UInt8s:
    """Return decisions as 0 and 1 (uint8), of what labels may be; refuse missing and other values."""
    refuse_missing(column, where, "no decision", empty=True)
    advice = "write them as 0 and 1; three-way ones are judged by --boundary"
    return _binary(column, where, "decisions", advice)


def _binary(column: pl.Series, where: RowFinder, what: str, advice: str) -> UInt8s:
    kind, positive = column.dtype, column
    odd: pl.Series | None = None  # where all are
    if kind == pl.Boolean:
        return read_only(column.cast(pl.UInt8))
    if kind.is_numeric():
        odd = (column != 0) & (column != 1)
    elif is_text(kind):
        words = column.cast(pl.String).str.to_lowercase()
        positive = words.is_in(_POSITIVE_TEXT)
        odd = ~(positive | words.is_in(_NEGATIVE_TEXT))
    if odd is None or odd.any():
        seen = _first_values(column if odd is None else column.filter(odd))
        where.refuse(column, odd, f"{what} other than 0/1, true/false, t/f ({seen})", advice)
    if positive.dtype == pl.Int8:  # the same bytes
        return read_only(positive.reinterpret(signed=False))
    return read_only(positive.cast(pl.UInt8))


def _equal(column: pl.Series, positive: str) -> pl.Series:
    """Return where a column equals a value that was typed; missing labels have been refused before."""
    kind = column.dtype
    if kind == pl.Boolean:
        word = positive.strip().lower()
        meant = {**dict.fromkeys(_POSITIVE_TEXT, True), **dict.fromkeys(_NEGATIVE_TEXT, False)}
        return column.is_in([meant[word]] if word in meant else [])
    if not kind.is_numeric():
        return texts_of(column) == positive
    try:
        number = Decimal(positive.strip())
    except InvalidOperation:
        number = Decimal("nan")
    if number.is_nan():
        return column.is_null()
    if kind.is_float():
        return column.eq(pl.Series([float(number)], dtype=pl.Float64).cast(kind))
    if kind.is_decimal():
        return column.cast(pl.Float64) == float(number)
    lowest, highest = cast(int, column.min()), cast(int, column.max())
    if not lowest <= number <= highest or number != number.to_integral_value():
        return column.is_null()
    return column == int(number)


def _first_values(column: pl.Series) -> str:
    """Return the first distinct values in row order, for messages."""
    values = column.unique(maintain_order=True).head(_LISTED_VALUES)
    return ", ".join(map(shown, values.to_list()))
