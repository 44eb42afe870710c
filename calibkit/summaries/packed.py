"""Condensed rows that have no room as they are: each is one word, its values cut to some bits."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn

import numpy as np
import polars as pl
from numpy.typing import NDArray

from calibkit.errors import ResourceError
from calibkit.summaries.coarse import keys_of, least_of
from calibkit.summaries.ladder import LADDER, Role
from calibkit_kernels import runs

Words = NDArray[np.uint64]
Counts = NDArray[np.int64]

#: How often a condensed row occurs.
COUNT: Final = "count"

#: Rows that wait, at least; and values whose keys are made at a time, few enough for the cache.
_FEWEST, _BLOCK = 2**12, 2**13

#: Bits behind the first column of which all values have a place in a table.
_MOST_REST: Final = 12

#: The counts of words that count once each.
_ONCE: Final = np.empty(0, np.int64)


@dataclass
class Packed:
    """Condensed rows of which each is one word: the cut keys of its values, then their codes.

    Rows wait in a buffer until it is full; they are sorted then, and merged with the rest in place.
    What there is room for is taken once, since the system has to clear memory that is new: `room` and
    `room_counts` begin with the words and counts of the `size` rows that are there.
    """

    roles: tuple[Role, ...]
    most: int
    rung: int
    room: Words = field(default_factory=lambda: np.empty(0, np.uint64))
    room_counts: Counts = field(default_factory=lambda: np.empty(0, np.int64))
    size: int = 0
    dtypes: dict[str, Any] = field(default_factory=dict)
    codes: dict[str, _Codes] = field(default_factory=dict)
    waiting: Words = field(default_factory=lambda: np.empty(0, np.uint64))
    waits: int = 0

    @property
    def words(self) -> Words:
        """The rows, rising."""
        return self.room[: self.size]

    @property
    def counts(self) -> Counts:
        """How often each of them occurs."""
        return self.room_counts[: self.size]

    def begin(self, frames: Sequence[pl.DataFrame]) -> bool:
        """Take the rows of some frames, and return whether they have no room at the step that is set.

        They have none at any finer step then; `fit` finds one that is coarse enough.
        """
        for frame in frames:  # all codes have to be known before the first word is packed
            for role in self.roles:
                if not role.coarse:
                    self._learn(frame[role.name])
        self._make_room([])
        rows = [frame for frame in frames if not _counted(frame)]
        self._reserve(sum(frame.height for frame in rows))
        end = 0
        for frame in rows:
            begin, end = end, end + frame.height
            self._pack(frame, self.room[begin:end])
        self.room[:end].sort()
        self._merge(self.room[:end], _ONCE)
        for frame in frames:
            if _counted(frame):
                self._add_counted(frame)
        return self.size > self.most

    def add(self, frame: pl.DataFrame) -> None:
        """Add rows, or rows with counts."""
        if _counted(frame):
            self._add_counted(frame)
            self.fit()
            return
        if not self.waiting.size:
            self.waiting = np.empty(self._most_waiting, np.uint64)
        for rows in frame.iter_slices(self.waiting.size):
            if self.waits + rows.height > self.waiting.size:
                self.merge()
            self._pack(rows, self.waiting[self.waits : self.waits + rows.height])
            self.waits += rows.height

    def _add_counted(self, frame: pl.DataFrame) -> None:
        words, counts = np.empty(frame.height, np.uint64), frame[COUNT].to_numpy(writable=True)
        self._pack(frame, words)
        self._merge(*_sorted(words, counts))

    @property
    def _most_waiting(self) -> int:
        return max(_FEWEST, self.most // 2)

    def _reserve(self, size: int) -> None:
        """Take room for so many words, if there is not."""
        if self.room.size < size:
            size = max(size, self.most + self._most_waiting)
            words, counts = np.empty(size, np.uint64), np.empty(size, np.int64)
            words[: self.size], counts[: self.size] = self.words, self.counts
            self.room, self.room_counts = words, counts

    def _pack(self, frame: pl.DataFrame, words: Words) -> None:
        """Write rows as words; what is there already makes room for new codes."""
        before = self._widths(self.rung)
        fixed = {role.name: self._learn(frame[role.name]) for role in self.roles if not role.coarse}
        values = {role.name: frame[role.name].to_numpy() for role in self.roles if role.coarse}
        self.dtypes |= {name: column.dtype for name, column in values.items()}
        self._make_room(before)
        words[:] = 0
        for role, width in zip(self.roles, self._widths(self.rung), strict=True):
            if not role.coarse:
                fixed[role.name].append_to(words, frame[role.name], np.uint64(width))
                continue
            for part in _blocks(words.size):  # their keys stay in the cache
                keys = keys_of(values[role.name][part], probability=role.probability)
                runs.add_field(words[part], keys, np.uint64(width), role.dropped(self.rung))

    def _learn(self, column: pl.Series) -> _Codes:
        """Return the codes of a column, those of new values among them."""
        codes = self.codes.setdefault(column.name, _Codes(column.clear()))
        codes.learn(column)
        return codes

    def merge(self) -> None:
        """Put what waits with the rest, coarser if it has no room otherwise."""
        rows = self.waiting[: self.waits]
        rows.sort()
        self.waits = 0
        self._merge(rows, _ONCE)
        self.fit()

    def _merge(self, words: Words, counts: Counts) -> None:
        """Put sorted words with the rest; without counts they count once each."""
        self._reserve(self.size + words.size)
        self.size = runs.merge_runs(self.room, self.room_counts, self.size, words, counts)

    def fit(self) -> None:
        """Take the first coarser step at which the words have room, if they have none."""
        if self.size > self.most:
            self._repack(self._widths(self.rung), self._enough(self.rung + 1))

    def frame(self) -> pl.DataFrame:
        """Return the rows as values; `counts` says how often each occurs."""
        found, widths = {}, self._widths(self.rung)
        shift = sum(widths)
        for role, width in zip(self.roles, widths, strict=True):
            shift -= width
            found[role.name] = self._column(role, np.uint64(shift), np.uint64((1 << width) - 1))
        return pl.DataFrame(found)

    def _column(self, role: Role, shift: np.uint64, mask: np.uint64) -> pl.Series:
        """Return the values of a column, which stand in some bits of the words."""
        if role.coarse:
            values = np.empty(self.size, self.dtypes[role.name])
            for part, keys in self._bits(shift, mask):
                keys <<= role.dropped(self.rung)
                values[part] = least_of(keys, values.dtype, probability=role.probability)
            return pl.Series(role.name, values)
        known = self.codes[role.name].values
        if known.dtype == pl.UInt8:
            found, table = np.empty(self.size, np.uint8), known.to_numpy()
            for part, codes in self._bits(shift, mask):
                found[part] = table[codes]
            return pl.Series(role.name, found)
        places = np.empty(self.size, np.uint32)
        for part, codes in self._bits(shift, mask):
            places[part] = codes
        return known.gather(places).alias(role.name)

    def _bits(self, shift: np.uint64, mask: np.uint64) -> Iterator[tuple[slice, Words]]:
        """Yield some bits of the words, a block at a time."""
        for part in _blocks(self.size):
            yield part, (self.words[part] >> shift) & mask

    @property
    def in_order(self) -> bool:
        """Whether the order of the words is that of the rows."""
        return all(codes.in_order for codes in self.codes.values())

    def _widths(self, rung: int) -> list[int]:
        """Return how many bits of a word each column has."""
        return [
            role.bits(rung)
            if role.coarse
            else max(1, (self.codes[role.name].values.len() - 1).bit_length())
            if role.name in self.codes
            else 0
            for role in self.roles
        ]

    def _make_room(self, before: list[int]) -> None:
        """Pack what is there anew if columns have become wider, coarser if a word is too short."""
        if sum(self._widths(self.rung)) > 64:
            for rung in range(self.rung + 1, len(LADDER)):
                if sum(self._widths(rung)) <= 64:
                    self._repack(before, rung)
                    return
            self._refuse()
        elif self._widths(self.rung) != before:
            self._repack(before, self.rung)

    def _refuse(self) -> NoReturn:
        fixed = [role.name for role in self.roles if not role.coarse]
        raise ResourceError(
            f"memory: the rows have too many different values of {', '.join(fixed)}, which cannot be "
            "made coarser; raise --memory, or leave such columns out"
        )

    def _enough(self, first: int) -> int:
        """Return the first step from one on at which the words have room."""
        left, steps = self._left(), range(len(LADDER))
        found = bisect_left(steps, True, lo=first, key=lambda rung: left(rung) <= self.most)
        if found == len(LADDER):
            self._refuse()
        return found

    def _left(self) -> Callable[[int], int]:
        """Return what tells how many distinct words there would be at a step."""
        widths = self._widths(self.rung)
        rest = self._rest(widths, self.rung)
        if rest is None:
            return lambda rung: _distinct(self._cut(self.words, widths, rung))
        last, counts = np.zeros(1 << rest, np.uint64), np.zeros(65, np.int64)
        runs.count_apart(self.words, np.uint64(rest), last, np.zeros(1 << rest, np.bool_), counts)
        return lambda rung: int(counts[int(self._drop(rung)) :].sum())

    def _rest(self, widths: list[int], rung: int) -> int | None:
        """Return how many bits stand behind the first field, if few do and a step leaves them alone."""
        rest = sum(widths[1:])
        alone = bool(self.roles[0].coarse) and not any(role.coarse for role in self.roles[1:])
        return (
            rest if alone and rest <= _MOST_REST and self._widths(rung)[1:] == widths[1:] else None
        )

    def _drop(self, rung: int) -> np.uint64:
        """Return how many bits the first column loses from the present step to another."""
        return np.uint64(self.roles[0].dropped(rung) - self.roles[0].dropped(self.rung))

    def _repack(self, before: list[int], rung: int) -> None:
        """Pack the words, which have some widths, anew at a step."""
        waiting = self.waiting[: self.waits]
        waiting[:] = self._cut(waiting, before, rung)
        rest = self._rest(before, rung)
        if rest is not None and rung > self.rung:
            slot = np.full(1 << rest, -1, np.int64)
            self.size = runs.cut_cells(
                self.words,
                self.counts,
                np.uint64(rest),
                self._drop(rung),
                slot,
                np.empty_like(slot),
            )
        else:
            words, counts = self._cut(self.words, before, rung), self.counts
            self.size = 0
            self._merge(*_sorted(words, counts))
        self.rung = rung

    def _cut(self, words: Words, before: list[int], rung: int) -> Words:
        """Return words of some widths as they are at a coarser step."""
        drops = [
            role.dropped(rung) - role.dropped(self.rung) if role.coarse else np.uint64(0)
            for role in self.roles
        ]
        found = np.empty_like(words)
        widths, room = (np.array(own, np.uint64) for own in (before, self._widths(rung)))
        runs.cut_fields(words, widths, np.array(drops, np.uint64), room, found)
        return found


@dataclass
class _Codes:
    """The values of a column that cannot be coarse, by the numbers that stand for them."""

    values: pl.Series

    @property
    def in_order(self) -> bool:
        """Whether the numbers rise with the values."""
        return self.values.is_sorted(nulls_last=True)

    def learn(self, column: pl.Series) -> None:
        """Give numbers to values that have none, after those that are known."""
        if column.dtype == pl.UInt8:
            seen = np.zeros(256, np.bool_)
            runs.mark_bytes(column.to_numpy(), seen)
            distinct = pl.Series(np.flatnonzero(seen), dtype=pl.UInt8)
        else:
            distinct = column.unique().sort(nulls_last=True)
        new = distinct.filter(~distinct.is_in(self.values.implode(), nulls_equal=True))
        if new.len():
            self.values = self.values.append(new)

    def append_to(self, words: Words, column: pl.Series, width: np.uint64) -> None:
        """Append to each word the number of a value; all of them are known."""
        if column.dtype == pl.UInt8:
            codes = np.zeros(256, np.uint8)
            codes[self.values.to_numpy()] = np.arange(self.values.len())
            runs.add_codes(words, column.to_numpy(), codes, width)
        else:
            runs.add_field(words, self._of(column), width, np.uint64(0))

    def _of(self, column: pl.Series) -> Words:
        """Return the number of each value."""
        if column.dtype.is_float():
            values = self.values.to_numpy()
            order = np.argsort(values)
            places = np.searchsorted(values, column.to_numpy(), sorter=order)
            return order[places].astype(np.uint64)
        known = self.values.to_frame("value").with_row_index("code")
        joined = column.to_frame("value").join(
            known, on="value", how="left", nulls_equal=True, maintain_order="left"
        )
        numbers: Words = joined["code"].cast(pl.UInt64).to_numpy()
        return numbers


def _blocks(size: int) -> list[slice]:
    return [slice(start, start + _BLOCK) for start in range(0, size, _BLOCK)]


def _counted(frame: pl.DataFrame) -> bool:
    return COUNT in frame.columns


def _distinct(words: Words) -> int:
    """Return how many different words there are; they are sorted."""
    words.sort()
    return 1 + int(np.count_nonzero(words[1:] != words[:-1]))


def _sorted(words: Words, counts: Counts) -> tuple[Words, Counts]:
    """Return words with counts, sorted."""
    if (words[1:] >= words[:-1]).all():
        return words, counts
    order = np.argsort(words)
    return words[order], counts[order]
