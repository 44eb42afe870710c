"""One input as a table: its schema and number of rows at once, its columns on demand."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from io import BytesIO
from pathlib import Path
from typing import Protocol

import polars as pl
from polars.selectors import by_name

from calibkit.files.scratch import Scratch
from calibkit.files.told import Told

Schema = dict[str, pl.DataType]

#: Returns how a column of some name is read.
Reading = Callable[[str], pl.Expr]


def exactly(name: str) -> pl.Expr:
    """Return a column by its name alone: polars would take ``*`` and ``^…$`` for patterns."""
    return by_name(name).as_expr()


class Undecided(Protocol):
    """Columns of text that may be numbers, or not."""

    @property
    def votes(self) -> set[str]:
        """The decimal marks that columns have for certain, and those that polars took for such."""

    def examined(self) -> Undecided:
        """Return these with all columns as text, where points were taken for decimal marks."""

    def table(self, votes: Collection[str]) -> Table:
        """Return the rows, where other columns have such decimal marks."""


def settled(tables: Sequence[Table], known: Collection[str] = ()) -> list[Table]:
    """Return tables of text in which the decimal mark of one settles those of all.

    `known`: the marks that further inputs have.
    """
    texts = {place: one.undecided for place, one in enumerate(tables) if one.undecided is not None}
    found = list(tables)
    if "," in known or any("," in one.votes for one in texts.values()):
        texts = {place: one.examined() for place, one in texts.items()}
        votes = {*known, *(mark for one in texts.values() for mark in one.votes)}
        for place, one in texts.items():
            found[place] = replace(one.table(votes), kept=tables[place].kept)
    return found


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
    readings
        How columns are read that `frame` holds as text, though `schema` says otherwise: where text
        stands for missing values, and numbers are written otherwise than here.
    undecided
        What it was made of, for `settled`.
    told
        Returns how columns of text were read.
    remarks
        What is unusual about how it is written.
    """

    frame: pl.DataFrame | pl.LazyFrame
    schema: Schema
    rows: int
    stored: Path | str | bytes | None = None
    kept: Scratch | None = None
    readings: Mapping[str, Reading] = field(default_factory=dict)
    undecided: Undecided | None = None
    told: Callable[[Collection[str]], Told | None] | None = None
    remarks: tuple[str, ...] = ()

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

    def as_text(self, name: str) -> Table:
        """Return the table with a column as it is written."""
        others = {key: one for key, one in self.readings.items() if key != name}
        frame = self.frame
        if name not in self.readings:
            frame = frame.with_columns(exactly(name).cast(pl.String))
        return replace(self, frame=frame, readings=others, schema=self.schema | {name: pl.String()})

    def as_read(self, name: str, reading: Reading) -> Table:
        """Return the table with a column that is read from its text."""
        kinds = self.frame.lazy().select(reading(name).alias(name)).collect_schema()
        readings, schema = {**self.readings, name: reading}, self.schema | dict(kinds)
        return replace(self, readings=readings, schema=schema)

    def _column(self, name: str) -> pl.Expr:
        found = self.readings.get(name)
        return exactly(name) if found is None else found(name).alias(name)

    def renamed(self, old: str, new: str) -> Table:
        """Return the table with a column of another name."""
        schema = {new if name == old else name: kind for name, kind in self.schema.items()}
        readings = {new if name == old else name: one for name, one in self.readings.items()}
        return replace(self, frame=self.frame.rename({old: new}), schema=schema, readings=readings)

    def stretch(self, first: int, rows: int) -> Table:
        """Return some rows from number `first` (from 0) on; of a scan they alone are read."""
        return replace(self, frame=self.frame.slice(first, rows), rows=rows)

    def read(self, columns: Sequence[str]) -> pl.DataFrame:
        """Return `columns`, in this order, in as many chunks as the file has."""
        return self.frame.lazy().select(map(self._column, columns)).collect()

    def batches(self, columns: Sequence[str], rows: int) -> Iterator[pl.DataFrame]:
        """Yield `columns`, in this order, at most so many rows at a time, in the file's order."""
        frame = self.frame.select(map(self._column, columns))
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
