"""Rows with the uncertainty bin that a grid puts each of them in."""

from __future__ import annotations

import polars as pl
from msgspec.structs import replace

from calibkit.apply.apply import Application
from calibkit.bins import Binned, fit
from calibkit.columns.rows import RowFinder, arrays_as_fitted
from calibkit.errors import UsageError
from calibkit.files.sources import Source
from calibkit.models.kinds import LEVEL, Reads, Request
from calibkit.models.lineage import agreed, read_makers
from calibkit.options.apply import ApplyOptions
from calibkit.options.bin import BinOptions
from calibkit.summaries.binning import grid_levels


class LevelApplier:
    """Adds `level`."""

    added: tuple[str, ...] = (LEVEL,)

    def __init__(self, placed: Binned) -> None:
        self.placed = placed

    def reads(self, source: Source, request: Request) -> Reads:
        """Return score and uncertainty, as far as levels depend on them."""
        return Reads({role: column.name for role, column in self.placed.columns.items()})

    def values(self, frame: pl.DataFrame, where: RowFinder, reads: Reads) -> list[pl.Series]:
        """Return the levels."""
        arrays = arrays_as_fitted(self.placed.columns, reads.needed, frame, where)
        return [
            pl.Series(grid_levels(self.placed.grid, arrays["score"], arrays.get("uncertainty")))
        ]


def with_levels(
    options: BinOptions, source: Source, *, as_written: bool = False
) -> tuple[Application, Binned]:
    """Return what gives every row, in order, its level, and what is to be said of the grid.

    Levels are null where score or uncertainty are missing; columns of text that have no part in them
    may stay `as_written`.  A column `level` that is there already is refused; other errors are those of
    `calibkit.bins.grid_rows`.
    """
    if LEVEL in source.schema:
        raise UsageError(
            f"--add-level: the input has a column {LEVEL!r} already; rename it first.", column=LEVEL
        )
    placed = fit(options, source)
    applier = LevelApplier(placed)
    asked = ApplyOptions(on_missing="null" if options.on_missing == "drop" else "error")
    reads, kept = applier.reads(source, asked.request), list(source.schema)
    if as_written:
        read = tuple(reads.needed.values())
        source = source.typed(read)
        source.as_written([name for name in kept if name not in read])
    makers = agreed(read_makers(source))
    plan = Application(source, asked, applier, reads, kept, [LEVEL], [0], made_by=makers)
    # The application says what there is of the source.
    told = tuple(text for text in placed.warnings if text not in source.warnings)
    return plan, replace(placed, warnings=told)
