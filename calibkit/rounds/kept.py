"""What a process keeps of the rows from one round to the next, only to be quicker."""

from __future__ import annotations

import tempfile
from contextlib import suppress
from typing import Any, BinaryIO, Self, cast

import numpy as np
from numpy.typing import NDArray


class Kept:
    """Numbers of the rows of one source, in a temporary file that has no name.

    A round may read what an earlier one of the same process wrote, in the place of finding it again
    from the plan; what it answers is the same.  Where there is no room for the file nothing is kept.

    Attributes
    ----------
    content
        What the numbers are, as the last round said that wrote all of them; None: there are none.
    """

    def __init__(self) -> None:
        self.content: Any = None
        self._file: BinaryIO | None = None
        self._full = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.content = None
        if self._file is not None:
            with suppress(OSError):  # what could not be written is of no use to anyone
                self._file.close()
            self._file = None

    def read(self, place: int, numbers: NDArray[np.float64]) -> bool:
        """Read the numbers that stand from a place on; return whether they were all there."""
        if self._file is None:
            return False
        try:
            self._file.seek(place * numbers.itemsize)
            found = np.frombuffer(self._file.read(numbers.nbytes))
        except OSError:
            self._give_up()
            return False
        if found.size == numbers.size:
            numbers[...] = found.reshape(numbers.shape)
        return found.size == numbers.size

    def write(self, place: int, numbers: NDArray[np.float64]) -> None:
        """Write numbers from a place on, if there is room; what was kept before is void then."""
        self.content = None
        if self._full:
            return
        try:
            if self._file is None:
                self._file = cast(BinaryIO, tempfile.TemporaryFile())  # noqa: SIM115 (see __exit__)
            self._file.seek(place * numbers.itemsize)
            self._file.write(numbers.tobytes())
        except OSError:
            self._give_up()

    def written(self, content: Any) -> None:
        """Say what the numbers are, once all of them are written."""
        if not self._full:
            self.content = content

    def _give_up(self) -> None:
        self._full = True
        self.__exit__()
