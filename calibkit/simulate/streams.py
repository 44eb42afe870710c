"""Rows made up in blocks, each from random streams of its own.

The rows come in blocks of fixed size, each from streams of a counter-based generator that is
addressed by seed, variable and block.  So row i does not depend on how many rows are made, and the
blocks of a simulation larger than memory can be made one by one, in any order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
import polars as pl

from calibkit.errors import UsageError, nearest
from calibkit.options.option import listed
from calibkit.options.simulate import SimulateOptions

#: Rows of a block; part of what a seed means.
BLOCK_ROWS = 1 << 16


def simulated(
    options: SimulateOptions,
    columns: Sequence[str],
    block: Callable[[int, int, Sequence[str]], dict[str, Any]],
) -> pl.DataFrame:
    """Return the rows of a simulation, and of its columns those that are kept, in their own order.

    `block` makes the values of some columns, given the number of a block, its rows, and what is
    kept; ``id`` is the number of the row.  A pattern of columns that matches nothing is a `UsageError`.
    """
    patterns = listed(options.keep or "*")
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in columns):
            raise UsageError(
                f"no column {pattern!r}{nearest(pattern, columns)}; the simulation "
                f"has {', '.join(columns)}."
            )
    kept = [name for name in columns if any(fnmatchcase(name, one) for one in patterns)]
    frames = []
    for number, start in enumerate(range(0, options.rows, BLOCK_ROWS)):
        size = min(BLOCK_ROWS, options.rows - start)
        values = block(number, size, kept)
        values["id"] = np.arange(start + 1, start + size + 1, dtype=np.int64)
        frames.append(pl.DataFrame({name: values[name] for name in kept}))
    return pl.concat(frames, rechunk=True)
