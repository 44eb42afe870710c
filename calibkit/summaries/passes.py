"""Passes over the rows of a source: all of them at once where they fit, else window by window."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, Generic, TypeVar

from calibkit.columns.rows import NothingLeft, OffendingRows, Remark, merge_remarks
from calibkit.files.sources import Source
from calibkit.runtime.memory import Memory
from calibkit.runtime.threads import in_order
from calibkit.summaries.summary import merge_all

T = TypeVar("T")
R = TypeVar("R")

#: Into how many windows as many rows as there is room for are cut: each is read, checked, worked on.
_PARTS: Final = 4


class Passes(Generic[T]):
    """The rows of a source, as often as they are gone through.

    Iterating it is one pass: it yields what `read` makes of each window, in the order of the inputs.
    Rows that fit into the memory are one window, which is read once and kept.

    Parameters
    ----------
    source, columns
        The inputs, and which of their columns are read.
    read
        Reads and checks the rows of the inputs, or of a window of them (`Source.whole` tells).
    memory
        How much room there is; None: enough.

    Attributes
    ----------
    whole
        Whether all rows are one window.
    dropped, remarks
        How many rows stood in windows of which nothing was left, and why; known after a pass.

    Raises
    ------
    UsageError, DataError
        As the reader, while a pass goes on; values that offend are counted over all windows.
    NothingLeft
        Where nothing was left of any window.
    """

    def __init__(
        self,
        source: Source,
        columns: Sequence[str],
        read: Callable[[Source], T],
        memory: Memory | None,
    ) -> None:
        self.source, self.columns = source, list(dict.fromkeys(columns))
        self.whole = memory is None or source.rows <= memory.rows_of(len(self.columns))
        self.dropped, self.remarks = 0, tuple[Remark, ...]()
        self._read, self._memory = read, memory
        self._kept: list[T] = []

    def __iter__(self) -> Iterator[T]:
        if self.whole:
            self._kept = self._kept or [self._read(self.source)]
            yield from self._kept
            return
        assert self._memory is not None
        rows = min(self._memory.batch, self._memory.rows_of(len(self.columns)) // _PARTS)
        lost: list[NothingLeft] = []
        some = False
        for window in read_in_windows(self.source, self.columns, rows, self._read):
            if isinstance(window, NothingLeft):
                lost.append(window)
                continue
            some = True
            yield window
        self.dropped = sum(one.rows or 0 for one in lost)
        self.remarks = merge_remarks(remark for one in lost for remark in one.remarks)
        if not some:
            raise NothingLeft(self.source.parts[0].path, self.dropped, self.remarks)

    def release(self) -> None:
        """Let go of rows that were kept: no further pass will be made."""
        self._kept = []


def read_in_windows(
    source: Source, columns: Sequence[str], rows: int, read: Callable[[Source], T]
) -> Iterator[T | NothingLeft]:
    """Yield what a reader makes of each window of a source; see `work_through`."""
    return work_through(1, read, source.windows(columns, rows=rows), columns)


def work_through(
    threads: int, work: Callable[[T], R], batches: Iterable[T], columns: Sequence[str]
) -> Iterator[R | NothingLeft]:
    """Yield the result of some work on each batch, or that nothing was left of it, in order.

    Parameters
    ----------
    threads
        How many batches are worked on at a time.
    work
        Raises `NothingLeft` where all rows of a batch were dropped.
    batches
        Taken in the caller's thread.
    columns
        The columns in the order in which they are checked: of offending rows in several columns
        those in the first one are reported, as they are where all rows are one batch.

    Raises
    ------
    OffendingRows
        Counted over all batches; once one has such rows no more results come.
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
