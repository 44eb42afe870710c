"""Rows in segments: the values of a ``--by`` column, as codes with names."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from calibkit.rows.patterns import natural_key
from calibkit.rows.rows import RowFinder, missing_mask


@dataclass(frozen=True)
class Segments:
    """Which segment each row is in.

    Attributes
    ----------
    column
        The column's name.
    code
        The segment of each row, as a place in `names`.
    names
        The values of the column as text, in natural order.
    """

    column: str
    code: NDArray[np.uint32]
    names: tuple[str, ...]


def read_segments(column: pl.Series, where: RowFinder) -> Segments:
    """Return the segments of a column of any type whose values have a text.

    Whole floats are written as integers, so that a column reads the same from CSV and Parquet.

    Raises
    ------
    DataError
        For a row without a value.
    """
    absent = missing_mask(column, empty=True)
    if absent is not None:
        where.refuse(column, absent, "no value", f"fill these rows, or {where.remedy}")
    distinct = column.unique()
    names = [segment_name(value) for value in distinct.to_list()]
    ordered = sorted(set(names), key=natural_key)
    place = {name: code for code, name in enumerate(ordered)}
    codes = pl.Series([place[name] for name in names], dtype=pl.UInt32)
    code = column.replace_strict(distinct, codes, return_dtype=pl.UInt32).to_numpy()
    return Segments(column.name, code, tuple(ordered))


def known_codes(column: pl.Series, names: tuple[str, ...]) -> NDArray[np.int64]:
    """Return the place of each row's value among `names`, -1 for another value or none."""
    distinct = column.unique()
    place = {name: code for code, name in enumerate(names)}
    codes = pl.Series(
        [
            -1 if value is None else place.get(segment_name(value), -1)
            for value in distinct.to_list()
        ],
        dtype=pl.Int64,
    )
    found: NDArray[np.int64] = column.replace_strict(
        distinct, codes, return_dtype=pl.Int64
    ).to_numpy()
    return found


def segment_name(value: object) -> str:
    """Return the text of a value: ``true``, ``false``, whole floats as integers."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)
