"""A table that ``bin`` wrote, read back as the grid it came from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from calibkit.bins.binning import Grid
from calibkit.columns.rows import RowFinder, numeric_column
from calibkit.columns.weights import Unit, in_units
from calibkit.errors import DataError, ModelError, UsageError
from calibkit.files.sources import Source
from calibkit.models.model import Column, column_descriptions
from calibkit.models.scales import ScoreColumns
from calibkit.numerics.row_hash import data_hash

Floats = NDArray[np.float64]
Int64s = NDArray[np.int64]

#: The columns by which a table is recognised as a grid.
GRID_COLUMNS = (
    "uncertainty_bin",
    "score_bin",
    "uncertainty_low",
    "uncertainty_high",
    "score_low",
    "score_high",
    "count",
    "positives",
    "uncertainty_min",
    "score_min",
)


@dataclass(frozen=True)
class GridTable:
    """A grid that was read from a table."""

    grid: Grid
    columns: dict[str, Column]  # of score and uncertainty, from which it was made
    fingerprint: str  # a hash of its cells
    source: Source

    @property
    def file(self) -> str:
        """The first input, for messages."""
        return self.source.parts[0].path


def is_grid_table(source: Source) -> bool:
    """Return whether the inputs are a table that ``bin`` wrote."""
    return all(name in source.schema for name in GRID_COLUMNS)


def read_grid_table(source: Source, options: ScoreColumns) -> GridTable:
    """Read a grid back from its table.

    `source`: a table with the columns `GRID_COLUMNS`; `options`: the names of the score and
    uncertainty columns the boundary will read, unless the file itself says what the grid was made
    from.
    """
    if options.weight is not None:
        raise UsageError(
            f"--weight {options.weight}: the grid's counts are weighted already, or never will be; "
            "leave it out.",
            column=options.weight,
        )
    frame = source.read(list(GRID_COLUMNS)).sort("uncertainty_bin", "score_bin")
    levels, bins = _shape(frame, source)
    where = RowFinder(source)
    counts = np.concatenate(
        [numeric_column(frame[name], where, low=0.0) for name in ("count", "positives")]
    ).astype(np.float64)
    if not counts.any():
        raise _broken(source, "all cells are empty")
    units, unit = in_units(counts)
    total, positive = units.reshape(2, levels, bins)
    if (positive > total).any():
        raise _broken(source, "a cell has more positives than rows")
    grid = _grid(frame, total, positive, unit)
    numbers = {name: frame[name].cast(pl.Float64).fill_null(np.nan) for name in GRID_COLUMNS}
    fingerprint = data_hash({name: column.to_numpy() for name, column in numbers.items()})
    return GridTable(grid, _columns(source, options), fingerprint, source)


def _grid(frame: pl.DataFrame, total: Int64s, positive: Int64s, unit: Unit) -> Grid:
    """Put the edges and minima of a table together: one row an outer bin, or one for all."""

    def matrix(name: str) -> Floats:
        values = frame[name].cast(pl.Float64).fill_null(np.nan).to_numpy()
        return np.array(values, np.float64).reshape(total.shape)

    uncertainty_edges, uncertainty_min = matrix("uncertainty_high")[:-1], matrix("uncertainty_min")
    score_edges, score_min = matrix("score_high")[:, :-1], matrix("score_min")
    score_first = _varies(uncertainty_edges, 1) or _varies(uncertainty_min, 1)
    shared = not _varies(score_edges, 0) and not _varies(score_min, 0)
    columns, levels = slice(None if score_first else 1), slice(1 if shared else None)
    lowest = uncertainty_min[0, columns]
    return Grid(
        total,
        positive,
        np.zeros(total.shape),
        "score-uncertainty" if score_first else "uncertainty-score",
        np.ascontiguousarray(uncertainty_edges.T[columns]),
        np.ascontiguousarray(score_edges[levels]),
        np.where(np.isnan(lowest), -np.inf, lowest) if total.shape[0] == 1 else lowest,
        score_min[levels, 0],
        unit,
    )


def _varies(values: Floats, axis: int) -> bool:
    """Return whether the defined values differ along an axis."""
    if values.size == 0:
        return False
    first = np.where(np.isnan(values), np.inf, values).min(axis=axis, keepdims=True)
    return bool((~np.isnan(values) & (values != first)).any())


def _shape(frame: pl.DataFrame, source: Source) -> tuple[int, int]:
    """Return the numbers of bins of a complete grid, sorted by cell."""
    found: Any = frame.select(pl.col("uncertainty_bin", "score_bin").max()).row(0)
    if None in found:
        raise _broken(source, "a bin has no number")
    levels, bins = int(found[0]) + 1, int(found[1]) + 1
    places = frame.select("uncertainty_bin", "score_bin").to_numpy()
    complete = levels * bins == frame.height
    if not complete or not np.array_equal(places, np.argwhere(np.ones((levels, bins)))):
        raise _broken(
            source, f"{levels} x {bins} cells need a row each, but there are {frame.height} rows"
        )
    return levels, bins


def _columns(source: Source, options: ScoreColumns) -> dict[str, Column]:
    about = source.metadata().get("calibkit")
    if about is not None:
        try:
            columns = column_descriptions(about)
            _check_same(source, options, columns)
            return columns
        except ModelError:
            raise _broken(source, "its metadata entry 'calibkit' is damaged") from None
    return {
        "score": Column(options.score, dtype="float64", scale=options.scale),
        "label": Column(options.label, positive=options.positive),
        "uncertainty": Column(options.uncertainty or "uncertainty", dtype="float64"),
    }


def _check_same(source: Source, options: ScoreColumns, columns: dict[str, Column]) -> None:
    """Refuse column options that contradict what the grid was made from."""
    unset = ScoreColumns()
    for role in ("score", "label", "uncertainty"):
        asked, made_from = getattr(options, role), columns.get(role)
        if asked not in (getattr(unset, role), made_from and made_from.name):
            made = repr(made_from.name) if made_from else "no such column"
            raise UsageError(
                f"{source.parts[0].path}: the grid was made from {made}, not from --{role} {asked}; "
                "leave the option out, or make the grid again.",
                column=asked,
            )


def _broken(source: Source, problem: str) -> DataError:
    found = f"looks like a grid of `calibkit bin`, but {problem}; make it again"
    return DataError.of(source.parts[0].path, found)
