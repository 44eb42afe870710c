"""An engine that works in this process: what others do is compared with it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from calibkit.engines.engine import R, T
from calibkit.progress import Progress, silent


class LocalEngine:
    """Works on one part after the other; see `calibkit.engines.engine.Engine`."""

    def __init__(self, at_once: int = 1) -> None:
        self.at_once = at_once

    def map(
        self, function: Callable[[T], R], parts: Sequence[T], progress: Progress = silent
    ) -> Iterator[R]:
        """Yield the results."""
        rows = 0
        for place, part in enumerate(parts, start=1):
            found = function(part)
            rows += found.rows
            progress(rows, rows * len(parts) // place)
            yield found

    def reduce(self, merge: Callable[[Sequence[R]], R], results: Iterable[R], room: int = 0) -> R:
        """Return the results as one, merged one after the other."""
        first, *others = results
        for other in others:
            first = merge([first, other])
        return first
