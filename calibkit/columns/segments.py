"""Rows in segments: the values of a ``--by`` column, as codes with names."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from calibkit.columns.patterns import natural_key
from calibkit.columns.rows import RowFinder, refuse_missing


@dataclass(frozen=True)
class Segments:
    """The segment of each row, as a place among the names of a column's values in natural order."""

    column: str
    code: NDArray[np.uint32]
    names: tuple[str, ...]


def read_segments(column: pl.Series, where: RowFinder) -> Segments:
    """Return the segments of a column of any type whose values have a text.

    Whole floats are written as integers, so that a column reads the same from CSV and Parquet.  A
    row without a value is refused.
    """
    advice = f"fill these rows, or {where.remedy}"
    refuse_missing(column, where, advice=advice, empty=True)
    distinct = column.unique()
    names = tuple(sorted(set(map(segment_name, distinct.to_list())), key=natural_key))
    return Segments(column.name, _places(column, distinct, names).astype(np.uint32), names)


def known_codes(column: pl.Series, names: tuple[str, ...]) -> NDArray[np.int64]:
    """Return the place of each row's value among `names`, -1 for another value or none."""
    return _places(column, column.unique(), names)


def _places(column: pl.Series, distinct: pl.Series, names: tuple[str, ...]) -> NDArray[np.int64]:
    place = {name: code for code, name in enumerate(names)}
    codes = [-1 if one is None else place.get(segment_name(one), -1) for one in distinct.to_list()]
    coded = column.replace_strict(distinct, pl.Series(codes, dtype=pl.Int64), return_dtype=pl.Int64)
    found: NDArray[np.int64] = coded.cast(pl.Int64).to_numpy()  # of no row it is null
    return found


def segment_name(value: object) -> str:
    """Return the text of a value: ``true``, ``false``, whole floats as integers."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)
