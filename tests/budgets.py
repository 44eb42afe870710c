"""A memory budget so small that the rows of a test do not fit: the floors of budgets, lowered.

However little ``--memory`` names, a fit has room for some thousands of rows, because that much is
always there.  Tests have fewer; they lower these floors, within this process alone::

    said = invoke("hetcal", rows, *options, "-o", plain)
    with little_memory(40) as budget:            # 40 rows fit, of any number of columns
        said = invoke("hetcal", rows, *options, *budget, "-o", squeezed)
    assert squeezed.read_bytes() == plain.read_bytes()

Functions of the library take `the_least()` in its stead, within the same ``with``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from unittest import mock

from calibkit.memory import Memory, memory_budget

#: What the floors become where so many rows fit.  A new floor of any module belongs here.
FLOORS = {
    "calibkit.memory._FEWEST_ROWS": lambda rows: rows,
    "calibkit.memory.FEWEST_ENTRIES": lambda rows: rows,
    "calibkit.memory._LEAST_ROOM": lambda rows: 128 * rows,
    "calibkit.memory._MOST_BATCH": lambda rows: max(2, rows // 2),
    "calibkit.vad.summary._FEWEST_ROWS": lambda rows: rows,
    "calibkit.applying._FEWEST_ROWS": lambda rows: rows,
}

#: A size below all floors, so that they alone count; text files are larger than an eighth of it.
SIZE = "1KB"


@contextmanager
def little_memory(rows: int) -> Iterator[list[str]]:
    """Let so many rows fit into memory, and no more; give the options that ask for it."""
    with ExitStack() as stack:
        for place, floor in FLOORS.items():
            stack.enter_context(mock.patch(place, floor(rows)))
        yield ["--memory", SIZE]


def the_least() -> Memory:
    """Return the budget that holds as little as the floors allow."""
    return memory_budget(SIZE)
