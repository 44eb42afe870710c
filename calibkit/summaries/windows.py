"""Reading a source window by window, with the errors that all of it would have had."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from typing import TypeVar

from calibkit.files.sources import Source
from calibkit.rows.rows import NothingLeft, OffendingRows

T = TypeVar("T")


def read_in_windows(
    source: Source, columns: Sequence[str], rows: int, read: Callable[[Source], T]
) -> Iterator[T | NothingLeft]:
    """Yield what a reader makes of each window of a source, or that nothing was left of it.

    Raises
    ------
    DataError
        What the reader raises; values that offend are counted over all windows.
    """
    failures: list[OffendingRows] = []
    for window in source.windows(columns, rows=rows):
        try:
            found = read(window)
        except NothingLeft as nothing:
            yield nothing
        except OffendingRows as error:
            failures.append(error)
        else:
            if not failures:
                yield found
    if failures:
        order = {name: place for place, name in enumerate(columns)}
        failures.sort(key=lambda error: order.get(str(error.column), len(order)))
        raise reduce(OffendingRows.plus, failures)
