from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibkit.errors import UsageError
from calibkit.methods.boundary.problem.bounded import GOALS
from calibkit.methods.boundary.problem.goals import Goal, Totals
from calibkit.methods.boundary.solvers import grid_methods
from calibkit.methods.boundary.solvers.grid_methods import evaluate
from calibkit.methods.boundary.solvers.methods import METHODS
from calibkit.numerics.bounds import decimal_bound
from tests.conftest import ROOT
from tests.naive.boundaries import (
    naive_best,
    naive_best_bins,
    naive_boundaries,
    naive_equi_weight_grid,
    naive_is_mono,
    naive_is_staircase,
    naive_most_positives_by_bins,
)

BOUNDS = ("0", "0.2", "0.25", "0.333333333", "0.5", "0.6", "0.75", "0.8", "0.9", "1")
GRID_CASES = ("p06_boundary_600", "p07_boundary_ties_empty_bins", "p09_boundary_5000")
#: The golden files' names of methods that are exact in their class.
SOLVERS = {name: method.take for name, method in METHODS.items() if method.take is not None}
CLASSES = {"exact": "vw-dpmt", "mono": "vw-dpmt-mono", "staircase": "staircase"}

Grid = tuple[np.ndarray, np.ndarray]


@st.composite
def grids(draw: st.DrawFn, *, equal: int | None = None) -> Grid:
    """Small grids with empty bins, empty levels and ties; `equal`: that many rows in every bin."""
    shape = draw(st.integers(1, 3)), draw(st.integers(1, 4))
    cells = shape[0] * shape[1]
    sizes = st.integers(0, 4) if equal is None else st.just(equal)
    totals = draw(st.lists(sizes, min_size=cells, max_size=cells))
    positives = [draw(st.integers(0, size)) for size in totals]
    scale = draw(st.sampled_from([1, 1, 2, 2**45]))
    return tuple(np.array(x, np.int64).reshape(shape) * scale for x in (positives, totals))


def goal_of(bounded: str, bound: str, grid: Grid) -> Goal:
    positives, totals = grid
    return GOALS[bounded](decimal_bound(bound), Totals(int(totals.sum()), int(positives.sum())))


def solve(method: str, positives: np.ndarray, totals: np.ndarray, goal: Goal) -> np.ndarray:
    return SOLVERS[method](positives, totals, goal)


def found(method: str, grid: Grid, bounded: str, bound: str) -> tuple[int, int, int]:
    take = solve(method, *grid, goal_of(bounded, bound, grid))
    assert take.dtype == np.int64 and take.shape == (grid[0].shape[0],)
    return (*evaluate(*grid, take), int(take.sum()))


def golden(case: str) -> dict[str, Any]:
    return json.loads((ROOT / "tests" / "golden" / case / "expected.json").read_text())


def golden_grid(case: str) -> Grid:
    expected, params = golden(case)["expected"], golden(case)["params"]
    rows = pl.read_parquet(ROOT / "tests" / "golden" / case / "rows.parquet")
    grid = naive_equi_weight_grid(
        *(rows[name].to_list() for name in ("score", "uncertainty", "label")),
        params["K"],
        params["L"],
    )
    assert grid[0].tolist() == expected["positives"] and grid[1].tolist() == expected["total"]
    return grid


@pytest.mark.parametrize("case", GRID_CASES)
def test_golden_boundaries(case: str) -> None:
    grid, expected = golden_grid(case), golden(case)["expected"]
    for sigma, values in expected["by_sigma"].items():
        for name, method in CLASSES.items():
            assert list(found(method, grid, "precision", sigma)[:2]) == values[name], (sigma, name)
    for eta, value in expected["by_eta"].items():
        assert list(found("vw-dpmt", grid, "recall", eta)[:2]) == value, eta


def test_golden_table_of_equal_bins() -> None:
    grid, expected = golden_grid("p08_ew_dpmt"), golden("p08_ew_dpmt")["expected"]
    for sigma, best in expected["best"].items():
        assert list(found("ew-dpmt", grid, "precision", sigma)) == best


