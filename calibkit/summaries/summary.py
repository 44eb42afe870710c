"""What a summary is: rows of any number, folded into what a result needs of them.

A `Summary` takes rows by ``add``.  What it has found at the end, ``finish``, knows how to ``merge``
with what others found of other rows; it is a function of the set of rows, so that no order, no cut
into batches and no grouping of merges changes a bit of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, Self, TypeVar


class Found(Protocol):
    """What is known of some rows."""

    def merge(self, *others: Self) -> Self:
        """Return what is known of the rows of all; none of them changes."""


B = TypeVar("B", contravariant=True)
F = TypeVar("F", bound=Found)
F_co = TypeVar("F_co", bound=Found, covariant=True)


class Summary(Protocol[B, F_co]):
    """Takes rows as they come."""

    def add(self, batch: B, /) -> None:
        """Add rows."""

    def finish(self) -> F_co:
        """Return what was found."""


def summed(summary: Summary[B, F], batches: Iterable[B]) -> F:
    """Return what a summary finds in all batches."""
    for batch in batches:
        summary.add(batch)
    return summary.finish()


def merge_all(parts: Iterable[F]) -> F:
    """Return what is known of the rows of all parts, of which there is one at least."""
    first, *others = parts
    return first.merge(*others)
