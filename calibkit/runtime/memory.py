"""How much memory a command may use, and how many rows that is."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from typing import Final

from msgspec import Struct

from calibkit.errors import UsageError

#: What the interpreter and its libraries take before the first row is read.
_BASE: Final = 300 * 2**20
#: What one row, or one entry of a summary, takes in a fit, its scratch space included.
_PER_ROW: Final = 128
#: What each further column of a row takes in a fit that holds all of them.
_PER_COLUMN: Final = 24
#: A summary has room for so many entries, however little memory there is.
FEWEST_ENTRIES: Final = 2**16
#: A fit holds so many rows, however little memory there is.
_FEWEST_ROWS: Final = 2**13
#: Bytes that rows may take, however little memory there is.
_LEAST_ROOM: Final = 2**25
#: Rows that are read at a time, at most.
_MOST_BATCH: Final = 2**20

#: What the C library of GNU is told, by the numbers that it knows: how many arenas threads share, the
#: size from which a block is mapped by itself (32 MB, the most that it takes), and from how many free
#: bytes on an arena gives memory back.
_MALLOC: Final = {-8: 2, -3: 2**25, -1: 2**30}

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(I?)B?", re.IGNORECASE | re.ASCII)
_POWERS: Final = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}


class Memory(Struct, frozen=True):
    """A memory budget: how many bytes a command may take in all."""

    bytes: int

    @property
    def entries(self) -> int:
        """How many rows, or entries of a summary, are held at once."""
        return max(FEWEST_ENTRIES, (self.bytes - _BASE) // _PER_ROW)

    def rows_of(self, columns: int) -> int:
        """How many rows of so many columns a fit holds at once."""
        return max(_FEWEST_ROWS, (self.bytes - _BASE) // (_PER_ROW + _PER_COLUMN * columns))

    @property
    def room(self) -> int:
        """The bytes that are left for rows."""
        return max(_LEAST_ROOM, self.bytes - _BASE)

    @property
    def batch(self) -> int:
        """How many rows are read at a time."""
        return min(_MOST_BATCH, self.entries // 2)

    @property
    def text(self) -> int:
        """The size from which text files are read in batches, as they are parsed."""
        return self.bytes // 8


def reuse_memory() -> None:
    """Let the threads of this process use what one of them frees, where its C library is GNU's.

    By default most threads have an arena of their own, which no other one uses; and the arrays of
    each window of rows are given back to the system, to be asked for, page by page, for the next one.
    """
    for parameter, value in _MALLOC.items():
        _of_gnu("mallopt", parameter, value)


def give_back() -> None:
    """Return to the system what was freed, which `reuse_memory` keeps: before work on more rows."""
    _of_gnu("malloc_trim", 0)


def _of_gnu(name: str, *values: int) -> None:
    """Call a function that the C library of GNU has, where it is there."""
    import ctypes

    with suppress(AttributeError, OSError):
        if sys.platform == "linux":
            getattr(ctypes.CDLL(None), name)(*values)


def memory_budget(size: str | None) -> Memory:
    """Return what a size such as ``500MB`` or ``2GB`` has room for.

    None is half of the machine, or of what a container or job may take.
    """
    if size is not None:
        return Memory(size_in_bytes(size, "--memory"))
    try:
        machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):  # no such question on this system
        machine = 8 * 2**30
    return Memory(min([machine, *_allowed()]) // 2)


def size_in_bytes(text: str, option: str) -> int:
    """Return a size: a number and ``KB``, ``MB``, ``GB`` (powers of 1000) or ``KiB`` … (1024)."""
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise UsageError(f"{option} is {text!r}; expected a size such as 500MB or 2GB.")
    number, unit, binary = found.groups()
    size = int(Fraction(number) * (1024 if binary else 1000) ** _POWERS[unit.lower()])
    if not size:
        raise UsageError(f"{option} is {text!r}; expected more than nothing, such as 500MB.")
    return size


def _allowed(root: Path = Path("/")) -> Iterator[int]:
    """Yield what the groups of processes that this one belongs to may take on Linux.

    A container, or a job of a cluster, is such a group; the system ends a process that takes more.
    """
    with suppress(OSError, ValueError):
        for line in (root / "proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if not controllers:  # version 2 of these groups
                top, name = root / "sys/fs/cgroup", "memory.max"
            elif "memory" in controllers.split(","):
                top, name = root / "sys/fs/cgroup/memory", "memory.limit_in_bytes"
            else:
                continue
            group = Path(path.strip("/"))
            # Within the container its own path may be hidden.
            for folder in (group, *group.parents):
                with suppress(OSError, ValueError):  # "max" is no limit
                    yield int((top / folder / name).read_text())
