"""Feature columns: numbers and categories, by value, or by the codes of bins that trees tell apart."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from calibkit.columns.rows import RowFinder, as_single, is_text, missing_mask, numeric_column
from calibkit.columns.segments import known_codes
from calibkit.files.sources import Source
from calibkit.models.model import Column
from calibkit.numerics.quantile import quantile_places, quantile_ranks
from calibkit.summaries.row_store import ColumnSummaries
from calibkit_kernels import tree as kernels

Floats = NDArray[np.float64]
Int64s = NDArray[np.int64]
Codes = NDArray[np.uint8] | NDArray[np.uint16]

#: The categories of each feature in order, None for numbers.
Categories = Sequence[tuple[str, ...] | None]

#: Quantile bins of a feature with more than `MOST_VALUES` distinct values.
QUANTILE_BINS: Final = 1024

#: Sorted values that are compared at a time.
_BLOCK: Final = 1 << 16


@dataclass(frozen=True)
class Bins:
    """The bins of one feature; the code after the last bin is that of a missing value.

    `values` are those of the bins, rising (of categories their numbers); or the borders `between` bins:
    the code of a value is then the number of borders below it.
    """

    values: Floats
    between: bool = False

    @property
    def count(self) -> int:
        """How many bins there are."""
        return self.values.size + self.between

    @property
    def dtype(self) -> np.dtype[Any]:
        """The narrowest type that holds the codes."""
        return np.dtype(np.uint8 if self.count <= 255 else np.uint16)

    def codes(self, values: Floats) -> Codes:
        """Return the codes of values, NaN where there is none."""
        lows = self.values
        if self.between:  # a bin begins right above a border
            lows = np.append(lows[:1] if lows.size else 0.0, np.nextafter(lows, np.inf))
        codes = np.empty(values.size, self.dtype)
        kernels.bin_codes(values, lows, codes)
        return codes

    def cut(self, low: int, high: int) -> tuple[float, int]:
        """Return the cut between two bins, and the last code on its left.

        Bins in between hold no row of the node.  Between values the cut is half way, else it is the
        middle one of the borders; so codes and values go the same way.  A negative `high` stands for
        no bin: every value goes left, and the cut is NaN.
        """
        if high < 0:
            return np.nan, self.count - 1
        if self.between:
            last = (low + high - 1) // 2
            return float(self.values[last]), last
        middle = float(_midpoints(self.values[low : low + 1], self.values[high : high + 1])[0])
        return middle, int(np.searchsorted(self.values, middle, "right")) - 1


def summarised_bins(found: ColumnSummaries, column: int, bins: int) -> Bins:
    """Return the bins of a column: one a distinct value, or quantiles of its sample."""
    distinct = found.distinct(column)
    if distinct is not None:
        return Bins(distinct)
    values, counts = found.sample(column)
    firsts = values[quantile_places(counts, bins)]
    return _bordered(values, np.unique(np.searchsorted(values, firsts)))


def sorted_bins(ordered: Floats, most: int) -> Bins:
    """Return the bins of sorted values: one a distinct value, or quantiles of all of them."""
    starts, exact = group_starts(ordered, most)
    return Bins(ordered[starts]) if exact else _bordered(ordered, starts)


def group_starts(ordered: Floats, most: int) -> tuple[Int64s, bool]:
    """Return where groups of sorted values begin, and whether each holds one distinct value.

    That is so where there are at most `most` of them; else there are about as many groups of equal
    size.  Equal values are never parted.
    """
    found, count = [np.zeros(1, np.int64)], 1
    for first in range(0, ordered.size - 1, _BLOCK):
        block = ordered[first : first + _BLOCK + 1]
        found.append(np.flatnonzero(block[1:] != block[:-1]) + first + 1)
        count += found[-1].size
        if count > most:
            values = ordered[quantile_ranks(ordered.size, most)]
            return np.unique(np.searchsorted(ordered, values)), False
    return np.concatenate(found), True


def _bordered(ordered: Floats, starts: Int64s) -> Bins:
    """Return bins that begin at some places, of which the first is 0, of sorted values."""
    return Bins(_midpoints(ordered[starts[1:] - 1], ordered[starts[1:]]), between=True)


def _midpoints(low: Floats, high: Floats) -> Floats:
    """Return the numbers half way between two, the lower one where rounding gives the upper."""
    middle = 0.5 * low + 0.5 * high
    return np.where(middle < high, middle, low)


@dataclass(frozen=True)
class Features:
    """The features of some rows: what they are, and their categories in order, None for numbers.

    Rows are known by code: each feature has bins, and a code for each row.  Or by value, rows x
    features: NaN where there is none, a category is its place in `categories`.
    """

    columns: tuple[Column, ...]
    categories: tuple[tuple[str, ...] | None, ...]
    bins: tuple[Bins, ...] = ()
    codes: tuple[Codes, ...] = ()
    values: Floats | None = None

    def with_number(self, name: str, bins: Bins, codes: Codes) -> Features:
        """Return the features with one more, a number."""
        return Features(
            (*self.columns, Column(name, "float64", kind="number")),
            (*self.categories, None),
            (*self.bins, bins),
            (*self.codes, codes),
        )


def feature_words(values: Floats, categories: Categories) -> dict[str, Floats]:
    """Return what identifies rows' features (features x rows), for hashes: categories by their text."""
    found = {}
    for place, (row, names) in enumerate(zip(values, categories, strict=True)):
        key = f"{place:05d}f"
        if names is None:
            found[key] = row
        else:
            digests = [hashlib.blake2b(name.encode(), digest_size=6).digest() for name in names]
            # Whole numbers that float64 holds.
            hashes = [float(int.from_bytes(digest, "little")) for digest in digests]
            numbers = np.array([*hashes, np.nan])
            codes = np.where(np.isnan(row), len(names), row).astype(np.int64)
            found[key] = numbers[codes]
    return found


