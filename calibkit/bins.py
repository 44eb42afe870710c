"""``bin`` from rows to the table of a grid: as `calibkit.summaries.states.Run` names it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import polars as pl
from msgspec import Struct
from msgspec.structs import replace

from calibkit.files.sources import Source
from calibkit.models.model import Column
from calibkit.options.bin import BinOptions
from calibkit.options.option import plain
from calibkit.runtime.memory import Memory
from calibkit.summaries.binning import Grid, fit_grid, grid_columns, grid_frame, grid_metadata
from calibkit.summaries.score_batches import Reading, rows_within, score_state
from calibkit.summaries.score_rows import ScoreRows, read_score_rows, resolve
from calibkit.summaries.score_summary import rows_of_state
from calibkit.summaries.states import Plan, State, options_of


class Binned(Struct, frozen=True):
    """The grid of rows; what is told of them is as in `calibkit.summaries.states.Fitted`."""

    grid: Grid
    frame: pl.DataFrame  # one row a cell, see `calibkit.summaries.binning.grid_frame`
    #: The columns of score and uncertainty with the dtypes in which they are compared.
    columns: dict[str, Column]
    metadata: dict[str, str]  # what a file of the table says of itself
    warnings: tuple[str, ...]
    notes: tuple[str, ...]
    details: tuple[str, ...]


def fit(options: BinOptions, source: Source) -> Binned:
    """Return the grid of all rows."""
    return _binned(options, grid_rows(options, source))


def plan(options: BinOptions, source: Source) -> Plan:
    """Return what `fit` would do."""
    columns = _reading(options, source).columns
    step = (
        f"count {source.rows:,} rows over {_bins(options, columns)} x {options.score_bins} bins "
        f"({options.strategy}, {options.order})"
    )
    return Plan(columns, [step])


def state(options: BinOptions, source: Source) -> State:
    """Return the state of the rows of a shard; errors as `grid_rows`."""
    return score_state("bin", source, _reading(options, source), options, {"asked": plain(options)})


def finish(state: State, memory: Memory, threads: int) -> Binned:
    """Return the grid of the rows of a merged state."""
    options = options_of(state, BinOptions, threads)
    return _binned(options, rows_of_state(state, memory))


def grid_rows(options: BinOptions, source: Source) -> ScoreRows:
    """Return the rows of a grid, counted where they do not fit."""
    reading = _reading(options, source)
    if options.order == "uncertainty-score":
        # Bins within score bins have edges of their own each: no level can be kept for all.
        reading = replace(reading, levels=(_bins(options, reading.columns),))
    return rows_within(source, reading, source.memory)


def _bins(options: BinOptions, columns: Mapping[str, str]) -> int:
    return options.levels or (3 if "uncertainty" in columns else 1)


def _reading(options: BinOptions, source: Source) -> Reading:
    return Reading(
        columns=resolve(source, options.columns, label=True, uncertainty=True).roles,
        read=partial(read_score_rows, options=options.columns),
        strategy=options.strategy,
        edges=options.edges,
    )


def _binned(options: BinOptions, rows: ScoreRows) -> Binned:
    rows = replace(rows, level_edges=options.edges or None)
    how: dict[str, Any] = {"strategy": options.strategy, "order": options.order}
    levels = _bins(options, rows.options.roles)
    grid = fit_grid(rows, levels, options.score_bins, threads=options.workers, **how)
    metadata = grid_metadata(grid, rows, options.strategy)
    table, columns = grid_frame(grid), grid_columns(rows)
    return Binned(grid, table, columns, metadata, rows.warnings, rows.notes, rows.details)
