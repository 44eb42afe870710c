"""The normal distribution: against scipy and the twins, from the middle to the far tails."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special, stats

from calibkit.numerics.distributions import critical_value, normal_quantile, student_value
from calibkit_kernels.distributions import normal_cdf, normal_density
from tests.naive import normal as naive

points = st.floats(-37, 37)
probabilities = st.floats(1e-300, 1, exclude_max=True)


@given(points)
def test_probabilities(z: float) -> None:
    assert normal_cdf(z) == pytest.approx(naive.normal_cdf(z), rel=1e-12, abs=0)
    assert normal_cdf(z) == pytest.approx(special.ndtr(z), rel=1e-12, abs=0)
    assert normal_density(z) == pytest.approx(naive.normal_density(z), rel=1e-12, abs=0)
    assert normal_cdf(z) + normal_cdf(-z) == pytest.approx(1, rel=1e-15)


@given(probabilities)
def test_quantiles(p: float) -> None:
    assert normal_quantile(p) == pytest.approx(stats.norm.ppf(p), rel=1e-13, abs=1e-15)
    assert normal_quantile(p) == pytest.approx(naive.normal_quantile(p), rel=1e-12, abs=1e-14)


def test_quantiles_near_the_middle_keep_their_digits() -> None:
    for share in 2.0 ** np.arange(-50, -3):
        exact = share * math.sqrt(2 * math.pi) * (1 + math.pi * share * share / 3)
        close = max(1e-14, 4 * share**4 * math.pi**2)
        assert normal_quantile(0.5 + share) == pytest.approx(exact, rel=close, abs=0)
        assert normal_quantile(0.5 - share) == -normal_quantile(0.5 + share)


@given(st.tuples(points, points).map(sorted))
def test_probabilities_never_fall(pair: list[float]) -> None:
    low, high = map(normal_cdf, pair)
    assert low <= high * (1 + 4e-16)


def test_ends() -> None:
    infinity = math.inf
    assert (normal_cdf(-infinity), normal_cdf(infinity)) == (0.0, 1.0)
    assert (normal_quantile(0.0), normal_quantile(1.0)) == (-infinity, infinity)
    assert (normal_cdf(0.0), normal_quantile(0.5)) == (0.5, 0.0)
    assert math.isnan(normal_cdf(math.nan))
    assert normal_quantile(5e-324) == pytest.approx(-38.46740561714434, rel=1e-13)


def test_the_critical_value_of_an_interval() -> None:
    assert critical_value(0.95) == pytest.approx(1.959963984540054, rel=1e-15)
    assert normal_cdf(normal_quantile(0.3)) == pytest.approx(0.3, rel=1e-15)


@given(st.floats(0.01, 0.9999), st.integers(1, 3000))
def test_the_value_of_student(confidence: float, free: int) -> None:
    expected = stats.t.ppf(0.5 + confidence / 2, free)
    assert student_value(confidence, free) == pytest.approx(expected, rel=1e-9)
