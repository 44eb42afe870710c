"""A command's inputs on a cluster: the states of all files, made and merged there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from calibkit.engines.dask import LOCAL, DaskEngine
from calibkit.engines.shards import Opening, Shard, StateTask, state_of_all
from calibkit.files.sources import Source
from calibkit.memory import Memory
from calibkit.progress import Progress
from calibkit.summaries.states import State


def worker_memory(memory: Memory, address: str, threads: int) -> Memory:
    """Return what each worker may use: of this machine they all share what there is."""
    return replace(memory, bytes=memory.bytes // threads) if address == LOCAL else memory


def engine(address: str, threads: int) -> DaskEngine:
    """Return the cluster at an address; a local one has a process for each thread."""
    return DaskEngine(address, threads)


def state_on_cluster(
    make: Callable[[Source], State],
    shards: Sequence[Shard],
    opening: Opening,
    address: str,
    threads: int,
    progress: Progress,
    *,
    of_rows: bool,
    divide: bool,
) -> State:
    """Return the state of the rows of all files.

    Parameters
    ----------
    make
        Returns the state of a source; it travels: a module's function with arguments.
    shards, opening
        The files, and how they are opened; its memory is that of this machine.
    address, threads
        See `engine`.
    progress, of_rows, divide
        See `calibkit.engines.shards.state_of_all`.
    """
    own = replace(opening, memory=worker_memory(opening.memory, address, threads))
    with engine(address, threads) as cluster:
        return state_of_all(
            cluster, StateTask(make, own), shards, progress, of_rows=of_rows, divide=divide
        )
