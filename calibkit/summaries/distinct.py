"""Distinct rows over some columns, each with the number of times it occurs.

They are exact as long as there is room for all of them.  Where there is not, floats may be cut: to the
most bits after the exponent at which the rows have room.  Fewer bits join values that more bits keep
apart, so these bits are a function of the set of rows, in whatever parts and order it comes.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from calibkit.errors import ResourceError
from calibkit.summaries.coarse import SIGNIFICAND, keys_of, least_of

#: How often a row occurs.
COUNT: Final = "count"

#: How a column may be cut: to some bits, or to half as many.
SCORE, SPREAD = "score", "spread"

#: Bits that cut rows keep at most; and rows there is room for at most.
MOST_BITS: Final = 20
_MOST_CUT: Final = 2**22


class NoRoomError(Exception):
    """The distinct rows have no room as they are."""


@dataclass(frozen=True)
class Role:
    """A column of counted rows.

    Attributes
    ----------
    name
        What it is called in frames and messages.
    coarse
        `SCORE` or `SPREAD` where it may be cut; empty: it may not.
    probability
        Whether it is resolved like log-odds.
    """

    name: str
    coarse: str = ""
    probability: bool = False

    def bits(self, bits: int) -> int:
        """Return how many bits the column keeps where scores keep some."""
        return bits if self.coarse == SCORE else spread_bits(bits)

    def drop(self, bits: int) -> int:
        """Return how many of the last bits of its keys are cut then."""
        return SIGNIFICAND - self.bits(bits)


def spread_bits(bits: int) -> int:
    """Return how many bits uncertainties keep where scores keep some."""
    return (bits + 1) // 2


class Distinct:
    """Distinct rows.

    Parameters
    ----------
    roles
        The columns of the frames that are added; those that may be cut are floats.
    most
        How many distinct rows there is room for.
    bits
        How many bits scores keep at most; None: rows must stay as they are.

    Raises
    ------
    NoRoomError
        While rows are added, or at the end: there is no room for them as they are.
    ResourceError
        There is no room even with no bits.
    """

    def __init__(self, roles: Sequence[Role], most: int, bits: int | None = None) -> None:
        self.roles, self.bits = tuple(roles), bits
        self._most = most if bits is None else min(most, _MOST_CUT)
        self._names = [role.name for role in roles]
        self._cut = [role for role in roles if role.coarse] if bits is not None else []
        self._dtypes: dict[str, Any] = {}
        self._frames: list[pl.DataFrame] = []
        self._held = self._settled = 0

    @property
    def held(self) -> list[pl.DataFrame]:
        """What was added, or what it became: rows that have no room as they are may go elsewhere."""
        return self._frames

    @property
    def fits(self) -> bool:
        """Whether there is room for the rows as they are, whether any are equal or none."""
        return self.bits is None and self._held <= self._most

    def add(self, frame: pl.DataFrame) -> None:
        """Add rows, or rows with counts where the frame has a column `COUNT`."""
        self._frames.append(self._keys(frame))
        self._held += frame.height
        if self._held - self._settled > self._most:
            self._settle()

    def finish(self) -> pl.DataFrame:
        """Return the rows, sorted, and `COUNT`; values that were cut are the least of their cell."""
        self._settle()
        (frame,) = self._frames
        assert self.bits is not None or not self._cut
        return frame.with_columns(
            pl.Series(
                role.name,
                least_of(
                    frame[role.name].to_numpy() << np.uint64(role.drop(self.bits or 0)),
                    self._dtypes[role.name],
                    probability=role.probability,
                ),
            )
            for role in self._cut
        )

    def _keys(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Return a frame with the keys of the columns that are cut."""
        for role in self._cut:
            values = frame[role.name].to_numpy()
            self._dtypes[role.name] = values.dtype
            keys = keys_of(values, probability=role.probability)
            keys >>= np.uint64(role.drop(self.bits or 0))
            frame = frame.with_columns(pl.Series(role.name, keys))
        return frame

    def _settle(self) -> None:
        """Gather equal rows; of too many keep fewer bits, if that may be."""
        frame = pl.concat([_counted(one, self._names) for one in self._frames])
        most, first = self._most, frame[self._names[0]]
        if self.bits is None and first.len() > most and first.n_unique() > most:  # quickly told
            raise NoRoomError
        frame = _gathered(frame.sort(self._names, nulls_last=True), self._names)
        self._frames = [frame]
        if frame.height > self._most:
            frame = self._coarser(frame)
        self._frames, self._held, self._settled = [frame], frame.height, frame.height

    def _coarser(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Return rows with the most bits at which they have room."""
        if self.bits is None:
            raise NoRoomError
        steps = range(self.bits - 1, -1, -1)
        names = self._names

        def fits(bits: int) -> bool:
            return bool(self._shifted(frame, bits).select(names).n_unique() <= self._most)

        found = bisect_left(steps, True, key=fits)
        if found == len(steps):
            fixed = ", ".join(role.name for role in self.roles if not role.coarse)
            raise ResourceError(
                f"memory: the rows have too many different values of {fixed}, which cannot be made "
                "coarser; raise --memory, or leave such columns out"
            )
        shifted = self._shifted(frame, steps[found])
        self.bits = steps[found]
        return _gathered(shifted.sort(names, nulls_last=True), names)

    def _shifted(self, frame: pl.DataFrame, bits: int) -> pl.DataFrame:
        """Return rows as they are with fewer bits."""
        return frame.with_columns(
            pl.Series(
                role.name,
                frame[role.name].to_numpy()
                >> np.uint64(role.drop(bits) - role.drop(self.bits or 0)),
            )
            for role in self._cut
        )


def _counted(frame: pl.DataFrame, names: Sequence[str]) -> pl.DataFrame:
    if COUNT in frame.columns:
        return frame.select(*names, COUNT)
    return frame.select(*names, pl.lit(1, pl.Int64).alias(COUNT))


def _gathered(frame: pl.DataFrame, names: Sequence[str]) -> pl.DataFrame:
    """Return the distinct rows of a sorted frame with the sums of their counts."""
    changed = pl.any_horizontal(pl.col(name).ne_missing(pl.col(name).shift()) for name in names)
    first: NDArray[np.bool_] = frame.select(changed).to_series().to_numpy().copy()
    first[:1] = True
    if first.all():
        return frame
    starts = np.flatnonzero(first)
    sums = np.add.reduceat(frame[COUNT].to_numpy(), starts)
    return frame[starts].with_columns(pl.Series(COUNT, sums))
