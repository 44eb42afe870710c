"""Tables of integers that merge: most add up, of some the greatest counts."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from calibkit.errors import ModelError

Int64s = NDArray[np.int64]
Floats = NDArray[np.float64]


class What(IntEnum):
    """What a number is; those from `GREATEST` on are greatest ones, not sums."""

    TOTAL, PART, COARSE, VALUE, SHARE, SCORES, POSITIVES, ROWS, HITS, LINE, GAIN, CELL = range(12)
    MOMENT = 12
    GREATEST, HIGHEST, HIGH, LOW, BITS, MANY = range(13, 19)


#: A feature is told beside what a number is.
_FEATURES: Final = 1 << 16
_KINDS: Final = {"what": pl.UInt32, "place": pl.Int64, "value": pl.Int64}


class Numbers:
    """Integers as they are gathered, each of one place once; `table` brings them in order."""

    def __init__(self) -> None:
        self.frames: dict[int, pl.DataFrame] = {}

    def add(self, what: What, place: Int64s, value: Int64s, feature: int = 0) -> None:
        """Add numbers at some places, which rise."""
        code = what * _FEATURES + feature
        kind = np.full(place.size, code, np.uint32)
        self.frames[code] = pl.DataFrame({"what": kind, "place": place, "value": value})

    def add_all(self, what: What, values: Int64s, feature: int = 0) -> None:
        """Add an array of sums, place by place; zeros need not be told."""
        flat = values.reshape(-1)
        place = np.flatnonzero(flat)
        self.add(what, place, flat[place], feature)

    def table(self) -> pl.DataFrame:
        """Return all numbers, ordered by what they are and by place."""
        ordered = [self.frames[code] for code in sorted(self.frames)]
        return pl.concat([pl.DataFrame(schema=_KINDS), *ordered])


def together(frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Return the numbers of several tables: the same whatever their order and grouping."""
    if len(frames) == 1:
        return frames[0]
    everything = pl.concat(frames)
    value = pl.col("value")
    both = everything.group_by("what", "place").agg(value.sum(), value.max().alias("most"))
    greatest = pl.col("what") >= What.GREATEST * _FEATURES
    found = both.with_columns(pl.when(greatest).then("most").otherwise("value").alias("value"))
    found = found.filter(greatest | (pl.col("value") != 0))
    return found.select("what", "place", "value").sort("what", "place")


def check_table(table: pl.DataFrame) -> None:
    """Raise `ModelError` for a table of something else."""
    if dict(table.schema) != _KINDS or any(table.null_count().row(0)):
        raise ModelError("a damaged state: its table holds no sums of a fit in rounds")


def places_of(table: pl.DataFrame, what: What, feature: int = 0) -> tuple[Int64s, Int64s]:
    """Return the places and numbers of one kind."""
    own = table.filter(pl.col("what") == what * _FEATURES + feature)
    return own["place"].to_numpy(), own["value"].to_numpy()


def array_of(
    table: pl.DataFrame, what: What, size: int, feature: int = 0, *, nothing: int = 0
) -> Int64s:
    """Return the numbers of one kind as an array; `nothing` where there is none.

    Raises
    ------
    ModelError
        For a place outside.
    """
    place, value = places_of(table, what, feature)
    if place.size and not (int(place.min()) >= 0 and int(place.max()) < size):
        raise ModelError("a damaged state: it answers what was not asked")
    found = np.full(size, nothing, np.int64)
    found[place] = value
    return found


def keys_of(values: Floats) -> Int64s:
    """Return integers in the order of some numbers, from which these can be had again."""
    bits: Any = (values + 0.0).view(np.int64)  # -0.0 becomes 0.0
    found: Int64s = np.where(bits < 0, bits ^ 0x7FFFFFFFFFFFFFFF, bits)
    return found


def values_of(keys: Int64s) -> Floats:
    """Return the numbers of `keys_of`."""
    bits = np.where(keys < 0, keys ^ 0x7FFFFFFFFFFFFFFF, keys)
    return bits.view(np.float64)
