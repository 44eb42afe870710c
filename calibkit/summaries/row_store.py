"""Rows of several columns in one order, which depends on nothing but the rows; arrays for rows.

A fit that needs each row goes twice through its inputs: `ColumnSummaries` say what the columns hold,
then a `RowStore` takes the rows and puts them into the order of their score and hash (or of their
hash).  The result is plain arrays, and a key for each row, from which folds and draws follow
(`calibkit.numerics.hashes`).

Arrays are in memory, or maps of scratch files.  What has been touched of a map stays resident until the
memory is needed, so a watch lets go of it wherever the process holds more than the budget: the numbers
stay in the file, and come back when they are next used.  A fit may have thousands of arrays, and many
systems let a process open 256 or 1024 files: none is kept open for a map.
"""

from __future__ import annotations

import ctypes
import math
import mmap
import os
import tempfile
import threading
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from io import BufferedRandom
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import DTypeLike

from calibkit.arrays import Floats, Int64s, Numbers, UInt64s, distinct_values
from calibkit.files.streams import disk_room, unnamed_file
from calibkit.runtime.memory import Memory
from calibkit.summaries.edges import quantile_places
from calibkit_kernels import draws as kernels

#: Seconds between two looks at how much is resident.
_INTERVAL: Final = 0.02
#: The share of the budget from which on maps are let go of.
_FULL: Final = 0.85
#: The process as it is without any rows: less is not aimed at.
_BASE: Final = 250 * 2**20
_PAGE: Final = mmap.PAGESIZE
_STATM: Final = Path("/proc/self/statm")
#: Up to this many distinct values (or categories) of a column are known one by one.
MOST_VALUES: Final = 65_535
#: How many distinct rows, those of the smallest hashes, quantiles are taken over beyond.
SAMPLE_ROWS: Final = 262_144
#: Buckets at most: the more there are, the smaller are the pieces that each is read by.
_MOST_BUCKETS: Final = 256
#: How often the bytes of a bucket are needed while it is sorted, and how many rows it has at most
#: where there is more room: few enough to be sorted quickly.
_COPIES: Final = 4
_BUCKET_ROWS: Final = 2**20
#: Values that are looked at before all of a window are.
_LOOK: Final = 2**17


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

    def empty(self, shape: int | tuple[int, ...], dtype: DTypeLike) -> Numbers:
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
            if not hasattr(mmap, "MAP_SHARED"):  # a system without the calls of `_Map`
                return np.frombuffer(mmap.mmap(file.fileno(), size), dtype).reshape(shape)
            made = _Map(file.fileno(), size)
        _WATCH.add(made, self._memory.bytes)
        return np.asarray(made).view(dtype).reshape(shape)


class _Map:
    """A file in memory, as bytes for numpy; it need not stay open.

    Python's own maps each keep a descriptor of their file as long as they are there.
    """

    def __init__(self, descriptor: int, size: int) -> None:
        self._library = _c_library()
        access = mmap.PROT_READ | mmap.PROT_WRITE
        address = self._library.mmap(None, size, access, mmap.MAP_SHARED, descriptor, 0)
        if address == _FAILED:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        # Not as the process ends: a thread may be at work on it still.
        weakref.finalize(self, self._library.munmap, address, size).atexit = False
        self._address, self.size = address, size
        self.__array_interface__ = {
            "version": 3,
            "shape": (size,),
            "typestr": "|u1",
            "data": (address, False),
        }

    def let_go(self) -> None:
        """Keep nothing of it resident."""
        self._library.madvise(self._address, self.size, mmap.MADV_DONTNEED)


#: What `mmap` returns where it fails.
_FAILED: Final = ctypes.c_void_p(-1).value


@cache
def _c_library() -> ctypes.CDLL:
    """Return the C library, with the types of what `_Map` calls."""
    library = ctypes.CDLL(None, use_errno=True)
    place, size, number = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    library.mmap.restype = place
    library.mmap.argtypes = [place, size, number, number, number, ctypes.c_long]
    library.munmap.argtypes = [place, size]
    library.madvise.argtypes = [place, size, number]
    return library


class _Watch:
    """Keeps what is resident of all maps within the budget."""

    def __init__(self) -> None:
        self._maps: weakref.WeakSet[_Map] = weakref.WeakSet()
        self._lock = threading.Lock()
        self._running = False
        self._budget = 0

    def add(self, made: _Map, budget: int) -> None:
        with self._lock:
            self._maps.add(made)
            self._budget = budget
            if self._running or not _STATM.exists():
                return
            self._running = True
        threading.Thread(target=self._watch, name="calibkit-maps", daemon=True).start()

    def _watch(self) -> None:
        pause = threading.Event()
        pause.wait(_INTERVAL)
        while self._look():  # a call of its own: while this waits nothing here holds a map
            pause.wait(_INTERVAL)

    def _look(self) -> bool:
        """Let go of what is resident beyond the budget; return whether there are maps."""
        with self._lock:
            maps = list(self._maps)
            self._running = bool(maps)
            most = max(_FULL * self._budget, _BASE)
        with suppress(OSError):  # too many files are open: it looks again
            if maps and int(_STATM.read_bytes().split()[1]) * _PAGE > most:
                for one in maps:
                    one.let_go()
        return bool(maps)


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


