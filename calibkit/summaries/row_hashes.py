"""A fingerprint of rows of any columns that adds up over the parts, whatever their order and cut."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from calibkit_kernels import digest

Words = NDArray[np.uint64]

#: What stands for no value: the bits of no number that a file holds.
_NOTHING: Final = np.uint64(0x7FF8_6E75_6C6C_2121)
#: Rows hashed at a time, small enough to stay in the cache.
_BLOCK: Final = 65_536


def hash_rows(frame: pl.DataFrame, times: NDArray[Any] | None = None) -> int:
    """Return the sum modulo 2^64 of a hash of each row.

    Parameters
    ----------
    frame
        The rows.  A number counts as the float64 nearest to it, a category as its text, a list as
        its values; a column counts by its name, wherever it stands.
    times
        How often each row occurs; None: once.
    """
    total = 0
    for start in range(0, frame.height, _BLOCK):
        block = frame.slice(start, _BLOCK)
        hashes = np.zeros(block.height, np.uint64)
        for name in sorted(block.columns):
            digest.absorb(hashes, _words(block[name]), _of_text(name))
        if times is not None:
            hashes *= times[start : start + _BLOCK].astype(np.uint64)
        total += int(digest.total(hashes))
    return total % 2**64


def _words(column: pl.Series) -> Words:
    """Return 64 bits for each value."""
    kind = column.dtype
    if isinstance(kind, pl.List | pl.Array):
        return _of_lists(column.cast(pl.List(kind.inner)))
    if isinstance(kind, pl.Categorical | pl.Enum):
        column, kind = column.cast(pl.String), pl.String()
    if kind == pl.String or kind == pl.Binary:
        return _of_texts(column)
    numbers = column.to_physical().cast(pl.Float64)
    if numbers.null_count() == 0:  # spare half of the work
        return _bits(numbers)
    return np.where(numbers.is_null().to_numpy(), _NOTHING, _bits(numbers.fill_null(0.0)))


def _bits(numbers: pl.Series) -> Words:
    found: Words = (numbers.to_numpy() + 0.0).view(np.uint64)  # not -0.0
    return found


def _of_texts(column: pl.Series) -> Words:
    distinct = column.unique()
    words = [_NOTHING if value is None else _of_text(value) for value in distinct.to_list()]
    found = column.to_frame("text").join(
        pl.DataFrame({"text": distinct, "word": pl.Series(words, dtype=pl.UInt64)}),
        on="text",
        how="left",
        nulls_equal=True,
        maintain_order="left",
    )
    return np.array(found["word"].to_numpy())


def _of_lists(column: pl.Series) -> Words:
    """Return a hash of the values of each list, and of how many there are."""
    sizes = column.list.len().fill_null(0).to_numpy().astype(np.int64)
    words = np.where(column.is_null().to_numpy(), _NOTHING, sizes.view(np.uint64))
    for place in range(int(sizes.max(initial=0))):
        long = np.flatnonzero(sizes > place)
        hashes = words[long]
        digest.absorb(hashes, _words(column.gather(long).list.get(place)), np.uint64(place))
        words[long] = hashes
    return words


def _of_text(text: str | bytes) -> np.uint64:
    data = text.encode() if isinstance(text, str) else text
    return np.uint64(int.from_bytes(blake2b(data, digest_size=8).digest(), "little"))
