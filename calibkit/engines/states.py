"""States made and merged wherever an engine says.

Nothing of a method is loaded here before its work has begun elsewhere: loading it takes as long as a
worker needs for a million rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from calibkit.engines.dask import DaskEngine, worker_memory
from calibkit.engines.parts import Opening, Shard, divided
from calibkit.errors import DataError, UsageError
from calibkit.files.sources import Source
from calibkit.runtime.progress import Progress, silent
from calibkit.runtime.threads import later, warm_up

if TYPE_CHECKING:
    from calibkit.summaries.runs import Run
    from calibkit.summaries.states import State


@dataclass(frozen=True)
class StateTask:
    """The work on a shard whose result is a state.

    `make` returns the state of a source; it travels, so it is a function of a module with arguments.
    """

    make: Callable[[Source], State]
    opening: Opening

    def __call__(self, shard: Shard) -> State:
        """Return the state of a shard."""
        from calibkit.summaries.states import read_so

        source = self.opening.open(shard)
        return read_so(self.make(source), source.told)

    def packed(self, shard: Shard) -> Packed:
        """Return the file of a state of rows, so packed that it takes no longer than to send it."""
        state = self(shard)
        return Packed(state.rows, state.to_bytes("lz4"))


@dataclass(frozen=True)
class Packed:
    """The file of a state."""

    rows: int
    data: bytes


def _state(method: Callable[[], Run[Any, Any]], options: Any, source: Source) -> State:
    return method().state(options, source)


def state_on_cluster(
    method: Callable[[], Run[Any, Any]],
    options: Any,
    shards: Sequence[Shard],
    opening: Opening,
    address: str,
    threads: int,
    progress: Progress,
    *,
    divide: bool,
) -> State:
    """Return the state of the rows of all files; see `state_of_all`.

    `method` loads what makes states: one of `calibkit.registry.fits`.  The memory of the opening is
    that of this machine; a local cluster has a process for each thread.
    """

    def load() -> None:
        method()
        later(2, warm_up)

    own = replace(opening, memory=worker_memory(opening.memory, address, threads))
    task = StateTask(partial(_state, method, options), own)
    with DaskEngine(address, threads) as cluster:
        return state_of_all(
            cluster,
            task,
            shards,
            progress,
            of_rows=options.of_rows,
            divide=divide,
            meanwhile=load,
        )


def state_of_all(
    engine: DaskEngine,
    task: StateTask,
    shards: Sequence[Shard],
    progress: Progress = silent,
    *,
    of_rows: bool = False,
    divide: bool = True,
    meanwhile: Callable[[], object] = warm_up,
) -> State:
    """Return the state of the rows of all shards.

    Large files are worked on in parts, and each file tells by itself how its text is written.  Where
    that fails the whole files are, read alike: only these tell what is wrong with them, how often and
    where; and whether anything is.  States `of_rows` are merged here, where the fit needs all of
    them.  `divide` says whether large files may be worked on in parts, `meanwhile` what is done here
    once the work has begun.
    """

    def state(task: StateTask, work: Sequence[Shard]) -> State:
        files = engine.map(task.packed, work, progress) if of_rows else []
        states = [] if of_rows else engine.map(task, work, progress)
        meanwhile()
        from calibkit.registry.states import state_of
        from calibkit.summaries.states import join_states

        if of_rows:
            found = join_states([state_of(file.data, "a shard's rows") for file in files])
        else:
            found = engine.reduce(join_states, states, task.opening.memory.entries)
        return replace(found, path=shards[0].name)

    work = divided(engine, shards, task.opening) if divide else shards
    try:
        return state(task, work)
    except (UsageError, DataError):
        opening = task.opening.told_together(engine, shards)
        if len(work) == len(shards) and opening == task.opening:
            raise
    return state(replace(task, opening=opening), shards)
