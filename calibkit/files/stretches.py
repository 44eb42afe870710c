"""Where a large file may be cut, so that its parts can be read by themselves: between row groups."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import accumulate, pairwise
from math import inf
from pathlib import Path
from typing import Final

from calibkit.files.formats import suffix_format
from calibkit.files.inputs import is_remote

#: Files of fewer bytes are read in one piece.
_SMALL_BYTES: Final = 2**22

#: The rows of a large row group: where a file elsewhere, whose groups are not looked at, may be cut.
_GROUP: Final = 2**20


@dataclass(frozen=True)
class Stretch:
    """Some rows of a file.

    Attributes
    ----------
    first, rows
        The number of the first one, from 0, and how many they are.
    of
        How many rows the file has.
    """

    first: int
    rows: int
    of: int


def size_to_cut(path: str, format_name: str | None) -> float:
    """Return the bytes of a large file of a format that can be read from the middle on, else 0.

    Infinity stands for files elsewhere, which are not asked.  CSV and NDJSON tell types and row
    numbers from the beginning on only, and Arrow files are checked as a whole before polars reads
    them.
    """
    if (format_name or suffix_format(path)) != "parquet":
        return 0
    if is_remote(path):
        return inf
    with suppress(OSError):  # what is wrong with it is said where it is read
        size = Path(path).stat().st_size
        return size if size >= _SMALL_BYTES else 0
    return 0


def cuts(path: str, rows: int) -> tuple[int, ...]:
    """Return after how many rows a Parquet file may be cut, its `rows` the last of them.

    Raises
    ------
    OSError, ValueError
        A file that cannot be read, or that is none.
    """
    if is_remote(path):
        return (*range(_GROUP, rows, _GROUP), rows)
    import pyarrow.parquet as pq

    found = pq.read_metadata(path)
    groups = (found.row_group(place).num_rows for place in range(found.num_row_groups))
    return tuple(accumulate(groups))


def stretches(cuts: Sequence[int], count: int) -> list[Stretch]:
    """Return a file of some cuts in at most so many parts, as equal as the cuts allow."""
    rows = cuts[-1]
    wanted = (rows * place / count for place in range(1, count))
    ends = {0, rows, *(min(cuts, key=lambda cut: abs(cut - row)) for row in wanted)}
    return [Stretch(first, end - first, rows) for first, end in pairwise(sorted(ends))]
