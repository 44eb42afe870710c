"""Condensed rows: the distinct rows over some columns, each with the number of times it occurs.

A summary that merges: the condensed rows of two files together are those of both, whatever the order.
They are exact as long as there is room for all distinct rows.  Beyond that the columns that allow it
(scores, uncertainties) are made coarser, step by step along one fixed ladder, as far as it takes.  Each
step joins values that the step before kept apart, so the step at which a set of rows has room is a
function of the set alone, and condensing in parts cannot go further than condensing the whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from calibkit.coarse import SIGNIFICAND, key_bits, keys_of, least_of
from calibkit.errors import ResourceError
from calibkit_kernels import runs

#: How often a condensed row occurs.
COUNT: Final = "count"

SCORE, SPREAD = "score", "spread"

#: The ladder: bits after the exponent that scores and uncertainties keep; the first step is exact.
LADDER: Final = (
    {SCORE: SIGNIFICAND, SPREAD: SIGNIFICAND},
    *({SCORE: score, SPREAD: spread} for score, spread in (
        (26, 12), (24, 12), (22, 12), (21, 12), (20, 12), (19, 12), (18, 11), (17, 11), (16, 10),
        (15, 10), (14, 9), (13, 8), (12, 8), (11, 7), (10, 7), (9, 6), (8, 5), (7, 5), (6, 4),
        (5, 3), (4, 3), (3, 2), (2, 1), (1, 1), (0, 0),
    )),
)  # fmt: skip

Words = NDArray[np.uint64]
Counts = NDArray[np.int64]


class NoRoomError(Exception):
    """The distinct rows have no room as they are."""


@dataclass(frozen=True)
class Role:
    """A column of condensed rows.

    Attributes
    ----------
    name
        What it is called in frames and messages.
    coarse
        `SCORE` or `SPREAD`: which bits of the ladder it may be cut to; empty: none.
    probability
        Whether it is resolved like log-odds.
    """

    name: str
    coarse: str = ""
    probability: bool = False

    def bits(self, rung: int) -> int:
        """Return how many bits its keys have at a step of the ladder."""
        return key_bits(LADDER[rung][self.coarse], probability=self.probability)

    def dropped(self, rung: int) -> np.uint64:
        """Return how many bits of its keys are cut at a step of the ladder."""
        return np.uint64(SIGNIFICAND - LADDER[rung][self.coarse])


@dataclass(frozen=True)
class Condensed:
    """Condensed rows.

    Attributes
    ----------
    roles
        The columns.
    frame
        These columns and `COUNT` (int64), sorted by them; coarse values are the least of their cell.
    rung
        The step of the ladder at which the rows have room; 0 is exact.
    most
        How many distinct rows there was room for.
    """

    roles: tuple[Role, ...]
    frame: pl.DataFrame
    rung: int
    most: int

    @property
    def exact(self) -> bool:
        """Whether nothing was made coarser."""
        return self.rung == 0

    @property
    def rows(self) -> int:
        """How many rows were condensed."""
        return int(self.frame[COUNT].sum())


def merge(parts: Sequence[Condensed]) -> Condensed:
    """Return the condensed rows of all parts together: the same whatever their order."""
    most, rung = min(part.most for part in parts), max(part.rung for part in parts)
    condenser = Condenser(parts[0].roles, most, rung)
    for part in parts:
        condenser.add(part.frame)
    return condenser.finish()


@dataclass
class Condenser:
    """Condenses rows as they come.

    Parameters
    ----------
    roles
        The columns of the frames that are added; those that may be coarse are floats.
    most
        How many distinct rows there is room for.
    rung
        The step of the ladder to begin with.
    exactly
        Whether a lack of room is an error.

    Raises
    ------
    NoRoomError
        When there is no room for the rows as they are, if they must stay `exactly` so.
    ResourceError
        When there is no room at the coarsest step.
    """

    roles: tuple[Role, ...]
    most: int
    rung: int = 0
    exactly: bool = False
    _frames: list[pl.DataFrame] = field(default_factory=list)
    _held: int = 0
    _settled: int = 0
    _packed: _Packed | None = None

    def add(self, frame: pl.DataFrame) -> None:
        """Add rows, or condensed rows where the frame has a column `COUNT`."""
        self._frames.append(frame)
        self._held += frame.height
        if self._packed is not None:
            self._pack_frames()
        elif self._held - self._settled > self.most:
            self._settle()

    def finish(self) -> Condensed:
        """Return the condensed rows of all that was added."""
        if self._packed is None:
            self._settle()
        if self._packed is not None:
            self._pack_frames(last=True)
            frame = self._packed.frame()
            self.rung = self._packed.rung
        else:
            (frame,) = self._frames
        return Condensed(self.roles, frame.sort(self._names, nulls_last=True), self.rung, self.most)

    @property
    def _names(self) -> list[str]:
        return [role.name for role in self.roles]

    def _settle(self) -> None:
        """Group what is held: exactly if it has room then, else packed and coarser."""
        frame = pl.concat([_counted(one, self._names) for one in self._frames])
        if self.rung == 0 and not self._surely_too_many(frame):
            grouped = _grouped(frame, self._names)
            if grouped.height <= self.most:
                self._frames, self._held, self._settled = [grouped], grouped.height, grouped.height
                return
        if self.exactly:
            raise NoRoomError
        self._frames = [frame]
        self._packed = _Packed(self.roles, self.most, max(self.rung, 1))
        self._pack_frames(last=True)

    def _surely_too_many(self, frame: pl.DataFrame) -> bool:
        """Tell cheaply where even the scores alone have too many distinct values."""
        if frame.height <= self.most:
            return False
        for role in self.roles:
            if role.coarse:
                keys = keys_of(frame[role.name].to_numpy(), probability=role.probability)
                keys.sort()
                if np.count_nonzero(keys[1:] != keys[:-1]) >= self.most:
                    return True
        return False

    def _pack_frames(self, *, last: bool = False) -> None:
        assert self._packed is not None
        frames, self._frames, self._held = self._frames, [], 0
        for frame in frames:
            self._packed.add(_without_count(frame), _counts(frame))
        if last:
            self._packed.merge()


@dataclass
class _Packed:
    """Condensed rows of which each is one word: the cut keys of its values, then their codes."""

    roles: tuple[Role, ...]
    most: int
    rung: int
    words: Words = field(default_factory=lambda: np.empty(0, np.uint64))
    counts: Counts = field(default_factory=lambda: np.empty(0, np.int64))
    dtypes: dict[str, Any] = field(default_factory=dict)
    codes: dict[str, pl.DataFrame] = field(default_factory=dict)
    waiting: list[tuple[Words, Counts]] = field(default_factory=list)

    def add(self, frame: pl.DataFrame, counts: Counts | None) -> None:
        """Add rows, or rows with counts."""
        before = self._widths(self.rung)
        columns = [self._codes_or_keys(frame[role.name], role) for role in self.roles]
        self._make_room(before)
        dropped = [role.dropped(self.rung) if role.coarse else np.uint64(0) for role in self.roles]
        columns = [column >> cut for column, cut in zip(columns, dropped, strict=True)]
        self.waiting.append(_gathered(_pack(columns, self._widths(self.rung)), counts))
        if sum(words.size for words, _ in self.waiting) > self.most // 4:
            self.merge()

    def merge(self) -> None:
        """Put what waits with the rest, coarser if it has no room otherwise."""
        for words, counts in self.waiting:
            room = self.words.size + words.size
            merged, sums = np.empty(room, np.uint64), np.empty(room, np.int64)
            size = runs.merge_runs(self.words, self.counts, words, counts, merged, sums)
            self.words, self.counts = _shrunk(merged, size), _shrunk(sums, size)
        self.waiting = []
        while self.words.size > self.most:
            self._next_rung(self._widths(self.rung))

    def frame(self) -> pl.DataFrame:
        """Return the rows as values."""
        columns, found = _unpack(self.words, self._widths(self.rung)), {}
        for role, column in zip(self.roles, columns, strict=True):
            if role.coarse:
                keys = column << role.dropped(self.rung)
                dtype = self.dtypes[role.name]
                values = least_of(keys, dtype, probability=role.probability)
                found[role.name] = pl.Series(role.name, values)
            else:
                known = self.codes[role.name][role.name]
                found[role.name] = known.gather(column.astype(np.uint32))
        return pl.DataFrame({**found, COUNT: self.counts})

    def _codes_or_keys(self, column: pl.Series, role: Role) -> Words:
        if role.coarse:
            values = column.to_numpy()
            self.dtypes[role.name] = values.dtype
            return keys_of(values, probability=role.probability)
        seen = pl.DataFrame({role.name: column}).unique()
        known = self.codes.get(role.name)
        if known is None:
            known = seen.clear().with_columns(pl.lit(0, pl.UInt64).alias("code"))
        new = seen.join(known, on=role.name, how="anti", nulls_equal=True)
        if new.height:
            known = pl.concat([known.select(role.name), new]).with_row_index("code")
            known = known.select(role.name, pl.col("code").cast(pl.UInt64))
        self.codes[role.name] = known
        found = pl.DataFrame({role.name: column}).join(
            known, on=role.name, how="left", nulls_equal=True, maintain_order="left"
        )
        return found["code"].to_numpy()

    def _widths(self, rung: int) -> list[int]:
        """Return how many bits of a word each column has."""
        return [
            role.bits(rung)
            if role.coarse
            else max(1, (self.codes[role.name].height - 1).bit_length())
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
        fixed = [role.name for role in self.roles if not role.coarse]
        raise ResourceError(
            f"memory: the rows have too many different values of {', '.join(fixed)}, which cannot be "
            "made coarser; raise --memory, or leave such columns out"
        )

    def _repack(self, before: list[int], rung: int) -> None:
        more = [
            role.dropped(rung) - role.dropped(self.rung) if role.coarse else np.uint64(0)
            for role in self.roles
        ]
        self.rung = rung

        def repacked(words: Words, counts: Counts) -> tuple[Words, Counts]:
            columns = _unpack(words, before)
            columns = [column >> cut for column, cut in zip(columns, more, strict=True)]
            return _gathered(_pack(columns, self._widths(rung)), counts)

        self.words, self.counts = repacked(self.words, self.counts)
        self.waiting = [repacked(*pair) for pair in self.waiting]


def _pack(columns: Sequence[Words], widths: Sequence[int]) -> Words:
    words = np.zeros(columns[0].size, np.uint64)
    for column, width in zip(columns, widths, strict=True):
        words <<= np.uint64(width)
        words |= column
    return words


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


def _counted(frame: pl.DataFrame, names: Sequence[str]) -> pl.DataFrame:
    if COUNT in frame.columns:
        return frame.select(*names, COUNT)
    return frame.select(*names, pl.lit(1, pl.Int64).alias(COUNT))


def _without_count(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.drop(COUNT, strict=False)


def _counts(frame: pl.DataFrame) -> Counts | None:
    return frame[COUNT].to_numpy() if COUNT in frame.columns else None


def _grouped(frame: pl.DataFrame, names: Sequence[str]) -> pl.DataFrame:
    """Return the distinct rows, sorted, with the sums of their counts."""
    frame = frame.sort(names, nulls_last=True)
    changed = pl.any_horizontal(pl.col(name).ne_missing(pl.col(name).shift()) for name in names)
    first = frame.select(changed).to_series().to_numpy().copy()
    first[:1] = True
    if first.all():
        return frame
    starts = np.flatnonzero(first)
    sums = np.add.reduceat(frame[COUNT].to_numpy(), starts)
    return frame[starts].with_columns(pl.Series(COUNT, sums))
