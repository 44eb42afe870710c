"""Feature columns: numbers and categories as arrays, and the bins a tree searches for cuts."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fnmatch import fnmatchcase

import numpy as np
import polars as pl
from numpy.typing import NDArray

from calibkit.errors import UsageError, nearest
from calibkit.files.sources import Source
from calibkit.models import Column
from calibkit.rows.numeric import numeric_column
from calibkit.rows.patterns import natural_key
from calibkit.rows.rows import RowFinder, is_text, missing_mask
from calibkit.rows.segments import known_codes
from calibkit_kernels import tree as kernels

Floats = NDArray[np.float64]

#: Up to this many distinct values (or categories) each one has a bin of its own.
MOST_BINS = 65_535

#: How many quantile bins a feature with more distinct values gets.
QUANTILE_BINS = 1024


def find_features(source: Source, patterns: Sequence[str], taken: dict[str, str]) -> list[str]:
    """Return the feature columns that names and globs stand for, in the order they were typed.

    Parameters
    ----------
    source
        The inputs.
    patterns
        Names and shell globs; those of one glob come in natural order.
    taken
        Columns of other roles, with the option that named them: a glob passes them over.

    Raises
    ------
    UsageError
        A name or glob that matches nothing, or a name that has another role.
    """
    found: list[str] = []
    for pattern in patterns:
        if pattern in source.schema:
            if pattern in taken:
                raise UsageError(
                    f"column {pattern!r} is both {taken[pattern]} and --features; leave it out.",
                    column=pattern,
                )
            found.append(pattern)
            continue
        matched = [name for name in source.schema if fnmatchcase(name, pattern)]
        matched = sorted((name for name in matched if name not in taken), key=natural_key)
        if not matched:
            raise UsageError(
                f"--features {pattern!r} matches no column{nearest(pattern, source.schema)}; "
                f"the columns are {', '.join(map(repr, source.schema))}.",
                file=source.parts[0].path,
                column=pattern,
            )
        found += matched
    if not found:
        raise UsageError("--features names no column; name at least one.")
    return list(dict.fromkeys(found))


@dataclass(frozen=True)
class Features:
    """The features of some rows.

    Attributes
    ----------
    columns
        Name, type and kind (`number` or `category`) of each.
    values
        A row of numbers a feature, NaN where there is none; a category is its place in `categories`.
    categories
        The categories of each feature in order, None for numbers.
    """

    columns: tuple[Column, ...]
    values: Floats
    categories: tuple[tuple[str, ...] | None, ...]

    @property
    def count(self) -> int:
        """How many features there are."""
        return len(self.columns)

    def take(self, rows: NDArray[np.int64]) -> Features:
        """Return the features of some of the rows, in the order given."""
        return Features(self.columns, np.take(self.values, rows, axis=1), self.categories)

    def with_number(self, name: str, values: Floats) -> Features:
        """Return the features with one more, a number."""
        return Features(
            (*self.columns, Column(name, "float64", kind="number")),
            np.vstack([self.values, values]),
            (*self.categories, None),
        )

    def words(self) -> dict[str, Floats]:
        """Return what identifies a row's features, for hashes: categories by their text."""
        found = {}
        for place, (row, names) in enumerate(zip(self.values, self.categories, strict=True)):
            key = f"{place:05d}f"
            if names is None:
                found[key] = row
            else:
                numbers = np.array([*map(_text_number, names), np.nan])
                codes = np.where(np.isnan(row), len(names), row).astype(np.int64)
                found[key] = numbers[codes]
        return found


