"""What an engine does: work on files by themselves, and put what comes of it together.

The work is described by a function and its items, both of which may travel to other machines: file
names go out, summaries come back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Generic, Protocol, Self, TypeVar

from calibkit.errors import (
    CalibkitError,
    DataError,
    InfeasibleError,
    ResourceError,
    UsageError,
)
from calibkit.progress import Progress, silent

T = TypeVar("T")

_CLASSES = (UsageError, DataError, InfeasibleError, ResourceError)


@dataclass(frozen=True)
class Done:
    """What comes of an item: how many rows it had, data that can be merged, words for the caller.

    A part of a `Divided` item without data has failed, unless words say why there are none.
    """

    rows: int
    data: bytes = b""
    told: Any = None


@dataclass(frozen=True)
class Divided(Generic[T]):
    """An item in parts, which are worked on by themselves; where that fails, the `whole` is."""

    whole: T
    parts: tuple[T, ...]


class Engine(Protocol):
    """Does work on items: in a ``with`` block, which ends what it has begun.

    `fold` returns what `merge` makes of the results of all items, in groups whatever: it has to be
    associative and commutative.  `each` returns the results in the order of the items.  Both raise
    what the work on an item raised, and a `ResourceError` where the machines have failed.
    """

    @property
    def at_once(self) -> int:
        """How many items are worked on at a time."""

    def __enter__(self) -> Self:
        """Begin."""

    def __exit__(self, *error: object) -> None:
        """End: nothing goes on afterwards."""

    def fold(
        self,
        task: Callable[[T], Done],
        merge: Callable[[Sequence[Done]], Done],
        items: Sequence[T | Divided[T]],
        progress: Progress = silent,
    ) -> Done:
        """Return the merged results of all items."""

    def each(
        self, task: Callable[[T], Done], items: Sequence[T], progress: Progress = silent
    ) -> list[Done]:
        """Return the result of each item."""


def parts_of(item: T | Divided[T]) -> tuple[T, ...]:
    """Return what is worked on by itself of an item."""
    return item.parts if isinstance(item, Divided) else (item,)


def merged_parts(merge: Callable[[Sequence[Done]], Done], parts: Sequence[Done]) -> Done:
    """Return what parts of one item come to: nothing, if one has failed or they do not agree."""
    if all(part.data or part.told is not None for part in parts):
        with suppress(CalibkitError):
            return merge(parts)
    return Done(sum(part.rows for part in parts))


def settled(task: Callable[[T], Done], whole: T, done: Done) -> Done:
    """Return the result of an item's parts, or where these have failed that of the whole item.

    Only the whole tells what is wrong with it, how often and where; and whether anything is.
    """
    return done if done.data else task(whole)


class ShardError(Exception):
    """An error of the library on its way between machines, as plain values."""

    def __init__(self, content: dict[str, object]) -> None:
        super().__init__(content)
        self.content = content


def guarded(task: Callable[[T], Done], item: T) -> Done:
    """Do some work where its errors have to travel: what they know comes along.

    Raises
    ------
    ShardError
        For an error of the library, or memory that ran out.
    """
    try:
        return task(item)
    except CalibkitError as error:
        raise ShardError(error.as_dict()) from None
    except MemoryError:
        message = "memory ran out on a worker; give it less at a time by --memory"
        raise ShardError({"code": ResourceError.code, "message": message}) from None


def arrived(error: ShardError) -> CalibkitError:
    """Return the error of the library that has travelled."""
    known = {kind.code: kind for kind in _CLASSES}
    content = dict(error.content)
    kind = known.get(int(str(content.pop("code", 0))), CalibkitError)
    return kind(str(content.pop("message", "")), **content)  # type: ignore[arg-type]  # as `as_dict`
