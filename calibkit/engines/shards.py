"""Files, and parts of them, as shards: each is opened and summed up wherever an engine says."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from msgspec import structs

from calibkit import __version__
from calibkit.engines.protocol import Divided, Done, Engine, parts_of
from calibkit.errors import CalibkitError, UsageError
from calibkit.files.inputs import STDIN, check_rows, find_files
from calibkit.files.remote import is_remote
from calibkit.files.sources import Source, open_files
from calibkit.files.stretches import Stretch
from calibkit.memory import Memory
from calibkit.progress import Progress, silent
from calibkit.rounds.answers import answer
from calibkit.rounds.plans import Plan
from calibkit.rows.rows import NothingLeft, Remark, added_up
from calibkit.summaries.held_states import bounded
from calibkit.summaries.states import KINDS, State, join_states, new_state, state_of

#: How states are compressed on their way: it takes longer to pack them well than to send them.
PACKING: Final = "lz4"


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
                [(shard.path, shard.relative)],
                input_format=self.input_format,
                dtype=self.dtype,
                memory=self.memory,
                names=[shard.name],
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
    version
        The calibkit that asks.
    """

    make: Callable[[Source], State]
    opening: Opening
    version: str = __version__

    def __call__(self, shard: Shard) -> Done:
        """Return the state of a shard; nothing of a part that has none by itself."""
        check_version(self.version)
        return _done(self.opening, shard, self.make)


def check_version(version: str) -> None:
    """Raise a `UsageError` where another calibkit asks than the one that is to work."""
    if version != __version__:
        raise UsageError(
            f"a worker has calibkit {__version__}, but this is calibkit {version}; install the same "
            "version everywhere."
        )


@dataclass(frozen=True)
class AnswerTask:
    """The work on a shard whose result is what it answers to a plan."""

    plan: Plan
    opening: Opening
    version: str = __version__

    def __call__(self, shard: Shard) -> Done:
        """Return the answer of a shard; nothing of a part that has none by itself."""
        check_version(self.version)
        return _done(self.opening, shard, partial(answer, self.plan, memory=self.opening.memory))


def _done(opening: Opening, shard: Shard, make: Callable[[Source], State]) -> Done:
    try:
        source = opening.open(shard)
        return Done(source.rows, make(source).to_bytes(PACKING))
    except CalibkitError as error:
        if shard.stretch is None:
            raise
        remarks = error.remarks if isinstance(error, NothingLeft) else None
        return Done(shard.stretch.rows, told=remarks)


def merge_done(parts: Sequence[Done], memory: Memory | None = None) -> Done:
    """Return the state of the rows of several shards, of which no two are the same rows of a file.

    Where a fit on all these rows has no room in the memory, a state that could be fitted in rounds
    does not hold them.  Parts of a file all of whose rows were dropped have no state, but remarks.
    """
    states = [state_of(part.data, "a shard's state") for part in parts if part.data]
    empty = [part for part in parts if not part.data]
    rows = sum(part.rows for part in parts)
    remarks = added_up(remark for part in empty for remark in part.told)
    if not states:
        return Done(rows, told=remarks)
    joined = join_states(states if memory is None else bounded(states, memory))
    if empty:
        joined = _with_dropped(joined, sum(part.rows for part in empty), remarks)
    return Done(rows, joined.to_bytes(PACKING))


def _with_dropped(state: State, rows: int, remarks: Sequence[Remark]) -> State:
    """Return a state of one shard with further rows, all of which were dropped."""
    header = state.header
    payload = KINDS[header.kind].function("with_dropped")(state, rows, remarks)
    shards = [structs.replace(shard, rows=shard.rows + rows) for shard in header.shards]
    return new_state(header.kind, header.options, shards, payload, state.table)


def fold_states(
    engine: Engine,
    task: StateTask | AnswerTask,
    shards: Sequence[Shard | Divided[Shard]],
    progress: Progress = silent,
    memory: Memory | None = None,
) -> State:
    """Return the state of the rows of all shards, worked on and merged by an engine.

    `memory` is what the rows of a state have to fit into, see `merge_done`.
    """
    done = engine.fold(task, partial(merge_done, memory=memory), shards, progress)
    return state_of(done.data, parts_of(shards[0])[0].name)