class ColumnSummaries:
    """What numeric columns hold: the first pass over rows.

    A row is known by its hash, so what is found depends on the set of rows alone.  Up to `most`
    distinct values of a column are told apart, at most `MOST_VALUES`.
    """

    def __init__(self, columns: int, most: int = MOST_VALUES) -> None:
        self._most = most
        #: The distinct values of each column, rising; None where they are too many.
        self.distinct: list[Floats | None] = [np.empty(0) for _ in range(columns)]
        self._hashes, self._counts = np.empty(0, np.uint64), np.empty(0, np.int64)
        self._values = np.empty((columns, 0))
        self._waiting: list[tuple[UInt64s, Floats]] = []
        self._waits = 0
        self._last = np.uint64(2**64 - 1)

    def add(self, values: Sequence[Numbers], hashes: UInt64s) -> None:
        """Add rows: their columns (NaN: no value), and the hash of each row."""
        for place, column in enumerate(values):
            self._look(place, column)
        kept = np.flatnonzero(hashes <= self._last)
        if kept.size > SAMPLE_ROWS:  # look at the hashes alone first: columns are many
            distinct = distinct_values(hashes[kept])
            if distinct.size > SAMPLE_ROWS:
                self._last = distinct[SAMPLE_ROWS - 1]
                kept = np.flatnonzero(hashes <= self._last)
        own = np.array([column[kept] for column in values], np.float64)
        self._waiting.append((hashes[kept], own))
        self._waits += kept.size
        if self._waits > SAMPLE_ROWS:
            self.settle()

    def _look(self, place: int, column: Numbers) -> None:
        """Note the distinct values of a column while they are few."""
        for part in (column[:_LOOK], column[_LOOK:]):
            known = self.distinct[place]
            if known is None or not part.size:
                return
            found = distinct_values(np.append(known, part))
            found = found[~np.isnan(found)]
            self.distinct[place] = found if found.size <= self._most else None

    def settle(self) -> None:
        """Keep the rows of the smallest hashes, each distinct row once, with its count."""
        hashes = np.concatenate([self._hashes, *(own for own, _ in self._waiting)])
        values = np.concatenate([self._values, *(own for _, own in self._waiting)], axis=1)
        counts = np.append(self._counts, np.ones(self._waits, np.int64))
        self._waiting, self._waits = [], 0
        order = np.argsort(hashes)  # rows of one hash are the same
        ordered = hashes[order]
        starts = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1])[: ordered.size])
        sums = np.add.reduceat(counts[order], starts) if starts.size else counts
        if starts.size > SAMPLE_ROWS:
            starts, sums = starts[:SAMPLE_ROWS], sums[:SAMPLE_ROWS]
            self._last = ordered[starts[-1]]
        self._hashes, self._counts = ordered[starts], sums
        self._values = values.take(order[starts], axis=1)

    def sample(self, column: int) -> tuple[Floats, Int64s]:
        """Return the values of a column in the sampled rows, rising, and how often each occurs."""
        if self._waiting:
            self.settle()
        values = self._values[column]
        present = ~np.isnan(values)
        values, counts = values[present], self._counts[present]
        if (counts == 1).all():  # which is sooner sorted
            return np.sort(values), counts
        order = np.argsort(values)
        return values[order], counts[order]

    def borders(self, column: int, ranges: int) -> Floats:
        """Return the values that part a column into ranges of about equally many rows."""
        values, counts = self.sample(column)
        if not values.size:
            return values
        return values[quantile_places(counts, ranges)[1:]]


def count_categories(column: pl.Series) -> dict[str, int]:
    """Return how many rows of a column of text have each category; null and empty text are none."""
    texts = column.cast(pl.String).drop_nulls()
    return dict(texts.filter(texts != "").value_counts().rows())


def category_names(counts: Mapping[str, int]) -> tuple[str, ...]:
    """Return the categories in order; of too many the most frequent (ties: the first in order)."""
    pairs = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    return tuple(sorted(name for name, _ in pairs[:MOST_VALUES]))


