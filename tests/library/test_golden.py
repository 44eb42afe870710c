"""Golden cases of bins and of boundaries, through the library."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from calibkit.bins.binning import Grid, fit_grid
from calibkit.columns.columns import ScoreRows
from calibkit.errors import InfeasibleError
from calibkit.methods.boundary.problem.bounded import GOALS
from calibkit.methods.boundary.problem.problem import binned_problem
from calibkit.methods.boundary.result.model import BoundaryModel
from calibkit.methods.boundary.solvers.methods import METHODS
from calibkit.numerics.bounds import decimal_bound
from tests.library.samples import bins_of, fit, golden, golden_rows

BINS = {
    "p01_binning_equi_weight": {},
    "p02_binning_ties": {},
    "p03_binning_score_first": {"order": "score-uncertainty"},
    "p04_binning_equi_span_extremes": {"strategy": "equal-width"},
}
GRIDS = ("p06_boundary_600", "p07_boundary_ties_empty_bins", "p09_boundary_5000")


@pytest.mark.parametrize("case", BINS)
def test_bins(case: str) -> None:
    known = golden(case)
    expected, params = known["expected"], known["params"]
    rows = golden_rows(case, "fit.parquet")
    grid = fit_grid(rows, params["K"], params["L"], **BINS[case])
    assert grid.total.tolist() == expected["total"]
    assert grid.positive.tolist() == expected["positives"]
    assert_edges(grid, expected)
    level, column = bins_of(grid, golden_rows(case, "new.parquet"))
    assert level.tolist() == expected["new_i"]
    assert column.tolist() == expected["new_j"]


def assert_edges(grid: Grid, expected: dict[str, Any]) -> None:
    score_first = grid.order == "score-uncertainty"
    axes = [
        (grid.uncertainty_edges, grid.uncertainty_min),
        (grid.score_edges, grid.score_min),
    ]
    (outer_edges, outer_min), (inner_edges, inner_min) = axes[::-1] if score_first else axes
    assert outer_edges[0] == pytest.approx(expected["outer"]["edges"], rel=1e-12, abs=1e-12)
    assert outer_min[0] == expected["outer"]["min"]
    inner = expected["inner"]
    if "edges" in inner:  # one set for all
        inner = {"0": inner}
        assert inner_edges.shape[0] == 1
    for i, (edges, low) in enumerate(zip(inner_edges, inner_min, strict=True)):
        if str(i) in inner:
            assert edges == pytest.approx(inner[str(i)]["edges"], rel=1e-12, abs=1e-12)
            assert low == inner[str(i)]["min"]
        else:
            assert np.isnan(edges).all() and np.isnan(low)


def model_of(rows: ScoreRows, **options: Any) -> BoundaryModel | None:
    """Return a fitted boundary; None where nothing meets the bound."""
    try:
        return fit(rows, folds=0, **options).model
    except InfeasibleError:
        return None


def totals(model: BoundaryModel | None) -> list[int | float]:
    """Return true positives and rows."""
    found = model.fit.in_sample if model else None
    return [found.true_positives, found.selected] if found else [0, 0]


@pytest.mark.parametrize("bounded", ["precision", "recall"])
def test_single_threshold(bounded: str) -> None:
    case = "p05_single_threshold_ties"
    rows = golden_rows(case)
    for bound, wanted in golden(case)["expected"][
        "by_sigma" if bounded == "precision" else "by_eta"
    ].items():
        found = model_of(rows, method="st", **{bounded: bound})
        assert totals(found) == [wanted["tp"], wanted["rows"]], bound
        if found is None:
            assert wanted["threshold"] == "inf"
        else:
            assert found.score_thresholds == [wanted["threshold"]]


@pytest.mark.parametrize("case", GRIDS)
def test_boundaries_on_a_grid(case: str) -> None:
    known = golden(case)
    expected, params = known["expected"], known["params"]
    rows, shape = golden_rows(case), (params["K"], params["L"])
    bins = {"uncertainty_bins": shape[0], "score_bins": shape[1]}
    problem = binned_problem(rows, shape, "equal-mass", "uncertainty-score", 1)
    assert problem.grid is not None
    assert problem.grid.total.tolist() == expected["total"]
    for sigma, wanted in expected["by_sigma"].items():
        exact = model_of(rows, precision=sigma, **bins)
        assert totals(exact) == wanted["exact"], sigma
        for name in ("gmt", "mist"):
            goal = GOALS["precision"](decimal_bound(sigma), problem.totals())
            found = METHODS[name].find(problem.tally, goal)
            assert [found.true_positives, found.selected] == [
                wanted[name]["tp"],
                wanted[name]["rows"],
            ]
            assert problem.take(found.thresholds) == wanted[name]["take"], (sigma, name)
            assert totals(model_of(rows, precision=sigma, method=name, **bins)) == [
                wanted[name]["tp"],
                wanted[name]["rows"],
            ]
    for eta, best in expected["by_eta"].items():
        assert totals(model_of(rows, recall=eta, **bins)) == best, eta


def test_mist_on_raw_scores() -> None:
    case = "p10_mist_samples"
    known = golden(case)
    rows, levels = golden_rows(case), known["params"]["K"]
    for sigma, wanted in known["expected"].items():
        found = model_of(rows, precision=sigma, method="mist", uncertainty_bins=levels)
        assert totals(found) == [wanted["tp"], wanted["rows"]], sigma
        thresholds = [math.inf] * levels
        if found is not None:
            thresholds = [math.inf if t is None else t for t in found.score_thresholds]
        for level, threshold in wanted["thresholds"].items():
            assert thresholds[int(level)] == float(threshold), (sigma, level)
