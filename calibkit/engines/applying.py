"""A model applied to shards wherever an engine says: each worker reads a file and writes another."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import polars as pl

from calibkit.apply.apply import Run, plan_application
from calibkit.engines.dask import DaskEngine, worker_memory
from calibkit.engines.parts import Opening, Shard
from calibkit.errors import DataError
from calibkit.files.sinks import Transaction, make_folders, write_frames
from calibkit.files.told import Told as TextTold
from calibkit.files.told import together
from calibkit.models.lineage import footer
from calibkit.models.model import Model
from calibkit.options.apply import ApplyOptions
from calibkit.runtime.progress import Progress


@dataclass(frozen=True)
class Order:
    """A shard, the file that it becomes, and where to write this until all are there."""

    shard: Shard
    output: str
    place: str

    @property
    def name(self) -> str:
        """What messages call the shard."""
        return self.shard.name


@dataclass(frozen=True)
class Told:
    """What is known of a file that was written: its rows, added columns, warnings, how it was read."""

    rows: int
    added: tuple[str, ...]
    warnings: tuple[str, ...] = ()
    text: TextTold | None = None


@dataclass(frozen=True)
class ApplyTask:
    """The work on a shard whose result is a file: a model applied as options say."""

    model: Model
    options: ApplyOptions
    opening: Opening

    def __call__(self, order: Order) -> Told:
        """Write a shard's rows with the added columns; return what is to be told."""
        source = self.opening.open(order.shard)
        plan = plan_application(self.model, source, self.options)
        run = Run(plan, source, self.options, self.opening.memory, threads=1)
        said: list[str] = []
        rows = 0

        def frames() -> Iterator[pl.DataFrame]:
            nonlocal rows
            for frame in run.frames(said.append):
                rows += frame.height
                yield frame

        about = footer(plan.made_by) or None
        write_frames(frames(), order.output, metadata=about, place=order.place)
        return Told(rows, tuple(plan.added), tuple(said), source.told)


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

    The memory of the task is that of this machine; a local cluster has a process for each thread.
    `tell` is called with each warning before a file appears.
    """
    memory = worker_memory(task.opening.memory, address, threads)
    own = replace(task, opening=replace(task.opening, memory=memory))
    with Transaction() as transaction, DaskEngine(address, threads) as cluster:
        make_folders(list(outputs))
        absolute = [str(Path(output).absolute()) for output in outputs]
        orders = [
            Order(shard, output, transaction.expect(output))
            for shard, output in zip(shards, absolute, strict=True)
        ]
        try:
            made = list(cluster.map(own, orders, progress))
            together((shard.name, told.text) for shard, told in zip(shards, made, strict=True))
        except DataError:
            opening = own.opening.told_together(cluster, shards)
            if opening == own.opening:
                raise
            made = list(cluster.map(replace(own, opening=opening), orders, progress))
        for shard, told in zip(shards, made, strict=True):
            for remark in told.warnings:
                tell(f"{shard.name}: {remark}")
    return Told(sum(told.rows for told in made), made[0].added)
