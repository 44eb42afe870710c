"""The frontier of all boundaries: which precision goes with which recall.

Every optimum under a bound on precision or on recall lies on the frontier, so one computation
answers all bounds.  On a grid the frontier is exact (Arora, Merugu, Saladi, Rastogi, Leveraging
uncertainty estimates to improve classifier performance, sections 4 and 5).  Over raw scores the
*supported* points are given, those on the concave hull, with a bound on what lies between them.
"""

from __future__ import annotations

import numpy as np
import polars as pl
from msgspec import Struct

from calibkit.arrays import Int64s, Numbers
from calibkit.columns.weights import ROW, Unit
from calibkit.errors import UsageError
from calibkit.methods.boundary.problem.found import lowest_scores
from calibkit.methods.boundary.solvers import grid_methods
from calibkit.methods.boundary.solvers.methods import grid_counts
from calibkit.methods.boundary.solvers.prefixes import isotonic_blocks, level_sets
from calibkit.methods.boundary.solvers.summary import Summary
from calibkit.numerics.knapsack import undominated
from calibkit.summaries.tally import Points
from calibkit_kernels.knapsack import UNREACHABLE


class Frontier(Struct, frozen=True):
    """Boundaries that no other boundary beats, by rising true positives."""

    #: `true_positives, selected`: totals in units of weight; both rise strictly.
    true_positives: Int64s
    selected: Int64s
    #: The boundaries, shape (points, levels): on a grid how many of the highest bins each level
    #: takes, over raw scores the point of each level (-1 for none).
    choices: Int64s
    #: Of supported points: for each, by how many true positives a boundary that selects at least as
    #: many rows, but fewer than the next point, can exceed it.
    gap: Int64s | None = None


def precision_recall_frontier(positives: Int64s, totals: Int64s) -> Frontier:
    """Return the boundaries on a grid whose precision no boundary of at least their recall reaches.

    Of equal precision the point with more true positives is kept; the empty selection is left out.
    The canonical answers for every bound on precision (unless empty) and on recall are among them.
    A grid is that of `calibkit.methods.boundary.solvers.grid_methods`; one whose frontier would take
    more than `MOST_STEPS` steps is refused.
    """
    whole = pareto_frontier(positives, totals)
    hits, rows = whole.true_positives.tolist(), whole.selected.tolist()
    kept: list[int] = []
    for i in range(len(rows) - 1, -1, -1):
        if rows[i] and (not kept or hits[i] * rows[kept[-1]] > hits[kept[-1]] * rows[i]):
            kept.append(i)
    kept.reverse()
    return Frontier(whole.true_positives[kept], whole.selected[kept], whole.choices[kept])


def pareto_frontier(positives: Int64s, totals: Int64s) -> Frontier:
    """Return the fewest rows for every number of true positives worth having on a grid.

    It starts with the empty selection and contains the optima of every measure that rises with true
    positives and falls with selected rows, whatever its shape; see `precision_recall_frontier` for
    the part that matters to precision and recall.

    A table over true positives says it; where counts are too large for one, as those of weights may
    be, lists of undominated totals are merged level by level.
    """
    prefixes = grid_methods.LevelPrefixes.of(positives, totals)
    steps, held = grid_methods.table_size(prefixes.hits)
    if steps > grid_methods.MOST_STEPS or held > grid_methods.MOST_VALUES:
        return _from_lists(prefixes)
    tables = grid_methods.LevelTables([-rows for rows in prefixes.rows], prefixes.hits)
    best = tables.values[-1]
    # From the most true positives down, a total is kept if it has fewer rows than all before.
    fewest = np.maximum.accumulate(np.append(UNREACHABLE, best[::-1]))
    hits = (best.size - 1 - np.flatnonzero(np.diff(fewest)))[::-1].copy()
    takes = prefixes.takes(tables.trace(hits))
    return Frontier(hits * prefixes.hits_unit, -best[hits] * prefixes.rows_unit, takes)


def _from_lists(prefixes: grid_methods.LevelPrefixes) -> Frontier:
    """Undominated totals, level by level; by falling true positives within a list."""
    states = np.zeros((1, 3), np.int64)
    history: list[Int64s] = []
    merged = 0
    for hits, rows in zip(prefixes.hits, prefixes.rows, strict=True):
        states, steps = _combine(states, hits, rows, grid_methods.MOST_STEPS - merged)
        merged += steps
        history.append(states[:, 2].copy())
    choices = np.empty((len(states), len(history)), np.int64)
    keys = np.arange(len(states) - 1, -1, -1)
    for level in range(len(history) - 1, -1, -1):
        keys, choices[:, level] = np.divmod(history[level][keys], prefixes.hits[level].size)
    hits, rows = states[::-1, 0] * prefixes.hits_unit, states[::-1, 1] * prefixes.rows_unit
    return Frontier(hits, rows, prefixes.takes(choices))


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
            if steps > allowed or len(before) + len(shifted) > grid_methods.MOST_VALUES // 10:
                most = grid_methods.MOST_STEPS
                raise UsageError(
                    f"The exact frontier of this grid would take more than {most:,} steps. "
                    "Take fewer --score-bins or --uncertainty-bins, or --score-bins 0 for the points "
                    "on the concave hull alone."
                )
            both = np.concatenate((before, shifted))
            shifted = both[undominated(both[:, [1, 0]])]
            rank += 1
        stack.append((rank, shifted))
    return stack[0][1], steps


