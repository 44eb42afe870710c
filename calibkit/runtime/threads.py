"""How many threads a command may use, and what they do beside each other."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import TYPE_CHECKING, ParamSpec, TypeVar

if TYPE_CHECKING:
    from concurrent.futures import Future

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


#: Rows on which one thread is as fast as two.
_FEW = 2**17


def thread_count(wanted: int | None) -> int:
    """Return the number of threads wanted: at most, and by default, one a processor of this process."""
    if wanted is not None:
        return min(wanted, thread_count(None))
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def threads_for(rows: int, threads: int) -> int:
    """Return how many threads work on so many rows, or distinct rows: one where they are few.

    What kernels take of them is then less than what the interpreter takes, which threads share.
    """
    return threads if rows > _FEW else 1


def later(threads: int, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> Callable[[], R]:
    """Return a function that gives the result of some work.

    With more than one thread the work begins at once, beside what the caller does; with one it is
    done when its result is asked for.
    """
    if threads == 1:
        return cache(lambda: work(*args, **kwargs))
    from concurrent.futures import ThreadPoolExecutor

    pool = ThreadPoolExecutor(1)
    future = pool.submit(work, *args, **kwargs)
    pool.shutdown(wait=False)
    return future.result


def in_order(
    threads: int, work: Callable[[T], R], items: Iterable[T], *, workers: int | None = None
) -> Iterator[R]:
    """Yield the result of some work on each item, in the order of the items.

    More than one thread work on that many items at a time, or on those of so many workers; items are
    taken from the caller's thread, one more than are worked on ahead of the result that is waited for.
    """
    if threads == 1:
        yield from map(work, items)
        return
    from concurrent.futures import ThreadPoolExecutor

    begun: deque[Future[R]] = deque()
    workers = workers or threads
    with ThreadPoolExecutor(workers) as pool:
        try:
            for item in items:
                begun.append(pool.submit(work, item))
                if len(begun) > workers:
                    yield begun.popleft().result()
            while begun:
                yield begun.popleft().result()
        finally:
            for future in begun:
                future.cancel()


def warm_up() -> None:
    """Load what the first kernel of a process needs: a tenth of a second, of the interpreter alone.

    Begun before a file is read, it costs nothing, since polars reads without the interpreter.
    """
    from calibkit_kernels.rates import compare_products

    compare_products(1, 1, 1, 1)
