"""A model on its way through rows that need not fit into memory: batch by batch, several at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import polars as pl

from calibkit.apply.apply import Application, AppliedRows, apply_rows, missing_note, too_many
from calibkit.columns.columns import RowFinder
from calibkit.columns.rows import Gaps, NothingLeft
from calibkit.files.sinks import row_bytes
from calibkit.files.sources import Source
from calibkit.options.apply import ApplyOptions
from calibkit.runtime.memory import Memory
from calibkit.summaries.passes import work_through

#: Rows of a batch: enough to hide what each costs by itself, few enough to stay small.
_MOST_ROWS: Final = 2**17
_FEWEST_ROWS: Final = 2**10

#: Copies of a batch that are in memory while it is read, judged and written.
_COPIES: Final = 6


@dataclass(frozen=True)
class Run:
    """A model that is applied to the rows of a source.

    Attributes
    ----------
    plan, source, options
        What is applied to what, and how.
    memory
        How much memory there is.
    threads
        How many batches are worked on at a time.
    """

    plan: Application
    source: Source
    options: ApplyOptions
    memory: Memory
    threads: int

    def frames(self, tell: Callable[[str], None]) -> Iterator[pl.DataFrame]:
        """Yield all rows with the added columns, some at a time, in their order.

        The rows are those of `calibkit.apply.apply.apply_model`, whatever the batches.  Before the last
        ones come, the user is told what there is to be told: rows of one batch are checked as a
        whole before any of them is seen.  Once too many rows lack a value no more rows come; the
        others are counted for the message.

        Raises
        ------
        DataError
            See `apply_model`.
        """
        for remark in self.source.warnings:
            tell(remark)
        held, gaps = None, Gaps()
        for made in work_through(self.threads, self._applied, self._batches(), self.plan.read):
            assert not isinstance(made, NothingLeft)  # no row is dropped here
            gaps = gaps.merge(made.gaps)
            if held is not None and not too_many(gaps, self.source, self.options):
                yield held
            held = made.frame
        for remark in missing_note(gaps, self.source, self.options):
            tell(remark)
        if held is not None:
            yield held

    def batch_rows(self) -> int:
        """Return how many rows are read at a time."""
        width = row_bytes({name: self.source.schema[name] for name in self.plan.read})
        width += 8 * len(self.plan.added)
        room = self.memory.room // (width * (_COPIES + self.threads))
        return max(_FEWEST_ROWS, min(_MOST_ROWS, room))

    def _batches(self) -> Iterator[tuple[int, pl.DataFrame]]:
        """Yield the rows some at a time, with the number of the first ones over all inputs."""
        start = 0
        for window in self.source.windows(self.plan.read, rows=self.batch_rows()):
            yield start, window.read(self.plan.read)
            start += window.rows

    def _applied(self, batch: tuple[int, pl.DataFrame]) -> AppliedRows:
        start, rows = batch
        return apply_rows(self.plan, rows, RowFinder(self.source, start=start), self.options)
