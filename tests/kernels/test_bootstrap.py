"""The bootstrap of a tally: its law, its cells, and the metrics of what was drawn."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from calibkit.measures.resampling import _precision, _recall
from calibkit_kernels import bootstrap as kernels
from calibkit_kernels.draws import uniform
from tests.conftest import INTERPRETED
from tests.naive import intervals as naive

DRAWS = 2_000 if INTERPRETED else 60_000

tables = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=8).map(
    lambda rows: np.array(rows, np.float64)
)


def scores_for(table: np.ndarray) -> np.ndarray:
    return np.linspace(0.95, 0.05, len(table))


@given(st.floats(0, 23), st.integers(0, 2**63), st.integers(0, 1000))
def test_small_numbers_are_quantiles(mean: float, key: int, place: int) -> None:
    share = uniform(np.uint64(key), 64 * place)
    found = kernels.poisson(mean, np.uint64(key), place)
    near = {naive.poisson(mean, share + shift) for shift in (-1e-12, 1e-12) if share + shift < 1}
    assert found in near | {naive.poisson(mean, share)}


@pytest.mark.parametrize("mean", [0.0, 0.3, 1.0, 7.5, 23.9, 24.0, 100.0, 1e6])
def test_the_law_of_numbers(mean: float) -> None:
    drawn = np.empty(DRAWS)
    kernels.draw_numbers(np.full(DRAWS, mean), np.uint64(7), drawn)
    assert (drawn >= 0).all()
    assert (drawn == np.floor(drawn)).all()
    error = math.sqrt(mean / DRAWS) if mean else 0.0
    assert abs(drawn.mean() - mean) <= 4 * error
    if mean:
        spread = math.sqrt((2 + 1 / mean) / DRAWS)
        assert abs(drawn.var() / mean - 1) <= 4 * spread + 1e-3
        distance = stats.kstest(drawn, stats.poisson(mean).cdf).statistic
        jump = stats.poisson(mean).pmf(int(mean))
        assert distance <= jump + 2 / math.sqrt(DRAWS)  # a lattice: steps are not smaller


def test_numbers_depend_on_key_and_place_alone() -> None:
    mean = np.resize([0.5, 3.0, 40.0], 30)
    one, few, other = np.empty(30), np.empty(7), np.empty(30)
    for key, numbers in ((1, one), (1, few), (2, other)):
        kernels.draw_numbers(mean[: numbers.size].copy(), np.uint64(key), numbers)
    assert (one[:7] == few).all()
    assert (one != other).any()
    each = [kernels.poisson(own, np.uint64(1), place) for place, own in enumerate(mean)]
    assert one.tolist() == each


@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 4), st.integers(0, 2), st.integers(0, 2)),
        max_size=12,
    )
)
def test_records_are_added_as_often_as_their_unit(records: list[tuple[int, int, int, int]]) -> None:
    times = [0.0, 1.0, 2.0, 0.0, 3.0]
    cell, unit, plus, minus = np.array(records, np.int64).reshape(-1, 4).T.copy()
    rates = [side.astype(np.float64) for side in (plus, minus)]
    out = np.zeros((4, 2))
    kernels.add_records(cell, unit, *rates, np.array(times), out)
    assert (out == naive.resampled(records, times, 4)).all()


@given(
    st.lists(st.tuples(st.integers(1, 5), st.integers(0, 5)), min_size=1, max_size=12),
    st.sets(st.integers(0, 12)),
    st.integers(1, 9),
)
def test_cells_keep_bins_whole(entries: list[tuple[int, int]], breaks: set[int], most: int) -> None:
    count = np.array([rows for rows, _ in entries])
    positive = np.minimum(count, [hits for _, hits in entries])
    score = np.linspace(1, 0, count.size)
    wanted = sorted(at for at in breaks if at <= count.size)
    out = np.empty((count.size + 1, 4))
    size = kernels.fill_cells(score, count, positive, np.array(wanted, np.int64), most, out)
    ends = out[:size, 3].astype(int).tolist()
    assert ends == naive.cells(count.tolist(), wanted, most)
    starts = [0, *ends[:-1]]
    for (good, bad, mass, _), low, high in zip(out[:size], starts, ends, strict=True):
        assert (good, good + bad) == (positive[low:high].sum(), count[low:high].sum())
        assert mass == pytest.approx((score * count)[low:high].sum())


@given(st.floats(-2, 2), st.floats(0, 2))
def test_the_size_of_a_normal_variable(mean: float, deviation: float) -> None:
    found = kernels.folded_bias(mean, deviation)
    assert found == pytest.approx(naive.folded_bias(mean, deviation), abs=1e-5)
    assert found >= -1e-15
    other = kernels.folded_bias(0.5 * mean, deviation)
    points = np.array([mean, 0.5 * mean]), np.array([deviation, deviation])
    assert kernels.mean_folded_bias(*points) == pytest.approx((found + other) / 2)


@given(tables, st.lists(st.integers(0, 8), max_size=4), st.sampled_from([1.0, 0.3]))
def test_calibration_errors(table: np.ndarray, cuts: list[int], share: float) -> None:
    score, size = scores_for(table), len(table)
    ends = np.array([*sorted(min(cut, size) for cut in cuts), size], np.int64)
    out = np.empty(4)
    shares = share / np.arange(1.0, ends.size + 1)
    kernels.gap_statistics(table, score, ends, shares, out)
    bins = np.searchsorted(ends, np.arange(size), side="right")
    expected = naive.gaps(table, score, bins, shares)
    assert out.tolist() == pytest.approx(expected, abs=1e-5, nan_ok=True)


def test_weights_below_one_have_errors_too() -> None:
    out, ones = np.empty(4), np.ones(2)
    table, score = np.array([[0.25, 0.0], [0.0, 0.5]]), np.array([0.75, 0.5])
    kernels.gap_statistics(table, score, np.array([1, 2]), ones, out)
    assert out.tolist() == pytest.approx(naive.gaps(table, score, np.arange(2), ones), abs=1e-6)


@given(tables)
def test_corp(table: np.ndarray) -> None:
    score, out = scores_for(table), np.empty(3)
    kernels.corp_statistics(table, score, np.empty_like(table), out)
    assert out.tolist() == pytest.approx(naive.corp(table, score), abs=1e-9, nan_ok=True)
    if table.sum():
        assert out[0] >= -1e-12 and out[1] >= -1e-12


@given(tables, st.sampled_from([0.1, 0.5, 0.9, 1.0]))
def test_thresholds(table: np.ndarray, bound: float) -> None:
    found = *_recall(bound, table), *_precision(bound, table)
    expected = naive.recall_at(table, bound), naive.precision_at(table, bound)
    assert list(found) == pytest.approx(list(expected), nan_ok=True)
