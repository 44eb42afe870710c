"""Boundaries over a grid, and the frontiers of what they reach, against the list of all of them."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibkit.columns.weights import Unit
from calibkit.errors import UsageError
from calibkit.methods.boundary.problem.bounded import GOALS
from calibkit.methods.boundary.problem.goals import Goal, Totals
from calibkit.methods.boundary.solvers import frontier as module
from calibkit.methods.boundary.solvers import grid_methods
from calibkit.methods.boundary.solvers.frontier import (
    Frontier,
    frontier_table,
    pareto_frontier,
    precision_recall_frontier,
    supported_frontier,
)
from calibkit.methods.boundary.solvers.grid_methods import LevelPrefixes, LevelTables, evaluate
from calibkit.methods.boundary.solvers.methods import METHODS
from calibkit.numerics.bounds import decimal_bound
from calibkit.summaries.tally import Points
from tests.conftest import ROOT
from tests.library.samples import BOUNDS, golden
from tests.naive import boundaries as naive

GRID_CASES = ("p06_boundary_600", "p07_boundary_ties_empty_bins", "p09_boundary_5000")
SOLVERS = {name: method.take for name, method in METHODS.items() if method.take is not None}
#: The golden files' names of methods that are exact in their class.
CLASSES = {"exact": "vw-dpmt", "mono": "vw-dpmt-mono", "staircase": "staircase"}

Grid = tuple[np.ndarray, np.ndarray]
Pairs = list[tuple[int, int]]
either, bounds = st.sampled_from(["precision", "recall"]), st.sampled_from([*BOUNDS, "0.8"])


@st.composite
def grids(draw: st.DrawFn) -> Grid:
    """Small grids with empty bins, empty levels and ties."""
    shape = draw(st.integers(1, 3)), draw(st.integers(1, 4))
    cells = shape[0] * shape[1]
    totals = draw(st.lists(st.integers(0, 4), min_size=cells, max_size=cells))
    positives = [draw(st.integers(0, size)) for size in totals]
    scale = draw(st.sampled_from([1, 1, 2, 2**45]))
    return tuple(np.array(x, np.int64).reshape(shape) * scale for x in (positives, totals))


def goal_of(bounded: str, bound: str, grid: Grid) -> Goal:
    positives, totals = grid
    return GOALS[bounded](decimal_bound(bound), Totals(int(totals.sum()), int(positives.sum())))


def found(method: str, grid: Grid, bounded: str, bound: str) -> tuple[int, int, int]:
    take = SOLVERS[method](*grid, goal_of(bounded, bound, grid))
    assert take.dtype == np.int64 and take.shape == (grid[0].shape[0],)
    return (*evaluate(*grid, take), int(take.sum()))


def golden_grid(case: str) -> Grid:
    expected, params = golden(case)["expected"], golden(case)["params"]
    rows = pl.read_parquet(ROOT / "tests" / "golden" / case / "rows.parquet")
    columns = (rows[name].to_list() for name in ("score", "uncertainty", "label"))
    grid = naive.naive_equi_weight_grid(*columns, params["K"], params["L"])
    assert grid[0].tolist() == expected["positives"] and grid[1].tolist() == expected["total"]
    return grid


def totals_of(frontier: Frontier) -> Pairs:
    hits, rows = frontier.true_positives.tolist(), frontier.selected.tolist()
    return list(zip(hits, rows, strict=True))


@pytest.mark.parametrize("case", GRID_CASES)
def test_golden_boundaries_and_frontiers(case: str) -> None:
    grid, expected = golden_grid(case), golden(case)["expected"]
    for sigma, values in expected["by_sigma"].items():
        for name, method in CLASSES.items():
            assert list(found(method, grid, "precision", sigma)[:2]) == values[name], (sigma, name)
    for eta, value in expected["by_eta"].items():
        assert list(found("vw-dpmt", grid, "recall", eta)[:2]) == value, eta
    frontier = precision_recall_frontier(*grid)
    assert [list(point) for point in totals_of(frontier)] == expected["frontier"]
    assert [evaluate(*grid, take) for take in frontier.choices] == totals_of(frontier)


def test_golden_table_of_equal_bins() -> None:
    grid, expected = golden_grid("p08_ew_dpmt"), golden("p08_ew_dpmt")["expected"]
    for sigma, best in expected["best"].items():
        assert list(found("ew-dpmt", grid, "precision", sigma)) == best


@given(grids(), either, bounds)
def test_exact_methods_find_the_optimum_of_their_class(
    grid: Grid, bounded: str, bound: str
) -> None:
    every = naive.naive_boundaries(*grid)
    classes = {
        "vw-dpmt": every,
        "vw-dpmt-mono": [b for b in every if naive.naive_is_mono(b[0])],
        "staircase": [b for b in every if naive.naive_is_staircase(b[0])],
    }
    for method, boundaries in classes.items():
        totals = [(rows, hits) for _, hits, rows in boundaries]
        best = naive.best_totals(totals, bounded, Fraction(bound), int(grid[0].sum()))[::-1]
        take = SOLVERS[method](*grid, goal_of(bounded, bound, grid))
        assert evaluate(*grid, take) == best, method
        assert tuple(take.tolist()) in {b[0] for b in boundaries}, method
        # Of boundaries with the same totals any may come, but with none of its bins to spare.
        same = [b for b in boundaries if b[1:] == best and selects_same(b[0], take, grid[1])]
        assert take.sum() == min(sum(b[0]) for b in same), method


def selects_same(take: tuple[int, ...], other: np.ndarray, totals: np.ndarray) -> bool:
    bins = totals.shape[1]
    return all(
        totals[i, bins - t :].sum() == totals[i, bins - u :].sum()
        for i, (t, u) in enumerate(zip(take, other.tolist(), strict=True))
    )


@given(grids(), either, bounds)
def test_equal_weight_methods_count_bins(grid: Grid, bounded: str, bound: str) -> None:
    positives, totals = grid
    every = naive.naive_boundaries(*grid)
    for method, boundaries in {
        "ew-dpmt": every,
        "ew-dpmt-mono": [b for b in every if naive.naive_is_mono(b[0])],
    }.items():
        table = naive.naive_most_positives_by_bins(boundaries)
        hits, bins = naive.naive_best_bins(
            table, int(totals.sum()), bounded, Fraction(bound), int(positives.sum())
        )
        take = SOLVERS[method](*grid, goal_of(bounded, bound, grid))
        assert evaluate(*grid, take)[0] == hits
        assert take.sum() <= bins  # fewer where some of them are empty
        assert tuple(take.tolist()) in {b[0] for b in boundaries}


def test_weights_make_a_table_over_rows_too_large() -> None:
    rng = np.random.default_rng(0)
    totals, long = rng.integers(2**30, 2**40, (3, 20)), np.array([[2**28 + 1, 2**28]])
    goal = goal_of("precision", "0.5", (totals // 2, totals))
    for method in ("vw-dpmt", "vw-dpmt-mono"):
        with pytest.raises(UsageError, match=r"would need [\d,]+ steps, more than 1,000,000,000"):
            SOLVERS[method](totals // 2, totals, goal)
        with pytest.raises(UsageError, match="would hold"):
            SOLVERS[method](long // 2, long, goal)
    for method in ("ew-dpmt", "ew-dpmt-mono", "staircase"):
        SOLVERS[method](totals // 2, totals, goal)


@given(grids())
def test_estimates_of_size_are_those_of_the_tables(grid: Grid) -> None:
    prefixes = LevelPrefixes.of(*grid)
    tables = LevelTables(prefixes.hits, prefixes.rows)
    pairs = zip(tables.values[:-1], prefixes.rows, strict=True)
    additions = sum(before.size * rows.size for before, rows in pairs)
    held = sum(values.size for values in tables.values)
    assert grid_methods.table_size(prefixes.rows) == (additions, held)


@given(grids())
def test_frontiers_are_what_nothing_beats(grid: Grid) -> None:
    """Whether they come from tables or from lists."""
    every = {(hits, rows) for _, hits, rows in naive.naive_boundaries(*grid)}
    precise = precision_recall_frontier(*grid)
    assert totals_of(precise) == naive.naive_precision_frontier(every)
    for frontier in (pareto_frontier(*grid), module._from_lists(LevelPrefixes.of(*grid))):
        assert totals_of(frontier) == naive.naive_pareto(every)
        for point, take in enumerate(frontier.choices):
            assert evaluate(*grid, take) == totals_of(frontier)[point]
            fewest = np.array([0] * take.size)
            for i in range(take.size):  # the lowest bin taken holds a positive
                while grid[0][i, ::-1][fewest[i] : take[i]].sum():
                    fewest[i] += 1
            assert np.array_equal(fewest, take)


@given(st.data())
def test_large_weights_need_no_table(data: st.DataObject) -> None:
    shape = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 3))
    cells = shape[0] * shape[1]
    largest = 2**53 // cells
    # Tables of a size between are filled in seconds, and are for the tests above.
    weights = st.integers(0, 100) | st.integers(largest // 2, largest)
    totals = data.draw(st.lists(weights, min_size=cells, max_size=cells))
    positives = [
        data.draw(st.integers(0, min(weight, 100)) | st.integers(weight // 2, weight))
        for weight in totals
    ]
    grid = tuple(np.array(x, np.int64).reshape(shape) for x in (positives, totals))
    every = {(hits, rows) for _, hits, rows in naive.naive_boundaries(*grid)}
    assert totals_of(pareto_frontier(*grid)) == naive.naive_pareto(every)
    assert totals_of(precision_recall_frontier(*grid)) == naive.naive_precision_frontier(every)


@pytest.mark.parametrize("most", [200, 2**40])
def test_a_frontier_beyond_reach_is_refused(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    totals = rng.integers(most >> 10, most, (4, 12))
    grid = rng.integers(0, totals), totals
    assert len(totals_of(pareto_frontier(*grid))) > 100
    monkeypatch.setattr(grid_methods, "MOST_STEPS", 1000)
    with pytest.raises(UsageError, match="more than 1,000 steps"):
        pareto_frontier(*grid)


@st.composite
def level_points(draw: st.DrawFn) -> Points:
    """A few levels of cumulative counts, as a tally gives them; levels may be empty."""
    scale = draw(st.sampled_from([1, 2**50]))
    step = st.tuples(st.integers(1, 3), st.integers(0, 3)).map(lambda s: (s[0], min(s)))
    steps = draw(st.lists(st.lists(step, max_size=4), min_size=1, max_size=3))
    levels = [np.cumsum(np.array(level).reshape(-1, 2), axis=0) * scale for level in steps]
    ends = np.cumsum([len(level) for level in levels])
    selected, hits = np.concatenate(levels).astype(np.int64).T.copy()
    return Points(selected, hits, np.arange(len(hits)), np.append(0, ends[:-1]), ends)


@given(level_points())
def test_supported_points_are_the_vertices_of_the_hull(points: Points) -> None:
    ranges = zip(points.offsets, points.ends, strict=True)
    choices = itertools.product(*([-1, *range(start, end)] for start, end in ranges))
    every = {points.totals(np.array(choice))[::-1] for choice in choices}
    frontier = supported_frontier(points)
    vertices = totals_of(frontier)
    path = [(0, 0), *vertices]
    slopes = [Fraction(b[0] - a[0], b[1] - a[1]) for a, b in itertools.pairwise(path)]
    assert slopes == sorted(set(slopes), reverse=True) and all(slope > 0 for slope in slopes)
    assert set(vertices) <= every
    for (hits, rows), slope in zip(path, slopes, strict=False):  # nothing lies above a chord
        assert all(h - hits <= slope * (m - rows) for h, m in every)
    assert path[-1][0] == max(h for h, _ in every)
    # The gap bounds what lies between two vertices, by the chord at the last number of rows.
    assert frontier.gap is not None and frontier.gap.size == len(vertices)
    for i, ((hits, rows), gap) in enumerate(zip(vertices, frontier.gap.tolist(), strict=True)):
        after = vertices[i + 1] if i + 1 < len(vertices) else (hits, np.inf)
        assert max(h - hits for h, m in every if rows <= m < after[1]) <= gap
        last = i + 1 == len(vertices)
        assert gap == (0 if last else int(slopes[i + 1] * (after[1] - 1 - rows)))
    # Their boundaries are nested.
    assert [points.totals(choice)[::-1] for choice in frontier.choices] == vertices
    assert (np.diff(frontier.choices, axis=0) >= 0).all()


def test_tables_of_frontiers() -> None:
    grid = np.array([[1, 2], [0, 3]]), np.array([[4, 2], [4, 4]])
    table = frontier_table(precision_recall_frontier(*grid), 6)
    assert table.to_dict(as_series=False) == {
        "true_positives": [2, 5, 6],
        "selected": [2, 6, 10],
        "precision": [1.0, 5 / 6, 0.6],
        "recall": [2 / 6, 5 / 6, 1.0],
    }
    assert table.schema["selected"] == pl.Int64
    counts = np.array([2, 4, 8]), np.array([2, 3, 5]), np.arange(3)
    points = Points(*counts, np.array([0]), np.array([3]))
    table = frontier_table(supported_frontier(points), 5, Unit(0.5))
    assert table["selected"].to_list() == [1.0, 4.0]
    assert table["gap"].to_list() == [1.0, 0.0]
    assert table["precision"].to_list() == [1.0, 0.625]
    nothing = np.zeros((2, 2), np.int64)
    assert frontier_table(pareto_frontier(nothing, nothing + 3), 0).rows() == [(0, 0, None, None)]
    assert precision_recall_frontier(nothing, nothing + 3).choices.shape == (0, 2)