def feature_columns(source: Source, names: Sequence[str]) -> tuple[Column, ...]:
    """Return what a model says of features: text is a category, all else a number."""
    found = []
    for name in names:
        dtype = source.schema[name]
        number = "float32" if dtype in (pl.Float32, pl.Float16) else "float64"
        text = is_text(dtype)
        found.append(Column(name, kind="category") if text else Column(name, number, kind="number"))
    return tuple(found)


def read_features(
    frame: pl.DataFrame,
    columns: Sequence[Column],
    where: RowFinder,
    known: Categories | None = None,
) -> tuple[Floats, Categories]:
    """Return features as numbers, features x rows, and the categories of those that are text.

    Null, NaN and empty text are missing values, which a tree gives a side.  Numbers are rounded to the
    dtype of the fit; of `known` categories, those of a model or a tree, one that is not among them is
    as a missing value.
    """
    values = np.empty((len(columns), frame.height))
    categories: list[tuple[str, ...] | None] = []
    for place, column in enumerate(columns):
        series = frame[column.name]
        if column.kind != "category":
            numbers = _numbers(series, where)
            if column.dtype == "float32":
                numbers = as_single(numbers, series, where).astype(np.float64)
            values[place] = numbers
            categories.append(None)
            continue
        names = None if known is None else known[place]
        if names is None:
            found = series.cast(pl.String).drop_nulls().unique().sort().to_list()
            names = tuple(name for name in found if name)
        elif not is_text(series.dtype) and series.dtype != pl.Null:
            where.refuse(
                series,
                None,
                f"{series.dtype} instead of text",
                "the model was fitted on categories: write the column as text",
            )
        codes = known_codes(series.cast(pl.String), names).astype(np.float64)
        values[place] = np.where(codes < 0, np.nan, codes)
        categories.append(names)
    return values, categories


def _numbers(series: pl.Series, where: RowFinder) -> Floats:
    """Return a column as numbers, NaN where there is none."""
    absent = missing_mask(series, empty=False)
    if absent is None:
        return numeric_column(series, where).astype(np.float64)
    if absent.all():
        return np.full(absent.size, np.nan)
    if series.dtype.is_float():
        series = series.fill_nan(None)
    filled = series.fill_null(strategy="zero" if series.dtype.is_numeric() else "min")
    numbers = numeric_column(filled, where).astype(np.float64)
    numbers[absent] = np.nan
    return numbers
