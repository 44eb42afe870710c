"""An order of rows that depends on what they hold alone: sums in it are the same for any file."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibkit.rows.provenance import row_hashes
from calibkit_kernels import digest

#: Rows hashed at a time, small enough to stay in the cache.
_BLOCK_ROWS = 16_384


def canonical_order(*matrices: NDArray[Any], threads: int = 1) -> NDArray[np.int64]:
    """Return the order of rows by a hash of their numbers; equal rows are next to each other."""
    order: NDArray[np.int64] = np.argsort(hashes(*matrices, threads=threads), kind="stable")
    return order


def folds_of(key: NDArray[np.uint64], folds: int, seed: int) -> NDArray[np.int64]:
    """Return the fold of each row, a function of the seed and the row's key."""
    words = key.copy()
    digest.absorb(words, np.zeros_like(key), np.uint64(digest.mix(np.uint64(seed))))
    return ((words >> np.uint64(32)) % np.uint64(folds)).astype(np.int64)


def hashes(*matrices: NDArray[Any], threads: int = 1) -> NDArray[np.uint64]:
    """Return a hash of each row over the columns of all matrices."""
    columns = {
        f"{place:x}.{column:x}": matrix[:, column]
        for place, matrix in enumerate(matrices)
        for column in range(matrix.shape[1])
    }
    rows = range(0, matrices[0].shape[0], _BLOCK_ROWS)
    blocks = [slice(low, low + _BLOCK_ROWS) for low in rows]
    with ThreadPoolExecutor(threads) as pool:
        return np.concatenate(list(pool.map(lambda block: row_hashes(columns, block), blocks)))
