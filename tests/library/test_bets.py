"""Bets of certificates: how often they are won where the bound is just missed."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from calibkit.methods.boundary.certificate.tests import Bets, Units

RUNS, ROWS = 2000, 300


def units(random: np.random.Generator, rate: float, bound: float) -> Units:
    """Return rows that are all selected, positive at a rate, where precision has a bound."""
    label = random.random(ROWS) < rate
    pays = np.where(label, 1.0 - bound, -bound) / bound  # -1 is the largest loss
    return Units(np.zeros(ROWS, np.int64), np.zeros(ROWS), pays, np.arange(ROWS + 1))


@pytest.mark.parametrize("level", [0.05, 0.2])
def test_a_bound_that_is_just_reached_is_seldom_taken_for_exceeded(level: float) -> None:
    random, won, wins = np.random.default_rng(5), 0, 0
    for _ in range(RUNS):
        # What is staked follows from rows where the boundary looks good.
        fitting = units(random, 0.75, 0.6)
        won += Bets(fitting, units(random, 0.6, 0.6), 1, level).rejects(0, level)
        wins += Bets(fitting, units(random, 0.75, 0.6), 1, level).rejects(0, level)
    assert stats.binom.sf(won - 1, RUNS, level) > 1e-4
    assert won > 0.3 * level * RUNS  # nor is the test so cautious that it says nothing
    assert wins > 0.95 * RUNS


def test_a_boundary_is_expected_to_pay_a_unit_the_mean_of_the_units_that_fit() -> None:
    """Three units pay 1, -.5 and .25: a mean of .25, and squares of 1.3125, with 1 more to be sure."""
    every = np.zeros(3, np.int64)
    fitting = Units(every, np.zeros(3), np.array([1.0, -0.5, 0.25]), np.arange(4))
    bets = Bets(fitting, Units(every, np.zeros(3), np.ones(3), np.arange(4)), 1, 0.5)
    assert bets.hopes[0].tolist() == pytest.approx([0.25 * np.sqrt(3 / (2.3125 / 3))])
