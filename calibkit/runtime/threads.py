"""How many threads a command may use, and what they do beside each other."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


def thread_count(wanted: int | None) -> int:
    """Return the number of threads wanted: at most, and by default, one a processor of this process."""
    if wanted is not None:
        return min(wanted, thread_count(None))
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def later(threads: int, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> Callable[[], R]:
    """Return a function that gives the result of some work.

    With more than one thread the work begins at once, beside what the caller does; with one it is
    done when its result is asked for.
    """
    if threads == 1:
        return cache(lambda: work(*args, **kwargs))
    pool = ThreadPoolExecutor(1)
    future = pool.submit(work, *args, **kwargs)
    pool.shutdown(wait=False)
    return future.result


def in_order(threads: int, work: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
    """Yield the result of some work on each item, in the order of the items.

    The threads work on that many items at a time; items are taken from the caller's thread, one
    more than there are threads ahead of the result that is waited for.
    """
    if threads == 1:
        yield from map(work, items)
        return
    begun: deque[Future[R]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        try:
            for item in items:
                begun.append(pool.submit(work, item))
                if len(begun) > threads:
                    yield begun.popleft().result()
            while begun:
                yield begun.popleft().result()
        finally:
            for future in begun:
                future.cancel()


@contextmanager
def one_behind(threads: int, work: Callable[[T], None]) -> Iterator[Callable[[T], None]]:
    """Give a function that does some work on one item after the other.

    With more than one thread it returns while the work goes on, beside what the caller does to make
    the next item; an error then comes with a later item, or at the end of the block.
    """
    if threads == 1:
        yield work
        return
    begun: deque[Future[None]] = deque()

    def hand_on(item: T) -> None:
        while begun:
            begun.popleft().result()
        begun.append(pool.submit(work, item))

    with ThreadPoolExecutor(1) as pool:
        yield hand_on
        while begun:
            begun.popleft().result()


def warm_up() -> None:
    """Load what the first kernel of a process needs: a fifth of a second, of the interpreter alone.

    Begun before a file is read, it costs nothing, since polars reads without the interpreter.
    """
    from calibkit_kernels.exact import compare_products

    compare_products(1, 1, 1, 1)
