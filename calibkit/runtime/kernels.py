"""Kernels compiled ahead, in processes beside each other, and who is told that one is compiled."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from msgspec import Struct

#: So many kernels that a command had to compile tell the types of its columns, and so all that follow;
#: it takes at most so many processes to compile them.
TELLING, MOST_PROCESSES = 3, 4
#: What a process that compiles takes, in bytes: a small container has no room for several.
_COMPILER = 300_000_000

#: Who is told that a kernel is compiled, and the processes that compile for this one.
_hear: Callable[[int], None] | None = None
_sharing: list[Any] = []


class Compiled(Struct, frozen=True):
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
    global _hear
    _hear = hear


def share_compiling(command: str) -> None:
    """Let other processors compile what the first use of a command waits for, while it goes on.

    A command calls its kernels one after the other, and this process compiles each when it comes to
    it.  With the first one other processes start, at low priority, as many as fit into the memory that
    a command takes by default.  They begin at the far end of what will be called: of the lines that
    all first uses of the command share, then, once the first few kernels tell the types of the
    columns, of the others.  They end with this one (`stop_sharing`).
    """
    import calibkit_kernels

    seen: list[str] = []
    told: set[str] = set()

    def before(count: int, line: str) -> None:
        if _hear is not None:
            _hear(count)
        seen.append(line)
        if len(seen) == 1:
            _start_sharing()
        if _sharing and len(seen) <= TELLING:
            _tell_sharing(command, seen, told)

    calibkit_kernels.before_compiling = before


def _start_sharing() -> None:
    import os
    import subprocess
    import sys

    from calibkit_kernels import _jit

    from .memory import memory_budget
    from .threads import thread_count

    room = memory_budget(None).bytes // _COMPILER
    others = min(thread_count(None) - 1, MOST_PROCESSES - 1, room)
    for _ in range(0 if _jit.FOLDER is None else others):
        with suppress(OSError):  # no room for another process: this one compiles all
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "calibkit_kernels._ahead", str(os.getpid())],
                env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                text=True,
            )
            _sharing.append(process)


def _tell_sharing(command: str, seen: Sequence[str], told: set[str]) -> None:
    from calibkit_kernels import _ahead

    known = told.union(seen)
    lines = [line for line in _ahead.first_used(command, seen)[::-1] if line not in known]
    told.update(lines)
    for place, process in enumerate(_sharing):
        with suppress(OSError):  # it may have ended
            process.stdin.writelines(f"{line}\n" for line in lines[place :: len(_sharing)])
            process.stdin.flush()
            if len(seen) == TELLING:
                process.stdin.close()


def stop_sharing() -> None:
    """End the processes that compile for this one."""
    for process in _sharing:
        process.kill()
    _sharing.clear()
