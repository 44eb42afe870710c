"""Exponential and logarithm: within a unit in the last place of forty digits."""

from __future__ import annotations

import math
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibkit_kernels.elementary import exp_down, log_up
from tests.naive import elementary as naive


def units_off(found: float, exact: Decimal) -> float:
    """Return how far a number is off, in units of its last place."""
    return float(abs(Decimal(float(found)) - exact) / Decimal(math.ulp(float(exact))))


@given(st.floats(-708.0, 0.0) | st.floats(-2.0, 0.0) | st.floats(-1e-3, 0.0))
def test_exponentials_are_within_a_unit_of_their_last_place(z: float) -> None:
    assert units_off(exp_down(z), naive.exp_down(z)) < 1.0


@given(st.floats(1.0, 2.0) | st.floats(1.0, 1.0 + 1e-6))
def test_logarithms_are_within_a_unit_of_their_last_place(m: float) -> None:
    assert units_off(log_up(m), naive.log_up(m)) < 1.0


@pytest.mark.parametrize("step", range(64))
def test_both_hold_where_their_pieces_meet(step: int) -> None:
    z = -(step + 0.5) * math.log(2.0)
    for near in (z, math.nextafter(z, 0.0), math.nextafter(z, -1e9)):
        assert units_off(exp_down(near), naive.exp_down(near)) < 1.0
    for m in (math.sqrt(2.0) * (1.0 + (step - 32) * 2.0**-52), 1.0 + step / 64):
        assert units_off(log_up(m), naive.log_up(m)) < 1.0


def test_the_ends_and_what_is_no_number() -> None:
    assert exp_down(0.0) == exp_down(-0.0) == 1.0
    assert log_up(1.0) == 0.0
    assert exp_down(-math.inf) == exp_down(-1e9) == pytest.approx(math.exp(-708.0), rel=1e-15)
    assert math.isnan(exp_down(math.nan))
    assert math.isnan(log_up(math.nan))
