"""Fingerprints of data: what a model was fitted on, whatever the order of its rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibkit_kernels import digest

#: Rows hashed at a time: few enough to stay in the cache, and for memory that is there already.
_BLOCK = 12_288


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
        digest.absorb(hashes, words, salt)
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
        total += int(digest.total(hashes))
    return hash_text(total)


def data_hashes(columns: Mapping[str, NDArray[Any]], role: str) -> tuple[str, str]:
    """Return the hashes of the rows over all columns and over those but one, not the first."""
    first = {name: values for name, values in columns.items() if name < role}
    rest = {name: values for name, values in columns.items() if name > role}
    whole = without = 0
    for start in range(0, columns[role].size, _BLOCK):
        rows = slice(start, start + _BLOCK)
        before = row_hashes(first, rows)
        whole += int(digest.total(row_hashes({role: columns[role], **rest}, rows, before)))
        without += int(digest.total(row_hashes(rest, rows, before)))
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
    hashes = row_hashes(columns)
    order = np.argsort(hashes, kind="stable")
    ordered = hashes[order]
    starts = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
    sizes = np.diff(np.append(starts, ordered.size))
    number = np.empty(ordered.size, np.uint64)
    number[order] = np.arange(ordered.size) - np.repeat(starts, sizes)
    # Scrambled: added to the row number as it is, neighbouring seeds would deal alike.
    digest.absorb(hashes, number, np.uint64(digest.mix(np.uint64(seed))))  # numba returns an int
    return (hashes % np.uint64(parts)).astype(np.uint8)
