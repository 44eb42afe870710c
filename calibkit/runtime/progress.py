"""How far a run has come: told by what does the work, shown by whoever listens.

One listener a process: the command line's, where somebody looks; nobody listens to the library.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from msgspec import Struct

T = TypeVar("T")

#: Called with how much is done, of how much, and what of: rows, bytes, trees, candidates.  A pass over
#: the rows that begins again begins again at a smaller number.
Listener = Callable[[int, int, str], None]

_listeners: list[Listener] = []


def listen(listener: Listener | None) -> None:
    """Have one listener told from now on, in place of the one before; None: nobody."""
    _listeners[:] = [] if listener is None else [listener]


def tell(done: int, total: int, what: str = "rows") -> None:
    """Tell who listens how far the run has come."""
    for listener in _listeners:
        listener(done, total, what)


class Count(Struct):
    """Counts the rows of frames as they pass."""

    rows: int = 0

    def passing(self, frames: Iterable[Any]) -> Iterator[Any]:
        """Yield frames as they come."""
        for frame in frames:
            self.rows += frame.height
            yield frame


def steps(items: Iterable[T], total: int, what: str) -> Iterator[T]:
    """Yield the steps of a longer work, and tell before each how many are done."""
    for done, item in enumerate(items):
        tell(done, total, what)
        yield item
    tell(total, total, what)
