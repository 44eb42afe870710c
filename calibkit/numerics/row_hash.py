"""Hashes of rows, whose sum is a fingerprint of data, whatever the order and the cut of its rows.

Rows of checked numbers are what a model was fitted on; those of any columns what a file of states
holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from calibkit_kernels import hashes as kernels

Words = NDArray[np.uint64]

#: What stands for no value: the bits of no number that a file holds.
_NOTHING: Final = np.uint64(0x7FF8_6E75_6C6C_2121)
#: Rows hashed at a time: few enough to stay in the cache, and for memory that is there already.
_BLOCK = 12_288
#: Rows of a frame hashed at a time: texts are looked up in each block anew.
_FRAME_BLOCK: Final = 65_536


def row_hashes(
    columns: Mapping[str, NDArray[Any]],
    rows: slice = slice(None),
    before: NDArray[np.uint64] | None = None,
) -> NDArray[np.uint64]:
    """Return a 64-bit hash of each row over numeric columns.

    A value counts as the float64 that equals it, so the hash does not depend on the dtype in which
    a file holds it; a column counts by its role (the key), not by its place.  `before` has the hashes
    over columns of lesser roles.
    """
    hashes = np.zeros(0, np.uint64) if before is None else before.copy()
    for role, values in sorted(columns.items()):
        words = values[rows].astype(np.float64).view(np.uint64)
        if hashes.size == 0:
            hashes = np.zeros(words.size, np.uint64)
        salt = np.uint64(int.from_bytes(role.encode()[:8].ljust(8, b"\0"), "little"))
        kernels.absorb(hashes, words, salt)
    return hashes


def data_hash(columns: Mapping[str, NDArray[Any]], times: NDArray[np.int64] | None = None) -> str:
    """Return the sum of the row hashes modulo 2^64, as 16 hexadecimal digits.

    `times` says how often each row occurs; None: once.
    """
    size = next(iter(columns.values())).size
    total = 0
    for start in range(0, size, _BLOCK):
        rows = slice(start, start + _BLOCK)
        hashes = row_hashes(columns, rows)
        if times is not None:
            hashes *= times[rows].view(np.uint64)
        total += int(hashes.sum())
    return hash_text(total)


def data_hashes(columns: Mapping[str, NDArray[Any]], role: str) -> tuple[str, str]:
    """Return the hashes of the rows over all columns and over those but one, not the first."""
    first = {name: values for name, values in columns.items() if name < role}
    rest = {name: values for name, values in columns.items() if name > role}
    whole = without = 0
    for start in range(0, columns[role].size, _BLOCK):
        rows = slice(start, start + _BLOCK)
        before = row_hashes(first, rows)
        whole += int(row_hashes({role: columns[role], **rest}, rows, before).sum())
        without += int(row_hashes(rest, rows, before).sum())
    return hash_text(whole), hash_text(without)


def hash_text(total: int) -> str:
    """Return a sum of row hashes modulo 2^64, as 16 hexadecimal digits."""
    return f"{total % 2**64:016x}"


def merge_hashes(hashes: Iterable[str]) -> str:
    """Return the hash of the rows of all hashes together."""
    return hash_text(sum(int(own, 16) for own in hashes))


def random_parts(columns: Mapping[str, NDArray[Any]], parts: int, seed: int) -> NDArray[np.uint8]:
    """Deal rows to parts one by one, by the hash of a row and its number among identical rows.

    For weights that are no numbers of rows, where a tally cannot be dealt by counts.
    """
    return (random_keys(columns, seed) % np.uint64(parts)).astype(np.uint8)


def random_keys(columns: Mapping[str, NDArray[Any]], seed: int) -> NDArray[np.uint64]:
    """Return the hash of each row, its number among identical rows and a seed."""
    hashes = row_hashes(columns)
    order = np.argsort(hashes, kind="stable")
    ordered = hashes[order]
    starts = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
    sizes = np.diff(np.append(starts, ordered.size))
    number = np.empty(ordered.size, np.uint64)
    number[order] = np.arange(ordered.size) - np.repeat(starts, sizes)
    # Scrambled: added to the row number as it is, neighbouring seeds would deal alike.
    kernels.absorb(hashes, number, np.uint64(kernels.mix(np.uint64(seed))))  # numba returns an int
    return hashes


def hash_rows(frame: pl.DataFrame) -> int:
    """Return the sum modulo 2^64 of a hash of each row.

    A number counts as the float64 nearest to it, a category as its text, a list as its values; a
    column counts by its name, wherever it stands.
    """
    total = 0
    for start in range(0, frame.height, _FRAME_BLOCK):
        block = frame.slice(start, _FRAME_BLOCK)
        hashes = np.zeros(block.height, np.uint64)
        for name in sorted(block.columns):
            kernels.absorb(hashes, _words(block[name]), _of_text(name))
        total += int(hashes.sum())
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
        kernels.absorb(hashes, _words(column.gather(long).list.get(place)), np.uint64(place))
        words[long] = hashes
    return words


def _of_text(text: str | bytes) -> np.uint64:
    data = text.encode() if isinstance(text, str) else text
    return np.uint64(int.from_bytes(blake2b(data, digest_size=8).digest(), "little"))
