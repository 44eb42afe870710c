"""Where parts of rows that follow each other in time end: the very parts that they are in memory.

The last time of a part is a quantile.  The distinct times with the least hashes are a sample that is
the same whatever the shards; a round counts the rows at each of these and between them, which leaves a
gap for each quantile, of which the next round tells a sample, until every quantile has been met.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from itertools import accumulate
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from calibkit.errors import ModelError, UsageError
from calibkit.hetcal.rounds.sought import Gap, Key, Times
from calibkit.hetcal.rounds.tables import Numbers, What, array_of, keys_of
from calibkit.rounds.protocol import Sums
from calibkit_kernels import digest

Int64s = NDArray[np.int64]
Parts = NDArray[np.uint8]

#: Distinct times that are drawn in a round, of all gaps together.
_DRAWN: Final = 1 << 14

#: Integers that stand for times are below this one.
_MOST: Final = 1 << 63

#: What the payload calls the times that were drawn, gap by gap.
TIMES: Final = "times"

#: Digits of the greatest 128-bit integer.
_DIGITS: Final = 39


def kind_of(name: str, kind: pl.DataType) -> str:
    """Return what stands for times of a type; see `Times`.

    Raises
    ------
    UsageError
        For a type without an order, such as lists.
    """
    if kind.is_float():
        return "number"
    if kind in (pl.UInt64, pl.Int128) or kind.is_decimal():
        return "wide"
    if kind.is_integer() or kind.is_temporal() or kind == pl.Boolean:
        return "whole"
    if isinstance(kind, pl.String | pl.Categorical | pl.Enum | pl.Null):
        return "text"
    raise UsageError(
        f"--time {name} is {kind}; a fit in rounds needs numbers, dates, times or text.",
        column=name,
    )


def time_keys(times: pl.Series, kind: str) -> pl.Series:
    """Return integers, or texts, in the order of some times, none of which is missing."""
    if kind == "text":
        return times.cast(pl.String)
    if kind == "number":
        return pl.Series(keys_of(times.cast(pl.Float64).to_numpy()))
    whole = times.to_physical()
    if kind == "whole":
        return whole.cast(pl.Int64)
    least = 1 << 127
    texts = [str(value + least).zfill(_DIGITS) for value in whole.cast(pl.Int128).to_list()]
    return pl.Series(texts, dtype=pl.String)


def parts_of(times: Times, keys: pl.Series) -> Parts:
    """Return the part of each row, once the ends of all parts are known."""
    ends = pl.Series(times.ends, dtype=keys.dtype)
    return ends.search_sorted(keys, "left").to_numpy().astype(np.uint8)


class Draw:
    """The distinct times with the least hashes."""

    def __init__(self, most: int) -> None:
        self.most, self.limit = most, np.uint64(2**64 - 1)
        self.drawn: dict[Key, int] = {}

    def add(self, keys: pl.Series) -> None:
        """Add some times."""
        distinct = keys.unique()
        hashes = _hashes(distinct)
        least = np.flatnonzero(hashes <= self.limit)
        found = distinct.gather(least).to_list()
        self.drawn.update(zip(found, hashes[least].tolist(), strict=True))
        if len(self.drawn) > self.most:
            ordered = sorted(self.drawn.items(), key=lambda pair: (pair[1], pair[0]))
            self.drawn = dict(ordered[: self.most])
            self.limit = np.uint64(ordered[self.most - 1][1])

    def keys(self) -> list[Key]:
        """Return them in order."""
        return sorted(self.drawn)


def _hashes(keys: pl.Series) -> NDArray[np.uint64]:
    if keys.dtype == pl.String:
        found = [blake2b(text.encode(), digest_size=8).digest() for text in keys.to_list()]
        return np.frombuffer(b"".join(found), "<u8")
    hashes = np.zeros(keys.len(), np.uint64)
    digest.absorb(hashes, keys.to_numpy().view(np.uint64), np.uint64(0))
    return hashes


def first_draw() -> Draw:
    """Return what draws from all times."""
    return Draw(_DRAWN)


class TimeCounter:
    """Counts the rows at the times that were drawn, and between them; or draws times."""

    def __init__(self, times: Times, feature: int) -> None:
        self.gaps, self.feature = times.gaps, feature
        most = max(1, _DRAWN // max(1, len(self.gaps)))
        self.draws = [Draw(most) if not gap.drawn else None for gap in self.gaps]
        self.starts = starts_of(self.gaps)
        self.counts = np.zeros(self.starts[-1], np.int64)

    def add(self, keys: pl.Series) -> None:
        """Add some rows."""
        for gap, draw, start in zip(self.gaps, self.draws, self.starts, strict=False):
            own = keys
            if gap.after is not None:
                own = own.filter(own > gap.after)
            if gap.before is not None:
                own = own.filter(own < gap.before)
            if draw is not None:
                draw.add(own)
                continue
            drawn = pl.Series(gap.drawn, dtype=keys.dtype)
            sides = (drawn.search_sorted(own, side) for side in ("left", "right"))
            left, right = (side.to_numpy().astype(np.int64) for side in sides)
            # A time between two that were drawn comes to an even place, one of these to an odd one.
            np.add.at(self.counts, start + left + right, 1)

    def tell(self, numbers: Numbers) -> dict[str, Any]:
        """Tell the counts, and return what was drawn."""
        numbers.add_all(What.SHARE, self.counts, self.feature)
        return {TIMES: [[] if draw is None else draw.keys() for draw in self.draws]}


def starts_of(gaps: Sequence[Gap]) -> list[int]:
    """Return where the counts of each gap begin, and where they end."""
    sizes = [2 * len(gap.drawn) + 1 if gap.drawn else 0 for gap in gaps]
    return list(accumulate(sizes, initial=0))


def merged_draws(parts: Sequence[dict[str, Any]]) -> list[list[Key]]:
    """Return what was drawn in all parts, of their payloads."""
    found = [drawn_in(payload) for payload in parts]
    gaps = len(found[0])
    draws = [Draw(max(1, _DRAWN // gaps)) for _ in range(gaps)]
    for own in found:
        if len(own) != gaps:
            raise ModelError("a damaged state: it draws times where others draw none")
        for draw, keys in zip(draws, own, strict=True):
            if keys:
                draw.add(pl.Series(keys))
    return [draw.keys() for draw in draws]


def drawn_in(payload: dict[str, Any]) -> list[list[Key]]:
    """Return what a payload says was drawn; raises `ModelError` for anything but times."""
    found: list[list[Key]] = payload.get(TIMES, [])
    fits = isinstance(found, list) and all(
        isinstance(own, list) and (_alike(own, int) or _alike(own, str)) for own in found
    )
    if not fits:
        raise ModelError("a damaged state: it does not say what times there are")
    return found


def _alike(keys: Sequence[Key], kind: type) -> bool:
    return all(type(key) is kind and (kind is str or -_MOST <= int(key) < _MOST) for key in keys)


def begin(times: Times, payload: dict[str, Any], rows: int, folds: int) -> None:
    """Begin to look for the ends of all parts but the last, after the first look at all rows."""
    times.ends = [None] * folds
    times.gaps = [Gap(None, None, 0, rows)]
    _take(times.gaps, payload)


def _take(gaps: Sequence[Gap], payload: dict[str, Any]) -> None:
    """Learn what was drawn of gaps."""
    drawn = drawn_in(payload)
    if len(drawn) != len(gaps) or not all(drawn):
        raise ModelError("a damaged state: it does not say what times there are")
    for gap, own in zip(gaps, drawn, strict=True):
        gap.drawn = own


def learn(times: Times, sums: Sums, rows: int, feature: int) -> None:
    """Learn from a round that counted, or drew, times.

    Parameters
    ----------
    times
        What is known of them.
    sums, feature
        What the round found, and the feature that the table calls the times.
    rows
        How many rows there are.
    """
    if not times.gaps[0].drawn:
        _take(times.gaps, sums.payload)
        return
    starts = starts_of(times.gaps)
    counts = array_of(sums.table, What.SHARE, starts[-1], feature)
    gaps, times.gaps = times.gaps, []
    for gap, start, end in zip(gaps, starts, starts[1:], strict=False):
        _narrow(times, gap, counts[start:end], rows)


def _narrow(times: Times, gap: Gap, counts: Int64s, rows: int) -> None:
    """Learn the ends of parts that were met in a gap, and the lesser gaps that hold the others."""
    through = gap.below + np.cumsum(counts)
    lows = [gap.after, *gap.drawn]
    highs = [*gap.drawn, gap.before]
    parts, before = len(times.ends) + 1, -1
    for part in range(1, parts):
        rank = (part * rows - 1) // parts  # of the last time: a part ends where the next one begins
        if times.ends[part - 1] is not None or not gap.below <= rank < gap.below + gap.rows:
            continue
        place = int(np.searchsorted(through, rank, "right"))
        if place >= counts.size:
            raise ModelError("a damaged state: there are fewer rows than the plan says")
        if place % 2:
            times.ends[part - 1] = gap.drawn[place // 2]
        elif place > before:
            low, high, own = lows[place // 2], highs[place // 2], int(counts[place])
            times.gaps.append(Gap(low, high, int(through[place]) - own, own))
        before = place
