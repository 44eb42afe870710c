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
from calibkit.methods.boundary.solvers import frontier as module
from calibkit.methods.boundary.solvers import grid_methods
from calibkit.methods.boundary.solvers.frontier import (
    frontier_table,
    pareto_frontier,
    precision_recall_frontier,
    supported_frontier,
)
from calibkit.methods.boundary.solvers.grid_methods import LevelPrefixes, evaluate
from calibkit.summaries.tally import Points
from tests.library.test_grid_methods import GRID_CASES, Grid, golden, golden_grid, grids
from tests.naive.boundaries import naive_boundaries, naive_pareto, naive_precision_frontier


def totals_of(frontier: module.Frontier) -> list[tuple[int, int]]:
    hits, rows = frontier.true_positives.tolist(), frontier.selected.tolist()
    return list(zip(hits, rows, strict=True))


@pytest.mark.parametrize("case", GRID_CASES)
def test_golden_frontiers(case: str) -> None:
    grid = golden_grid(case)
    frontier = precision_recall_frontier(*grid)
    assert [list(point) for point in totals_of(frontier)] == golden(case)["expected"]["frontier"]
    assert [evaluate(*grid, take) for take in frontier.choices] == totals_of(frontier)


@given(grids())
def test_frontiers_are_what_nothing_beats(grid: Grid) -> None:
    every = {(hits, rows) for _, hits, rows in naive_boundaries(*grid)}
    whole, precise = pareto_frontier(*grid), precision_recall_frontier(*grid)
    assert totals_of(whole) == naive_pareto(every)
    assert totals_of(precise) == naive_precision_frontier(every)


@given(grids(), st.booleans())
def test_tables_and_lists_lead_to_the_same_frontier(grid: Grid, table: bool) -> None:
    every = naive_boundaries(*grid)
    prefixes = LevelPrefixes.of(*grid)
    frontier = pareto_frontier(*grid) if table else module._from_lists(prefixes)
    assert totals_of(frontier) == naive_pareto({(hits, rows) for _, hits, rows in every})
    takes = frontier.choices
    for point, take in enumerate(takes):
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
    every = {(hits, rows) for _, hits, rows in naive_boundaries(*grid)}
    assert totals_of(pareto_frontier(*grid)) == naive_pareto(every)
    assert totals_of(precision_recall_frontier(*grid)) == naive_precision_frontier(every)


@pytest.mark.parametrize("most", [200, 2**40])
def test_a_frontier_beyond_reach_is_refused(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    totals = rng.integers(most >> 10, most, (4, 12))
    grid = rng.integers(0, totals), totals
    assert len(totals_of(pareto_frontier(*grid))) > 100
    monkeypatch.setattr(grid_methods, "MOST_STEPS", 1000)
    with pytest.raises(UsageError, match="more than 1,000 steps"):
        pareto_frontier(*grid)


# ---------------------------------------------------------------- supported points


@st.composite
def level_points(draw: st.DrawFn) -> Points:
    """A few levels of cumulative counts, as a tally gives them; levels may be empty."""
    scale = draw(st.sampled_from([1, 2**50]))
    levels = []
    for _ in range(draw(st.integers(1, 3))):
        steps = draw(st.lists(st.tuples(st.integers(1, 3), st.integers(0, 3)), max_size=4))
        levels.append(np.cumsum([(n, min(p, n)) for n, p in steps] or [(0, 0)], axis=0) * scale)
        if not steps:
            levels[-1] = levels[-1][:0]
    ends = np.cumsum([len(level) for level in levels])
    counts = np.concatenate(levels).astype(np.int64)
    return Points(
        counts[:, 0].copy(),
        counts[:, 1].copy(),
        np.arange(len(counts)),
        np.concatenate([[0], ends[:-1]]),
        ends,
    )


def all_choices(points: Points) -> list[tuple[int, int]]:
    """Return (true positives, rows) of every choice of one prefix a level."""
    options = [
        [-1, *range(start, end)] for start, end in zip(points.offsets, points.ends, strict=True)
    ]
    found = [points.totals(np.array(choice)) for choice in itertools.product(*options)]
    return [(hits, rows) for rows, hits in found]


@given(level_points())
def test_supported_points_are_the_vertices_of_the_hull(points: Points) -> None:
    every = set(all_choices(points))
    frontier = supported_frontier(points)
    vertices = totals_of(frontier)
    path = [(0, 0), *vertices]
    slopes = [Fraction(b[0] - a[0], b[1] - a[1]) for a, b in itertools.pairwise(path)]
    assert slopes == sorted(set(slopes), reverse=True) and all(slope > 0 for slope in slopes)
    assert set(vertices) <= every
    for (hits, rows), slope in zip(path, slopes, strict=False):  # nothing lies above a chord
        assert all(h - hits <= slope * (m - rows) for h, m in every)
    assert path[-1][0] == max(h for h, _ in every)


@given(level_points())
def test_the_gap_bounds_what_lies_between_two_vertices(points: Points) -> None:
    frontier = supported_frontier(points)
    vertices = totals_of(frontier)
    assert (
        frontier.gap is not None and frontier.gap.size == len(vertices) and all(frontier.gap >= 0)
    )
    for i, ((hits, rows), gap) in enumerate(zip(vertices, frontier.gap.tolist(), strict=True)):
        after = vertices[i + 1] if i + 1 < len(vertices) else (hits, np.inf)
        between = [h - hits for h, m in all_choices(points) if rows <= m < after[1]]
        assert max(between) <= gap
        if i + 1 < len(vertices):
            chord = Fraction(after[0] - hits, after[1] - rows) * (after[1] - 1 - rows)
            assert gap == chord.numerator // chord.denominator
        else:
            assert gap == 0


@given(level_points())
def test_boundaries_of_supported_points_are_nested(points: Points) -> None:
    frontier = supported_frontier(points)
    choices = frontier.choices
    assert [points.totals(choice)[::-1] for choice in choices] == totals_of(frontier)
    assert (np.diff(choices, axis=0) >= 0).all()


# ---------------------------------------------------------------- tables


def test_table_of_a_grid() -> None:
    grid = np.array([[1, 2], [0, 3]]), np.array([[4, 2], [4, 4]])
    table = frontier_table(precision_recall_frontier(*grid), 6)
    assert table.to_dict(as_series=False) == {
        "true_positives": [2, 5, 6],
        "selected": [2, 6, 10],
        "precision": [1.0, 5 / 6, 0.6],
        "recall": [2 / 6, 5 / 6, 1.0],
    }
    assert table.schema["selected"] == pl.Int64


def test_table_in_weights_and_with_gaps() -> None:
    points = Points(
        np.array([2, 4, 8]), np.array([2, 3, 5]), np.arange(3), np.array([0]), np.array([3])
    )
    table = frontier_table(supported_frontier(points), 5, Unit(0.5))
    assert table["selected"].to_list() == [1.0, 4.0]
    assert table["gap"].to_list() == [1.0, 0.0]
    assert table["precision"].to_list() == [1.0, 0.625]


def test_undefined_shares_are_null() -> None:
    nothing = np.zeros((2, 2), np.int64)
    table = frontier_table(pareto_frontier(nothing, nothing + 3), 0)
    assert table.rows() == [(0, 0, None, None)]
    assert precision_recall_frontier(nothing, nothing + 3).choices.shape == (0, 2)
