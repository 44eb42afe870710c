"""``--dask``: the states of all files made and merged on a cluster, then finished here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Protocol

from calibkit.errors import UsageError

from .console import Console
from .finishers import FINISHERS
from .options import RUN, option

if TYPE_CHECKING:
    from calibkit.apply import ApplySpec
    from calibkit.engines.dask import DaskEngine
    from calibkit.files.sources import Source
    from calibkit.memory import Memory
    from calibkit.models import Model
    from calibkit.summaries.states import State

Dask = Annotated[
    str | None,
    option(
        "--dask",
        metavar="ADDRESS|local",
        panel=RUN,
        help="Work on a Dask cluster: the address of its scheduler, or local for as many processes of "
        "this machine as --threads says (needs the extra dask).",
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


class Run(Protocol):
    """One run of a command that has states."""

    @property
    def console(self) -> Console:
        """Where everything is said."""

    @property
    def memory(self) -> Memory:
        """How much of it there is."""

    @property
    def threads(self) -> int:
        """How many threads to use; a cluster of this machine has a process for each."""

    def start(self, source: Source, *, dry_run: bool, partial: bool) -> None:
        """Do it here."""

    def state_maker(self, memory: Memory) -> Callable[[Source], State]:
        """Return what makes the state of a source; it travels: a module's function with arguments."""


def start(
    run: Run,
    inputs: Sequence[str],
    dask: str | None,
    input_format: str | None,
    dtype: str,
    *,
    dry_run: bool,
    partial: bool,
) -> None:
    """Open the inputs and start a run on them: here, or on a cluster.

    Parameters
    ----------
    run, inputs
        Of the command.
    dask
        Where the cluster is; None: here.
    input_format, dtype
        How files are read.
    dry_run, partial
        As the options say.
    """
    from calibkit.files.sources import open_source

    if dask is None or dry_run:
        source = open_source(inputs, input_format=input_format, dtype=dtype, memory=run.memory)
        source.progress = run.console.progress()
        run.start(source, dry_run=dry_run, partial=partial)
    elif partial:
        raise UsageError("--dask makes and merges all states itself; leave --partial out.")
    else:
        _start_far(run, inputs, dask, input_format, dtype)


def _start_far(
    run: Run, inputs: Sequence[str], address: str, input_format: str | None, dtype: str
) -> None:
    """Make the state of each file on a cluster, merge them there, and do the rest here."""
    from calibkit.engines.shards import Opening, StateTask, shards_of, state_of_all
    from calibkit.files.outputs import spare_inputs
    from calibkit.files.sources import Part

    console = run.console
    if console.per_input:
        raise UsageError("--dask makes one result of all files; give -o a file.")
    shards = shards_of(inputs)
    if console.output not in (None, "-"):
        parts = [Part(shard.path, "", {}, 0, shard.relative) for shard in shards]
        spare_inputs(str(console.output), parts)
    opening = Opening(input_format, dtype, worker_memory(run.memory, address, run.threads))
    with engine(address, run.threads) as cluster:
        state = state_of_all(
            cluster,
            StateTask(run.state_maker(opening.memory), opening),
            shards,
            console.progress(),
            of_rows=getattr(run, "of_rows", False),
            # Training rows come with each shard: the more shards, the more often.
            divide=not getattr(run, "train", None),
        )
    console.detail(f"{len(shards)} files, {state.rows:,} rows")
    finish = import_module(f"calibkit_cli.{FINISHERS[state.header.kind]}").finish_state
    finish(console, state, run.memory, run.threads)


def apply_far(
    console: Console,
    inputs: Sequence[str],
    address: str,
    what: tuple[Model, ApplySpec],
    how: tuple[str | None, str, Memory],
    threads: int,
) -> None:
    """Apply a model on a cluster: each file becomes another, and all appear together.

    Parameters
    ----------
    console, inputs
        Of the command.
    address
        Where the cluster is.
    what
        The model, and how it is applied.
    how
        The format of the inputs, the type of their numbers, and how much memory there is.
    threads
        See `engine`.
    """
    from pathlib import Path

    from calibkit.engines.applying import ApplyTask, Order
    from calibkit.engines.shards import Opening, shards_of
    from calibkit.files.formats import suffix_format
    from calibkit.files.outputs import directory_outputs
    from calibkit.files.sinks import Transaction, make_folders
    from calibkit.files.sources import Part

    if not console.per_input or console.output is None:
        raise UsageError("apply --dask writes a file for each input; give -o a folder: -o DIR/.")
    input_format, dtype, memory = how
    shards = shards_of(inputs)
    parts = [
        Part(shard.path, input_format or suffix_format(shard.path) or "csv", {}, 0, shard.relative)
        for shard in shards
    ]
    outputs = directory_outputs(console.output, parts, format=console.output_format)
    opening = Opening(input_format, dtype, worker_memory(memory, address, threads))
    with Transaction() as transaction, engine(address, threads) as cluster:
        make_folders(outputs)
        absolute = [str(Path(output).absolute()) for output in outputs]
        orders = [
            Order(shard, output, transaction.expect(output))
            for shard, output in zip(shards, absolute, strict=True)
        ]
        made = list(cluster.map(ApplyTask(*what, opening), orders, console.progress()))
        for shard, told in zip(shards, made, strict=True):
            for remark in told.warnings:
                console.warn(f"{shard.name}: {remark}")
    rows = sum(told.rows for told in made)
    console.report_rows(rows, list(made[0].added))
    console.wrote(f"{rows:,} rows in {len(outputs)} files")
