"""Files, and parts of large ones, as shards: each is opened wherever an engine says.

A large file is cut between row groups, so that its parts can be read by themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate, pairwise
from math import inf
from pathlib import Path
from typing import Final

from calibkit.engines.dask import DaskEngine
from calibkit.errors import CalibkitError, UsageError
from calibkit.files.dialect import Dialect, Mark
from calibkit.files.formats import TEXT_FORMATS, suffix_format
from calibkit.files.inputs import STDIN, Named, check_rows, find_files, is_remote
from calibkit.files.sources import Source, open_source
from calibkit.runtime.memory import Memory

#: Files of fewer bytes are read in one piece.
_SMALL_BYTES: Final = 2**22
#: The rows of a large row group: where a file elsewhere, whose groups are not looked at, may be cut.
_GROUP: Final = 2**20
#: A part has so many rows at least: what comes of it takes longer than its task costs.
_FEWEST_ROWS: Final = 2**18
#: A file is large that is so many times a worker's share.
_LARGE: Final = 1.25


@dataclass(frozen=True)
class Stretch:
    """Some rows of a file that has so many: the number of the first, from 0, and how many they are."""

    first: int
    rows: int
    of: int


@dataclass(frozen=True)
class Shard:
    """A file of the inputs, or a part of one: the rows of a stretch; None: all.

    Its name is the one that the user gave it: for messages, and for models that name files; its path
    is where it is whatever the folder that a worker runs in; see `calibkit.files.inputs.Part`.
    """

    name: str
    path: str
    relative: str
    stretch: Stretch | None = None


@dataclass(frozen=True)
class Opening:
    """How shards are opened; see `calibkit.files.sources.open_source`."""

    input_format: str | None
    dtype: str
    memory: Memory
    dialect: Dialect | None = None

    def open(self, shard: Shard) -> Source:
        """Return a shard's rows, which messages call by the name that the user knows."""
        try:
            source = open_source(
                [Named(shard.path, shard.name, shard.relative)],
                input_format=self.input_format,
                dtype=self.dtype,
                memory=self.memory,
                dialect=self.dialect,
            )
            if shard.stretch is None:
                return source
            check_rows(source.parts[0], shard.stretch.of)
            return source.stretch(shard.stretch.first, shard.stretch.rows)
        except CalibkitError as error:
            error.message = error.message.replace(shard.path, shard.name)
            error.file = shard.name
            raise

    def told_together(self, engine: DaskEngine, shards: Sequence[Shard]) -> Opening:
        """Return how shards are opened where the decimal marks of one settle those of all."""
        dialect = self.dialect or Dialect()
        texts = [s for s in shards if (self.input_format or suffix_format(s.path)) in TEXT_FORMATS]
        if dialect.decimal is not None or len(texts) < 2:
            return self
        looks = engine.map(partial(_look, self, to_cut=False), texts)
        marks = {mark for look in looks for mark in look.marks}
        return replace(self, dialect=replace(dialect, marks=tuple(sorted(marks))))


def shards_of(inputs: Sequence[str]) -> list[Shard]:
    """Return the files that the inputs of a command name: none is standard input."""
    found = find_files(inputs)
    if any(path == STDIN for path, _ in found):
        raise UsageError("--dask reads files: standard input (-) has no name that workers know.")
    return [
        Shard(path, path if is_remote(path) else str(Path(path).absolute()), relative)
        for path, relative in found
    ]


def divided(engine: DaskEngine, shards: Sequence[Shard], opening: Opening) -> list[Shard]:
    """Return files with the large ones among them in parts, so that all workers have a part each.

    Only those that are much more than a worker's share are looked at.
    """
    workers = engine.at_once
    sizes = {shard: size_to_cut(shard.path, opening.input_format) for shard in shards}
    total = sum(sizes[shard] for shard in shards)
    large = [shard for shard, size in sizes.items() if size * workers >= _LARGE * total > 0]
    if workers < 2 or not large:
        return list(shards)
    looks = dict(zip(large, engine.map(partial(_look, opening, to_cut=True), large), strict=True))
    share = max(sum(looks[shard].rows for shard in large) / workers, _FEWEST_ROWS)
    found: list[Shard] = []
    for shard in shards:
        count = round(looks[shard].rows / share) if shard in looks else 1
        parts = stretches(looks[shard].cuts, count) if count > 1 else []
        found += [replace(shard, stretch=part) for part in parts] if len(parts) > 1 else [shard]
    return found


def size_to_cut(path: str, format_name: str | None) -> float:
    """Return the bytes of a large file of a format that can be read from the middle on, else 0.

    Infinity stands for files elsewhere, which are not asked.  CSV and NDJSON tell types and row
    numbers from the beginning on only, and Arrow files are checked as a whole before polars reads
    them.
    """
    if (format_name or suffix_format(path)) != "parquet":
        return 0
    if is_remote(path):
        return inf
    with suppress(OSError):  # what is wrong with it is said where it is read
        size = Path(path).stat().st_size
        return size if size >= _SMALL_BYTES else 0
    return 0


@dataclass(frozen=True)
class Look:
    """How many rows a file has, after how many it may be cut, and its certain decimal marks."""

    rows: int = 0
    cuts: tuple[int, ...] = ()
    marks: tuple[Mark, ...] = ()


def _look(opening: Opening, shard: Shard, *, to_cut: bool) -> Look:
    """Return what a file tells that is to be cut, or read alike; nothing of one that is damaged."""
    with suppress(Exception):  # what is wrong with a file is said where its rows are read
        source = opening.open(shard)
        told = source.told
        places = cuts(shard.path, source.rows) if to_cut else ()
        return Look(source.rows, places, () if told is None else told.marks)
    return Look()


def cuts(path: str, rows: int) -> tuple[int, ...]:
    """Return after how many rows a Parquet file may be cut, its `rows` the last of them."""
    if is_remote(path):
        return (*range(_GROUP, rows, _GROUP), rows)
    import pyarrow.parquet as pq

    found = pq.read_metadata(path)
    groups = (found.row_group(place).num_rows for place in range(found.num_row_groups))
    return tuple(accumulate(groups))


def stretches(cuts: Sequence[int], count: int) -> list[Stretch]:
    """Return a file of some cuts in at most so many parts, as equal as the cuts allow."""
    rows = cuts[-1]
    wanted = (rows * place / count for place in range(1, count))
    ends = {0, rows, *(min(cuts, key=lambda cut: abs(cut - row)) for row in wanted)}
    return [Stretch(first, end - first, rows) for first, end in pairwise(sorted(ends))]
