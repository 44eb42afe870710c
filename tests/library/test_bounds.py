"""Bounds are the decimal numbers that were typed."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibkit.errors import UsageError
from calibkit.numerics.bounds import Bound, decimal_bound


@pytest.mark.parametrize(
    ("value", "bound"),
    [
        ("0.9", Bound("0.9", 9, 10)),
        (".90", Bound("0.9", 9, 10)),
        ("9e-1", Bound("0.9", 9, 10)),
        (0.9, Bound("0.9", 9, 10)),
        ("0.900000000000", Bound("0.9", 9, 10)),
        ("0.756178293", Bound("0.756178293", 756178293, 10**9)),
        ("0", Bound("0", 0, 1)),
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


@pytest.mark.parametrize(
    "value",
    ["", "x", "nan", "inf", "1_0", "0,9", "٠.٩", "1/2", "--0.9", "1e99999999", float("nan")],
)
def test_refuses_what_is_no_decimal(value: str | float) -> None:
    with pytest.raises(UsageError, match=r"--precision is .*decimal number"):
        decimal_bound(value, "--precision")


@pytest.mark.parametrize("value", ["-0.1", "1.1", "1e9999", 2, "-1e-9999"])
def test_refuses_what_is_out_of_range(value: str | float) -> None:
    with pytest.raises(UsageError, match="from 0 to 1"):
        decimal_bound(value, "--precision")


@pytest.mark.parametrize("value", ["0.1234567891", "1e-10", "1e-9999", 1 / 3])
def test_refuses_more_than_nine_digits(value: str | float) -> None:
    with pytest.raises(UsageError, match="at most 9 digits"):
        decimal_bound(value, "--precision")


def test_an_open_range_still_has_nine_digits() -> None:
    assert decimal_bound("25000", "--capacity", most=None).numerator == 25000
    with pytest.raises(UsageError, match="at most 9 digits"):
        decimal_bound("1e9999", "--capacity", most=None)
    with pytest.raises(UsageError, match="at least 0"):
        decimal_bound("-1", "--capacity", most=None)
