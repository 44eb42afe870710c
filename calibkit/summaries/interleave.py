"""Sorted frames as one: merged in one pass, where to sort all of their rows would take much longer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from calibkit_kernels import runs, sorting

Words = NDArray[np.uint64]

_FLOATS: Final = (pl.Float32, pl.Float64)
#: Types whose values are int64 numbers.
_WHOLE: Final = (
    *(pl.Boolean, pl.Int8, pl.Int16, pl.Int32, pl.Int64),
    *(pl.UInt8, pl.UInt16, pl.UInt32),
)
_SIGN: Final = np.uint64(1 << 63)


def interleaved(frames: Sequence[pl.DataFrame], names: Sequence[str]) -> pl.DataFrame | None:
    """Return the rows of sorted frames, sorted.

    Parameters
    ----------
    frames
        Of the same columns, and less than 2^32 rows in all.
    names
        The columns by which they are sorted.

    Returns
    -------
    pl.DataFrame | None
        None where a frame is not sorted, or a column holds something else than numbers, or among them
        nulls, NaN or negative zeros.
    """
    sizes = np.array([frame.height for frame in frames])
    ends: NDArray[np.int64] = np.cumsum(sizes)
    starts = ends - sizes
    words = np.empty((len(names), ends[-1]), np.uint64)
    for frame, start, end in zip(frames, starts, ends, strict=True):
        for line, name in zip(words, names, strict=True):
            if not _fill(line[start:end], frame[name]):
                return None
        if not runs.rows_rise(words, start, end):
            return None
    order = np.empty(ends[-1], np.uint32)
    runs.merge_rows(words, starts, ends, order)
    return pl.concat(frames, rechunk=True)[pl.Series(order)]


def _fill(line: Words, column: pl.Series) -> bool:
    """Write the words of a column, in its order; tell whether it has any."""
    if column.null_count():
        return False
    values = column.to_numpy()
    if column.dtype in _WHOLE:
        line[:] = values
        line ^= _SIGN
        return True
    if column.dtype not in _FLOATS:
        return False
    bits = values.view(f"u{values.itemsize}")
    if np.isnan(values).any() or (bits == np.uint64(1 << (8 * values.itemsize - 1))).any():
        return False
    turn = sorting.falling_keys32 if values.itemsize == 4 else sorting.falling_keys64
    turn(bits, line)
    np.invert(line, out=line)
    return True
