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
from numpy.typing import NDArray

from calibkit.summaries.coarse import keys_of
from calibkit.summaries.ladder import Role
from calibkit.summaries.packed import Packed

#: How often a condensed row occurs.
COUNT: Final = "count"

Counts = NDArray[np.int64]


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
    _packed: Packed | None = None

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
            frame = self._packed.frame().with_columns(pl.Series(COUNT, self._packed.counts))
            self.rung = self._packed.rung
        else:
            (frame,) = self._frames
        return Condensed(self.roles, frame.sort(self._names, nulls_last=True), self.rung, self.most)

    @property
    def _names(self) -> list[str]:
        return [role.name for role in self.roles]

    def _settle(self) -> None:
        """Group what is held: exactly if it has room then, else packed and coarser."""
        if self.rung == 0 and not self._surely_too_many():
            frame = pl.concat([_counted(one, self._names) for one in self._frames])
            self._frames = []
            grouped = _grouped(frame, self._names)
            self._frames, self._held, self._settled = [grouped], grouped.height, grouped.height
            if grouped.height <= self.most:
                return
        if self.exactly:
            raise NoRoomError
        self._packed = Packed(self.roles, self.most, max(self.rung, 1))
        self._packed.begin(self._frames)
        self._pack_frames(last=True)

    def _surely_too_many(self) -> bool:
        """Tell cheaply where even the scores alone have too many distinct values."""
        if self._held <= self.most:
            return False
        for role in self.roles:
            if role.coarse:
                keys = np.concatenate(
                    [
                        keys_of(one[role.name].to_numpy(), probability=role.probability)
                        for one in self._frames
                    ]
                )
                keys.sort()
                if np.count_nonzero(keys[1:] != keys[:-1]) >= self.most:
                    return True
        return False

    def _pack_frames(self, *, last: bool = False) -> None:
        assert self._packed is not None
        frames, self._frames, self._held = self._frames[::-1], [], 0
        while frames:  # each can go once it is packed
            frame = frames.pop()
            self._packed.add(_without_count(frame), _counts(frame))
        if last:
            self._packed.merge()


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
