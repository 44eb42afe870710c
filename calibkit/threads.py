"""How many threads a command may use, and what they do beside each other."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def thread_count(wanted: int | None) -> int:
    """Return the number of threads wanted, by default one for each processor of this process."""
    if wanted is not None:
        return wanted
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


def warm_up() -> None:
    """Load what the first kernel of a process needs: a fifth of a second, of the interpreter alone.

    Begun before a file is read, it costs nothing, since polars reads without the interpreter.
    """
    from calibkit_kernels.exact import compare_products

    compare_products(1, 1, 1, 1)
