"""Rows that lack a value: counted, left out of a computation, and put back as nulls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from calibkit.columns.rows import missing_mask
from calibkit.errors import FIRST_ROWS


@dataclass(frozen=True)
class Gaps:
    """Rows that lack a value.

    Attributes
    ----------
    count
        How many there are.
    first
        The numbers in the inputs, from 0, of the first of them.
    """

    count: int = 0
    first: tuple[int, ...] = ()

    @classmethod
    def of(cls, rows: NDArray[np.int64]) -> Gaps:
        """Return the gaps at some rows, named by their numbers in the inputs."""
        return cls(rows.size, tuple(rows[:FIRST_ROWS].tolist()))

    def merge(self, *later: Gaps) -> Gaps:
        """Return these together with those of later rows."""
        parts = (self, *later)
        first = [row for part in parts for row in part.first]
        return Gaps(sum(part.count for part in parts), tuple(first[:FIRST_ROWS]))


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
