"""What summaries have in common: those of parts of the rows merge to the summary of all.

A summary is a function of the set of rows, so that no order, no cut into batches and no grouping of
merges changes a bit of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, Self, TypeVar


class Found(Protocol):
    """What is known of some rows."""

    def merge(self, *others: Self) -> Self:
        """Return what is known of the rows of all; none of them changes."""


F = TypeVar("F", bound=Found)


def merge_all(parts: Iterable[F]) -> F:
    """Return what is known of the rows of all parts, of which there is one at least."""
    first, *others = parts
    return first.merge(*others)
