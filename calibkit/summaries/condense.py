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
from typing import Final

import numpy as np
import polars as pl

from calibkit.summaries.interleave import interleaved
from calibkit.summaries.ladder import Role
from calibkit.summaries.packed import COUNT, Packed
from calibkit_kernels import digest

__all__ = ["COUNT", "Condensed", "Condenser", "NoRoomError", "merge"]


#: Rows are of few kinds where all columns but the first have at most so many combinations of values.
_FEW_KINDS: Final = 32


class NoRoomError(Exception):
    """The distinct rows have no room as they are."""


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
    frames, names = [part.frame for part in parts], [role.name for role in parts[0].roles]
    if rung == 0 and sum(frame.height for frame in frames) <= most:
        frame = interleaved(frames, names)
        if frame is not None:
            return Condensed(parts[0].roles, _gathered(frame, names), 0, most)
    condenser = Condenser(parts[0].roles, most, rung)
    for frame in frames:
        condenser.add(frame)
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
    _packed: Packed | None = None

    def add(self, frame: pl.DataFrame) -> None:
        """Add rows, or condensed rows where the frame has a column `COUNT`."""
        if self._packed is not None:
            self._packed.add(frame)
            return
        self._frames.append(frame)
        self._held += frame.height
        if self._held - self._settled > self.most:
            self._settle()

    @property
    def held(self) -> list[pl.DataFrame]:
        """The rows that were added, or what they became, as long as they have not been made coarser."""
        return self._frames

    def finish(self) -> Condensed:
        """Return the condensed rows of all that was added."""
        if self._packed is None:
            self._settle()
        if self._packed is None:
            (frame,) = self._frames
            return Condensed(self.roles, frame, 0, self.most)
        packed = self._packed
        packed.merge()
        frame = packed.frame().with_columns(pl.Series(COUNT, packed.counts))
        if not packed.in_order:
            frame = frame.sort(self._names, nulls_last=True)
        return Condensed(self.roles, frame, packed.rung, self.most)

    @property
    def _names(self) -> list[str]:
        return [role.name for role in self.roles]

    def _settle(self) -> None:
        """Group what is held: exactly if it has room then, else packed and coarser."""
        if self.exactly and self._surely_too_many():
            raise NoRoomError
        packed = Packed(self.roles, self.most, max(self.rung, 1))
        packable = self._held > self.most and self._packs_fast
        too_many = packable and packed.begin(self._frames)
        if self.rung == 0 and not too_many and not self._surely_too_many():
            frames, self._frames = self._frames, []
            grouped = _of_few_kinds(frames, self._names) if self.roles[0].coarse else None
            if grouped is None:
                frame = pl.concat([_counted(one, self._names) for one in frames])
                frames.clear()
                grouped = _grouped(frame, self.roles)
            self._frames, self._held, self._settled = [grouped], grouped.height, grouped.height
            if grouped.height <= self.most:
                return
        if self.exactly:
            raise NoRoomError
        if not packable:
            packed.begin(self._frames)
        packed.fit()
        self._packed, self._frames = packed, []

    @property
    def _packs_fast(self) -> bool:
        """Whether to pack rows takes less time than to look at them otherwise."""
        fixed = [role.name for role in self.roles if not role.coarse]
        kinds = self._frames[0].schema
        return len(fixed) < len(self.roles) and all(kinds[name] == pl.UInt8 for name in fixed)

    def _surely_too_many(self) -> bool:
        """Tell cheaply where even one column has too many distinct values."""
        if self._held <= self.most:
            return False
        names = [role.name for role in self.roles if role.coarse]
        return any(
            _least_distinct([frame[name] for frame in self._frames], self.most) > self.most
            for name in names
        )


def _least_distinct(columns: Sequence[pl.Series], most: int) -> int:
    """Return how many hashes floats have, with many times `most` hashes there could be.

    At least so many of the floats are distinct.
    """
    marks = np.zeros(max(1, (1 << most.bit_length()) // 4), np.uint64)
    words = (column.to_numpy().astype(np.float64).view(np.uint64) for column in columns)
    return sum(digest.mark_hashes(own, marks) for own in words)


def _counted(frame: pl.DataFrame, names: Sequence[str]) -> pl.DataFrame:
    if COUNT in frame.columns:
        return frame.select(*names, COUNT)
    return frame.select(*names, pl.lit(1, pl.Int64).alias(COUNT))


def _of_few_kinds(frames: Sequence[pl.DataFrame], names: Sequence[str]) -> pl.DataFrame | None:
    """Return the distinct rows of frames, sorted, where all columns but the first say little.

    As labels do.  The floats of the first column are then sorted by themselves, kind by kind, which
    takes a small part of the time of sorting rows; condensed rows are sorted already.  None where
    there are many kinds of rows, or values that `interleaved` refuses.
    """
    fresh = [frame.select(names) for frame in frames if COUNT not in frame.columns]
    sorted_ones = [frame.select(*names, COUNT) for frame in frames if COUNT in frame.columns]
    if fresh:
        rows, others = pl.concat(fresh), list(names[1:])
        if others and rows.select(others).n_unique() > _FEW_KINDS:
            return None
        kinds = rows.partition_by(others) if others else [rows]
        sorted_ones += [_distinct(kind, names[0]) for kind in kinds]
    together = interleaved(sorted_ones, names)
    return None if together is None else _gathered(together, names)


def _distinct(kind: pl.DataFrame, name: str) -> pl.DataFrame:
    """Return the distinct rows, with counts, of rows that differ in one column of floats alone."""
    values = np.sort(kind[name].to_numpy())
    starts = np.flatnonzero(np.append(True, values[1:] != values[:-1]))
    counts = np.diff(np.append(starts, values.size))
    return kind.head(starts.size).with_columns(
        pl.Series(name, values[starts]), pl.Series(COUNT, counts)
    )


def _grouped(frame: pl.DataFrame, roles: Sequence[Role]) -> pl.DataFrame:
    """Return the distinct rows, sorted, with the sums of their counts."""
    names = [role.name for role in roles]
    return _gathered(
        _sorted(frame, names) if roles[0].coarse else frame.sort(names, nulls_last=True), names
    )


def _gathered(frame: pl.DataFrame, names: Sequence[str]) -> pl.DataFrame:
    """Return the distinct rows of a sorted frame with the sums of their counts."""
    changed = pl.any_horizontal(pl.col(name).ne_missing(pl.col(name).shift()) for name in names)
    first = frame.select(changed).to_series().to_numpy().copy()
    first[:1] = True
    if first.all():
        return frame
    starts = np.flatnonzero(first)
    sums = np.add.reduceat(frame[COUNT].to_numpy(), starts)
    return frame[starts].with_columns(pl.Series(COUNT, sums))


def _sorted(frame: pl.DataFrame, names: Sequence[str]) -> pl.DataFrame:
    """Return rows sorted by columns of which the first has floats, not NaN.

    By the first column alone, and by all only where it is the same in several rows: to sort by
    several columns takes ten times as long.
    """
    values = frame[names[0]].to_numpy()
    order = np.argsort(values)
    same = values[order[1:]] == values[order[:-1]]
    tied = np.flatnonzero(np.append(False, same) | np.append(same, False))
    if 2 * tied.size > order.size:
        return frame.sort(names, nulls_last=True)
    if tied.size:
        places = pl.Series("", order[tied])
        rows = frame[places].select(names).with_columns(places.alias(COUNT))
        order[tied] = rows.sort(names, nulls_last=True)[COUNT].to_numpy()
    return frame[order]
