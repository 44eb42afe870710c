"""The rows of a boosted fit in rounds by their bins, which a process may keep from round to round."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from calibkit.errors import ResourceError
from calibkit.hetcal.rounds.boosted.runs import Boosting
from calibkit.hetcal.rounds.grow import Shared
from calibkit.hetcal.rounds.known import Known
from calibkit.hetcal.rounds.rows import Block, dealt
from calibkit.hetcal.states import HetcalProblem
from calibkit.rounds.kept import Kept
from calibkit_kernels import tree as splits

Floats = NDArray[np.float64]
Int64s = NDArray[np.int64]

#: What the file of rows is called.
_FILE: Final = "rows"


@dataclass(frozen=True)
class BinnedRows:
    """Some rows.

    Attributes
    ----------
    codes
        The bin of each feature and, last, of the score: feature x row.
    first
        The scores before the first tree.
    label, weight, part
        0 or 1; the weight in units; the part that a row was dealt to.
    """

    codes: NDArray[Any]
    first: Floats
    label: NDArray[np.uint8]
    weight: Int64s
    part: NDArray[np.uint8]

    def arrays(self) -> tuple[NDArray[Any], ...]:
        """Return all arrays, in the order of a file."""
        return self.codes, self.first, self.label, self.weight, self.part

    def numbers(self, shared: Boosting) -> Floats:
        """Return the bins as trees take them: as numbers, NaN for missing values."""
        found = self.codes.astype(np.float64)
        for own, lows in zip(found, shared.bins.lows, strict=True):
            own[own == lows.size] = np.nan
        return found


def binned_rows(
    block: Block, known: Known, problem: HetcalProblem, shared: Boosting, threads: Shared
) -> BinnedRows:
    """Return the rows of a block by their bins."""
    first = shared.before.a * block.score + shared.before.b
    values, lows = [*block.features.values, first], shared.bins.lows
    codes = np.empty((len(values), first.size), np.uint16)

    def work(own: Int64s) -> None:
        for place in own.tolist():
            splits.bin_codes(values[place], lows[place], codes[place])

    threads.over(len(values), work)
    part = np.zeros(first.size, np.uint8)
    if known.folds:
        part, _ = dealt(block, problem, known.parts)
    return BinnedRows(codes, first, block.label, block.weight, part)


@dataclass(frozen=True)
class _Stored:
    """What is kept: by which bins and parts, how many rows each block has, and of which shard."""

    key: object
    blocks: list[int]
    shard: tuple[str, int]


class RowStore:
    """Rows that are kept from one round to the next.

    Parameters
    ----------
    known, shared
        What the rounds have found so far; by their bins rows are kept.
    kept
        Where; None: nowhere.

    Attributes
    ----------
    told
        How many rows have been read from there.
    """

    def __init__(self, known: Known, shared: Boosting, kept: Kept | None) -> None:
        self.kept, self.features = kept, len(shared.bins.lows)
        most = max(low.size for low in shared.bins.lows)
        self.kind = np.dtype(np.uint8 if most < 1 << 8 else np.uint16)
        size = sum(array.nbytes for array in self._arrays(1))
        self.key = [own.tolist() for own in shared.bins.lows], shared.before, known.folds
        self.writes = kept is not None and kept.has_room(size * known.rows.rows)
        self.blocks: list[int] = []
        self.place = self.told = 0

    def _arrays(self, rows: int) -> tuple[NDArray[Any], ...]:
        """Return room for the arrays of a block."""
        return (
            np.empty((self.features, rows), self.kind),
            np.empty(rows),
            np.empty(rows, np.uint8),
            np.empty(rows, np.int64),
            np.empty(rows, np.uint8),
        )

    @property
    def shard(self) -> tuple[str, int] | None:
        """By what the shard is known whose rows are kept: its hash, and how many rows it has."""
        stored = None if self.kept is None else self.kept.content.get(_FILE)
        return stored.shard if stored is not None and stored.key == self.key else None

    def write(self, rows: BinnedRows) -> None:
        """Keep the rows of the next block."""
        if self.kept is None or not self.writes:
            return
        self.blocks.append(rows.first.size)
        for array in (rows.codes.astype(self.kind), *rows.arrays()[1:]):
            self.kept.write(_FILE, self.place, array)
            self.place += array.nbytes

    def end(self, shard: tuple[str, int]) -> None:
        """Say that all rows have been seen, and of which shard."""
        if self.kept is not None and self.writes:
            self.kept.whole(_FILE, _Stored(self.key, self.blocks, shard))

    def read(self) -> Iterator[BinnedRows]:
        """Yield the rows that are kept, block by block.

        Raises
        ------
        ResourceError
            Where they cannot be read any more.
        """
        assert self.kept is not None
        for size in self.kept.content[_FILE].blocks:
            self.told += size
            arrays = self._arrays(size)
            for array in arrays:
                if not self.kept.read(_FILE, self.place, array):
                    raise ResourceError("a temporary file with the rows cannot be read any more")
                self.place += array.nbytes
            yield BinnedRows(arrays[0].astype(np.uint16), *arrays[1:])
