"""How many threads a command may use."""

from __future__ import annotations

import os


def thread_count(wanted: int | None) -> int:
    """Return the number of threads wanted, by default one for each processor of this process."""
    if wanted is not None:
        return wanted
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
