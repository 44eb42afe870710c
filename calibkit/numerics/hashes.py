"""Hashes of rows, and what chance decides.

Their sum is a fingerprint of data, whatever the order and the cut of its rows.  Rows of checked numbers
are what a model was fitted on; those of any columns what a file of states holds.

What chance decides comes from streams of random numbers, or for each row from its key.  A stream is
addressed by a seed and two numbers.  What is drawn for a row is a function of the seed, a purpose and
the row's key: so it depends neither on the order of the rows nor on their files, and equal rows, which
have keys of their own (`calibkit.summaries.row_store`), are drawn for apart.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from hashlib import blake2b
from typing import Any, Final, Literal

import numpy as np
import polars as pl

from calibkit.arrays import Int64s, Numbers, UInt8s, UInt64s, blocks, distinct_values
from calibkit_kernels import draws as kernels

#: What stands for no value: the bits of no number that a file holds.
_NOTHING: Final = np.uint64(0x7FF8_6E75_6C6C_2121)
#: Rows hashed at a time: few enough to stay in the cache, and for memory that is there already.
_BLOCK = 12_288
#: Rows of a frame hashed at a time: texts are looked up in each block anew.
_FRAME_BLOCK: Final = 65_536


def row_hashes(columns: Mapping[str, Numbers], rows: slice = slice(None)) -> UInt64s:
    """Return a 64-bit hash of each row over numeric columns.

    A value counts as the float64 that equals it, so the hash does not depend on the dtype in which
    a file holds it; a column counts by its role (the key), not by its place.
    """
    hashes = np.zeros(next(iter(columns.values()))[rows].size, np.uint64)
    for role, values in sorted(columns.items()):
        salt = np.uint64(int.from_bytes(role.encode()[:8].ljust(8, b"\0"), "little"))
        kernels.absorb(hashes, values[rows].astype(np.float64).view(np.uint64), salt)
    return hashes


def data_hash(columns: Mapping[str, Numbers], times: Int64s | None = None) -> str:
    """Return the sum of the row hashes modulo 2^64, as 16 hexadecimal digits.

    `times` says how often each row occurs; None: once.
    """
    size = next(iter(columns.values())).size
    total = 0
    for rows in blocks(size, _BLOCK):
        hashes = row_hashes(columns, rows)
        if times is not None:
            hashes *= times[rows].view(np.uint64)
        total += int(hashes.sum())
    return hash_text(total)


def hash_text(total: int) -> str:
    """Return a sum of row hashes modulo 2^64, as 16 hexadecimal digits."""
    return f"{total % 2**64:016x}"


def merge_hashes(hashes: Iterable[str]) -> str:
    """Return the hash of the rows of all hashes together."""
    return hash_text(sum(int(own, 16) for own in hashes))


def random_parts(columns: Mapping[str, Numbers], parts: int, seed: int) -> UInt8s:
    """Deal rows to parts one by one, by the hash of a row and its number among identical rows.

    For weights that are no numbers of rows, where a tally cannot be dealt by counts.
    """
    return (random_keys(columns, seed) % np.uint64(parts)).astype(np.uint8)


def random_keys(columns: Mapping[str, Numbers], seed: int) -> UInt64s:
    """Return the hash of each row, its number among identical rows and a seed."""
    hashes = row_hashes(columns)
    number = np.zeros(hashes.size, np.uint64)
    ordered = np.sort(hashes)
    several = distinct_values(ordered[1:][ordered[1:] == ordered[:-1]])
    if several.size:  # most rows are like no other one
        place = np.minimum(np.searchsorted(several, hashes), several.size - 1)
        rows = np.flatnonzero(several[place] == hashes)
        order = rows[np.argsort(hashes[rows], kind="stable")]
        starts = np.flatnonzero(np.append(True, hashes[order[1:]] != hashes[order[:-1]]))
        sizes = np.diff(np.append(starts, order.size))
        number[order] = np.arange(order.size) - np.repeat(starts, sizes)
    # Scrambled: added to the row number as it is, neighbouring seeds would deal alike.
    kernels.absorb(hashes, number, np.uint64(kernels.mix(np.uint64(seed))))  # numba returns an int
    return hashes


def hash_rows(frame: pl.DataFrame) -> int:
    """Return the sum modulo 2^64 of a hash of each row.

    A number counts as the float64 nearest to it, a category as its text, a list as its values; a
    column counts by its name, wherever it stands.
    """
    total = 0
    for block in frame.iter_slices(_FRAME_BLOCK):
        hashes = np.zeros(block.height, np.uint64)
        for name in sorted(block.columns):
            kernels.absorb(hashes, _words(block[name]), np.uint64(word_of(name)))
        total += int(hashes.sum())
    return total % 2**64


def _words(column: pl.Series) -> UInt64s:
    """Return 64 bits for each value."""
    kind = column.dtype
    if isinstance(kind, pl.List | pl.Array):
        return _of_lists(column.cast(pl.List(kind.inner)))
    if isinstance(kind, pl.Categorical | pl.Enum):
        column, kind = column.cast(pl.String), pl.String()
    if kind == pl.String or kind == pl.Binary:
        return np.array(
            by_value(column, lambda one: int(_NOTHING) if one is None else word_of(one), pl.UInt64)
        )
    numbers = column.to_physical().cast(pl.Float64)
    if numbers.null_count() == 0:  # spare half of the work
        return _bits(numbers)
    return np.where(numbers.is_null().to_numpy(), _NOTHING, _bits(numbers.fill_null(0.0)))


def by_value(
    column: pl.Series,
    number: Callable[[Any], Any],
    kind: type[pl.DataType],
    distinct: pl.Series | None = None,
) -> Numbers:
    """Return a number for each value, made once for each distinct one; these may be known."""
    distinct = column.unique() if distinct is None else distinct
    numbers = pl.Series([number(value) for value in distinct.to_list()], dtype=kind)
    found = column.replace_strict(distinct, numbers, return_dtype=kind)
    return found.cast(kind).to_numpy()  # of no row it is null


def _bits(numbers: pl.Series) -> UInt64s:
    return (numbers.to_numpy() + 0.0).view(np.uint64)  # not -0.0


def _of_lists(column: pl.Series) -> UInt64s:
    """Return a hash of the values of each list, and of how many there are."""
    sizes = column.list.len().fill_null(0).to_numpy().astype(np.int64)
    words = np.where(column.is_null().to_numpy(), _NOTHING, sizes.view(np.uint64))
    for place in range(int(sizes.max(initial=0))):
        long = np.flatnonzero(sizes > place)
        hashes = words[long]
        kernels.absorb(hashes, _words(column.gather(long).list.get(place)), np.uint64(place))
        words[long] = hashes
    return words


def word_of(text: str | bytes) -> int:
    """Return 64 bits that tell a text from others."""
    data = text.encode() if isinstance(text, str) else text
    return int.from_bytes(blake2b(data, digest_size=8).digest(), "little")


def text_numbers(texts: Iterable[str], order: Literal["little", "big"]) -> list[float]:
    """Return whole numbers that float64 holds, each a hash of a text, its bytes in an order."""
    digests = (blake2b(text.encode(), digest_size=6).digest() for text in texts)
    return [float(int.from_bytes(digest, order)) for digest in digests]


#: What is drawn: numbers that stand for purposes.
FOLD, BOOTSTRAP = 1, 2
_WORDS: Final = 2**64


def stream(seed: int, variable: int, block: int) -> np.random.Generator:
    """Return the random numbers of one variable in one block.

    The seed is the key of a counter-based generator; of its 256-bit counter the two upper words say
    which stream, and the two lower ones count.
    """
    return np.random.Generator(
        np.random.Philox(key=seed, counter=(block << 192) + (variable << 128))
    )


def salt_of(seed: int, purpose: int, number: int = 0) -> np.uint64:
    """Return what tells the draws of a seed, a purpose and a number (as of a tree) from others."""
    word = 0
    for part in (seed, purpose, number):
        word = int(kernels.mix(np.uint64((word + part) % _WORDS)))
        word = (word + 0x9E3779B97F4A7C15) % _WORDS
    return np.uint64(word)


def folds_of_keys(key: UInt64s, folds: int, seed: int) -> UInt8s:
    """Return the fold of each row, from 0: each with the same probability (at most 256 folds)."""
    out = np.empty(key.size, np.uint8)
    kernels.keyed_folds(key, salt_of(seed, FOLD), folds, out)
    return out


def poisson_of_keys(key: UInt64s, seed: int, number: int) -> UInt8s:
    """Return how often each row is drawn for the bootstrap sample of a number (Poisson, mean 1)."""
    # The words from which on there are 1, 2, ... events.
    share = total = math.exp(-1.0)
    steps: list[int] = []
    while int(total * _WORDS) < _WORDS - 1 and len(steps) < 20:
        steps.append(int(total * _WORDS))
        share /= len(steps)
        total += share
    out = np.empty(key.size, np.uint8)
    kernels.keyed_counts(key, salt_of(seed, BOOTSTRAP, number), np.array(steps, np.uint64), out)
    return out
