"""Bounds are the decimal numbers that were typed; confidence bounds of shares are exact."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from calibkit.errors import UsageError
from calibkit.numerics.bounds import Bound, decimal_bound
from calibkit.numerics.distributions import interval


@pytest.mark.parametrize(
    ("value", "bound"),
    [
        ("0.9", Bound("0.9", 9, 10)),
        (".90", Bound("0.9", 9, 10)),
        ("9e-1", Bound("0.9", 9, 10)),
        (0.9, Bound("0.9", 9, 10)),
        ("0.900000000000", Bound("0.9", 9, 10)),
        ("0.756178293", Bound("0.756178293", 756178293, 10**9)),
        ("-0.0", Bound("0", 0, 1)),
        (1, Bound("1", 1, 1)),
        (1e-7, Bound("0.0000001", 1, 10**7)),
        ("1e-9", Bound("0.000000001", 1, 10**9)),
    ],
)
def test_reads_the_decimal(value: str | float, bound: Bound) -> None:
    assert decimal_bound(value) == bound


@given(st.integers(0, 10**9 - 1), st.integers(0, 9))
def test_any_nine_digits_are_exact(digits: int, places: int) -> None:
    text = f"{digits}e-{places}"
    bound = decimal_bound(text, most=None)
    assert Fraction(bound.numerator, bound.denominator) == Fraction(digits, 10**places)
    assert decimal_bound(bound.text, most=None) == bound
    assert float(bound) == float(text)


NO_DECIMAL = ["", "x", "nan", "inf", "1_0", "0,9", "٠.٩", "1/2", "--0.9", "1e99999999", math.nan]
REFUSED: list[tuple[str, list[Any], dict[str, None]]] = [
    ("--precision is .*decimal number", NO_DECIMAL, {}),
    ("from 0 to 1", ["-0.1", "1.1", "1e9999", 2, "-1e-9999"], {}),
    ("at most 9 digits", ["0.1234567891", "1e-10", "1e-9999", 1 / 3], {}),
    ("at most 9 digits", ["1e9999"], {"most": None}),
    ("at least 0", ["-1"], {"most": None}),
]


@pytest.mark.parametrize(
    ("said", "value", "most"),
    [(said, value, most) for said, values, most in REFUSED for value in values],
)
def test_refuses_what_is_no_bound(said: str, value: str | float, most: dict[str, None]) -> None:
    with pytest.raises(UsageError, match=said):
        decimal_bound(value, "--precision", **most)


@pytest.mark.parametrize("confidence", [0.3, 0.5, 0.9, 0.95, 0.999])
@pytest.mark.parametrize("trials", [1, 2, 7, 50, 1000, 20_000])
def test_confidence_bounds_are_those_of_scipy(trials: int, confidence: float) -> None:
    hits = np.unique(np.linspace(0, trials, 41).astype(int))
    low, high = interval(hits, trials, 2.0 * confidence - 1.0)
    below = stats.beta.ppf(1 - confidence, hits[1:], trials - hits[1:] + 1)
    above = stats.beta.ppf(confidence, hits[:-1] + 1, trials - hits[:-1])
    np.testing.assert_allclose(low[1:], below, rtol=1e-11)
    np.testing.assert_allclose(high[:-1], above, rtol=1e-11)


@pytest.mark.parametrize("successes", [0, 1, 3, 40])
def test_a_billion_trials_with_few_successes_are_poisson(successes: int) -> None:
    trials = 10**9
    high = float(interval(successes, trials, 0.9)[1]) * trials
    assert high == pytest.approx(stats.chi2.ppf(0.95, 2 * successes + 2) / 2, rel=1e-7)
    mirrored = 1.0 - float(interval(trials - successes, trials, 0.9)[0])
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
