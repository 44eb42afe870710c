"""A boundary problem: the tally to choose from, and how its scores translate into thresholds.

Over raw scores the tally is that of the rows.  Over score bins it is the grid's, with the numbers of
the columns as scores.  Every method and the cross-validation work on the tally alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibkit.bins.binning import Grid, Levels, fit_grid, grid_columns, grid_levels
from calibkit.columns.columns import ScoreRows
from calibkit.columns.weights import AS_THEY_ARE, ROW, ClassWeights, at_prevalence
from calibkit.methods.boundary.problem.bounded import GOALS
from calibkit.methods.boundary.problem.columns import Values, roles_of, uncertainties
from calibkit.methods.boundary.problem.goals import Goal, LeastCost, Totals
from calibkit.methods.boundary.problem.measures import Measure
from calibkit.methods.boundary.problem.three_way import ThreeWay
from calibkit.models.model import Column
from calibkit.numerics.row_hash import random_parts
from calibkit.options.bin import Order
from calibkit.options.objective import Target
from calibkit.summaries.edges import assign
from calibkit.summaries.tally import Tally, count_rows

Floats = NDArray[Any]


@dataclass(frozen=True, kw_only=True)
class Problem:
    """What the methods choose from."""

    tally: Tally  # distinct scores, or columns of `grid`, per level
    levels: Levels | None  # None where they depend on the score bin
    columns: dict[str, Column]  # that it was made from, by role
    grid: Grid | None = None  # the score bins
    #: Where rows have to be dealt one by one: the rows (with fractional or sampling weights, with
    #: values, or where `part` is given), and the part of each, if a column decides it.
    dealt: ScoreRows | None = None
    part: NDArray[np.uint8] | None = None
    values: Values | None = None  # what each row is worth, where that counts
    #: The level of each row where `levels` does not say it: segments have levels of their own.
    level: NDArray[np.uint16] | None = None

    def totals(self) -> Totals:
        """Return rows and positive rows, in units."""
        return tally_totals(self.tally)

    def scores(self, thresholds: NDArray[np.float64]) -> NDArray[np.float64]:
        """Translate thresholds of the levels on the tally's scores into thresholds on scores."""
        return np.array([self.score_at(level, value) for level, value in enumerate(thresholds)])

    def score_at(self, level: int, value: float) -> float:
        """Translate a threshold on the tally's scores into one on scores.

        A grid's bin reaches down to its lower edge, the lowest bin that held rows to -inf.
        """
        if self.grid is None or np.isnan(value):
            return float(value)
        column, edges = int(value), self.grid.score_edges
        if not self.grid.total[level, :column].any():
            return -np.inf
        return float(edges[level if edges.shape[0] > 1 else 0, column - 1])

    def take(self, thresholds: NDArray[np.float64]) -> list[int]:
        """Return how many of the highest score bins each level takes."""
        assert self.grid is not None
        bins, found = self.grid.shape[1], []
        for total, threshold in zip(self.grid.total, thresholds, strict=True):
            lowest = bins if np.isnan(threshold) else int(threshold)
            found.append(bins - lowest if lowest == bins or total[:lowest].any() else bins)
        return found


def tally_totals(tally: Tally) -> Totals:
    """Return rows, positive rows and what rows are worth of a tally, in units."""
    rows, positives = (int(total) for total in tally.level_totals[:, 1:].sum(axis=0))
    gain = int(tally.worth.sum()) if tally.worth.size else 0
    units, hits = (int(total) for total in tally.classes.rows(rows, positives))
    found = Totals(
        units,
        hits,
        tally.unit.exact,
        1 / Fraction(tally.unit.size),
        gain=gain,
        gain_unit=tally.gain_unit,
    )
    if tally.classes == AS_THEY_ARE:
        return found
    return replace(found.reweighted(tally.classes), rows=rows, positives=positives)


def goal_of(target: Target, totals: Totals) -> Goal:
    """Return the goal for rows with some totals."""
    if target.review is not None:
        return ThreeWay(target.review, totals)
    if target.costs:
        return LeastCost(target.value, totals)
    if target.bound is None:
        return Measure(target.measure, target.parameters, totals)
    return GOALS[target.option](target.bound, totals, of_value=target.value_column is not None)


def classes_of(target: Target, totals: Totals) -> ClassWeights:
    """Return by how much the classes of rows with some totals are reweighted."""
    asked = target.prevalence
    share = None if asked is None else Fraction(asked.numerator, asked.denominator)
    return at_prevalence(totals.rows, totals.positives, share)


