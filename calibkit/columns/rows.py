"""Rows of the inputs: read together, dropped as asked, found again for messages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import msgspec
import numpy as np
import polars as pl
from numpy.typing import NDArray

from calibkit.errors import FIRST_ROWS, DataError
from calibkit.files.sources import Source


@dataclass(frozen=True)
class RowFinder:
    """Where the rows of a frame stand in the inputs, for messages.

    `kept` has the numbers of the rows in the inputs if some were dropped, less `start`; rows that were
    `counted` have lost their places: messages then name none.  `remedy` is what the user can do about
    rows without a value, apart from filling them.
    """

    source: Source
    kept: NDArray[np.int64] | None = None
    remedy: str = "leave them out by --on-missing drop"
    start: int = 0
    counted: bool = False

    def numbers(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the numbers of rows in the inputs, from 0."""
        return self.start + (rows if self.kept is None else self.kept[rows])

    def only(self, rows: NDArray[np.int64]) -> RowFinder:
        """Return where some of the rows stand, named by their place."""
        return replace(self, kept=rows if self.kept is None else self.kept[rows])

    def refuse(
        self, column: pl.Series, offends: NDArray[np.bool_] | None, problem: str, advice: str
    ) -> NoReturn:
        """Raise an `OffendingRows` about the rows of `column` that offend (None: all rows)."""
        rows = np.arange(column.len()) if offends is None else np.flatnonzero(offends)
        count, rows = rows.size, rows[:FIRST_ROWS]
        value = column.slice(int(rows[0]), 1).to_list()[0]
        if column.dtype == pl.Float32 and value is not None:
            value = np.float32(value)  # shown as it was written, not with the digits of float64
        file, local = self.source.parts[0].path, list[int]()
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
        self.problem, self.value, self.advice = problem, value, advice
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
        like = [one for one in later if (one.column, one.problem) == (self.column, self.problem)]
        first = [row for one in (self, *like) if one.file == self.file for row in one.first_rows]
        return OffendingRows(
            str(self.file),
            str(self.column),
            self.problem,
            self.value,
            self.advice,
            sum(one.rows or 0 for one in (self, *like)),
            first[:FIRST_ROWS],
        )


class Remark(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
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
    found: dict[tuple[str, str, str], int] = {}
    for one in remarks:
        like = one.before, one.noun, one.after
        found[like] = found.get(like, 0) + one.count
    return tuple(Remark(*like, count) for like, count in found.items())


class NothingLeft(DataError):  # noqa: N818 (its kin say what they are about)
    """All rows were dropped; `remarks` says why."""

    def __init__(self, file: str | None, rows: int, remarks: Iterable[Remark]) -> None:
        self.remarks = tuple(remarks)
        where = f"{file}: " if file else ""
        super().__init__(
            f"{where}all {rows} rows lack a value and were dropped: "
            + "; ".join(remark.text for remark in self.remarks),
            file=file,
            rows=rows,
        )


@dataclass(frozen=True, kw_only=True)
class Rows:
    """Columns as read, after rows were dropped, for the reasons in `remarks`."""

    frame: pl.DataFrame
    where: RowFinder
    rows_read: int
    remarks: tuple[Remark, ...] = ()

    @property
    def dropped(self) -> int:
        """How many rows of the inputs are not there."""
        return self.rows_read - self.frame.height

    @property
    def warnings(self) -> tuple[str, ...]:
        """The remarks as text."""
        return tuple(remark.text for remark in self.remarks)


def read_rows(
    source: Source,
    columns: Sequence[str],
    *,
    missing: Sequence[str] = (),
    unlabelled: str | None = None,
) -> Rows:
    """Read columns together, without the rows that are to be dropped; `NothingLeft` if all are.

    Nulls of the columns `missing` drop their row, and NaN of those that are floats; so does a label
    that is null, NaN or empty in the column `unlabelled`.
    """
    names = list(dict.fromkeys(columns))
    frame = source.read(names, rechunk=False)
    remarks = list[Remark]()
    keep: NDArray[np.bool_] | None = None
    tasks = [
        (name, "--on-missing drop")
        for name in dict.fromkeys(missing)
        if (kind := frame.schema[name]).is_numeric()
        or kind.is_nested()
        or kind in (pl.Null, pl.Boolean)
    ]
    tasks += [(unlabelled, "--unlabelled drop")] if unlabelled is not None else []
    for name, reason in tasks:
        absent = missing_mask(frame[name], empty=name == unlabelled)
        if absent is None:
            continue
        count = int(np.count_nonzero(absent))
        after = f"without a value dropped ({reason})"
        remarks.append(Remark(f"column {name!r}: ", "row", after, count))
        keep = ~absent if keep is None else keep & ~absent
    if keep is None:
        return Rows(frame=frame, where=RowFinder(source), rows_read=frame.height)
    if not keep.any():
        raise NothingLeft(source.parts[0].path, frame.height, remarks)
    return Rows(
        frame=frame.filter(pl.Series(keep)),
        where=RowFinder(source, np.flatnonzero(keep)),
        rows_read=frame.height,
        remarks=tuple(remarks),
    )


def missing_mask(column: pl.Series, *, empty: bool) -> NDArray[np.bool_] | None:
    """Return which values are null, NaN or (if `empty`) empty text; None if none is."""
    absent = column.is_null()
    if column.dtype.is_float():
        absent |= column.is_nan().fill_null(value=False)
    elif empty and is_text(column.dtype):
        absent |= (column.cast(pl.String) == "").fill_null(value=False)
    return absent.to_numpy() if absent.any() else None


def refuse_missing(
    column: pl.Series,
    where: RowFinder,
    problem: str = "no value",
    advice: str = "fill these rows, or leave them out",
    *,
    empty: bool = False,
) -> None:
    """Raise a `DataError` for rows that are null, NaN or (if `empty`) empty text."""
    absent = missing_mask(column, empty=empty)
    if absent is not None:
        where.refuse(column, absent, problem, advice)


def is_text(kind: pl.DataType) -> bool:
    """Tell whether a column holds text, also as categories."""
    return isinstance(kind, pl.String | pl.Categorical | pl.Enum)


def shown(value: Any) -> str:
    """Return a value as messages show it."""
    text = repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= 60 else text[:57] + "…"


def present_in(columns: Sequence[pl.Series]) -> NDArray[np.bool_] | None:
    """Return where all columns have a value, or None where no row lacks one."""
    masks = [missing_mask(column, empty=False) for column in columns]
    lacking = [mask for mask in masks if mask is not None]
    return ~np.logical_or.reduce(lacking) if lacking else None


def placed(values: pl.Series, present: NDArray[np.bool_] | None) -> pl.Series:
    """Return values spread over all rows, null where a value was missing."""
    if present is None:
        return values
    if not len(values):
        return pl.Series(values.name, [None] * present.size, dtype=values.dtype)
    place = pl.Series(np.where(present, np.cumsum(present) - 1, 0))
    return values.gather(place.set(pl.Series(~present), None))
