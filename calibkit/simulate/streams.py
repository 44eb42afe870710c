"""Rows made up in blocks, each from random streams of its own.

The rows come in blocks of fixed size, each from streams of a counter-based generator that is
addressed by seed, variable and block.  So row i does not depend on how many rows are made, and the
blocks of a simulation larger than memory can be made one by one, in any order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase

from calibkit.errors import UsageError, nearest

#: Rows of a block; part of what a seed means.
BLOCK_ROWS = 1 << 16


def block_sizes(rows: int) -> Iterator[tuple[int, int]]:
    """Yield the number and the size of each block of some rows."""
    for block, start in enumerate(range(0, rows, BLOCK_ROWS)):
        yield block, min(BLOCK_ROWS, rows - start)


def kept_columns(columns: Sequence[str], keep: Sequence[str] | None) -> list[str]:
    """Return the columns that patterns (shell globs) keep, in their own order; None keeps all.

    Raises
    ------
    UsageError
        A pattern that matches nothing.
    """
    if keep is None:
        return list(columns)
    for pattern in keep:
        if not any(fnmatchcase(name, pattern) for name in columns):
            raise UsageError(
                f"no column {pattern!r}{nearest(pattern, columns)}; the simulation "
                f"has {', '.join(columns)}."
            )
    return [name for name in columns if any(fnmatchcase(name, pattern) for pattern in keep)]
