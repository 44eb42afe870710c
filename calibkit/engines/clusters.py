"""A command's inputs on a cluster: states made and merged there, or models applied."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from calibkit.engines.applying import ApplyTask, Order, Told
from calibkit.engines.dask import LOCAL, DaskEngine
from calibkit.engines.shards import Opening, Shard, StateTask, state_of_all
from calibkit.files.sinks import Transaction, make_folders
from calibkit.files.sources import Source
from calibkit.runtime.memory import Memory
from calibkit.runtime.progress import Progress
from calibkit.summaries.states import State


def worker_memory(memory: Memory, address: str, threads: int) -> Memory:
    """Return what each worker may use: of this machine they all share what there is."""
    return replace(memory, bytes=memory.bytes // threads) if address == LOCAL else memory


def engine(address: str, threads: int) -> DaskEngine:
    """Return the cluster at an address; a local one has a process for each thread."""
    return DaskEngine(address, threads)


def apply_on_cluster(
    task: ApplyTask,
    shards: Sequence[Shard],
    outputs: Sequence[str],
    address: str,
    threads: int,
    progress: Progress,
    tell: Callable[[str], None],
) -> Told:
    """Apply a model to files; each becomes another, and all appear together or not at all.

    Parameters
    ----------
    task
        What is applied, and how files are opened; its memory is that of this machine.
    shards, outputs
        The files, and what each becomes.
    address, threads
        See `engine`.
    progress, tell
        Is told how far the work has come; is called with each warning before a file appears.
    """
    memory = worker_memory(task.opening.memory, address, threads)
    own = replace(task, opening=replace(task.opening, memory=memory))
    with Transaction() as transaction, engine(address, threads) as cluster:
        make_folders(list(outputs))
        absolute = [str(Path(output).absolute()) for output in outputs]
        orders = [
            Order(shard, output, transaction.expect(output))
            for shard, output in zip(shards, absolute, strict=True)
        ]
        made = list(cluster.map(own, orders, progress))
        remarks = [
            f"{shard.name}: {remark}"
            for shard, told in zip(shards, made, strict=True)
            for remark in told.warnings
        ]
        for remark in remarks:
            tell(remark)
    return Told(sum(told.rows for told in made), made[0].added, tuple(remarks))


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