def raw_problem(
    rows: ScoreRows, levels: Levels, threads: int, values: Values | None = None
) -> Problem:
    """Return the problem over every distinct score."""
    level = levels.of(rows.uncertainty, rows.score.size)
    tally = count_at(rows, level, levels.count, values, threads=threads)
    kept = rows if values is not None else _if_whole(rows, tally)
    columns = columns_of(rows, values)
    return Problem(tally=tally, levels=levels, columns=columns, dealt=kept, values=values)


def count_at(
    rows: ScoreRows,
    level: NDArray[np.uint16],
    levels: int,
    values: Values | None,
    *,
    part: NDArray[np.uint8] | None = None,
    sampled: bool = False,
    threads: int = 1,
) -> Tally:
    """Count rows at their levels, and what they are worth; see `count_rows` for the others."""
    return count_rows(
        rows.score,
        level,
        rows.labels,
        levels,
        weight=rows.weight,
        part=part,
        gain=None if values is None else values.gain,
        gain_unit=ROW if values is None else values.unit,
        sampled=sampled,
        threads=threads,
    )


def binned_problem(
    rows: ScoreRows, bins: tuple[int, int], strategy: str, order: Order, threads: int
) -> Problem:
    """Return the problem over score bins."""
    grid = fit_grid(rows, *bins, strategy=strategy, order=order, threads=threads)
    return grid_problem(grid, columns_of(rows), rows)


def grid_problem(grid: Grid, columns: dict[str, Column], rows: ScoreRows | None = None) -> Problem:
    """Return the problem over the cells of a grid."""
    levels = None
    if grid.order == "uncertainty-score":
        levels = Levels(float(grid.uncertainty_min[0]), grid.uncertainty_edges[0])
    tally = grid.as_tally()
    dealt = _if_whole(rows, tally)
    return Problem(tally=tally, levels=levels, columns=columns, grid=grid, dealt=dealt)


def _if_whole(rows: ScoreRows | None, tally: Tally) -> ScoreRows | None:
    """Return rows if each of them has to stay whole: a weight is no number of rows."""
    if rows is not None and (tally.unit.size != 1.0 or rows.options.sampled):
        return rows
    return None


def columns_of(rows: ScoreRows, values: Values | None = None) -> dict[str, Column]:
    """Return the columns of rows by role, with the dtypes in which they are compared."""
    options = rows.options
    columns = grid_columns(rows) | {"label": Column(options.label, positive=options.positive)}
    if rows.cells is not None:
        kinds = [str(one.dtype) for one in uncertainties(rows, rows.cells.names)]
        for role, name, kind in zip(roles_of(rows.cells), rows.cells.names, kinds, strict=True):
            columns[role] = Column(name, dtype=kind)
    if options.weight is not None:
        columns["weight"] = Column(options.weight, kind=options.weight_kind)
    if values is not None:
        columns |= values.columns
    return columns


def deal(problem: Problem, parts: int, seed: int, threads: int) -> Tally:
    """Return the problem's tally dealt to parts of equal size.

    Counts of rows are dealt as such.  Rows with fractional or sampling weights, or with values, are
    dealt one by one, in parts of about equal size.
    """
    rows, part, level = problem.dealt, problem.part, problem.level
    if rows is None:
        return problem.tally.deal(parts, seed)
    if part is None:
        columns = {"score": rows.score, "label": rows.labels}
        if rows.weight is not None:
            columns["weight"] = rows.weight
        if problem.values is not None:
            columns["gain"] = problem.values.gain.astype(np.float64)
        if rows.uncertainty is not None:
            columns["uncertainty"] = rows.uncertainty
        if level is not None:  # rows of different segments are no copies of each other
            columns["level"] = level.astype(np.float64)
        part = random_parts(columns, parts, seed)
    sampled, levels = rows.options.sampled and problem.part is None, problem.tally.levels
    grid, own = problem.grid, rows
    if grid is not None:
        level, column = grid_levels(grid, rows.score, rows.uncertainty), np.zeros(rows.score.size)
        edges = np.broadcast_to(grid.score_edges, (levels, grid.shape[1] - 1))
        for one in range(levels):
            inside = np.flatnonzero(level == one)
            column[inside] = assign(rows.score[inside], -np.inf, np.ascontiguousarray(edges[one]))
        own = replace(rows, score=column)
    elif level is None:
        assert problem.levels is not None
        level = problem.levels.of(rows.uncertainty, rows.score.size)
    return count_at(own, level, levels, problem.values, part=part, sampled=sampled, threads=threads)
