"""Rows with several uncertainties: each lies in a cell, which takes the place of one uncertainty."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibkit.columns.columns import CellGrid, ScoreRows
from calibkit.columns.numeric import numeric_column
from calibkit.summaries.edges import quantile_edges

#: Bins of each of so many columns: even numbers, so that a cut at the median is among them.
_BINS = {2: 8, 3: 6, 4: 4}

#: Rows, and rows of the rarer class, that a cell is to have on average.
_ROWS, _RARER = 60, 10


def in_cells(rows: ScoreRows, names: tuple[str, ...], like: CellGrid | None = None) -> ScoreRows:
    """Return rows whose uncertainty is the number of their cell.

    Parameters
    ----------
    rows
        The rows, with the columns among their others.
    names
        The columns.
    like
        The grid of other rows to use; None: one of quantiles of these rows.
    """
    columns = uncertainties(rows, names)
    grid = like or CellGrid(names, tuple(_edges(rows, one, len(names)) for one in columns))
    edges = tuple(float(cell) for cell in range(1, grid.cells))
    cell = grid.of(columns)
    return replace(rows, uncertainty=cell, cells=grid, level_edges=edges or None, notes=())


def roles_of(grid: CellGrid) -> list[str]:
    """Return the role of each column of a grid."""
    return ["uncertainty", *(f"uncertainty_{k + 2}" for k in range(len(grid.names) - 1))]


def uncertainties(rows: ScoreRows, names: tuple[str, ...]) -> list[NDArray[Any]]:
    """Return the columns of several uncertainties, checked."""
    assert rows.others is not None and rows.where is not None
    return [numeric_column(rows.others[name], rows.where) for name in names]


def _edges(rows: ScoreRows, values: NDArray[Any], columns: int) -> NDArray[np.float64]:
    """Return the edges of quantile bins: fewer where cells would hold too few rows."""
    positives = rows.positive_rows
    rarer = min(positives, rows.rows - positives)
    bins = _BINS.get(columns, 2)
    while bins > 2 and (rows.rows < _ROWS * bins**columns or rarer < _RARER * bins**columns):
        bins -= 2
    low, edges = quantile_edges(values, bins, rows.weight)
    return np.unique(edges[edges > low])