class RowStore:
    """Takes rows in any order, and gives them in one: by ``score``, if there is one, then by hash.

    `fields` has the dtype of each column, or ``(dtype, width)`` for several numbers a row; `rows` is
    how many will be added at most.  Where `arrays` are maps the rows wait in a file, those of each call
    by ranges of score (without one: of hash), and are sorted range by range; the first column of
    `scores` holds what is known of the scores.
    """

    def __init__(
        self,
        fields: Mapping[str, DTypeLike | tuple[DTypeLike, int]],
        rows: int,
        arrays: Arrays,
        scores: ColumnSummaries | None = None,
    ) -> None:
        described: list[Any] = [
            (name, own[0], (own[1],)) if isinstance(own, tuple) else (name, own)
            for name, own in fields.items()
        ]
        self._kind = np.dtype([*described, ("hash", np.uint64)])
        self._arrays, self._count = arrays, 0
        self._ordered = scores is not None
        self._file: BufferedRandom | None = None
        #: Where in the file, in rows, the ranges of each call begin, and the last one ends.
        self._bounds: list[Int64s] = []
        if arrays.mapped:
            self._size = _buckets(self._kind, rows, arrays)
            if scores is not None:
                self._borders = scores.borders(0, self._size)
                self._size = self._borders.size + 1
            with disk_room():
                self._file = unnamed_file()
            # Where reading ends by an error: what waits is not written.
            weakref.finalize(self, self._file.raw.close)
        self._waiting: list[Mapping[str, Numbers]] = []

    def add(self, columns: Mapping[str, Numbers]) -> None:
        """Add rows: their columns, and ``hash``, a 64-bit hash of all that is held of each."""
        hashes = columns["hash"]
        start, self._count = self._count, self._count + hashes.size
        if self._file is None:
            self._waiting.append(columns)
            return
        records = np.empty(hashes.size, self._kind)
        for name in self._kind.names or ():
            records[name] = columns[name]
        # The range of each row: greater ones have greater scores, or hashes.
        place = np.zeros(records.size, np.int64)
        last = np.full(records.size, self._size - 1)
        if self._ordered:
            place = np.searchsorted(self._borders, records["score"], side="left")
            last = np.searchsorted(self._borders, records["score"], side="right")
            place = np.minimum(place + 1, last)  # the range that a score begins in has lesser ones
        half, width = np.uint64(32), (last - place + 1).astype(np.uint64)
        place = place + ((hashes >> half) * width >> half).astype(np.int64)
        order = np.argsort(place, kind="stable")
        bounds = np.append(0, np.cumsum(np.bincount(place, minlength=self._size)))
        self._bounds.append(start + bounds)
        for begin, end in pairwise(bounds):  # not all at once, which would be one more copy
            with disk_room():
                self._file.write(records[order[begin:end]].tobytes())

    def finish(self) -> dict[str, Numbers]:
        """Return the columns in their order, and ``key`` in place of the hash: a word for each row.

        A key is mixed from a row's hash and its number among equal rows.
        """
        fields: dict[str, Any] = dict(self._kind.fields or {})
        found = {
            name: self._arrays.empty((self._count, *kind.shape), kind.base)
            for name, (kind, *_) in fields.items()
        }
        end = 0
        for parts in self._ranges():

            def whole(name: str, parts: Sequence[Any] = parts) -> Numbers:
                own = [part[name] for part in parts]
                return own[0] if len(own) == 1 else np.concatenate(own)

            order = _order(whole("hash"), whole("score") if self._ordered else None)
            begin, end = end, end + order.size
            for name, column in found.items():
                # By "clip", since the other modes make a copy first.
                np.take(whole(name), order, axis=0, out=column[begin:end], mode="clip")
        found["key"] = found.pop("hash")
        kernels.number_rows(found["key"])
        return found

    def _ranges(self) -> Iterator[Sequence[Any]]:
        """Yield the columns of the rows, some rows after the others, range by range."""
        if self._waiting:
            yield self._waiting
        if self._file is None:
            return
        with disk_room(), self._file as file:
            for place in range(self._size):
                spans = [bounds[place : place + 2].tolist() for bounds in self._bounds]
                records = np.empty(sum(end - begin for begin, end in spans), self._kind)
                filled = 0
                for begin, end in spans:
                    own = records[filled : filled + end - begin]
                    file.seek(begin * own.itemsize)
                    file.readinto(own.view(np.uint8).data)
                    filled += own.size
                yield [records]


def _order(hashes: UInt64s, score: Numbers | None) -> Int64s:
    """Return rows by score, those of one score by their hash; rows of one hash are the same."""
    if score is None:
        return np.argsort(hashes)
    order = np.argsort(score)
    same = score[order[1:]] == score[order[:-1]]
    tied = np.flatnonzero(np.append(False, same) | np.append(same, False)[: order.size])
    rows = order[tied]
    order[tied] = rows[np.lexsort((hashes[rows], score[rows]))]
    return order


def _buckets(kind: np.dtype[Any], rows: int, arrays: Arrays) -> int:
    """Return into how many ranges rows are parted so that each can be sorted in memory."""
    fewest = max(_COPIES * rows * kind.itemsize // arrays.room, rows // _BUCKET_ROWS)
    return min(_MOST_BUCKETS, 1 + fewest)
