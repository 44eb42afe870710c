"""One input as a table: its schema and number of rows at once, its columns on demand."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path

import polars as pl
from polars.selectors import by_name

from calibkit.files.scratch import Scratch

Schema = dict[str, pl.DataType]


def exactly(name: str) -> pl.Expr:
    """Return a column by its name alone: polars would take ``*`` and ``^…$`` for patterns."""
    return by_name(name).as_expr()


@dataclass(frozen=True)
class Table:
    """An input whose schema and number of rows are known.

    Parameters
    ----------
    frame
        The rows, or the scan that reads them.
    schema
        Column names and types, in the order of the file.
    rows
        The number of rows.
    stored
        A Parquet file, or its bytes, for `metadata`.
    kept
        The file that is scanned, where it is the run's own.
    """

    frame: pl.DataFrame | pl.LazyFrame
    schema: Schema
    rows: int
    stored: Path | str | bytes | None = None
    kept: Scratch | None = None

    @classmethod
    def of(cls, frame: pl.DataFrame | pl.LazyFrame, rows: int | None = None) -> Table:
        """Return a table of these rows; `rows`: how many they are, where that is known."""
        if isinstance(frame, pl.DataFrame):
            return cls(frame, dict(frame.schema), frame.height)
        schema = dict(frame.collect_schema())
        return cls(frame, schema, rows or int(frame.select(pl.len()).collect().item()))

    def metadata(self) -> dict[str, str]:
        """Return the keys and values of a Parquet file's footer; other formats have none."""
        if self.stored is None:
            return {}
        source = BytesIO(self.stored) if isinstance(self.stored, bytes) else self.stored
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # polars calls the function experimental
            return pl.read_parquet_metadata(source)

    def stretch(self, first: int, rows: int) -> Table:
        """Return some rows from number `first` (from 0) on; of a scan they alone are read."""
        return replace(self, frame=self.frame.slice(first, rows), rows=rows)

    def read(self, columns: Sequence[str]) -> pl.DataFrame:
        """Return `columns`, in this order, in as many chunks as the file has."""
        return self.frame.lazy().select(map(exactly, columns)).collect()

    def batches(self, columns: Sequence[str], rows: int) -> Iterator[pl.DataFrame]:
        """Yield `columns`, in this order, at most so many rows at a time, in the file's order."""
        frame = self.frame.select(map(exactly, columns))
        if isinstance(frame, pl.DataFrame):
            yield from frame.iter_slices(rows)
        else:
            # Batches as polars reads them: to cut them to a size costs time and memory.
            yield from _gathered(frame.collect_batches(maintain_order=True), rows)


def _gathered(frames: Iterable[pl.DataFrame], rows: int) -> Iterator[pl.DataFrame]:
    """Yield the rows of frames in frames of at most `rows`: small ones together, large ones cut."""
    held: list[pl.DataFrame] = []
    count = 0
    for frame in frames:
        if held and count + frame.height > rows:
            yield pl.concat(held, rechunk=True)
            held, count = [], 0
        if frame.height > rows:
            yield from frame.iter_slices(rows)
        elif frame.height:
            held.append(frame)
            count += frame.height
    if held:
        yield pl.concat(held, rechunk=True)
