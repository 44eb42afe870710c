"""Calibration error over the cells of a grid: ECE@j (Arora et al., section C.6)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibkit.bins.binning import MOST_LEVELS, Grid
from calibkit.errors import UsageError
from calibkit.measures.metric import signed
from calibkit.measures.result import Number
from calibkit.measures.views import Sample
from calibkit.options.metrics import OF_CELLS, Settings
from calibkit.summaries.edges import assign
from calibkit.summaries.tally import count_rows
from calibkit_kernels.tally import fill_grid

Floats = NDArray[Any]
Edges = NDArray[np.float64]


@dataclass(frozen=True)
class Cells:
    """The cell of each row, level by level: ``cell = level * columns + column``."""

    cell: NDArray[np.uint16]
    levels: int
    columns: int


def place(grid: Grid, score: Floats, uncertainty: Floats | None) -> Cells:
    """Return the cells of rows in a grid fitted before.

    Raises
    ------
    UsageError
        For a grid with more cells than rows can be told apart in.
    """
    levels, columns = grid.shape
    if levels * columns > MOST_LEVELS:
        raise UsageError(
            f"--grid has {levels} x {columns} cells; ECE@j takes at most {MOST_LEVELS:,}."
        )
    spread = np.zeros(score.size) if uncertainty is None else uncertainty
    if grid.order == "uncertainty-score":
        level = assign(spread, float(grid.uncertainty_min[0]), grid.uncertainty_edges[0])
        column = _inner(score, level, grid.score_min, grid.score_edges)
    else:
        column = assign(score, float(grid.score_min[0]), grid.score_edges[0])
        level = _inner(spread, column, grid.uncertainty_min, grid.uncertainty_edges)
    return Cells((level * np.uint16(columns) + column).astype(np.uint16), levels, columns)


def _inner(
    values: Floats, outer: NDArray[np.uint16], minimum: Edges, edges: Edges
) -> NDArray[np.uint16]:
    """Return the bins of values within the outer bin of each row; one set of edges may do for all."""
    if edges.shape[0] == 1:
        return assign(values, float(minimum[0]), edges[0])
    found = np.zeros(values.size, np.uint16)
    for own in range(edges.shape[0]):
        rows = np.flatnonzero(outer == own)
        if rows.size and not np.isnan(edges[own]).any():
            found[rows] = assign(values[rows], float(minimum[own]), edges[own])
    return found


def compute(sample: Sample, cells: Cells, settings: Settings) -> dict[str, Number]:
    """Return ECE@j and cumulative ECE@j for every score bin j.

    ECE@j is the mean over uncertainty levels of |mean probability - mean label| in score bin j,
    over the cells that have rows; None where none has.  The cumulative one takes all cells of score
    bins j and up.
    """
    gaps = _gaps(sample, cells, settings)
    found: dict[str, Number] = {}
    above: list[float] = []
    for j in reversed(range(cells.columns)):
        own = gaps[:, j][~np.isnan(gaps[:, j])].tolist()
        above += own
        found[f"ece_at:{j}"] = math.fsum(own) / len(own) if own else None
        found[f"cumulative_ece_at:{j}"] = math.fsum(above) / len(above) if above else None
    return found


def names(cells: Cells) -> Iterator[str]:
    """Yield the names of the metrics."""
    for name in OF_CELLS:
        for j in range(cells.columns):
            yield f"{name}:{j}"


def signature(name: str, cells: Cells, settings: Settings) -> str:
    """Return the signature of ECE@j: the grid's shape, uncertainty levels by score bins."""
    return signed(name, {"grid": f"{cells.levels}x{cells.columns}", "norm": "l1"}, settings)


def _gaps(sample: Sample, cells: Cells, settings: Settings) -> NDArray[np.float64]:
    """Return |mean probability - mean label| of each cell, NaN where it has no row."""
    size = cells.levels * cells.columns
    gaps = np.full(size, np.nan)
    weight = sample.weight
    usable = settings.scale == "probability" and sample.label.size
    if usable and (weight is None or weight.any()):
        tally = count_rows(
            sample.score, cells.cell, sample.label, size, weight=weight, threads=settings.threads
        )
        one_bin = np.empty((size, 0))
        count, positive, mass = (
            column.ravel()
            for column in fill_grid(tally.score, tally.level, tally.count, tally.positive, one_bin)
        )
        held = count > 0
        gaps[held] = np.abs(mass[held] - positive[held]) / count[held]
    return gaps.reshape(cells.levels, cells.columns)
