"""Work on the batches of some rows: several at a time, in order, and with errors about all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from calibkit.columns.rows import NothingLeft, OffendingRows
from calibkit.runtime.threads import in_order
from calibkit.summaries.summary import merge_all

T = TypeVar("T")
R = TypeVar("R")


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
