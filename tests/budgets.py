"""A memory budget so small that the rows of a test do not fit: the floors of budgets, lowered.

However little ``--memory`` names, a fit has room for some thousands of rows, because that much is
always there.  Tests have fewer; they lower these floors, within this process alone::

    said = invoke("hetcal", rows, *options, "-o", plain)
    with little_memory(40) as budget:        # 40 rows fit, and a table of 40 entries
        said = invoke("hetcal", rows, *options, *budget, "-o", squeezed)
    assert squeezed.read_bytes() == plain.read_bytes()

Functions of the library take `the_least()` in its stead, within the same ``with``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from unittest import mock

from calibkit.runtime.memory import Memory, memory_budget

#: A size below all floors, so that they alone count; text files are larger than an eighth of it.
SIZE = "1KB"


def floors(rows: int, entries: int) -> dict[str, int]:
    """Return what the floors become.  A new floor of any module belongs here."""
    return {
        "calibkit.runtime.memory._FEWEST_ROWS": rows,
        "calibkit.runtime.memory.FEWEST_ENTRIES": entries,
        "calibkit.runtime.memory._LEAST_ROOM": 128 * rows,
        "calibkit.runtime.memory._MOST_BATCH": max(2, rows // 2),
        "calibkit.methods.vad.moments._FEWEST_ROWS": rows,
        "calibkit.apply.apply._FEWEST_ROWS": rows,
    }


@contextmanager
def little_memory(rows: int, entries: int | None = None) -> Iterator[list[str]]:
    """Let so many rows and table entries fit into memory; give the options that ask for it."""
    with ExitStack() as stack:
        for place, floor in floors(rows, entries or rows).items():
            stack.enter_context(mock.patch(place, floor))
        yield ["--memory", SIZE]


def the_least() -> Memory:
    """Return the budget that holds as little as the floors allow."""
    return memory_budget(SIZE)
