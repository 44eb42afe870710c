"""Isotonic regression of a sorted tally in blocks: pools of adjacent violators, exactly."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from calibkit_kernels import reliability

_ONE_EACH = np.empty(0, np.int64)


def pool(parts: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Return the pools of several stretches, by falling score, from the pools of each."""
    if len(parts) < 2:
        return parts[0] if parts else np.empty((0, 3), np.int64)
    rows, hits, entries = np.ascontiguousarray(np.concatenate(parts).T)
    return _pool_arrays(rows, hits, entries)


def pool_block(count: NDArray[np.int64], positive: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the pools of one stretch of a tally."""
    return _pool_arrays(count, positive, _ONE_EACH)


def _pool_arrays(
    count: NDArray[np.int64], positive: NDArray[np.int64], entries: NDArray[np.int64]
) -> NDArray[np.int64]:
    out = np.empty((count.size, 3), np.int64)
    return out[: reliability.pool_rates(count, positive, entries, out)].copy()
