"""``bin`` from rows to the table of a grid: as `calibkit.summaries.runs.Run` names it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import polars as pl

from calibkit.bins.binning import Grid, fit_grid, grid_frame, grid_metadata
from calibkit.columns.columns import ScoreRows, read_score_rows, resolve
from calibkit.columns.names import ScoreColumns
from calibkit.files.sources import Source
from calibkit.models.model import Column
from calibkit.options.bin import BinOptions
from calibkit.options.option import from_plain, plain
from calibkit.runtime.memory import Memory, memory_budget
from calibkit.summaries.runs import Plan
from calibkit.summaries.score_batches import Reading, rows_within, summarise_scores
from calibkit.summaries.score_states import rows_of_state, score_state
from calibkit.summaries.states import State

KIND = "bin"


@dataclass(frozen=True)
class Binned:
    """The table of a grid.

    `frame`: one row a cell, see `calibkit.bins.binning.grid_frame`; `metadata`: what a file of it
    says of itself; `warnings`, `notes`, `details`: as in `calibkit.summaries.runs.Fitted`.
    """

    frame: pl.DataFrame
    metadata: dict[str, str]
    warnings: tuple[str, ...]
    notes: tuple[str, ...]
    details: tuple[str, ...]


def fit(options: BinOptions, source: Source) -> Binned:
    """Return the grid of all rows."""
    return _binned(options, grid_rows(options, source))


def plan(options: BinOptions, source: Source) -> Plan:
    """Return what `fit` would do."""
    columns = _columns(options, source)
    step = (
        f"count {source.rows:,} rows over {_bins(options, columns)} x {options.score_bins} bins "
        f"({options.strategy}, {options.order})"
    )
    return Plan(columns.roles, [step])


def state(options: BinOptions, source: Source) -> State:
    """Return the state of the rows of a shard; errors as `grid_rows`."""
    reading = _reading(options, _columns(options, source))
    summary = summarise_scores(source, reading, source.memory or memory_budget(None))
    return score_state(KIND, {"asked": plain(replace(options, threads=None))}, summary)


def finish(state: State, memory: Memory, threads: int) -> Binned:
    """Return the grid of the rows of a merged state."""
    asked = state.header.options.get("asked")
    options = from_plain(asked, BinOptions, state.path, threads=threads)
    return _binned(options, rows_of_state(state, memory))


def grid_rows(options: BinOptions, source: Source) -> ScoreRows:
    """Return the rows of a grid, counted where they do not fit."""
    columns = _columns(options, source)
    # Bins within score bins have edges of their own each: no level can be kept for all.
    levels = (_bins(options, columns),) if options.order == "uncertainty-score" else ()
    return rows_within(source, _reading(options, columns, levels), source.memory)


def _columns(options: BinOptions, source: Source) -> ScoreColumns:
    return resolve(source, options.columns, label=True, uncertainty=True)


def _bins(options: BinOptions, columns: ScoreColumns) -> int:
    return options.levels or (1 if columns.uncertainty is None else 3)


def _reading(options: BinOptions, columns: ScoreColumns, levels: tuple[int, ...] = ()) -> Reading:
    return Reading(
        columns=list(columns.roles.values()),
        read=partial(read_score_rows, options=options.columns),
        levels=levels,
        strategy=options.strategy,
        edges=options.edges,
    )


def _grid(options: BinOptions, rows: ScoreRows) -> Grid:
    return fit_grid(
        rows,
        _bins(options, rows.options),
        options.score_bins,
        strategy=options.strategy,
        order=options.order,
        threads=options.workers,
    )


def _binned(options: BinOptions, rows: ScoreRows) -> Binned:
    rows = replace(rows, level_edges=options.edges or None)
    grid = _grid(options, rows)
    return Binned(
        grid_frame(grid),
        grid_metadata(grid, rows, options.strategy),
        rows.warnings,
        rows.notes,
        _used(rows),
    )


@dataclass(frozen=True)
class Placed:
    """Where the levels of rows lie.

    `grid`, `columns`: the grid, and the columns of score and uncertainty with the dtypes they are
    compared in; `warnings`, `notes`, `details`: as in `calibkit.summaries.runs.Fitted`.
    """

    grid: Grid
    columns: dict[str, Column]
    warnings: tuple[str, ...]
    notes: tuple[str, ...]
    details: tuple[str, ...]


def place(options: BinOptions, source: Source) -> Placed:
    """Return the grid of all rows, and what is needed to find the level of a row; see `grid_rows`."""
    rows = replace(grid_rows(options, source), level_edges=options.edges or None)
    names = rows.options
    columns = {"score": Column(names.score, str(rows.score.dtype), names.scale)}
    if rows.uncertainty is not None and names.uncertainty is not None:
        columns["uncertainty"] = Column(names.uncertainty, str(rows.uncertainty.dtype))
    return Placed(_grid(options, rows), columns, rows.warnings, rows.notes, _used(rows))


def _used(rows: ScoreRows) -> tuple[str, ...]:
    return (f"{rows.rows:,} rows used of {rows.rows_read:,} read",)
