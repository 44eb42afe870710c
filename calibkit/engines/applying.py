"""A model applied to shards wherever an engine says: each worker reads a file and writes another."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import polars as pl

from calibkit.apply.apply import plan_application
from calibkit.apply.passes import Run
from calibkit.engines.shards import Opening, Shard
from calibkit.files.sinks import write_frames
from calibkit.models.lineage import footer
from calibkit.models.model import Model
from calibkit.options.apply import ApplyOptions


@dataclass(frozen=True)
class Order:
    """A shard, the file that it becomes, and where to write this until all are there."""

    shard: Shard
    output: str
    place: str

    @property
    def name(self) -> str:
        """The shard's name, for messages."""
        return self.shard.name


@dataclass(frozen=True)
class Told:
    """What is known of a file that was written: its rows, the added columns, warnings."""

    rows: int
    added: tuple[str, ...]
    warnings: tuple[str, ...]


@dataclass(frozen=True)
class ApplyTask:
    """The work on a shard whose result is a file.

    Attributes
    ----------
    model, options
        What is applied, and how.
    opening
        How the shard is opened.
    """

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
        return Told(rows, tuple(plan.added), tuple(said))
