"""The engine that works here, on one item after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Self, TypeVar

from calibkit.engines.protocol import Divided, Done, merged_parts, settled
from calibkit.progress import Progress, silent

T = TypeVar("T")

#: Results that are merged at a time.
_FAN: Final = 8


class SerialEngine:
    """Works in this process; see `calibkit.engines.protocol.Engine`."""

    at_once = 1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """Do nothing: nothing was begun."""

    def fold(
        self,
        task: Callable[[T], Done],
        merge: Callable[[Sequence[Done]], Done],
        items: Sequence[T | Divided[T]],
        progress: Progress = silent,
    ) -> Done:
        """Merge the results a few at a time, so that few are held."""
        held: list[Done] = []
        rows = 0
        for place, item in enumerate(items, start=1):
            held.append(_worked(task, merge, item))
            rows += held[-1].rows
            progress(rows, rows * len(items) // place)
            if len(held) == _FAN:
                held = [merge(held)]
        return merge(held) if len(held) > 1 else held[0]

    def each(
        self, task: Callable[[T], Done], items: Sequence[T], progress: Progress = silent
    ) -> list[Done]:
        """Return the result of each item."""
        found: list[Done] = []
        rows = 0
        for item in items:
            found.append(task(item))
            rows += found[-1].rows
            progress(rows, rows * len(items) // len(found))
        return found


def _worked(
    task: Callable[[T], Done], merge: Callable[[Sequence[Done]], Done], item: T | Divided[T]
) -> Done:
    if not isinstance(item, Divided):
        return task(item)
    return settled(task, item.whole, merged_parts(merge, [task(part) for part in item.parts]))
