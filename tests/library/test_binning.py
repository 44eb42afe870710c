"""Bins: a pure function of the value, of equal mass or equal width, on one grid."""

from __future__ import annotations

import math
from bisect import bisect_right
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibkit.bins import binning
from calibkit.bins.binning import Levels, fit_grid
from calibkit.errors import DataError, UsageError
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


def test_the_edges_of_the_specification() -> None:
    lowest, edges = quantile_edges(np.array([1.0] * 7 + [2.0] * 3), 4)
    assert (lowest, edges.tolist()) == (1.0, [1.0, 1.0, 2.0])
    bins = binning.assign(np.array([1.0, 2.0, 0.0, 9.0]), lowest, edges)
    assert bins.tolist() == [2, 3, 2, 3]


@given(st.lists(st.tuples(value, WEIGHTS["binary"]), min_size=1), st.integers(1, 12))
def test_weighted_edges_are_the_first_values_above_their_share(
    pairs: list[tuple[float, float]], bins: int
) -> None:
    pairs.append((0.0, 1.0))
    fit, weight = (np.array(column) for column in zip(*pairs, strict=True))
    _, edges = quantile_edges(fit, bins, weight)
    ordered = sorted(pairs)
    total = Fraction(math.fsum(weight))
    for j, edge in enumerate(edges.tolist(), start=1):
        below = [sum(Fraction(w) for _, w in ordered[: k + 1]) for k in range(len(ordered))]
        first = next(k for k, cumulative in enumerate(below) if cumulative > j * total / bins)
        assert edge == ordered[first][0]


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


# ---------------------------------------------------------------- grids


def rows_of(table: dict[str, list[Any]], *, finite: bool = False, floats: type = np.float64) -> Any:
    score = np.array(table["score"])
    if finite:
        score = np.nan_to_num(score, posinf=7.0, neginf=-7.0)
    weight = table.get("weight")
    return score_rows(score, table["label"], table["uncertainty"], weight, floats=floats)


def naive_grid(
    rows: Any, levels: int, bins: int, kind: str
) -> tuple[list[list[Fraction]], list[list[Fraction]]]:
    """Return weights of rows and of positives, by the definitions of the edges."""
    weight = [
        Fraction(w) for w in (np.ones(rows.score.size) if rows.weight is None else rows.weight)
    ]
    score, uncertainty = rows.score.astype(float).tolist(), rows.uncertainty.tolist()
    present = [i for i, w in enumerate(weight) if w]

    def edges_of(fit: list[int], column: list[float], count: int) -> list[float]:
        if kind == "equal-width":
            low = min(column[i] for i in present)
            high = max(column[i] for i in present)
            return [low + ((high - low) * j) / count for j in range(1, count)]
        ordered = sorted(fit, key=column.__getitem__)
        total, edges = sum(weight[i] for i in ordered), []
        for j in range(1, count):
            reached = Fraction(0)
            for i in ordered:
                reached += weight[i]
                if reached > j * total / count:
                    edges.append(column[i])
                    break
        return edges

    outer, inner = (score, uncertainty) if kind == "score-first" else (uncertainty, score)
    outer_bins, inner_bins = (bins, levels) if kind == "score-first" else (levels, bins)
    outer_edges = edges_of(present, outer, outer_bins)
    total = [[Fraction(0)] * bins for _ in range(levels)]
    positive = [[Fraction(0)] * bins for _ in range(levels)]
    for a in range(outer_bins):
        own = [i for i in present if bisect_right(outer_edges, outer[i]) == a]
        inner_edges = edges_of(own, inner, inner_bins) if own else []
        for i in own:
            b = bisect_right(inner_edges, inner[i])
            level, column = (b, a) if kind == "score-first" else (a, b)
            total[level][column] += weight[i]
            positive[level][column] += weight[i] * int(rows.label[i])
    return total, positive


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
    total, positive = naive_grid(rows, *shape, kind)
    size = Fraction(grid.unit.size)
    for array, wanted in ((grid.total, total), (grid.positive, positive)):
        assert [[int(k) * size for k in line] for line in array] == wanted


@pytest.mark.parametrize("kind", KINDS)
@FEWER
@given(table=tables(kinds=(None, "whole", "any")), shape=st.tuples(*[st.integers(1, 4)] * 2))
def test_grids_as_tallies_and_tables(
    kind: str, table: dict[str, list[Any]], shape: tuple[int, int]
) -> None:
    rows = rows_of(table, finite=kind == "equal-width")
    grid = fit_grid(rows, *shape, **KINDS[kind])
    tally = grid.as_tally()
    total, positive = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    total[tally.level, tally.score.astype(int)] = tally.count
    positive[tally.level, tally.score.astype(int)] = tally.positive
    assert np.array_equal(total, grid.total) and np.array_equal(positive, grid.positive)
    falling = list(zip((-tally.score).tolist(), tally.level.tolist(), strict=True))
    assert falling == sorted(set(falling))

    frame = binning.grid_frame(grid)
    assert frame.height == shape[0] * shape[1]
    assert frame["uncertainty_bin"].to_list() == [
        i for i in range(shape[0]) for _ in range(shape[1])
    ]
    counts = np.array(frame["count"].to_list()).reshape(shape)
    assert np.array_equal(counts, grid.total * grid.unit.size)
    empty = frame.filter(frame["count"] == 0)
    assert empty["positivity"].is_null().all() and empty["mean_score"].is_null().all()
    assert not any(frame[name].is_nan().any() for name in ("positivity", "mean_score"))
    full = frame.filter(frame["count"] > 0)
    assert full["positivity"].is_between(0, 1).all()
    assert (full["score_low"] <= full["score_high"]).all()


def test_a_level_without_rows_has_no_edges() -> None:
    rows = score_rows([0.1, 0.2, 0.3, 0.4], [0, 1, 0, 1], [1, 1, 1, 2])
    grid = fit_grid(rows, 3, 2)
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
