"""The core of the knapsack against the enumeration of every choice."""

from __future__ import annotations

import math
from collections.abc import Iterator
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibkit.numerics import knapsack
from calibkit_kernels import knapsack as kernels
from tests.naive import boundaries as naive
from tests.naive.boundaries import Level, Measures

#: One level: rows strictly rising, positives rising; may be empty.
level = st.lists(
    st.tuples(st.integers(1, 5), st.integers(1, 5)).map(lambda s: (s[0], min(s))), max_size=4
).map(
    lambda steps: [(int(m), int(t)) for m, t in np.cumsum(np.array(steps).reshape(-1, 2), axis=0)]
)
levels = st.lists(level, min_size=1, max_size=4)
#: Exact in binary, so that losses are exact and a budget may equal one of them.
slopes = st.integers(0, 16).map(lambda k: k / 16)
budgets = st.integers(0, 96).map(lambda k: k / 16)


@pytest.fixture(autouse=True, scope="module")
def stretches() -> Iterator[None]:
    """Look at two points at a time: levels are short here."""
    with patch("calibkit.numerics.knapsack._STRETCH", 2):
        yield


def arrays(
    problem: list[Level], gap: int = 0
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return points with their offsets and ends; `gap`: unused room behind every level."""
    sizes = np.array([len(points) for points in problem])
    offsets = np.concatenate([[0], np.cumsum(sizes + gap)])
    selected, hits = np.full((2, offsets[-1]), -9, np.int64)
    for start, points in zip(offsets, problem, strict=False):
        for i, (m, t) in enumerate(points):
            selected[start + i], hits[start + i] = m, t
    return selected, hits, offsets, offsets[:-1] + sizes


@given(levels, slopes, st.integers(0, 2))
def test_best_values(problem: list[Level], slope: float, gap: int) -> None:
    best = knapsack.Relaxation(arrays(problem, gap), slope).best
    assert best == naive.best_values(problem, slope)


@given(level, slopes, budgets)
def test_near_points(points: Level, slope: float, budget: float) -> None:
    near, losses = knapsack.Relaxation(arrays([points]), slope).near(0, budget)
    expected = naive.near_points(points, slope, budget)
    assert list(zip(near.tolist(), losses.tolist(), strict=True)) == expected


measures = st.lists(st.tuples(st.integers(0, 40), st.integers(-20, 20)), max_size=5).map(
    lambda pairs: [(loss / 16, value / 8) for loss, value in pairs]
)
limits_ = st.integers(-40, 40).map(lambda k: k / 8)


@given(measures, measures, budgets, limits_, limits_, st.integers(0, 2))
def test_pairs_within_the_limits_are_found(
    first: list[Measures],
    second: list[Measures],
    budget: float,
    low: float,
    high: float,
    short: int,
) -> None:
    a, b = (np.array(found, np.float64).reshape(-1, 2) for found in (first, second))
    limits = np.array([budget, low, high])
    expected = naive.combine(first, second, budget, low, high)
    pairs = np.empty((max(len(expected) - short, 0), 2), np.int64)
    assert kernels.near_pairs(a, b, limits, pairs) == len(expected)
    assert pairs.tolist() == [[s, p] for s, p, _, _ in expected][: len(pairs)]


@given(
    st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=12),
    st.sampled_from([1, -3, 10**9]),
)
def test_undominated_totals_are_kept_once(found: list[tuple[int, int]], times: int) -> None:
    """By falling positives; of equal totals the first is kept."""
    found = [(rows, times * positives) for rows, positives in found]
    kept = knapsack.undominated(np.array(found, np.int64).reshape(-1, 2))
    expected = sorted(naive.undominated(found), key=lambda one: -one[1])
    assert kept.tolist() == [found.index(one) for one in expected]


EVERYTHING = knapsack.Window(0.0, 0.0, -1.0, 1.0)


def band_of(
    problem: list[Level],
    slope: float,
    budget: float,
    window: knapsack.Window = EVERYTHING,
    gap: int = 0,
    cap: int = knapsack.STATE_CAP,
) -> knapsack.Band | None:
    relaxed = knapsack.Relaxation(arrays(problem, gap), slope)
    return knapsack.pareto_band(relaxed, budget, window, cap)


@given(levels, slopes, budgets, st.integers(0, 1))
def test_a_band_holds_every_undominated_choice_of_small_loss(
    problem: list[Level], slope: float, budget: float, gap: int
) -> None:
    band = band_of(problem, slope, budget, gap=gap)
    assert band is not None
    every = naive.every_choice(problem)
    best = sum(naive.best_values(problem, slope))
    found = list(zip(band.selected.tolist(), band.true_positives.tolist(), strict=True))
    assert set(found) == {
        (m, t)
        for m, t in naive.undominated(list(every.values()))
        if best - (t - slope * m) <= budget
    }
    assert len(set(found)) == len(found)
    assert_choices_have_their_totals(problem, band, gap)


def assert_choices_have_their_totals(problem: list[Level], band: knapsack.Band, gap: int) -> None:
    every, offsets = naive.every_choice(problem), arrays(problem, gap)[2].tolist()
    totals = zip(band.selected.tolist(), band.true_positives.tolist(), strict=True)
    for choice, found in zip(band.choices.tolist(), totals, strict=True):
        own = [p - start if p >= 0 else -1 for p, start in zip(choice, offsets, strict=False)]
        assert every[tuple(own)] == found


@given(levels, slopes, budgets, st.integers(-3, 0), st.integers(0, 3), limits_, limits_)
def test_a_window_leaves_out_nothing_inside(
    problem: list[Level],
    slope: float,
    budget: float,
    rows: int,
    hits: int,
    low: float,
    width: float,
) -> None:
    high = low + abs(width)
    band = band_of(problem, slope, budget, knapsack.Window(rows, hits, low, high))
    assert band is not None
    best = sum(naive.best_values(problem, slope))
    wanted = {
        (m, t)
        for m, t in naive.undominated(list(naive.every_choice(problem).values()))
        if best - (t - slope * m) <= budget and low <= rows * m + hits * t <= high
    }
    found = set(zip(band.selected.tolist(), band.true_positives.tolist(), strict=True))
    assert wanted <= found
    assert_choices_have_their_totals(problem, band, 0)


def test_beyond_the_cap_there_is_no_band() -> None:
    problem = [[(2, 1), (5, 2)]] * 3
    assert band_of(problem, 0.5, math.inf, cap=27) is not None
    assert band_of(problem, 0.5, math.inf, cap=3) is None


@pytest.mark.parametrize("slope", [0.0, 0.5])
def test_levels_without_points_choose_nothing(slope: float) -> None:
    band = band_of([[], []], slope, 1.0)
    assert band is not None
    assert band.choices.tolist() == [[-1, -1]] and band.selected.tolist() == [0]


def test_rounding_leaves_out_no_choice_of_equal_value() -> None:
    """Where 66 of 95 rows are positive, at that price no choice loses anything but by rounding."""
    points = [(95 * k, 66 * k) for k in range(1_000_000, 1_000_200)]
    relaxed = knapsack.Relaxation(arrays([points]), 66 / 95)
    assert relaxed.near(0, np.inf)[1][1:].min() > 0.0
    band = knapsack.pareto_band(relaxed, 0.0, EVERYTHING)
    assert band is not None
    assert band.selected.size == len(points) + 1
