"""What an engine does: `map` a function over parts, and `reduce` what comes of them to one result.

Functions and parts may travel to other machines: file names go out, summaries come back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, TypeVar

from calibkit.progress import Progress, silent

T = TypeVar("T")


class OfRows(Protocol):
    """What comes of a part."""

    @property
    def rows(self) -> int:
        """How many rows it is of."""


R = TypeVar("R", bound=OfRows)


class Engine(Protocol):
    """Works on parts; what the work on one raises is raised here, as it was."""

    @property
    def at_once(self) -> int:
        """How many parts are worked on at a time."""

    def map(
        self, function: Callable[[T], R], parts: Sequence[T], progress: Progress = silent
    ) -> Iterable[R]:
        """Return the results of all parts, in their order, as they are asked for."""

    def reduce(self, merge: Callable[[Sequence[R]], R], results: Iterable[R], room: int = 0) -> R:
        """Return the results of `map` as one: of so many rows merged here, else where they are."""
