"""Passes over the rows of a source: all of them at once where they fit, else window by window.

What is found in windows merges.  It is a function of the set of rows, so that no order, no cut into
windows and no grouping of merges changes a bit of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, Generic, Protocol, Self, TypeVar

from calibkit.columns.rows import NothingLeft, OffendingRows, Remark, merge_remarks
from calibkit.files.sources import Source
from calibkit.runtime.memory import Memory
from calibkit.runtime.threads import in_order

T = TypeVar("T")
R = TypeVar("R")

F = TypeVar("F", bound="Found")

#: Into how many windows as many rows as there is room for are cut: each is read, checked, worked on.
_PARTS: Final = 4


class Passes(Generic[T]):
    """The rows of a source, as often as they are gone through.

    Iterating it is one pass: it yields what `read` makes of each window, in the order of the inputs.
    Rows that fit into the memory (None: all do) are one window, which is read once and kept: they are
    `whole`; unless windows of so many `rows` are asked for, on which several threads may work.  What
    offends is counted over all windows; `NothingLeft` comes where nothing was left of any.  After a
    pass `dropped` and `remarks` say how many rows stood in windows of which nothing was left, and why.
    """

    def __init__(
        self,
        source: Source,
        columns: Iterable[str],
        read: Callable[[Source], T],
        memory: Memory | None,
        *,
        rows: int | None = None,
        threads: int = 1,
    ) -> None:
        self.source, self.columns = source, list(dict.fromkeys(columns))
        room = source.rows if memory is None else memory.rows_of(len(self.columns))
        self.whole, self.threads = rows is None and source.rows <= room, threads
        if rows is None and memory is not None:
            rows = min(memory.batch, room // _PARTS)
        self.dropped, self.remarks = 0, tuple[Remark, ...]()
        self._read, self._rows = read, rows
        self._kept: list[T] = []

    def __iter__(self) -> Iterator[T]:
        if self.whole:
            self._kept = self._kept or [self._read(self.source)]
            yield from self._kept
            return
        lost: list[NothingLeft] = []
        some = False
        windows = self.source.windows(self.columns, rows=self._rows)
        for window in work_through(self.threads, self._read, windows, self.columns):
            if isinstance(window, NothingLeft):
                lost.append(window)
            else:
                some = True
                yield window
        self.dropped = sum(one.rows or 0 for one in lost)
        self.remarks = merge_remarks(remark for one in lost for remark in one.remarks)
        if not some:
            raise NothingLeft(self.source.file, self.dropped, self.remarks)

    def release(self) -> None:
        """Let go of rows that were kept: no further pass will be made."""
        self._kept = []


def work_through(
    threads: int, work: Callable[[T], R], batches: Iterable[T], columns: Sequence[str]
) -> Iterator[R | NothingLeft]:
    """Yield the result of some work on each batch, or that nothing was left of it, in order.

    Batches are taken in the caller's thread, and worked on as many at a time as there are threads.
    `OffendingRows` are counted over all batches; once one has such rows no more results come.  Of
    those in several columns the ones in the first of `columns` are reported, as they are where all
    rows are one batch.
    """

    def attempt(batch: T) -> R | NothingLeft | OffendingRows:
        try:
            return work(batch)
        except (NothingLeft, OffendingRows) as error:
            return error

    failures: list[OffendingRows] = []
    for result in in_order(threads, attempt, batches):
        if isinstance(result, OffendingRows):
            failures.append(result)
        elif not failures:
            yield result
    if failures:
        order = {name: place for place, name in enumerate(columns)}
        failures.sort(key=lambda error: order.get(str(error.column), len(order)))
        raise merge_all(failures)


class Found(Protocol):
    """What is known of some rows."""

    def merge(self, *others: Self) -> Self:
        """Return what is known of the rows of all; none of them changes."""


def merge_all(parts: Iterable[F]) -> F:
    """Return what is known of the rows of all parts, of which there is one at least."""
    first, *others = parts
    return first.merge(*others)
