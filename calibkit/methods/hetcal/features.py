"""Feature columns: numbers and categories, by code or by value."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from calibkit.columns.numeric import numeric_column
from calibkit.columns.rows import RowFinder, is_text, missing_mask
from calibkit.columns.segments import known_codes
from calibkit.methods.hetcal.bins import Bins, Codes
from calibkit.methods.hetcal.trees import Tree
from calibkit.models.model import Column

Floats = NDArray[np.float64]
Ends = NDArray[np.int32]

#: Rows that are sent through a tree at a time.
_BLOCK = 1 << 20


@dataclass(frozen=True)
class Features:
    """The features of some rows.

    Attributes
    ----------
    columns
        Name, type and kind (`number` or `category`) of each.
    categories
        The categories of each feature in order, None for numbers.
    bins, codes
        Of each feature: its bins, and the code of each row; empty where rows are known by value.
    values
        Rows x features: NaN where there is no value, a category is its place in `categories`.  None
        where rows are known by code.
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

    def ends(self, tree: Tree, out: Ends) -> Ends:
        """Write, and return, the node without children that each row ends in."""
        routes = None
        if self.values is not None:
            routes = tree.routes([len(names or ()) for names in self.categories])
        for first in range(0, out.size, _BLOCK):
            own = slice(first, first + _BLOCK)
            if routes is not None and self.values is not None:
                out[own] = routes.ends(np.ascontiguousarray(self.values[own].T))
            else:
                tree.code_ends([codes[own] for codes in self.codes], self.bins, out[own])
        return out


def feature_words(
    values: Floats, categories: Sequence[tuple[str, ...] | None]
) -> dict[str, Floats]:
    """Return what identifies rows' features (features x rows), for hashes: categories by their text."""
    found = {}
    for place, (row, names) in enumerate(zip(values, categories, strict=True)):
        key = f"{place:05d}f"
        if names is None:
            found[key] = row
        else:
            numbers = np.array([*map(_text_number, names), np.nan])
            codes = np.where(np.isnan(row), len(names), row).astype(np.int64)
            found[key] = numbers[codes]
    return found


def read_features(
    frame: pl.DataFrame, names: Sequence[str], where: RowFinder
) -> tuple[Floats, tuple[tuple[str, ...] | None, ...]]:
    """Return columns as numbers, features x rows, and the categories of those that are text.

    Null, NaN and empty text are missing values, which a tree gives a side.

    Raises
    ------
    DataError
        Infinite values, or a type that is neither number nor text.
    """
    values = np.empty((len(names), frame.height))
    categories: list[tuple[str, ...] | None] = []
    for place, name in enumerate(names):
        series = frame[name]
        known = None
        if is_text(series.dtype):
            text = series.cast(pl.String)
            known = tuple(one for one in text.drop_nulls().unique().sort().to_list() if one)
            values[place] = _category_numbers(text, known)
        else:
            values[place] = _numbers(series, where)
        categories.append(known)
    return values, tuple(categories)


def feature_column(name: str, dtype: pl.DataType) -> Column:
    """Return what a model says of a feature: text is a category, all else a number."""
    if is_text(dtype):
        return Column(name, kind="category")
    kind = "float32" if dtype in (pl.Float32, pl.Float16) else "float64"
    return Column(name, kind, kind="number")


def read_known_features(
    frame: pl.DataFrame,
    columns: Sequence[Column],
    categories: Sequence[tuple[str, ...] | None],
    where: RowFinder,
) -> Floats:
    """Return the features of rows that a model or a tree knows already, features x rows.

    Numbers are rounded to the dtype of the fit; a category that was not seen there is as a missing
    value.

    Raises
    ------
    DataError
        Text where there were numbers, the other way round, or infinite values.
    """
    values = np.empty((len(columns), frame.height))
    for place, (column, known) in enumerate(zip(columns, categories, strict=True)):
        series = frame[column.name]
        if known is None:
            numbers = _numbers(series, where)
            if column.dtype == "float32":
                numbers = numbers.astype(np.float32).astype(np.float64)
            values[place] = numbers
            continue
        if not is_text(series.dtype) and series.dtype != pl.Null:
            where.refuse(
                series,
                None,
                f"{series.dtype} instead of text",
                "the model was fitted on categories: write the column as text",
            )
        values[place] = _category_numbers(series, known)
    return values


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


def _category_numbers(series: pl.Series, known: tuple[str, ...]) -> Floats:
    codes = known_codes(series.cast(pl.String), known).astype(np.float64)
    codes[codes < 0] = np.nan
    return codes


def _text_number(text: str) -> float:
    """Return a hash of text as a whole number that float64 holds."""
    digest = hashlib.blake2b(text.encode(), digest_size=6).digest()
    return float(int.from_bytes(digest, "little"))
