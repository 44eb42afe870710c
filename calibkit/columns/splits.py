"""Splits that follow a column: groups that stay together, blocks that follow each other in time."""

from __future__ import annotations

import hashlib

import numpy as np
import polars as pl
from numpy.typing import NDArray

from calibkit.columns.rows import RowFinder, is_text, refuse_missing

Parts = NDArray[np.uint8]


def group_parts(groups: pl.Series, parts: int, seed: int, where: RowFinder) -> Parts:
    """Return the part of each row: rows of one group are in one part.

    A group's part is a hash of the seed and the group's value as text, so it does not depend on
    other groups, and the parts are of about equal size where groups are many.
    """
    return (group_keys(groups, str(seed), where) % np.uint64(parts)).astype(np.uint8)


def group_keys(groups: pl.Series, salt: str, where: RowFinder) -> NDArray[np.uint64]:
    """Return a hash of each row's group, as text, and of a salt; refuse a row without a group."""
    refuse_missing(groups, where)
    if not groups.dtype.is_integer():
        groups = groups.cast(pl.String)
    values = groups.unique()
    texts = (f"{salt}:{value}".encode() for value in values.cast(pl.String))
    digests = (hashlib.blake2b(text, digest_size=8).digest() for text in texts)
    keys = pl.Series([int.from_bytes(one, "little") for one in digests], dtype=pl.UInt64)
    found = groups.replace_strict(values, keys, return_dtype=pl.UInt64)
    return found.to_numpy()


def time_parts(times: pl.Series, parts: int, where: RowFinder) -> Parts:
    """Return the block of each row: blocks of about equal size in the order of time.

    Any column that can be ordered will do: numbers, dates, times, text in ISO 8601; categories are
    text.  Rows of one time are in one block; a row without a time is refused.
    """
    seen = TimeParts()
    seen.add(times, where)
    return seen.parts(times, parts)


class TimeParts:
    """What deals rows to blocks in the order of time: the distinct times, with their rows."""

    def __init__(self) -> None:
        self._counts = pl.DataFrame()

    def add(self, times: pl.Series, where: RowFinder) -> None:
        """Add rows; refuse one without a time."""
        refuse_missing(times, where)
        fresh = _as_times(times).to_frame().group_by("time").len("rows")
        if self._counts.height:
            fresh = pl.concat([self._counts, fresh]).group_by("time").agg(pl.col("rows").sum())
        self._counts = fresh

    def parts(self, times: pl.Series, parts: int) -> Parts:
        """Return the block of each of some rows, once all have been added; see `time_parts`."""
        rows = pl.col("rows").cast(pl.Int64)
        part = (rows.cum_sum() - rows) * parts // rows.sum()
        known = self._counts.sort("time").select("time", part.cast(pl.UInt8).alias("part"))
        found = (
            _as_times(times).to_frame().join(known, on="time", how="left", maintain_order="left")
        )
        return found["part"].to_numpy()


def _as_times(times: pl.Series) -> pl.Series:
    return (times.cast(pl.String) if is_text(times.dtype) else times).alias("time")
