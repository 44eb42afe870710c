"""An engine that works in this process: what others do is compared with it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from calibkit.engines.dask import DaskEngine, R, T


class LocalEngine(DaskEngine):
    """Works on one part after the other."""

    def __init__(self, at_once: int = 1) -> None:
        self._at_once = at_once

    @property
    def at_once(self) -> int:
        """As many workers as it says."""
        return self._at_once

    def map(self, function: Callable[[T], R], parts: Sequence[T]) -> Iterator[R]:
        """Yield the results."""
        return map(function, parts)

    def reduce(self, merge: Callable[[Sequence[R]], R], results: Iterable[R], room: float = 0) -> R:
        """Return the results as one, merged one after the other."""
        first, *others = results
        for other in others:
            first = merge([first, other])
        return first
