"""Arrays as long as the rows: in memory, or maps of scratch files that the system may leave there.

A map is an array like any other.  What has been touched of it stays resident until the memory is
needed, so a watch lets go of it wherever the process holds more than the budget: the numbers stay in
the file, and come back when they are next used.
"""

from __future__ import annotations

import math
import mmap
import os
import tempfile
import threading
import weakref
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import DTypeLike, NDArray

from calibkit.files.streams import disk_room, unnamed_file
from calibkit.runtime.memory import Memory

#: Seconds between two looks at how much is resident.
_INTERVAL: Final = 0.02
#: The share of the budget from which on maps are let go of.
_FULL: Final = 0.85
#: The process as it is without any rows: less is not aimed at.
_BASE: Final = 250 * 2**20
_PAGE: Final = mmap.PAGESIZE
_STATM: Final = Path("/proc/self/statm")


class Arrays:
    """Makes arrays for rows, within the room that there is for them; None: all fit into memory."""

    def __init__(self, memory: Memory | None = None) -> None:
        self._memory = memory

    @property
    def mapped(self) -> bool:
        """Whether arrays are maps of files."""
        return self._memory is not None

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the user should be told of the scratch folder."""
        if self._memory is None or not _in_memory(tempfile.gettempdir()):
            return ()
        return (
            f"{tempfile.gettempdir()} is held in memory (tmpfs), so rows that do not fit into "
            "--memory take memory there too; name a folder on a disk by TMPDIR",
        )

    @property
    def room(self) -> int:
        """How many bytes may be worked on at a time."""
        return 2**62 if self._memory is None else self._memory.room

    def empty(self, shape: int | tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
        """Return a new array, whatever is in it; `ResourceError` where the disk has no room."""
        shape = (shape,) if isinstance(shape, int) else shape
        size = math.prod(shape) * np.dtype(dtype).itemsize
        if self._memory is None or size == 0:
            return np.empty(shape, dtype)
        with disk_room(size), unnamed_file() as file:
            if hasattr(os, "posix_fallocate"):
                # A full disk is told now, not by a signal.
                os.posix_fallocate(file.fileno(), 0, size)
            else:
                file.truncate(size)
            made = mmap.mmap(file.fileno(), size)
        _WATCH.add(made, self._memory.bytes)
        return np.frombuffer(made, dtype).reshape(shape)


class _Watch:
    """Keeps what is resident of all maps within the budget."""

    def __init__(self) -> None:
        self._maps: weakref.WeakSet[mmap.mmap] = weakref.WeakSet()
        self._lock = threading.Lock()
        self._running = False
        self._budget = 0

    def add(self, made: mmap.mmap, budget: int) -> None:
        """Watch a map."""
        with self._lock:
            self._maps.add(made)
            self._budget = budget
            if self._running or not _STATM.exists():
                return
            self._running = True
        threading.Thread(target=self._watch, name="calibkit-maps", daemon=True).start()

    def _watch(self) -> None:
        pause = threading.Event()
        while True:
            pause.wait(_INTERVAL)
            with self._lock:
                maps = list(self._maps)
                self._running = bool(maps)
                most = max(_FULL * self._budget, _BASE)
            if not maps:
                return
            if int(_STATM.read_bytes().split()[1]) * _PAGE > most:
                for one in maps:
                    one.madvise(mmap.MADV_DONTNEED)


_WATCH: Final = _Watch()


def _in_memory(folder: str) -> bool:
    """Tell whether a folder is held in memory; where nothing tells, it is not."""
    try:
        mounts = [line.split()[1:3] for line in Path("/proc/mounts").read_text().splitlines()]
    except OSError:
        return False
    path = os.path.realpath(folder)
    above = [(place, kind) for place, kind in mounts if os.path.commonpath([path, place]) == place]
    return max(above, default=("", ""), key=lambda one: len(one[0]))[1] in ("tmpfs", "ramfs")
