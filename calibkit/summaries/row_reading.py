"""What goes into a state of rows: the columns that a fit uses, checked, as a state has them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

import polars as pl

from calibkit.columns.rows import NothingLeft
from calibkit.files.formats import LOOSE_FORMATS
from calibkit.files.sources import Source
from calibkit.runtime.memory import Memory
from calibkit.summaries.passes import read_in_windows


@dataclass(frozen=True)
class Reading:
    """What is read of an input: which columns, and what refuses values that the fit cannot use."""

    source: Source
    columns: Sequence[str]
    check: Callable[[Source], object]
    files: Sequence[str] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The columns, each once."""
        return tuple(dict.fromkeys(self.columns))

    @property
    def text(self) -> bool:
        """Whether any of it is text."""
        return any(part.format in LOOSE_FORMATS for part in self.source.parts)

    def kinds(self, prefix: str) -> dict[str, pl.DataType]:
        """Return the types of the columns as a state has them."""
        kinds = {name: self.source.schema[name] for name in self.names}
        return {prefix + name: _stored(kind) for name, kind in kinds.items()}

    def frames(self, prefix: str, memory: Memory) -> Iterator[pl.DataFrame]:
        """Yield the checked rows in windows."""

        def read(window: Source) -> pl.DataFrame:
            with suppress(NothingLeft):  # what is dropped is said of all rows together
                self.check(window)
            frame = window.read(self.names).rename(lambda name: prefix + name)
            return frame.select(_plain(name, kind) for name, kind in frame.schema.items())

        most = min(memory.batch, memory.rows_of(len(self.names)))
        for frame in read_in_windows(self.source, self.names, most, read):
            assert isinstance(frame, pl.DataFrame)
            yield frame


def _stored(kind: pl.DataType) -> pl.DataType:
    return pl.String() if isinstance(kind, pl.Categorical | pl.Enum) else kind


def _plain(name: str, kind: pl.DataType) -> pl.Expr:
    """Return a column as a state has it: categories as text, and one value in the place of nulls."""
    column, kind = pl.col(name).cast(_stored(kind)), _stored(kind)
    if kind.is_numeric() or kind.is_temporal() or kind in (pl.String, pl.Boolean):
        nothing = pl.lit("") if kind == pl.String else pl.lit(0).cast(kind)
        column = pl.when(column.is_null()).then(None).otherwise(column.fill_null(nothing))
    return column.alias(name)
