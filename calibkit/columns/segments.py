"""Rows by the values of a column: segments with names, and splits that groups or time make."""

from __future__ import annotations

import datetime
from collections.abc import Collection
from contextlib import suppress

import numpy as np
import polars as pl
from msgspec import Struct

from calibkit.arrays import Floats, Int64s, UInt8s, UInt32s, UInt64s
from calibkit.columns.patterns import natural_key
from calibkit.columns.rows import RowFinder, is_text, need_single, texts_of
from calibkit.numerics.hashes import by_value, word_of

#: Whole weights below this, and sums of them below that, say how often rows count in blocks of time.
_HEAVY, _MOST_MASS = 2.0**31, 2**54


class Segments(Struct, frozen=True):
    """The segment of each row, as a place among the names of a column's values in natural order."""

    column: str
    code: UInt32s
    names: tuple[str, ...]


def read_segments(column: pl.Series, where: RowFinder) -> Segments:
    """Return the segments of a column of any type whose values have a text.

    A row without a value is refused.
    """
    need_single(column, where, empty=True)
    distinct = column.unique()
    names = tuple(sorted(set(segment_names(distinct)), key=natural_key))
    return Segments(column.name, known_codes(column, names, distinct).astype(np.uint32), names)


def known_codes(
    column: pl.Series,
    names: tuple[str, ...],
    distinct: pl.Series | None = None,
    others: Collection[str] = (),
) -> Int64s:
    """Return the place of each row's value among `names`, -1 for another value or none.

    `distinct`: the values that there are, if they are known; `others`: see `segment_places`.
    """
    places = segment_places(names, others, -1)
    return by_value(column, lambda value: place_of(value, places, -1), pl.Int64, distinct)


def segment_names(values: pl.Series) -> list[str]:
    """Return the texts of values, so that a column reads the same from CSV and Parquet.

    They are ``true``, ``false``, whole numbers as integers, of other numbers the shortest text that
    tells one from others of its type (of decimals, as a float).
    """
    kind, found = values.dtype, values.to_list()
    if kind in (pl.Float16, pl.Float32):
        short = values.cast(pl.Float32).cast(pl.String).cast(pl.Float64)
        found = [w if _is_integer(w) else s for w, s in zip(found, short, strict=True)]
    elif isinstance(kind, pl.Decimal) and kind.scale:
        found = list(map(float, found))
    found = [int(one) if isinstance(one, float) and one.is_integer() else one for one in found]
    return [str(one).lower() if isinstance(one, bool) else str(one) for one in found]


def _is_integer(value: float) -> bool:
    return value.is_integer() and abs(value) < 2.0**53


def segment_places(
    names: Collection[str], others: Collection[str] = (), otherwise: int = -1
) -> dict[object, int]:
    """Return how `place_of` finds names: by text, and those of numbers and moments by these too.

    A number is found as float64 or float32 holds it: float32 may come with the digits of float64, and
    a name that has these (as 0.1 wrote them) without.
    `others` are names of other segments, found by their text alone: none of them is one of the names,
    though both may be the same number.
    """
    found: dict[object, int] = {name: place for place, name in enumerate(names)}
    near = dict[object, int]()
    with np.errstate(all="ignore"):
        for place, name in enumerate(names):
            if "_" in name or not name.isascii():  # as `place_of` has it
                continue
            for read in (int, float, datetime.datetime.fromisoformat):
                with suppress(ValueError):
                    key = read(name)
                    found.setdefault(key, place)
                    number = 0.0 if isinstance(key, datetime.datetime) else float(name)
                    single = np.float32(number)
                    if not _is_integer(number) and 0.0 < abs(single) < np.inf:
                        near |= {float(single): place, float(str(single)): place}
                    break
    found = near | found
    taken = [one for one in others if one not in names and place_of(one, found, -1) >= 0]
    return found | dict.fromkeys(taken, otherwise)


def place_of(value: object, places: dict[object, int], otherwise: int) -> int:
    """Return the place of a segment: by its text, as a number or as a moment, else the other one."""
    if value is None or value != value:
        return otherwise
    text = str(value).lower() if isinstance(value, bool) else str(value)
    if text in places:
        return places[text]
    if "_" in text or not text.isascii():  # Python alone takes some of these for numbers
        return otherwise
    for read in (int, float, datetime.datetime.fromisoformat):
        try:
            return places.get(read(text), otherwise)
        except ValueError:
            pass
    return otherwise


def group_parts(groups: pl.Series, parts: int, seed: int, where: RowFinder) -> UInt8s:
    """Return the part of each row: rows of one group are in one part.

    A group's part is a hash of the seed and the group's value as text, so it does not depend on
    other groups, and the parts are of about equal size where groups are many.
    """
    return (group_keys(groups, str(seed), where) % np.uint64(parts)).astype(np.uint8)


def group_keys(groups: pl.Series, salt: str, where: RowFinder) -> UInt64s:
    """Return a hash of each row's group, as text, and of a salt; refuse a row without a group."""
    need_single(groups, where)
    if groups.dtype == pl.Duration:
        groups = groups.to_physical()
    if not groups.dtype.is_integer():
        groups = texts_of(groups)
    return by_value(groups, lambda value: word_of(f"{salt}:{value}"), pl.UInt64)


def time_parts(
    times: pl.Series, parts: int, where: RowFinder, weight: Floats | None = None
) -> UInt8s:
    """Return the block of each row: blocks of about equal size in the order of time.

    Any column that can be ordered will do: numbers, dates, times, text in ISO 8601; categories are
    text.  Rows of one time are in one block; a row without a time is refused.  Rows with whole weights
    count as often as these say, others once if they weigh anything.
    """
    seen = TimeParts()
    seen.add(times, where, weight)
    return seen.parts(times, parts)


class TimeParts:
    """What deals rows to blocks in the order of time: the distinct times, with their rows."""

    def __init__(self) -> None:
        self._counts = pl.DataFrame()
        self._whole = True

    def add(self, times: pl.Series, where: RowFinder, weight: Floats | None = None) -> None:
        """Add rows; refuse one without a time."""
        need_single(times, where)
        mass = np.ones(times.len()) if weight is None else np.minimum(weight, _HEAVY)
        self._whole &= bool(((mass % 1.0 == 0.0) & (mass < _HEAVY)).all())
        counts = pl.DataFrame({"mass": mass, "rows": mass > 0}).cast(pl.Int64)
        rows = [_as_times(times).to_frame().with_columns(counts)]
        rows += [self._counts] if self._counts.height else []
        self._counts = pl.concat(rows).group_by("time").agg(pl.exclude("time").sum())

    def parts(self, times: pl.Series, parts: int) -> UInt8s:
        """Return the block of each of some rows, once all have been added; see `time_parts`."""
        whole = self._whole and self._counts["mass"].sum() < _MOST_MASS
        rows = pl.col("mass" if whole else "rows")
        part = (rows.cum_sum() - rows) * parts // rows.sum()
        last = part.clip(upper_bound=parts - 1).cast(pl.UInt8)  # times after all that weighs
        known = self._counts.sort("time").select("time", last.alias("part"))
        found = (
            _as_times(times).to_frame().join(known, on="time", how="left", maintain_order="left")
        )
        return found["part"].to_numpy()


def _as_times(times: pl.Series) -> pl.Series:
    return (times.cast(pl.String) if is_text(times.dtype) else times).alias("time")
