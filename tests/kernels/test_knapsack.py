"""The core of the knapsack against the enumeration of every choice."""

from __future__ import annotations

import math
from collections.abc import Iterator
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import example, given
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


EVERYTHING = knapsack.Window(0, 0, -1.0, 1.0)


windows = st.tuples(st.integers(-3, 0), st.integers(0, 3), limits_, limits_).map(
    lambda w: knapsack.Window(*w[:3], w[2] + abs(w[3]))
)


@given(levels, slopes, budgets, windows, st.integers(0, 1))
@example([[], []], 0.5, 1.0, EVERYTHING, 0)
def test_a_band_holds_every_undominated_choice_of_small_loss_in_its_window(
    problem: list[Level], slope: float, budget: float, window: knapsack.Window, gap: int
) -> None:
    prefixes = points_of(problem, gap)
    every, best = naive.every_choice(problem), sum(naive.best_values(problem, slope))
    undominated = naive.undominated(list(every.values()))
    near = {(m, t) for m, t in undominated if best - (t - slope * m) <= budget}
    for limits in (EVERYTHING, window):
        relaxed = knapsack.Relaxation(prefixes, slope)
        band = knapsack.pareto_band(relaxed, budget, limits)
        assert band is not None
        found = list(zip(band.selected.tolist(), band.true_positives.tolist(), strict=True))
        if limits == EVERYTHING:
            assert near == set(found) and len(near) == len(found)
        for m, t in near:
            inside = limits.low <= limits.rows * m + limits.hits * t <= limits.high
            assert not inside or (m, t) in found
        for choice, totals in zip(band.choices.tolist(), found, strict=True):
            places = zip(choice, prefixes[2].tolist(), strict=False)
            assert every[tuple(p - start if p >= 0 else -1 for p, start in places)] == totals


def test_beyond_the_cap_there_is_no_band() -> None:
    relaxed = knapsack.Relaxation(points_of([[(2, 1), (5, 2)]] * 3), 0.5)
    assert knapsack.pareto_band(relaxed, math.inf, EVERYTHING, 27) is not None
    assert knapsack.pareto_band(relaxed, math.inf, EVERYTHING, 3) is None


def test_rounding_leaves_out_no_choice_of_equal_value() -> None:
    """Where 66 of 95 rows are positive, at that price no choice loses anything but by rounding."""
    points = [(95 * k, 66 * k) for k in range(1_000_000, 1_000_200)]
    relaxed = knapsack.Relaxation(points_of([points]), 66 / 95)
    assert relaxed.near(0, np.inf)[1][1:].min() > 0.0
    band = knapsack.pareto_band(relaxed, 0.0, EVERYTHING)
    assert band is not None
    assert band.selected.size == len(points) + 1


def points_of(problem: list[Level], gap: int = 0) -> tuple[np.ndarray, ...]:
    """Return points with their offsets and ends; `gap`: unused room behind every level."""
    sizes = np.array([len(points) for points in problem])
    offsets = np.concatenate([[0], np.cumsum(sizes + gap)])
    selected, hits = np.full((2, offsets[-1]), -9, np.int64)
    for start, points in zip(offsets, problem, strict=False):
        for i, (m, t) in enumerate(points):
            selected[start + i], hits[start + i] = m, t
    return selected, hits, offsets, offsets[:-1] + sizes


@given(level, slopes, budgets)
def test_near_points(points: Level, slope: float, budget: float) -> None:
    near, losses = knapsack.Relaxation(points_of([points]), slope).near(0, budget)
    expected = naive.near_points(points, slope, budget)
    assert list(zip(near.tolist(), losses.tolist(), strict=True)) == expected


Choices = tuple[list[list[int]], list[list[int]]]


@st.composite
def tables(draw: st.DrawFn, signs: tuple[int, ...] = (1, -1)) -> Choices:
    """Choices of some levels: gains (all rising or all falling) and costs, both from 0."""
    bins = draw(st.integers(1, 4))
    count = draw(st.integers(1, 3))
    step = st.lists(st.integers(0, 4), min_size=bins, max_size=bins)
    sign, scale = draw(st.sampled_from(signs)), draw(st.sampled_from((1, 7, 2**50)))
    gains = [np.cumsum([0, *draw(step)]) * sign * scale for _ in range(count)]
    costs = [np.cumsum([0, *draw(step)]) for _ in range(count)]
    return [g.tolist() for g in gains], [c.tolist() for c in costs]


def reached(values: np.ndarray) -> dict[int, int]:
    """Return the values of a table by their cost, where it can be reached."""
    return {
        cost: int(value) for cost, value in enumerate(values) if value > kernels.UNREACHABLE // 2
    }


@given(tables())
def test_tables_hold_the_largest_gain_of_every_cost(problem: Choices) -> None:
    gains, costs = problem
    values = [np.zeros(1, np.int64)]
    for gain, cost in zip(gains, costs, strict=True):
        values.append(kernels.add_level(values[-1], np.array(gain), np.array(cost)))
    best = naive.naive_gains(gains, costs)
    assert reached(values[-1]) == best
    targets = np.array(sorted(best))
    left, rest = targets.copy(), values[-1][targets]
    for level in range(len(gains) - 1, -1, -1):
        gain, cost = np.array(gains[level]), np.array(costs[level])
        chosen = kernels.trace_level(values[level], gain, cost, left, rest)
        assert chosen.min() >= 0
        left, rest = left - cost[chosen], rest - gain[chosen]
    assert not left.any() and not rest.any()
    # A cost that nothing attains is not traced.
    lost = (np.array([0, 5]), np.array([0, 2]), np.array([1]), np.array([3]))
    assert kernels.trace_level(values[0], *lost).tolist() == [-1]


def test_a_table_longer_than_a_block_is_the_convolution_of_its_levels() -> None:
    rng = np.random.default_rng(5)
    first = np.cumsum(rng.integers(0, 9, 5000))
    gains, costs = np.cumsum(rng.integers(0, 9, 4)), np.array([0, 3, 3, 4000])
    best = kernels.add_level(first, gains, costs)
    by_choice = np.full((4, 9000), np.iinfo(np.int64).min)
    for t in range(4):
        by_choice[t, costs[t] : costs[t] + 5000] = first + gains[t]
    assert np.array_equal(best, by_choice.max(axis=0))


@given(tables(signs=(1,)), st.data())
def test_nested_levels_never_rise(problem: Choices, data: st.DataObject) -> None:
    gains, costs = problem
    limit = data.draw(st.integers(0, sum(cost[-1] for cost in costs)))
    lowest = data.draw(st.integers(0, len(gains[0]) - 1))

    def best_from(bin_: int, levels: int) -> dict[int, int]:
        parts = ([own[bin_:] for own in some[:levels]] for some in problem)
        return naive.naive_gains(*parts, mono=True)

    best = best_from(lowest, len(gains))
    values, last = kernels.nested_levels(np.array(gains), np.array(costs), limit, lowest)
    assert reached(values) == {cost: gain for cost, gain in best.items() if cost <= limit}
    assert (last >= lowest) == (limit in best)
    if last >= 0 and len(gains) > 1:  # the levels before can make up the rest
        others = best_from(last, len(gains) - 1)
        assert others[limit - costs[-1][last]] + gains[-1][last] == best[limit]
