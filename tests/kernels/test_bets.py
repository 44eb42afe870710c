"""Bets on units against exact products, and how often they are won where nothing is to be won."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from calibkit_kernels.distributions import units_to_reach
from tests.naive import bets as naive

#: Sums of eighths and logarithms of them are never just at a goal of 3, 10 or 20.
pay = st.integers(-8, 16).map(lambda eighths: eighths / 8)
rows = st.lists(st.tuples(st.integers(0, 3), pay, pay, st.booleans()), max_size=30)


def arrays(drawn: list[tuple[int, float, float, bool]]) -> tuple[np.ndarray, ...]:
    """Return the arrays of rows; one that begins a unit says so, and one of a unit pays a third."""
    first = np.array([row[0] for row in drawn], np.int64)
    outside, inside = (np.array([row[k] for row in drawn], np.float64) / 4 for k in (1, 2))
    begins = [k for k, row in enumerate(drawn) if row[3] or k == 0 or k % 4 == 0]
    return first, outside, inside, np.array([*begins, len(drawn)], np.int64)


@given(rows, st.integers(-1, 4), st.sampled_from([0.0, 0.25, 0.75]), st.sampled_from([3, 10, 20]))
def test_units_to_reach(
    drawn: list[tuple[int, float, float, bool]], place: int, stake: float, goal: int
) -> None:
    given_arrays = arrays(drawn)
    found = units_to_reach(*given_arrays, place, stake, math.log(goal))
    assert found == naive.units_to_reach(*given_arrays, place, stake, math.log(goal))


def test_what_is_not_selected_pays_as_such() -> None:
    first, starts = np.array([0, 9, 9], np.int64), np.array([0, 1, 2, 3], np.int64)
    outside, inside = np.array([-1.0, 1.0, 1.0]), np.array([1.0, -1.0, -1.0])
    assert units_to_reach(first, outside, inside, starts, 0, 0.5, math.log(3.0)) == 3
    assert units_to_reach(first, outside, inside, starts, 9, 0.5, math.log(1.4)) == 1


def test_a_bet_on_nothing_is_won_with_its_level_at_most() -> None:
    stream, won, runs = np.random.default_rng(1), 0, 600
    first, starts = np.zeros(400, np.int64), np.arange(401)
    for _ in range(runs):
        pays = np.where(stream.random(400) < 0.7, 0.3 / 0.7, -1.0)
        won += units_to_reach(first, pays, pays, starts, 0, 0.15, math.log(10.0)) > 0
    assert stats.binom.sf(won - 1, runs, 0.1) > 1e-3
    assert won > 20
