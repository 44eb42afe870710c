"""``--dask``: the states of all files made and merged on a cluster, then finished here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

from calibkit.errors import UsageError

from .console import Console
from .options import RUN, option

if TYPE_CHECKING:
    from calibkit.apply import ApplySpec
    from calibkit.engines.dask import DaskEngine
    from calibkit.memory import Memory
    from calibkit.models import Model

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
