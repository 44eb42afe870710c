"""Files of a run's own in the temporary folder, gone with what holds them or with the run."""

from __future__ import annotations

import tempfile
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from calibkit.errors import ResourceError


class Scratch:
    """A file in the temporary folder (``TMPDIR``), open for writing at first.

    It is at `path` as long as this object is held, or until `remove` is called.  A `ResourceError`
    says what the disk refuses, now or while it is written.
    """

    def __init__(self) -> None:
        with disk_room():
            self._file = tempfile.NamedTemporaryFile(  # noqa: SIM115 (closed by `close`)
                prefix="calibkit-", buffering=0, delete=False
            )
        self.path = Path(self._file.name)
        self.remove = weakref.finalize(self, Path.unlink, self.path, missing_ok=True)
        _HELD.add(self)

    def write(self, data: Any) -> int:
        """Write bytes, all of them, as files do."""
        rest = memoryview(data).cast("B")
        size = len(rest)
        while rest:
            with disk_room():
                rest = rest[self._file.write(rest) :]
        return size

    def flush(self) -> None:
        """Do nothing: nothing waits in memory."""

    def close(self) -> None:
        """End writing."""
        with disk_room():
            self._file.close()

    @property
    def closed(self) -> bool:
        """Whether writing has ended."""
        return self._file.closed


#: Those that there are.
_HELD: weakref.WeakSet[Scratch] = weakref.WeakSet()


def unnamed_file() -> IO[bytes]:
    """Return a file in the temporary folder that has no name: it is gone once it is closed."""
    return tempfile.TemporaryFile()


@contextmanager
def disk_room(size: int = 0) -> Iterator[None]:
    """Say of what the disk refuses what to do; `size`: for how many bytes, where that is known."""
    try:
        yield
    except ResourceError:
        raise
    except OSError as error:
        folder = tempfile.gettempdir()
        needed = f", {size:,} bytes are needed" if size else ""
        raise ResourceError.of(
            folder,
            f"what does not fit into --memory cannot be written there "
            f"({error.strerror or error}{needed}); name a folder with more room by TMPDIR, or raise "
            "--memory",
        ) from error


def remove_all() -> None:
    """Remove all files that are still there, for a process that ends without Python's own end."""
    for scratch in list(_HELD):
        scratch.remove()
