"""``--dask``: the states of all files made and merged on a cluster, then finished here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Annotated

from calibkit.errors import UsageError

from .console import Console
from .options import RUN, option

if TYPE_CHECKING:
    from calibkit.engines.dask import DaskEngine
    from calibkit.memory import Memory
    from calibkit.sources import Source
    from calibkit.states import State

Dask = Annotated[
    str | None,
    option(
        "--dask",
        metavar="ADDRESS|local",
        panel=RUN,
        help="Work on a Dask cluster, file by file: the address of its scheduler, or local for "
        "processes of this machine, one a thread (needs calibkit[dask]).",
        show_default="this process",
    ),
]


def engine(address: str, threads: int) -> DaskEngine:
    """Return the cluster at an address; a local one has a process for each thread."""
    from calibkit.engines.dask import DaskEngine

    return DaskEngine(address, threads)


def worker_memory(memory: Memory, address: str, threads: int) -> Memory:
    """Return what each worker may use: of this machine they all share what there is."""
    from calibkit.engines.dask import LOCAL

    return replace(memory, bytes=memory.bytes // threads) if address == LOCAL else memory


def fit_on_cluster(
    console: Console,
    address: str,
    inputs: Sequence[str],
    maker: Callable[[Memory], Callable[[Source], State]],
    *,
    input_format: str | None,
    dtype: str,
    memory: Memory,
    threads: int,
    partial: bool = False,
) -> None:
    """Make the state of each file on a cluster, merge them there, and do the rest here.

    Parameters
    ----------
    console, address, inputs
        Of the command.
    maker
        Returns, for what a worker may use of memory, what makes the state of a source; this travels
        to the workers, so it is a function of a module with arguments.
    input_format, dtype
        How files are read.
    memory
        How much of it there is; see `worker_memory`.
    threads
        See `engine`.
    partial
        ``--partial``, which makes no sense here.
    """
    from calibkit.engines.shards import Opening, StateTask, fold_states, shards_of
    from calibkit.outputs import spare_inputs
    from calibkit.sources import Part

    from .merge import FINISHERS

    if partial:
        raise UsageError("--dask makes and merges all states itself; leave --partial out.")
    if console.per_input:
        raise UsageError("--dask makes one result of all files; give -o a file.")
    shards = shards_of(inputs)
    if console.output not in (None, "-"):
        parts = [Part(shard.path, "", {}, 0, shard.relative) for shard in shards]
        spare_inputs(str(console.output), parts)
    own = worker_memory(memory, address, threads)
    task = StateTask(maker(own), Opening(input_format, dtype, own))
    with engine(address, threads) as cluster:
        state = fold_states(cluster, task, shards, console.progress())
    rows = sum(shard.rows for shard in state.header.shards)
    console.detail(
        f"{len(shards)} files, {rows:,} rows, a state of {len(state.to_bytes()):,} bytes"
    )
    finish = import_module(f"calibkit_cli.{FINISHERS[state.header.kind]}").finish_state
    finish(console, state, memory, threads)