def read_features(frame: pl.DataFrame, names: Sequence[str], where: RowFinder) -> Features:
    """Return columns as features: text is categories, all else numbers.

    Null, NaN and empty text are missing values, which a tree gives a side.

    Raises
    ------
    DataError
        Infinite values, or a type that is neither number nor text.
    """
    columns, values = [], np.empty((len(names), frame.height))
    categories: list[tuple[str, ...] | None] = []
    for place, name in enumerate(names):
        series = frame[name]
        columns.append(feature_column(name, series.dtype))
        if columns[-1].kind == "category":
            known = _category_names(series)
            values[place] = _category_numbers(series, known)
            categories.append(known)
        else:
            values[place] = _numbers(series, where)
            categories.append(None)
    return Features(tuple(columns), values, tuple(categories))


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
) -> Features:
    """Return the features of rows that a model or a tree knows already.

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
    return Features(tuple(columns), values, tuple(categories))


@dataclass(frozen=True)
class Binned:
    """Features as bins: what a tree is grown on.

    Attributes
    ----------
    codes
        A row of bin numbers a feature; the bin after the last holds missing values.
    bins
        Of each feature: the number of bins, and 1 for categories.
    lows, highs
        The least and the greatest value in each bin of each feature.
    """

    codes: NDArray[np.uint16]
    bins: NDArray[np.int64]
    lows: tuple[Floats, ...]
    highs: tuple[Floats, ...]

    def take(self, rows: NDArray[np.int64]) -> Binned:
        """Return some of the rows."""
        codes = np.ascontiguousarray(np.take(self.codes, rows, axis=1))
        return Binned(codes, self.bins, self.lows, self.highs)


def bin_features(features: Features, threads: int, most: int | None = None) -> Binned:
    """Return the bins of features: one a distinct value, or quantile bins where there are more.

    Parameters
    ----------
    features
        Numbers and categories.
    threads
        How many features are binned at a time.
    most
        Quantile bins for every feature with more distinct values; None: 1024 where a feature has
        over 65,535 of them.
    """
    codes = np.empty(features.values.shape, np.uint16)
    limit, bins = (MOST_BINS, QUANTILE_BINS) if most is None else (most, most)

    def one(place: int) -> tuple[Floats, Floats]:
        if features.categories[place] is not None:
            lows = highs = np.arange(float(len(features.categories[place] or ())))
        else:
            lows, highs = _bin_edges(features.values[place], limit, bins)
        kernels.bin_codes(features.values[place], lows, codes[place])
        return lows, highs

    with ThreadPoolExecutor(threads) as pool:
        edges = list(pool.map(one, range(features.count)))
    kinds = [int(names is not None) for names in features.categories]
    sizes = [low.size for low, _ in edges]
    return Binned(
        codes,
        np.array([sizes, kinds], np.int64).T.copy(),
        tuple(low for low, _ in edges),
        tuple(high for _, high in edges),
    )


def _bin_edges(values: Floats, limit: int, bins: int) -> tuple[Floats, Floats]:
    """Return the least and greatest value of each bin."""
    ordered = np.sort(values)  # NaN comes last
    present = ordered[: ordered.size - np.count_nonzero(np.isnan(ordered))]
    if not present.size:
        return np.empty(0), np.empty(0)
    starts = np.flatnonzero(np.append(True, present[1:] != present[:-1]))
    if starts.size > limit:
        edges = present[np.arange(bins) * present.size // bins]
        starts = np.unique(np.searchsorted(present, edges))
    return present[starts], present[np.append(starts[1:], present.size) - 1]


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


def _category_names(series: pl.Series) -> tuple[str, ...]:
    """Return the categories in order; of too many the most frequent (ties: the first in order)."""
    text = series.cast(pl.String)
    counts = text.drop_nulls().value_counts()
    pairs = [(name, count) for name, count in counts.rows() if name != ""]
    pairs.sort(key=lambda pair: (-pair[1], pair[0]))
    return tuple(sorted(name for name, _ in pairs[:MOST_BINS]))


def _category_numbers(series: pl.Series, known: tuple[str, ...]) -> Floats:
    codes = known_codes(series.cast(pl.String), known).astype(np.float64)
    codes[codes < 0] = np.nan
    return codes


def _text_number(text: str) -> float:
    """Return a hash of text as a whole number that float64 holds."""
    digest = hashlib.blake2b(text.encode(), digest_size=6).digest()
    return float(int.from_bytes(digest, "little"))
