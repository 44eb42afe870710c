"""Frames of any size as groups of rows of one size, written while the next ones are made."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from itertools import chain
from queue import Full, Queue
from threading import Event
from typing import IO, Any, Final

import polars as pl
from polars.io.plugins import register_io_source

#: Seconds between two looks at whether the writer is still there.
_LOOK: Final = 0.2

#: Bytes of a group, about, beyond which it has fewer rows; and the rows that it always has.
_MOST_BYTES, _FEWEST_ROWS = 2**25, 2**12


class Output:
    """A file, open for writing, that remembers how writing failed.

    Polars would go on asking for frames, and tell of the error when it has them all.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.error: OSError | None = None

    def write(self, data: bytes) -> int:
        """Write bytes, as files do."""
        try:
            return self._file.write(data)
        except OSError as error:
            self.error = error
            raise

    def flush(self) -> None:
        """Hand on what waits in memory, as files do."""
        self._file.flush()

    def close(self) -> None:
        """Do nothing: the file belongs to whoever opened it."""


#: Writes all rows of a lazy frame to a file, in groups of so many rows.
Sink = Callable[[pl.LazyFrame, Any, int], None]


def row_bytes(schema: Mapping[str, pl.DataType]) -> int:
    """Return about how many bytes a row takes in memory: what its types alone tell."""
    return sum(_value_bytes(kind) for kind in schema.values())


def _value_bytes(kind: pl.DataType) -> int:
    if kind.is_nested():
        return 128
    return 8 if kind.is_numeric() or kind.is_temporal() or kind == pl.Boolean else 32


def group_size(schema: Mapping[str, pl.DataType], most: int) -> int:
    """Return how many rows a group has: `most`, of wide rows a half, a quarter … of it.

    A function of the schema alone, so that files have the same bytes whatever the memory.
    """
    while most > _FEWEST_ROWS and most * row_bytes(schema) > _MOST_BYTES:
        most //= 2
    return most


def write_groups(frames: Iterable[pl.DataFrame], most: int, file: IO[bytes], sink: Sink) -> None:
    """Write the rows of frames in groups of `most` rows, fewer if they are wide.

    What the sink gets depends on the rows alone, not on the frames in which they come.

    Parameters
    ----------
    frames
        One or more, of one schema.  They are made in the thread of the caller, so that signals reach
        it: polars looks for none while it waits for a frame.
    most
        Rows of a group, see `group_size`; the last one may have less.
    file
        Where they go.
    sink
        Writes a lazy frame to a file in groups of rows; run beside the caller where there is more
        than one.

    Raises
    ------
    OSError
        As the file raised it; no further frame is made then.
    """
    output = Output(file)
    coming = iter(frames)
    first = next(coming)
    size = group_size(first.schema, most)
    groups = _groups(chain((first,), coming), size)
    ready: Queue[pl.DataFrame | None] = Queue(1)
    stopped = Event()

    def taken(*_: Any) -> Iterator[pl.DataFrame]:
        while (group := ready.get()) is not None:
            yield group
        if stopped.is_set():
            raise _StoppedError

    rows = register_io_source(taken, schema=dict(first.schema))
    with ThreadPoolExecutor(1) as pool:
        written = pool.submit(sink, rows, output, size)
        try:
            for group in groups:
                _put(ready, group, written)
                if output.error is not None or written.done():
                    break
        except BaseException:
            stopped.set()
            raise
        finally:
            _put(ready, None, written)
        error = written.exception()
    if error is not None:
        raise output.error or error  # polars says it in other words


class _StoppedError(Exception):
    """The frames of a table end before they are all there."""


def _put(ready: Queue[pl.DataFrame | None], group: pl.DataFrame | None, done: Future[None]) -> None:
    """Hand on a group, unless the writer has ended."""
    while not done.done():
        with suppress(Full):
            ready.put(group, timeout=_LOOK)
            break


def _groups(frames: Iterable[pl.DataFrame], size: int) -> Iterator[pl.DataFrame]:
    held: list[pl.DataFrame] = []
    room = size
    for frame in frames:
        start = 0
        while frame.height - start > room:  # not where it just fits: the last group has rows
            yield _one_chunk([*held, frame.slice(start, room)])
            start, room, held = start + room, size, []
        held.append(frame.slice(start))
        room -= frame.height - start
    yield _one_chunk(held)


def _one_chunk(frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Return frames as one of one chunk a column: chunks would show in the bytes of a file."""
    filled = [frame for frame in frames if frame.height] or frames[:1]
    if (
        len(filled) == 1
    ):  # in two, so that it is copied: a view of a larger frame differs in its padding
        filled = [filled[0].head(1), filled[0].slice(1)]
    return pl.concat(filled, rechunk=True)
