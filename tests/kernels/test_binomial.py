"""Binomial tails and bounds against exact fractions, bets on units against exact products."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from calibkit_kernels import distributions as kernels
from tests.naive import bets
from tests.naive import binomial as naive

CLOSE = {"rel": 1e-13}
counts = st.integers(0, 40).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))
chances = st.integers(1, 99).map(lambda k: k / 100)
levels = st.sampled_from([0.5, 0.1, 0.05, 1e-3, 1e-9])


@given(counts, st.one_of(chances, st.floats(1e-12, 1e-3)), st.booleans())
def test_log_probability(pair: tuple[int, int], p: float, swap: bool) -> None:
    k, n = map(float, pair)
    p, q = (1.0 - p, p) if swap else (p, 1.0 - p)
    expected = float(naive.log_probability(k, n, p, q))
    found = kernels.log_probability(k, n, p, q)
    assert found == pytest.approx(expected, rel=1e-13, abs=1e-13)


@given(counts, st.integers(-2, 42), chances)
def test_tails(pair: tuple[int, int], k: int, p: float) -> None:
    n = pair[1]
    q = 1.0 - p
    for found, expected in (
        (kernels.upper_tail(k, n, p, q), naive.upper_tail(k, n, p, q)),
        (kernels.lower_tail(k, n, p, q), naive.lower_tail(k, n, p, q)),
    ):
        assert found == pytest.approx(expected, rel=1e-12, abs=1e-15)


@given(st.integers(1, 20), st.integers(1, 20), chances)
def test_tail_fraction(a: int, b: int, share: float) -> None:
    x = share * (a + 1) / (a + b + 2)
    found = kernels.tail_fraction(float(a), float(b), x, 1.0 - x)
    assert found == pytest.approx(naive.tail_fraction(a, b, x, 1.0 - x), **CLOSE)


@given(st.lists(counts, min_size=1, max_size=3), levels, st.booleans())
def test_bounds(pairs: list[tuple[int, int]], level: float, upper: bool) -> None:
    successes, trials = np.array(pairs, np.int64).T.copy()
    found, expected = np.empty((2, len(pairs)))
    kernels.bounds(successes, trials, level, upper, found)
    naive.bounds(successes, trials, level, upper, expected)
    np.testing.assert_allclose(found, expected, rtol=1e-13)
    for k, n, p in zip(successes.tolist(), trials.tolist(), found.tolist(), strict=True):
        if n:
            assert kernels.bound(k, n, level, upper) == p
            assert p >= k / n - 1e-15 if upper else p <= k / n + 1e-15 or level > 0.5


def test_rare_events_keep_their_digits() -> None:
    assert kernels.log_probability(0.0, 1e12, 1e-12, 1.0 - 1e-12) == pytest.approx(-1.0, rel=1e-11)
    assert kernels.log_probability(1e12, 1e12, 1.0 - 1e-12, 1e-12) == pytest.approx(-1.0, rel=1e-11)


#: Sums of eighths and logarithms of them are never just at a goal of 3, 10 or 20.
pay = st.integers(-8, 16).map(lambda eighths: eighths / 8)
rows = st.lists(st.tuples(st.integers(0, 3), pay, pay, st.booleans()), max_size=30)


@given(rows, st.integers(-1, 4), st.sampled_from([0.0, 0.25, 0.75]), st.sampled_from([3, 10, 20]))
@example([(0, -4.0, 4.0, True), *[(9, 4.0, -4.0, True)] * 2], 0, 0.5, 3)  # goes by the selection
def test_units_to_reach(
    drawn: list[tuple[int, float, float, bool]], place: int, stake: float, goal: int
) -> None:
    """One that begins a unit says so, and one of a unit pays a third."""
    first = np.array([row[0] for row in drawn], np.int64)
    outside, inside = (np.array([row[k] for row in drawn], np.float64) / 4 for k in (1, 2))
    begins = [k for k, row in enumerate(drawn) if row[3] or k == 0 or k % 4 == 0]
    starts = np.array([*begins, len(drawn)], np.int64)
    given_bet = (first, outside, inside, starts, place, stake, math.log(goal))
    assert kernels.units_to_reach(*given_bet) == bets.units_to_reach(*given_bet)
