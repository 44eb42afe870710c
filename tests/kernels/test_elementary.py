"""Exponential, logarithm and the normal distribution, from the middle to the far tails."""

from __future__ import annotations

import math
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special, stats

from calibkit.numerics.distributions import critical_value, normal_quantile, student_value
from calibkit_kernels.distributions import normal_cdf, normal_density
from calibkit_kernels.elementary import exp_down, log_of, logits
from calibkit_kernels.maps import LEAST
from tests.naive import elementary as naive
from tests.naive import maps as naive_maps
from tests.naive import normal as naive_normal

points = st.floats(-37, 37)


def units_off(found: float, exact: Decimal) -> float:
    """Return how far a number is off, in units of its last place."""
    return float(abs(Decimal(float(found)) - exact) / Decimal(math.ulp(float(exact))))


@given(st.floats(-708.0, 0.0) | st.floats(-2.0, 0.0) | st.floats(-1e-3, 0.0))
def test_exponentials_are_within_a_unit_of_their_last_place(z: float) -> None:
    assert units_off(exp_down(z), naive.exp_down(z)) < 1.0


@given(st.floats(2.3e-308, 1.7e308) | st.floats(0.5, 2.0) | st.floats(1.0 - 1e-6, 1.0 + 1e-6))
def test_logarithms_are_within_a_unit_of_their_last_place(m: float) -> None:
    assert units_off(log_of(m), naive.log_of(m)) < 1.0


@pytest.mark.parametrize("step", range(64))
def test_both_hold_where_their_pieces_meet(step: int) -> None:
    z = -(step + 0.5) * math.log(2.0)
    for near in (z, math.nextafter(z, 0.0), math.nextafter(z, -1e9)):
        assert units_off(exp_down(near), naive.exp_down(near)) < 1.0
    for m in (math.sqrt(2.0) * (1.0 + (step - 32) * 2.0**-52), 1.0 + step / 64):
        for power in (-1022, -20, 0, 19, 1023):
            x = math.ldexp(m / 2.0, power) if power > 0 else math.ldexp(m, power)
            assert units_off(log_of(x), naive.log_of(x)) < 1.0


@given(st.lists(st.floats(0.0, 1.0), max_size=20))
def test_logits_to_be_fitted_on(p: list[float]) -> None:
    for kind in (np.float64, np.float32):
        given_, out = np.array(p, kind), np.empty(len(p))
        logits(given_, out)
        wanted = naive_maps.log_odds(given_.astype(float).tolist(), LEAST)
        assert out == pytest.approx(wanted, rel=1e-9, abs=1e-12)


def test_the_ends_and_what_is_no_number() -> None:
    assert exp_down(0.0) == exp_down(-0.0) == 1.0
    assert log_of(1.0) == 0.0
    assert exp_down(-math.inf) == exp_down(-1e9) == pytest.approx(math.exp(-708.0), rel=1e-15)
    assert math.isnan(exp_down(math.nan))
    assert math.isnan(log_of(math.nan))
    assert math.isnan(log_of(math.inf))


@given(points)
def test_probabilities(z: float) -> None:
    for known in (naive_normal.normal_cdf, special.ndtr):
        assert normal_cdf(z) == pytest.approx(known(z), rel=1e-12, abs=0)
    assert normal_density(z) == pytest.approx(naive_normal.normal_density(z), rel=1e-12, abs=0)
    assert normal_cdf(z) + normal_cdf(-z) == pytest.approx(1, rel=1e-15)


@given(st.floats(1e-300, 1, exclude_max=True))
def test_quantiles(p: float) -> None:
    assert normal_quantile(p) == pytest.approx(stats.norm.ppf(p), rel=1e-13, abs=1e-15)
    assert normal_quantile(p) == pytest.approx(
        naive_normal.normal_quantile(p), rel=1e-12, abs=1e-14
    )


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


def test_ends_of_the_normal_distribution() -> None:
    infinity = math.inf
    assert (normal_cdf(-infinity), normal_cdf(infinity)) == (0.0, 1.0)
    assert (normal_quantile(0.0), normal_quantile(1.0)) == (-infinity, infinity)
    assert (normal_cdf(0.0), normal_quantile(0.5)) == (0.5, 0.0)
    assert math.isnan(normal_cdf(math.nan))
    assert critical_value(0.95) == pytest.approx(1.959963984540054, rel=1e-15)
    assert normal_quantile(5e-324) == pytest.approx(-38.46740561714434, rel=1e-13)


@given(st.floats(0.01, 0.9999), st.integers(1, 3000))
def test_the_value_of_student(confidence: float, free: int) -> None:
    expected = stats.t.ppf(0.5 + confidence / 2, free)
    assert student_value(confidence, free) == pytest.approx(expected, rel=1e-9)