# ---------------------------------------------------------------- raw scores


def supported_frontier(points: Points) -> Frontier:
    """Return the vertices of the concave hull of all boundaries, and how far others can exceed it.

    Precision falls strictly along them, and they are nested: none selects less, in any level, than the
    one before.

    A vertex maximises ``true positives - c * selected`` for some c over every choice of one prefix
    a level: it takes, in each level, the blocks of the isotonic regression whose rate exceeds c.
    Blocks of equal rate in several levels enter together.  Between two vertices no boundary lies
    above the chord, and none has a higher precision than the first vertex: the gap is the rise of the
    chord to the next vertex, up to the last row before that, rounded down to whole units, and 0 at the
    last vertex, which has every positive.

    `points`: the prefixes of each level; see `calibkit.summaries.tally.Tally.points`.
    """
    blocks, ends = level_sets(isotonic_blocks(points))
    if ends.size and blocks.true_positives[ends[-1]] == 0:  # rows without positives gain nothing
        ends = ends[:-1]
    used = slice(0, int(ends[-1]) + 1 if ends.size else 0)
    rows, hits = (total[ends] for total in blocks.totals)
    more_rows, more_hits = np.diff(rows), np.diff(hits)
    # floor(d_hits (d_rows - 1) / d_rows), without the product
    gap = np.append(more_hits + (-more_hits // more_rows), np.zeros(min(1, rows.size), np.int64))
    choices = np.full((rows.size, points.levels), -1, np.int64)
    vertex = np.searchsorted(ends, np.arange(used.stop))
    choices[vertex, blocks.level[used]] = blocks.point[used]
    return Frontier(hits, rows, np.maximum.accumulate(choices, axis=0), gap)


# ---------------------------------------------------------------- tables


def frontier_table(frontier: Frontier, positives: int, unit: Unit = ROW) -> pl.DataFrame:
    """Return a frontier as a table, one row a point, by rising true positives.

    Columns ``true_positives`` and ``selected`` (integers where one unit is one row, else weights),
    ``precision`` and ``recall`` (null where undefined); supported frontiers also have ``gap``, in
    the measure of the true positives.  `positives` are the positive rows altogether, in units.
    """

    def share(part: Int64s, whole: Int64s) -> pl.Series:
        return pl.Series(part / np.maximum(whole, 1)).set(pl.Series(whole == 0), None)

    hits, rows = frontier.true_positives, frontier.selected
    columns: dict[str, pl.Series | Numbers] = {
        "true_positives": unit.amounts(hits),
        "selected": unit.amounts(rows),
        "precision": share(hits, rows),
        "recall": share(hits, np.full_like(rows, positives)),
    }
    if frontier.gap is not None:
        columns["gap"] = unit.amounts(frontier.gap)
    return pl.DataFrame(columns)


def frontier_rows(problem: Summary) -> pl.DataFrame:
    """Return the boundaries that no other beats in precision and recall, by rising recall.

    Over score bins these are all of them.  Over every distinct score they are the supported ones
    (the vertices of the concave hull), and ``gap`` bounds by how many true positives a boundary
    between a point and the next can exceed it.

    The columns ``threshold_0``, ``threshold_1``, … hold the boundary itself: the lowest selected
    score of each level, null for never, -inf for always; ``take_0``, … the numbers of the highest
    score bins where levels depend on the score bin.
    """
    tally, name = problem.tally, "threshold"
    if problem.grid is None:
        points = tally.points(together=problem.planned.method.together)
        frontier = supported_frontier(points)
        lows = lowest_scores(tally, points, frontier.choices)
        columns: list[Numbers] = [*np.broadcast_to(lows, (len(lows), tally.levels)).T]
    else:
        frontier = precision_recall_frontier(*grid_counts(tally))
        columns = [*frontier.choices.T]
        if problem.grid.order == "score-uncertainty":
            name = "take"
        else:
            begins = [np.nan, *range(int(tally.score.max()), -1, -1)]
            for level, takes in enumerate(columns):
                scores = np.array([problem.score_at(level, low) for low in begins])
                columns[level] = scores[takes]
    return frontier_table(frontier, problem.totals().positives, tally.unit).with_columns(
        pl.Series(f"{name}_{level}", values, nan_to_null=True)
        for level, values in enumerate(columns)
    )
