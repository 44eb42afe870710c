"""How far a run has come: told by what goes through rows, shown by whoever asked to be told."""

from __future__ import annotations

from collections.abc import Callable

#: Called with the number of rows done and the number of all, after each batch or shard; a pass over
#: the rows that begins again begins again at a smaller number.
Progress = Callable[[int, int], None]


def silent(done: int, total: int) -> None:
    """Tell nobody."""
