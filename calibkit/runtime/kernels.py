"""Kernels compiled ahead, in processes beside each other, and who is told that one is compiled."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Compiled:
    """What was done about kernels; one is counted for each combination of types that it takes.

    Of all `kernels` some were `compiled` now, the others were found; the next process finds those
    `kept` in the folder, which is None where none can be written.
    """

    kernels: int
    compiled: int
    kept: int
    folder: str | None


def compile_all(threads: int, lines: Sequence[str] | None = None) -> Compiled:
    """Compile what no cache has: all that commands call, for 32-bit and 64-bit numbers, or `lines`.

    numba compiles one kernel at a time in a process, so there are as many processes as threads are
    asked for.
    """
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    from calibkit_kernels import _ahead, _jit

    if _jit.INTERPRETED:
        return Compiled(0, 0, 0, None)
    lines = _ahead.listed() if lines is None else lines
    if threads == 1:
        done = list(map(_ahead.compile_line, lines))
    else:
        # A fork would inherit threads that are not there.
        fresh = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(threads, fresh) as pool:
            done = list(pool.map(_ahead.compile_line, lines, chunksize=4))
    before, after = (sum(column) for column in zip(*done, strict=True))
    return Compiled(len(lines), len(lines) - before, after, _jit.FOLDER)


def tell_of_compiling(hear: Callable[[int], None] | None) -> None:
    """Have a function called before each kernel that is compiled, with how many were before it.

    Others are called no longer; with None nobody is.
    """
    import calibkit_kernels

    calibkit_kernels.before_compiling = hear
