"""Bins: a pure function of the value, of equal mass or equal width, on one grid."""

from __future__ import annotations

import math
from bisect import bisect_right
from fractions import Fraction
from itertools import accumulate
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibkit.errors import DataError, UsageError
from calibkit.summaries import binning
from calibkit.summaries.binning import Levels, fit_grid
from calibkit.summaries.edges import quantile_edges
from tests.library.samples import FEWER, WEIGHTS, score_rows, tables
from tests.naive import boundaries as naive

value = st.integers(-3, 3).map(float) | st.sampled_from([math.inf, -math.inf, 0.1, 1e-300])
values = st.lists(value, min_size=1, max_size=14)
float_types = pytest.mark.parametrize("floats", [np.float32, np.float64])


@float_types
@given(fit=values, bins=st.integers(1, 20))
def test_quantile_edges_are_order_statistics(floats: type, fit: list[float], bins: int) -> None:
    array = np.array(fit, floats)
    lowest, edges = quantile_edges(array, bins)
    ordered = sorted(array.tolist())
    assert lowest == ordered[0]
    assert edges.dtype == np.float64
    assert edges.tolist() == [ordered[j * len(fit) // bins] for j in range(1, bins)]


@given(st.lists(st.tuples(value, WEIGHTS["binary"]), min_size=1), st.integers(1, 12))
def test_weighted_edges_are_the_first_values_above_their_share(
    pairs: list[tuple[float, float]], bins: int
) -> None:
    pairs.append((0.0, 1.0))
    fit, weight = (np.array(column) for column in zip(*pairs, strict=True))
    _, edges = quantile_edges(fit, bins, weight)
    ordered = sorted(pairs)
    below = list(accumulate(Fraction(w) for _, w in ordered))
    for j, edge in enumerate(edges.tolist(), start=1):
        assert edge == ordered[bisect_right(below, j * below[-1] / bins)][0]


@given(values, st.integers(1, 12), values)
def test_bins_are_non_empty_functions_of_the_value(
    fit: list[float], bins: int, new: list[float]
) -> None:
    lowest, edges = quantile_edges(np.array(fit), bins)
    fitted = binning.assign(np.array(fit), lowest, edges)
    found = binning.assign(np.array(new), lowest, edges).tolist()
    assert found == naive.naive_quantile_bins(fit, bins, new)
    assert set(found) <= set(fitted.tolist())  # every new value falls where fitted values fell


def test_edges_of_equal_width() -> None:
    edges = binning.equal_width_edges(0.0, 0.3, 4).tolist()
    assert edges == [(0.3 * j) / 4 for j in (1, 2, 3)]
    assert binning.equal_width_edges(5.0, 5.0, 3).tolist() == [5.0, 5.0]
    wide = binning.equal_width_edges(-1.7e308, 1.7e308, 4)
    assert np.isfinite(wide).all() and wide[1] == 0.0


def rows_of(table: dict[str, list[Any]], *, finite: bool = False, floats: type = np.float64) -> Any:
    score = np.array(table["score"])
    if finite:
        score = np.nan_to_num(score, posinf=7.0, neginf=-7.0)
    weight = table.get("weight")
    return score_rows(score, table["label"], table["uncertainty"], weight, floats=floats)


def naive_grid(rows: Any, levels: int, bins: int, kind: str) -> list[list[list[Fraction]]]:
    """Return weights of rows and of positives, by the definitions of the edges."""
    size = rows.score.size
    weight = [Fraction(w) for w in (np.ones(size) if rows.weight is None else rows.weight)]
    score, uncertainty = rows.score.astype(float).tolist(), rows.uncertainty.tolist()
    present = [i for i, w in enumerate(weight) if w]

    def edges_of(fit: list[int], column: list[float], count: int) -> list[float]:
        values = [column[i] for i in present]
        if kind == "equal-width":
            low, high = min(values), max(values)
            return [low + ((high - low) * j) / count for j in range(1, count)]
        ordered = sorted(fit, key=column.__getitem__)
        reached = list(accumulate(weight[i] for i in ordered))
        total = sum(weight[i] for i in ordered)
        places = (bisect_right(reached, j * total / count) for j in range(1, count))
        return [column[ordered[k]] for k in places]

    outer, inner = (score, uncertainty) if kind == "score-first" else (uncertainty, score)
    outer_bins, inner_bins = (bins, levels) if kind == "score-first" else (levels, bins)
    outer_edges = edges_of(present, outer, outer_bins)
    found = [[[Fraction(0)] * bins for _ in range(levels)] for _ in range(2)]
    for a in range(outer_bins):
        own = [i for i in present if bisect_right(outer_edges, outer[i]) == a]
        inner_edges = edges_of(own, inner, inner_bins) if own else []
        for i in own:
            b = bisect_right(inner_edges, inner[i])
            level, column = (b, a) if kind == "score-first" else (a, b)
            found[0][level][column] += weight[i]
            found[1][level][column] += weight[i] * int(rows.label[i])
    return found


KINDS = {
    "equi-weight": {},
    "score-first": {"order": "score-uncertainty"},
    "equal-width": {"strategy": "equal-width"},
}


@pytest.mark.few(4)
@pytest.mark.parametrize("kind", KINDS)
@float_types
@FEWER
@given(table=tables(kinds=(None, "whole", "binary")), shape=st.tuples(*[st.integers(1, 5)] * 2))
def test_grids_count_every_row_once(
    floats: type, kind: str, table: dict[str, list[Any]], shape: tuple[int, int]
) -> None:
    rows = rows_of(table, finite=kind == "equal-width", floats=floats)
    grid = fit_grid(rows, *shape, **KINDS[kind])
    assert grid.shape == shape and grid.unit.exact
    size = Fraction(grid.unit.size)
    counts = [
        [[int(k) * size for k in line] for line in one] for one in (grid.total, grid.positive)
    ]
    assert counts == naive_grid(rows, *shape, kind)


@pytest.mark.parametrize("kind", KINDS)
@FEWER
@given(table=tables(kinds=(None, "whole", "any")), shape=st.tuples(*[st.integers(1, 4)] * 2))
def test_grids_as_tallies_and_tables(
    kind: str, table: dict[str, list[Any]], shape: tuple[int, int]
) -> None:
    grid = fit_grid(rows_of(table, finite=kind == "equal-width"), *shape, **KINDS[kind])
    tally = grid.as_tally()
    for counted, wanted in ((tally.count, grid.total), (tally.positive, grid.positive)):
        found = np.zeros(shape, np.int64)
        found[tally.level, tally.score.astype(int)] = counted
        assert np.array_equal(found, wanted)
    falling = list(zip((-tally.score).tolist(), tally.level.tolist(), strict=True))
    assert falling == sorted(set(falling))

    frame = binning.grid_frame(grid)
    assert frame["uncertainty_bin"].to_list() == np.repeat(np.arange(shape[0]), shape[1]).tolist()
    counts = np.array(frame["count"].to_list()).reshape(shape)
    assert np.array_equal(counts, grid.total * grid.unit.size)
    full, empty = frame.filter(pl.col("count") > 0), frame.filter(count=0)
    for name in ("positivity", "mean_score"):
        assert empty[name].is_null().all() and not frame[name].is_nan().any()
    assert full["positivity"].is_between(0, 1).all()
    assert (full["score_low"] <= full["score_high"]).all()


def test_a_level_without_rows_has_no_edges() -> None:
    grid = fit_grid(score_rows([0.1, 0.2, 0.3, 0.4], [0, 1, 0, 1], [1, 1, 1, 2]), 3, 2)
    assert grid.total[0].tolist() == [0, 0]
    assert np.isnan(grid.score_edges[0]).all() and np.isnan(grid.score_min[0])
    frame = binning.grid_frame(grid)
    assert frame["score_low"][0] is None and frame["score_high"][0] is None
    assert frame["score_low"][4] == -math.inf


def test_rows_without_uncertainty_have_one_level() -> None:
    rows = score_rows([0.1, 0.9], [0, 1])
    assert fit_grid(rows, 1, 2).total.tolist() == [[1, 1]]
    assert fit_grid(rows, 1, 2, order="score-uncertainty").total.tolist() == [[1, 1]]
    assert Levels(-np.inf, np.empty(0)).of(None, 3).tolist() == [0, 0, 0]
    with pytest.raises(UsageError, match="uncertainty"):
        fit_grid(rows, 2, 2)


def test_impossible_grids_are_refused() -> None:
    rows = score_rows([0.1, np.inf], [0, 1], [0.0, 1.0])
    with pytest.raises(DataError, match="finite"):
        fit_grid(rows, 1, 2, strategy="equal-width")
    for shape in ((70_000, 1), (10_000, 10_000)):
        with pytest.raises(UsageError):
            fit_grid(rows, *shape)
