"""The frontier of all boundaries: which precision goes with which recall.

Every optimum under a bound on precision or on recall lies on the frontier, so one computation
answers all bounds.  On a grid the frontier is exact (Arora, Merugu, Saladi, Rastogi, Leveraging
uncertainty estimates to improve classifier performance, sections 4 and 5).  Over raw scores the
*supported* points are given, those on the concave hull, with a bound on what lies between them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from calibkit.columns.weights import ROW, Unit
from calibkit.errors import UsageError
from calibkit.methods.boundary.problem.found import lowest_scores
from calibkit.methods.boundary.problem.problem import Problem
from calibkit.methods.boundary.solvers.classic import level_sets
from calibkit.methods.boundary.solvers.exact import isotonic_blocks
from calibkit.methods.boundary.solvers.grid_methods import (
    MOST_STEPS,
    MOST_VALUES,
    LevelPrefixes,
    LevelTables,
    table_size,
)
from calibkit.methods.boundary.solvers.methods import grid_counts
from calibkit.summaries.tally import Points
from calibkit_kernels import knapsack

Int64s = NDArray[np.int64]

#: What merging one undominated total costs, in additions of a table (measured).
_MERGE_COST = 16


@dataclass(frozen=True)
class GridFrontier:
    """Boundaries on a grid that no other boundary beats, by rising true positives.

    Their totals, in units of weight, rise strictly.
    """

    true_positives: Int64s
    selected: Int64s
    _keys: Int64s
    _trace: Callable[[Int64s], Int64s]

    def takes(self) -> Int64s:
        """Return a boundary for every point: bins per level, shape (points, levels)."""
        return self._trace(self._keys)


def precision_recall_frontier(positives: Int64s, totals: Int64s) -> GridFrontier:
    """Return the boundaries on a grid whose precision no boundary of at least their recall reaches.

    Of equal precision the point with more true positives is kept; the empty selection is left out.
    The canonical answers for every bound on precision (unless empty) and on recall are among them.
    A grid is that of `calibkit.methods.boundary.solvers.grid_methods`; one whose frontier would take
    more than `MOST_STEPS` steps is refused.
    """
    whole = pareto_frontier(positives, totals)
    kept = knapsack.rising_precision(whole.true_positives, whole.selected)
    hits, rows = whole.true_positives[kept], whole.selected[kept]
    return GridFrontier(hits, rows, whole._keys[kept], whole._trace)


def pareto_frontier(positives: Int64s, totals: Int64s) -> GridFrontier:
    """Return the fewest rows for every number of true positives worth having on a grid.

    It starts with the empty selection and contains the optima of every measure that rises with true
    positives and falls with selected rows, whatever its shape; see `precision_recall_frontier` for
    the part that matters to precision and recall.

    There are three equivalent ways, of which the one that is estimated to be the cheapest is taken: a
    table over selected rows, a table over true positives, or lists of undominated totals merged level
    by level, which need no table as long as the counts and so work for large weights.
    """
    prefixes = LevelPrefixes.of(positives, totals)
    by_rows, by_hits = table_size(prefixes.rows), table_size(prefixes.hits)
    by_lists = _MERGE_COST * _merges(prefixes)
    smaller = min(by_rows, by_hits)
    if by_lists < smaller[0] or smaller[0] > MOST_STEPS or smaller[1] > MOST_VALUES:
        return _from_lists(prefixes)
    return _from_table(prefixes, by_rows=by_rows < by_hits)


def _undominated_costs(values: Int64s, above: int) -> Int64s:
    """Return the costs whose value exceeds `above` and the value of every smaller cost."""
    highest = np.maximum.accumulate(np.append(above, values))
    return np.flatnonzero(highest[1:] > highest[:-1])


def _from_table(prefixes: LevelPrefixes, *, by_rows: bool) -> GridFrontier:
    """Most true positives for every number of rows, or fewest rows for every number of those."""
    if by_rows:
        tables = LevelTables.fill(prefixes.hits, prefixes.rows)
        best = tables.values[-1]
        keys = rows = _undominated_costs(best, -1)
        hits = best[rows]
    else:
        tables = LevelTables.fill([-rows for rows in prefixes.rows], prefixes.hits)
        best = tables.values[-1]
        # From the most true positives down, a total is kept if it has fewer rows than all before.
        falling = _undominated_costs(best[::-1], knapsack.UNREACHABLE)
        keys = hits = (best.size - 1 - falling)[::-1].copy()
        rows = -best[hits]
    hits, rows = hits * prefixes.hits_unit, rows * prefixes.rows_unit
    return GridFrontier(hits, rows, keys, lambda keys: prefixes.takes(tables.trace(keys)))


def _merges(prefixes: LevelPrefixes) -> int:
    """Estimate, from above, how many totals the lists of all levels put together."""
    merges, states, hits, rows = 0, 1, 1, 1
    for level_hits, level_rows in zip(prefixes.hits, prefixes.rows, strict=True):
        pairs = states * level_hits.size
        merges += pairs * level_hits.size.bit_length()
        hits, rows = hits + int(level_hits[-1]), rows + int(level_rows[-1])
        states = min(pairs, hits, rows)
    return merges


def _from_lists(prefixes: LevelPrefixes) -> GridFrontier:
    """Undominated totals, level by level; by falling true positives within a list."""
    states = np.zeros((1, 3), np.int64)
    history: list[Int64s] = []
    merged = 0
    for hits, rows in zip(prefixes.hits, prefixes.rows, strict=True):
        states, steps = _combine(states, hits, rows, MOST_STEPS - merged)
        merged += steps
        history.append(states[:, 2].copy())
    sizes = [hits.size for hits in prefixes.hits]

    def trace(keys: Int64s) -> Int64s:
        choices = np.empty((keys.size, len(history)), np.int64)
        for level in range(len(history) - 1, -1, -1):
            keys, choices[:, level] = np.divmod(history[level][keys], sizes[level])
        return prefixes.takes(choices)

    return GridFrontier(
        states[::-1, 0] * prefixes.hits_unit,
        states[::-1, 1] * prefixes.rows_unit,
        np.arange(len(states) - 1, -1, -1),
        trace,
    )


def _combine(states: Int64s, hits: Int64s, rows: Int64s, allowed: int) -> tuple[Int64s, int]:
    """Return the undominated sums of states and the prefixes of a level, and the work it took.

    A state's tag becomes ``old state * prefixes + prefix``.  Lists of like size are merged first,
    like digits in a binary counter, so each total is moved a logarithmic number of times.
    """
    stack: list[tuple[int, Int64s]] = []
    steps = 0
    origins = np.arange(len(states)) * hits.size
    for prefix in range(hits.size):
        shifted = np.column_stack(
            (states[:, 0] + hits[prefix], states[:, 1] + rows[prefix], origins + prefix)
        )
        rank = 0
        while stack and (stack[-1][0] == rank or prefix == hits.size - 1):
            _, before = stack.pop()
            steps += len(before) + len(shifted)
            if steps > allowed or len(before) + len(shifted) > MOST_VALUES // 10:
                raise UsageError(
                    f"The exact frontier of this grid would take more than {MOST_STEPS:,} steps. "
                    "Take fewer --score-bins or --uncertainty-bins, or --score-bins 0 for the points "
                    "on the concave hull alone."
                )
            shifted = knapsack.merge_pareto(before, shifted)
            rank += 1
        stack.append((rank, shifted))
    return stack[0][1], steps


# ---------------------------------------------------------------- raw scores


@dataclass(frozen=True)
class SupportedFrontier:
    """The boundaries on the concave hull of (selected rows, true positives), by rising rows.

    `selected`, `true_positives`: totals of each vertex, in units of weight; both rise strictly,
    precision falls strictly; `gap`: for each vertex, by how many true positives a boundary that
    selects at least as many rows, but fewer than the next vertex, can exceed it: the rise of the
    chord to the next vertex, up to the last row before that, rounded down to whole units.  0 at the
    last vertex, which has every positive.
    """

    selected: Int64s
    true_positives: Int64s
    gap: Int64s
    _steps: tuple[Int64s, Int64s, Int64s]
    _levels: int

    def choices(self) -> Int64s:
        """Return the point of each level (-1 for none) at every vertex: shape (vertices, levels).

        The boundaries are nested: none selects less, in any level, than the one before.
        """
        vertex, level, point = self._steps
        chosen = np.full((self.selected.size, self._levels), -1, np.int64)
        chosen[vertex, level] = point
        np.maximum.accumulate(chosen, axis=0, out=chosen)
        return chosen


def supported_frontier(points: Points) -> SupportedFrontier:
    """Return the vertices of the concave hull of all boundaries, and how far others can exceed it.

    A vertex maximises ``true positives - c * selected`` for some c over every choice of one prefix
    a level: it takes, in each level, the blocks of the isotonic regression whose rate exceeds c.
    Blocks of equal rate in several levels enter together.  Between two vertices no boundary lies
    above the chord, and none has a higher precision than the first vertex.

    `points`: the prefixes of each level; see `calibkit.summaries.tally.Tally.points`.
    """
    blocks, ends = level_sets(isotonic_blocks(points))
    if ends.size and blocks.true_positives[ends[-1]] == 0:  # rows without positives gain nothing
        ends = ends[:-1]
    used = slice(0, int(ends[-1]) + 1 if ends.size else 0)
    rows, hits = np.cumsum(blocks.selected)[ends], np.cumsum(blocks.true_positives)[ends]
    more_rows, more_hits = np.diff(rows), np.diff(hits)
    # floor(d_hits (d_rows - 1) / d_rows), without the product
    gap = np.append(more_hits + (-more_hits // more_rows), np.zeros(min(1, rows.size), np.int64))
    vertex = np.searchsorted(ends, np.arange(used.stop))
    steps = (vertex, blocks.level[used], blocks.point[used])
    return SupportedFrontier(rows, hits, gap, steps, points.levels)


# ---------------------------------------------------------------- tables


def frontier_table(
    frontier: GridFrontier | SupportedFrontier, positives: int, unit: Unit = ROW
) -> pl.DataFrame:
    """Return a frontier as a table, one row a point, by rising true positives.

    Columns ``true_positives`` and ``selected`` (integers where one unit is one row, else weights),
    ``precision`` and ``recall`` (null where undefined); supported frontiers also have ``gap``, in
    the measure of the true positives.  `positives` are the positive rows altogether, in units.
    """

    def share(part: Int64s, whole: Int64s) -> pl.Series:
        return pl.Series(part / np.maximum(whole, 1)).set(pl.Series(whole == 0), None)

    def amount(units: Int64s) -> pl.Series:
        return pl.Series(units if unit.size == 1.0 else units * unit.size)

    hits, rows = frontier.true_positives, frontier.selected
    columns = {"true_positives": amount(hits), "selected": amount(rows)}
    columns |= {
        "precision": share(hits, rows),
        "recall": share(hits, np.full_like(rows, positives)),
    }
    if isinstance(frontier, SupportedFrontier):
        columns["gap"] = amount(frontier.gap)
    return pl.DataFrame(columns)


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
    bins, lowest = int(tally.score.max()) + 1, np.empty(takes.shape)
    for level in range(tally.levels):
        distinct, places = np.unique(takes[:, level], return_inverse=True)
        scores = [problem.score_at(level, bins - take if take else np.nan) for take in distinct]
        lowest[:, level] = np.array(scores)[places]
    return table.with_columns(_columns("threshold", lowest))


def _columns(name: str, values: NDArray[np.float64]) -> list[pl.Series]:
    return [
        pl.Series(f"{name}_{level}", values[:, level], nan_to_null=True)
        for level in range(values.shape[1])
    ]