@given(grids(), st.sampled_from(["precision", "recall"]), st.sampled_from(BOUNDS))
def test_exact_methods_find_the_optimum_of_their_class(
    grid: Grid, bounded: str, bound: str
) -> None:
    every = naive_boundaries(*grid)
    classes = {
        "vw-dpmt": every,
        "vw-dpmt-mono": [b for b in every if naive_is_mono(b[0])],
        "staircase": [b for b in every if naive_is_staircase(b[0])],
    }
    for method, boundaries in classes.items():
        best = naive_best(boundaries, bounded, Fraction(bound), int(grid[0].sum()))
        take = solve(method, *grid, goal_of(bounded, bound, grid))
        assert evaluate(*grid, take) == best[:2], method
        assert tuple(take.tolist()) in {b[0] for b in boundaries}, method
        # Of boundaries with the same totals any may come, but with none of its bins to spare.
        same = [b for b in boundaries if b[1:] == best[:2] and selects_same(b[0], take, grid[1])]
        assert take.sum() == min(sum(b[0]) for b in same), method


def selects_same(take: tuple[int, ...], other: np.ndarray, totals: np.ndarray) -> bool:
    bins = totals.shape[1]
    return all(
        totals[i, bins - t :].sum() == totals[i, bins - u :].sum()
        for i, (t, u) in enumerate(zip(take, other.tolist(), strict=True))
    )


@given(grids(), st.sampled_from(["precision", "recall"]), st.sampled_from(BOUNDS))
def test_equal_weight_methods_count_bins(grid: Grid, bounded: str, bound: str) -> None:
    positives, totals = grid
    every = naive_boundaries(*grid)
    for method, boundaries in {
        "ew-dpmt": every,
        "ew-dpmt-mono": [b for b in every if naive_is_mono(b[0])],
    }.items():
        table = naive_most_positives_by_bins(boundaries)
        hits, bins = naive_best_bins(
            table, int(totals.sum()), bounded, Fraction(bound), int(positives.sum())
        )
        take = solve(method, *grid, goal_of(bounded, bound, grid))
        assert evaluate(*grid, take)[0] == hits
        assert take.sum() <= bins  # fewer where some of them are empty
        assert tuple(take.tolist()) in {b[0] for b in boundaries}


def test_a_bound_is_met_with_equality() -> None:
    grid = np.array([[0, 55]]), np.array([[10, 100]])  # 0.55 * 100 > 55 in binary
    for method in SOLVERS:
        assert found(method, grid, "precision", "0.55")[:2] == (55, 100)
        assert found(method, grid, "recall", "1")[:2] == (55, 100)


@pytest.mark.parametrize("method", SOLVERS)
def test_nothing_to_find_is_nothing_selected(method: str) -> None:
    empty = np.zeros((2, 3), np.int64)
    for grid in ((empty, empty), (empty, empty + 5)):
        for bounded in ("precision", "recall"):
            assert found(method, grid, bounded, "0.5") == (0, 0, 0)
    assert found(method, (empty + 1, empty + 5), "precision", "0.9") == (0, 0, 0)


def test_weights_make_a_table_over_rows_too_large() -> None:
    rng = np.random.default_rng(0)
    totals = rng.integers(2**30, 2**40, (3, 20))
    grid = totals // 2, totals
    goal = goal_of("precision", "0.5", grid)
    for method in ("vw-dpmt", "vw-dpmt-mono"):
        steps, held = grid_methods.steps(method, *grid)
        assert steps > 10 * grid_methods.MOST_STEPS and held > grid_methods.MOST_VALUES
        with pytest.raises(UsageError, match=r"would need [\d,]+ steps, more than 1,000,000,000"):
            solve(method, *grid, goal)
    for method in ("ew-dpmt", "ew-dpmt-mono", "staircase"):
        solve(method, *grid, goal)


def test_one_long_level_makes_a_table_too_long() -> None:
    totals = np.array([[2**28 + 1, 2**28]])
    for method in ("vw-dpmt", "vw-dpmt-mono"):
        with pytest.raises(UsageError, match="would hold"):
            grid_methods.check_size(method, totals // 2, totals)


@given(grids())
def test_estimates_of_size_are_those_of_the_tables(grid: Grid) -> None:
    from calibkit.methods.boundary.solvers.grid_methods import LevelPrefixes, LevelTables

    prefixes = LevelPrefixes.of(*grid)
    tables = LevelTables.fill(prefixes.hits, prefixes.rows)
    additions = sum(
        before.size * rows.size
        for before, rows in zip(tables.values[:-1], prefixes.rows, strict=True)
    )
    held = sum(values.size for values in tables.values)
    assert grid_methods.steps("vw-dpmt", *grid) == (additions, held)
