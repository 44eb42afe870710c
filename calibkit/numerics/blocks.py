"""Sums over a tally in blocks: as many threads as wanted, always the same result.

Blocks are cut at fixed places; the kernel sums each in score order, and the sums of blocks are
added exactly (`math.fsum`), so neither threads nor the order in which they end shows in a result.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: Entries of a block: small enough to balance four threads, large enough to hide the call.
BLOCK = 131_072

Results = list[tuple[Any, ...]]


def cut(low: int, high: int) -> list[slice]:
    """Return the blocks of a stretch of a tally."""
    edges = [low, *range((low // BLOCK + 1) * BLOCK, high, BLOCK), high]
    return [slice(first, last) for first, last in itertools.pairwise(edges) if last > first]


def each_block(
    kernel: Callable[..., Any],
    arrays: Sequence[NDArray[Any]],
    blocks: Sequence[slice],
    threads: int,
    given: Iterable[tuple[Any, ...]] | None = None,
) -> list[Any]:
    """Return what a kernel gives for each block of some arrays, in the order of the blocks.

    `given` has what the kernel takes besides, for each block.
    """
    more = [()] * len(blocks) if given is None else list(given)
    cuts = [
        (*(array[block] for array in arrays), *rest)
        for block, rest in zip(blocks, more, strict=True)
    ]
    if threads == 1 or len(blocks) < 2:
        return list(itertools.starmap(kernel, cuts))
    with ThreadPoolExecutor(min(threads, len(blocks))) as pool:
        return list(pool.map(kernel, *zip(*cuts, strict=True)))


def added(results: Sequence[Sequence[Any]]) -> tuple[Any, ...]:
    """Return the sums of the columns of some results: integers and floats, both exactly.

    What Python's own `sum` makes of floats depends on its version.
    """
    return tuple(
        sum(map(int, column))
        if all(isinstance(one, int | np.integer) for one in column)
        else math.fsum(column)
        for column in zip(*results, strict=True)
    )
