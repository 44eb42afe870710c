"""Arrays by what they hold, as annotations name them; their rows by blocks and by groups."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: Numbers of any type: float32 as well as float64, counts of one byte as well as of eight.
Numbers = NDArray[Any]
Floats = NDArray[np.float64]
Int32s = NDArray[np.int32]
Int64s = NDArray[np.int64]
#: Labels, folds and parts; levels and bins; codes; hashes, keys and words.
UInt8s = NDArray[np.uint8]
UInt16s = NDArray[np.uint16]
UInt32s = NDArray[np.uint32]
Singles = NDArray[np.float32]
UInt64s = NDArray[np.uint64]
Bools = NDArray[np.bool_]


def distinct_values(values: NDArray[Any] | Sequence[float]) -> NDArray[Any]:
    """Return the distinct values, rising.

    Asked for nothing else, `np.unique` loads numpy's masked arrays first: 15 ms of every command.
    """
    return np.unique(values, return_counts=True)[0]


def fixed(array: Numbers) -> Numbers:
    """Return an array contiguous and read-only, as columns are: kernels are compiled for such ones."""
    found = np.ascontiguousarray(array)
    found.flags.writeable = False
    return found


def blocks(rows: int, size: int) -> Iterator[slice]:
    """Yield slices of so many rows, in order: each of one size, but for the last."""
    for first in range(0, rows, size):
        yield slice(first, min(first + size, rows))


def rows_by_group(codes: Numbers, groups: int) -> list[Int64s]:
    """Return the rows of each group, those of a group in order; `codes` has the group of each row."""
    ends = np.cumsum(np.bincount(codes, minlength=groups))
    narrow = codes.astype(np.uint16) if groups <= 2**16 else codes  # which is sooner sorted
    return np.split(np.argsort(narrow, kind="stable"), ends[:-1])
