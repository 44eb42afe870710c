"""What a process keeps of the rows from one round to the next, only to be quicker."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import suppress
from typing import IO, Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from calibkit.files.scratch import unnamed_file

#: So much of the free space on the disk may be taken.
_SHARE: Final = 0.5


class Kept:
    """Numbers of the rows of one source, in temporary files that have no name.

    A round may read what an earlier one of the same process wrote, in the place of finding it again;
    what it answers is the same.  Where there is no room for the files nothing is kept.

    Attributes
    ----------
    content
        Of each file that is whole, what is in it, as the round said that wrote it.
    """

    def __init__(self) -> None:
        self.content: dict[str, Any] = {}
        self._files: dict[str, IO[bytes]] = {}
        self._full = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        for name in list(self._files):
            self._drop(name)

    def _drop(self, name: str) -> None:
        self.content.pop(name, None)
        with suppress(OSError):  # what could not be written is of no use to anyone
            self._files.pop(name).close()

    def has_room(self, size: int) -> bool:
        """Tell whether so many bytes more may be kept."""
        try:
            return not self._full and size < _SHARE * shutil.disk_usage(tempfile.gettempdir()).free
        except OSError:
            return False

    def read(self, name: str, place: int, numbers: NDArray[Any]) -> bool:
        """Fill an array with what stands in a file from a byte on; tell whether it was there."""
        if name not in self._files:
            return False
        try:
            self._files[name].seek(place)
            found = self._files[name].read(numbers.nbytes)
        except OSError:
            return False
        if len(found) == numbers.nbytes:
            numbers[...] = np.frombuffer(found, numbers.dtype).reshape(numbers.shape)
        return len(found) == numbers.nbytes

    def write(self, name: str, place: int, numbers: NDArray[Any]) -> None:
        """Write an array into a file from a byte on, if there is room; the file is not whole then."""
        self.content.pop(name, None)
        if self._full:
            return
        try:
            if name not in self._files:
                self._files[name] = unnamed_file()
            self._files[name].seek(place)
            self._files[name].write(numbers.tobytes())
            self._files[name].flush()
        except OSError:
            self._full = True
            if name in self._files:
                self._drop(name)

    def whole(self, name: str, content: object) -> None:
        """Say what is in a file, once all of it is written."""
        if name in self._files and not self._full:
            self.content[name] = content
