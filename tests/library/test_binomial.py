"""Exact confidence bounds against scipy, at a billion trials, and where there is nothing to bound."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest
from numpy.typing import ArrayLike
from scipy import stats

from calibkit.arrays import Floats
from calibkit.numerics.distributions import interval


def one_sided(upper: bool, successes: ArrayLike, trials: ArrayLike, confidence: float) -> Floats:
    return interval(successes, trials, 2.0 * confidence - 1.0)[upper]


lower_bound, upper_bound = partial(one_sided, False), partial(one_sided, True)


@pytest.mark.parametrize("confidence", [0.3, 0.5, 0.9, 0.95, 0.999])
@pytest.mark.parametrize("trials", [1, 2, 7, 50, 1000, 20_000])
def test_bounds_are_those_of_scipy(trials: int, confidence: float) -> None:
    successes = np.unique(np.linspace(0, trials, 41).astype(int))
    low = stats.beta.ppf(1 - confidence, successes[1:], trials - successes[1:] + 1)
    high = stats.beta.ppf(confidence, successes[:-1] + 1, trials - successes[:-1])
    np.testing.assert_allclose(lower_bound(successes, trials, confidence)[1:], low, rtol=1e-11)
    np.testing.assert_allclose(upper_bound(successes, trials, confidence)[:-1], high, rtol=1e-11)


@pytest.mark.parametrize("successes", [0, 1, 3, 40])
def test_a_billion_trials_with_few_successes_are_poisson(successes: int) -> None:
    trials = 10**9
    high = float(upper_bound(successes, trials, 0.95)) * trials
    assert high == pytest.approx(stats.chi2.ppf(0.95, 2 * successes + 2) / 2, rel=1e-7)
    mirrored = 1.0 - float(lower_bound(trials - successes, trials, 0.95))
    assert mirrored * trials == pytest.approx(high, rel=1e-7)


def test_a_billion_trials_in_the_middle_are_normal() -> None:
    low, high = interval(300_000_000, 10**9, 0.9)
    half = stats.norm.ppf(0.95) * math.sqrt(0.3 * 0.7 / 1e9)
    assert float(high) - float(low) == pytest.approx(2 * half, rel=1e-4)


def test_nothing_known_bounds_nothing() -> None:
    low, high = interval([0, 0, 5], [0, 5, 5], 0.9)
    assert low.tolist()[:2] == [0.0, 0.0]
    assert high.tolist()[::2] == [1.0, 1.0]
    assert high[1] == pytest.approx(1 - 0.05 ** (1 / 5))
    assert low[2] == pytest.approx(0.05 ** (1 / 5))


def test_coverage_is_at_least_the_confidence() -> None:
    trials = 30
    hits = np.arange(trials + 1)
    low, high = lower_bound(hits, trials, 0.9), upper_bound(hits, trials, 0.9)
    for p in np.linspace(0.01, 0.99, 99):
        chance = stats.binom.pmf(hits, trials, p)
        assert chance[low > p].sum() <= 0.1 + 1e-12
        assert chance[high < p].sum() <= 0.1 + 1e-12
