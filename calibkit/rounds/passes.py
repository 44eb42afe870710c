"""A pass over the rows of a shard, window by window, which also tells by what the shard is known."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from calibkit.files.sources import Source
from calibkit.rows.provenance import hash_text
from calibkit.rows.rows import NothingLeft
from calibkit.summaries.row_hashes import hash_rows
from calibkit.summaries.windows import read_in_windows

T = TypeVar("T")


@dataclass
class Pass:
    """One pass over some columns of a source.

    Attributes
    ----------
    source, columns
        The inputs, and which of their columns; the same as those of the shard's first state.
    rows
        How many rows are read at a time.
    """

    source: Source
    columns: Sequence[str]
    rows: int
    _hash: int = field(default=0, init=False)
    _read: int = field(default=0, init=False)

    def through(self, read: Callable[[Source], T]) -> Iterator[T | NothingLeft]:
        """Yield what a reader makes of each window, or that nothing was left of it.

        Raises
        ------
        UsageError, DataError
            As the reader; values that offend are counted over all windows.
        """
        names = list(dict.fromkeys(self.columns))

        def reading(window: Source) -> T:
            frame = window.read(names)
            self._hash += hash_rows(frame)
            self._read += frame.height
            return read(window)

        yield from read_in_windows(self.source, names, self.rows, reading)

    @property
    def hash(self) -> str:
        """The hash of the rows that were read."""
        return hash_text(self._hash)

    @property
    def read(self) -> int:
        """How many rows were read."""
        return self._read
