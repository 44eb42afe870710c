"""An order of rows that depends on what they hold alone: sums in it are the same for any file."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibkit.provenance import row_hashes


def canonical_order(*matrices: NDArray[Any]) -> NDArray[np.int64]:
    """Return the order of rows by a hash of their numbers; equal rows are next to each other."""
    order: NDArray[np.int64] = np.argsort(hashes(*matrices), kind="stable")
    return order


def hashes(*matrices: NDArray[Any]) -> NDArray[np.uint64]:
    """Return a hash of each row over the columns of all matrices."""
    columns = {
        f"{place:x}.{column:x}": matrix[:, column]
        for place, matrix in enumerate(matrices)
        for column in range(matrix.shape[1])
    }
    return row_hashes(columns)


def block_parts(rows: int, threads: int) -> Sequence[slice]:
    """Return equal parts of rows, one a thread."""
    edges = [rows * part // threads for part in range(threads + 1)]
    return [slice(low, high) for low, high in pairwise(edges) if low < high]
