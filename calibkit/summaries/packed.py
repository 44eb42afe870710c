"""Condensed rows that have no room as they are: each is one word, its values cut to some bits."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np
import polars as pl
from numpy.typing import NDArray

from calibkit.errors import ResourceError
from calibkit.summaries.coarse import keys_of, least_of
from calibkit.summaries.ladder import LADDER, Role
from calibkit_kernels import runs

Words = NDArray[np.uint64]
Counts = NDArray[np.int64]


@dataclass
class Packed:
    """Condensed rows of which each is one word: the cut keys of its values, then their codes."""

    roles: tuple[Role, ...]
    most: int
    rung: int
    words: Words = field(default_factory=lambda: np.empty(0, np.uint64))
    counts: Counts = field(default_factory=lambda: np.empty(0, np.int64))
    dtypes: dict[str, Any] = field(default_factory=dict)
    codes: dict[str, _Codes] = field(default_factory=dict)
    waiting: list[tuple[Words, Counts]] = field(default_factory=list)

    def begin(self, frames: Sequence[pl.DataFrame]) -> None:
        """Choose the step at which the rows of some frames have room, to which they are added then."""
        for frame in frames:  # all codes have to be known before the first word is packed
            for role in self.roles:
                if not role.coarse:
                    self._codes_or_keys(frame[role.name], role)
        self._make_room([])
        self.words = np.concatenate([self._words(frame) for frame in frames])
        self.rung, self.words = self._enough(self.rung), self.words[:0]

    def add(self, frame: pl.DataFrame, counts: Counts | None) -> None:
        """Add rows, or rows with counts."""
        self.waiting.append(_gathered(self._words(frame), counts))
        if sum(words.size for words, _ in self.waiting) > self.most // 4:
            self.merge()

    def _words(self, frame: pl.DataFrame) -> Words:
        """Return rows as words; what is there already makes room for new codes."""
        before = self._widths(self.rung)
        columns = [self._codes_or_keys(frame[role.name], role) for role in self.roles]
        self._make_room(before)
        words = np.zeros(frame.height, np.uint64)
        for role, column, width in zip(self.roles, columns, self._widths(self.rung), strict=True):
            drop = role.dropped(self.rung) if role.coarse else np.uint64(0)
            runs.add_field(words, column, np.uint64(width), drop)
        return words

    def merge(self) -> None:
        """Put what waits with the rest, coarser if it has no room otherwise."""
        for words, counts in self.waiting:
            room = self.words.size + words.size
            merged, sums = np.empty(room, np.uint64), np.empty(room, np.int64)
            size = runs.merge_runs(self.words, self.counts, words, counts, merged, sums)
            self.words, self.counts = merged[:size], sums[:size]  # a copy would cost more than room
        self.waiting = []
        if self.words.size > self.most:
            self._next_rung(self._widths(self.rung))
        if self.words.size > self.most:  # one step was not enough: look for the one that is
            widths, enough = self._widths(self.rung), self._enough(self.rung + 1)
            self._repack(widths, enough)

    def frame(self) -> pl.DataFrame:
        """Return the rows as values; `counts` says how often each occurs."""
        columns, found = _unpack(self.words, self._widths(self.rung)), {}
        for role, column in zip(self.roles, columns, strict=True):
            if role.coarse:
                keys = column << role.dropped(self.rung)
                dtype = self.dtypes[role.name]
                least = least_of(keys, dtype, probability=role.probability)
                found[role.name] = pl.Series(role.name, least)
            else:
                values = self.codes[role.name].values
                found[role.name] = values.gather(column.astype(np.uint32))
        return pl.DataFrame(found)

    def _codes_or_keys(self, column: pl.Series, role: Role) -> Words:
        if not role.coarse:
            return self.codes.setdefault(role.name, _Codes(column.clear())).of(column)
        values = column.to_numpy()
        self.dtypes[role.name] = values.dtype
        return keys_of(values, probability=role.probability)

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
            self._next_rung(before)
        elif self._widths(self.rung) != before:
            self._repack(before, self.rung)

    def _next_rung(self, before: list[int]) -> None:
        """Take the first coarser step at which words are long enough."""
        for rung in range(self.rung + 1, len(LADDER)):
            if sum(self._widths(rung)) <= 64:
                self._repack(before, rung)
                return
        self._refuse()

    def _refuse(self) -> NoReturn:
        fixed = [role.name for role in self.roles if not role.coarse]
        raise ResourceError(
            f"memory: the rows have too many different values of {', '.join(fixed)}, which cannot be "
            "made coarser; raise --memory, or leave such columns out"
        )

    def _enough(self, first: int) -> int:
        """Return the first step from one on at which the words have room."""
        widths, steps = self._widths(self.rung), range(len(LADDER))
        found = bisect_left(
            steps, True, lo=first, key=lambda rung: self._distinct(widths, rung) <= self.most
        )
        if found == len(LADDER):
            self._refuse()
        return found

    def _distinct(self, before: list[int], rung: int) -> int:
        """Return how many distinct rows there would be at a step."""
        words = self._cut(self.words, before, rung)
        words.sort()
        return 1 + int(np.count_nonzero(words[1:] != words[:-1]))

    def _repack(self, before: list[int], rung: int) -> None:
        pairs = [(self.words, self.counts), *self.waiting]
        pairs = [_gathered(self._cut(words, before, rung), counts) for words, counts in pairs]
        self.rung = rung
        (self.words, self.counts), *self.waiting = pairs

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

    def of(self, column: pl.Series) -> Words:
        """Return the number of each value, new ones after those that are known."""
        if column.dtype == pl.UInt8:
            return self._looked_up(column)
        distinct = column.unique()
        new = distinct.filter(~distinct.is_in(self.values.implode(), nulls_equal=True))
        if new.len():
            self.values = self.values.append(new)
        if column.dtype.is_float():
            values = self.values.to_numpy()
            order = np.argsort(values)
            places = np.searchsorted(values, column.to_numpy(), sorter=order)
            return order[places].astype(np.uint64)
        known = self.values.to_frame("value").with_row_index("code")
        found = column.to_frame("value").join(
            known, on="value", how="left", nulls_equal=True, maintain_order="left"
        )
        codes: Words = found["code"].cast(pl.UInt64).to_numpy()
        return codes

    def _looked_up(self, column: pl.Series) -> Words:
        values = column.to_numpy()
        present = np.flatnonzero(np.bincount(values, minlength=256))
        new = np.setdiff1d(present, self.values.to_numpy())
        if new.size:
            self.values = self.values.append(pl.Series(new, dtype=pl.UInt8))
        codes = np.zeros(256, np.uint64)
        codes[self.values.to_numpy()] = np.arange(self.values.len())
        found: Words = codes[values]
        return found


def _unpack(words: Words, widths: Sequence[int]) -> list[Words]:
    found, shift = [], 0
    for width in reversed(widths):
        found.append((words >> np.uint64(shift)) & np.uint64((1 << width) - 1))
        shift += width
    return found[::-1]


def _gathered(words: Words, counts: Counts | None) -> tuple[Words, Counts]:
    """Return words sorted, each once, with its count."""
    if counts is None:
        words.sort()
        counts = np.empty(words.size, np.int64)
        size = runs.count_runs(words, counts)
    else:
        order = np.argsort(words)
        words, counts = words[order], counts[order]
        size = runs.gather_runs(words, counts)
    return _shrunk(words, size), _shrunk(counts, size)


def _shrunk(array: NDArray[Any], size: int) -> NDArray[Any]:
    return array[:size].copy() if size < array.size else array
