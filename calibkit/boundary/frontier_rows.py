"""The frontier of a problem as rows: counts, rates and the thresholds of every point."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from calibkit.boundary.found import lowest_scores
from calibkit.boundary.frontier import (
    frontier_table,
    precision_recall_frontier,
    supported_frontier,
)
from calibkit.boundary.methods import grid_counts
from calibkit.boundary.problem import Problem

Floats = NDArray[np.float64]


def frontier_rows(problem: Problem) -> pl.DataFrame:
    """Return the boundaries that no other beats in precision and recall, by rising recall.

    Over score bins these are all of them.  Over every distinct score they are the supported ones
    (the vertices of the concave hull), and ``gap`` bounds by how many true positives a boundary
    between a point and the next can exceed it.

    The columns ``threshold_0``, ``threshold_1``, … hold the boundary itself: the lowest selected
    score of each level, null for never, -inf for always; ``take_0``, … the numbers of the highest
    score bins where levels depend on the score bin.
    """
    tally = problem.tally
    positives = problem.totals().positives
    if problem.grid is None:
        points = tally.points()
        supported = supported_frontier(points)
        table = frontier_table(supported, positives, tally.unit)
        lowest = lowest_scores(tally, points, supported.choices())
        return table.with_columns(_columns("threshold", lowest))
    frontier = precision_recall_frontier(*grid_counts(tally))
    table = frontier_table(frontier, positives, tally.unit)
    takes = frontier.takes()
    if problem.levels is None:
        return table.with_columns(
            pl.Series(f"take_{level}", takes[:, level]) for level in range(tally.levels)
        )
    return table.with_columns(_columns("threshold", _scores(problem, takes)))


def _scores(problem: Problem, takes: NDArray[np.int64]) -> Floats:
    """Translate numbers of the highest columns into scores, level by level."""
    columns = int(problem.tally.score.max()) + 1
    found = np.empty(takes.shape)
    for level in range(takes.shape[1]):
        distinct, places = np.unique(takes[:, level], return_inverse=True)
        lowest = np.full((distinct.size, takes.shape[1]), np.nan)
        lowest[:, level] = np.where(distinct > 0, columns - distinct, np.nan)
        found[:, level] = np.array([problem.scores(row)[level] for row in lowest])[places]
    return found


def _columns(name: str, values: Floats) -> list[pl.Series]:
    return [
        pl.Series(f"{name}_{level}", values[:, level], nan_to_null=True)
        for level in range(values.shape[1])
    ]
