"""Files, and parts of them, as shards: each is opened and summed up wherever an engine says."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

from calibkit.engines.dask import DaskEngine
from calibkit.errors import CalibkitError, DataError, UsageError
from calibkit.files.inputs import STDIN, Named, check_rows, find_files, is_remote
from calibkit.files.sources import Source, open_files
from calibkit.files.stretches import Stretch, cuts, size_to_cut, stretches
from calibkit.registry.states import state_of
from calibkit.runtime.memory import Memory
from calibkit.runtime.progress import Progress, silent
from calibkit.runtime.threads import later, warm_up
from calibkit.summaries.states import State, join_states

#: A part has so many rows at least: what comes of it takes longer than its task costs.
_FEWEST_ROWS: Final = 2**18
#: A file is large that is so many times a worker's share.
_LARGE: Final = 1.25


@dataclass(frozen=True)
class Shard:
    """A file of the inputs, or a part of one.

    Attributes
    ----------
    name
        As the user named it: for messages, and for models that name files.
    path
        Where it is, whatever the folder that a worker runs in.
    relative
        Its path within the folder that was named; see `calibkit.files.inputs.Part`.
    stretch
        The rows that are meant; None: all.
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

    def open(self, shard: Shard) -> Source:
        """Return a shard's rows, which messages call by the name that the user knows."""
        try:
            source = open_files(
                [(Named(shard.path, shard.name), shard.relative)],
                input_format=self.input_format,
                dtype=self.dtype,
                memory=self.memory,
            )
            return source if shard.stretch is None else _cut(source, shard.stretch)
        except CalibkitError as error:
            error.message = error.message.replace(shard.path, shard.name)
            error.file = shard.name
            raise


def _cut(source: Source, stretch: Stretch) -> Source:
    check_rows(source.parts[0], stretch.of)
    return source.stretch(stretch.first, stretch.rows)


def shards_of(inputs: Sequence[str]) -> list[Shard]:
    """Return the files that the inputs of a command name.

    Raises
    ------
    UsageError
        No such file, or standard input, which is no file that a worker could read.
    """
    found = find_files(inputs)
    if any(path == STDIN for path, _ in found):
        raise UsageError("--dask reads files: standard input (-) has no name that workers know.")
    return [
        Shard(path, path if is_remote(path) else str(Path(path).absolute()), relative)
        for path, relative in found
    ]


@dataclass(frozen=True)
class StateTask:
    """The work on a shard whose result is a state.

    Attributes
    ----------
    make
        Returns the state of a source; it travels, so it is a function of a module with arguments.
    opening
        How the shard is opened.
    """

    make: Callable[[Source], State]
    opening: Opening

    def __call__(self, shard: Shard) -> State:
        """Return the state of a shard."""
        return self.make(self.opening.open(shard))

    def packed(self, shard: Shard) -> Packed:
        """Return the file of a state of rows, so packed that it takes no longer than to send it."""
        state = self(shard)
        return Packed(state.rows, state.to_bytes("lz4"))


@dataclass(frozen=True)
class Packed:
    """The file of a state."""

    rows: int
    data: bytes


def state_of_all(
    engine: DaskEngine,
    task: StateTask,
    shards: Sequence[Shard],
    progress: Progress = silent,
    *,
    of_rows: bool = False,
    divide: bool = True,
) -> State:
    """Return the state of the rows of all shards.

    Large files are worked on in parts.  Where that fails the whole files are: only these tell what is
    wrong with them, how often and where; and whether anything is.

    Parameters
    ----------
    engine, task
        Who works, and what is to be done.
    shards
        Whole files.
    progress
        Is told of the rows.
    of_rows
        Whether the states are of rows: these are merged here, where the fit needs all of them.
    divide
        Whether large files may be worked on in parts.
    """
    work = divided(engine, shards, task.opening) if divide else shards

    def state(work: Sequence[Shard]) -> State:
        if of_rows:
            files = engine.map(task.packed, work, progress)
            found = join_states([state_of(one.data, "a shard's rows") for one in files])
        else:
            results = engine.map(task, work, progress)
            later(2, warm_up)  # beside the workers
            found = engine.reduce(join_states, results, task.opening.memory.entries)
        return replace(found, path=shards[0].name)

    try:
        return state(work)
    except (UsageError, DataError):
        if len(work) == len(shards):
            raise
    return state(shards)


@dataclass(frozen=True)
class _Cuts:
    """How many rows a file has, and after how many it may be cut; see `cuts`."""

    rows: int = 0
    places: tuple[int, ...] = ()


def _look(opening: Opening, shard: Shard) -> _Cuts:
    """Return where a file may be cut; nothing of one that cannot be read."""
    with suppress(Exception):  # what is wrong with a file is said where its rows are read
        rows = opening.open(shard).rows
        return _Cuts(rows, cuts(shard.path, rows))
    return _Cuts()


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
    looks = dict(zip(large, engine.map(partial(_look, opening), large), strict=True))
    share = max(sum(looks[shard].rows for shard in large) / workers, _FEWEST_ROWS)
    found: list[Shard] = []
    for shard in shards:
        count = round(looks[shard].rows / share) if shard in looks else 1
        parts = stretches(looks[shard].places, count) if count > 1 else []
        found += [replace(shard, stretch=part) for part in parts] if len(parts) > 1 else [shard]
    return found
