"""Weights as integers: exact where they can be, else off by less than anyone can see."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibkit.rows.weights import Unit, in_units, joined

positive = st.floats(5e-324, 1e300)


def sums(weights: list[float]) -> tuple[np.ndarray, Unit, list[Fraction]]:
    units, unit = in_units(np.array(weights))
    assert units.dtype == np.int64
    return units, unit, [Fraction(int(k)) * Fraction(unit.size) for k in units]


@given(st.lists(st.integers(0, 2**40), min_size=1).filter(any), st.integers(0, 30))
def test_binary_fractions_are_exact(numerators: list[int], power: int) -> None:
    weights = [k / 2**power for k in numerators]
    _, unit, worth = sums(weights)
    if sum(numerators) < 2**53:
        assert unit.exact
        assert worth == [Fraction(w) for w in weights]


@given(st.lists(st.integers(0, 1000), min_size=1).filter(any))
def test_whole_weights_count_in_ones(weights: list[int]) -> None:
    units, unit, _ = sums([float(w) for w in weights])
    assert units.tolist() == weights and unit == Unit(1.0, exact=True)
    assert isinstance(unit.amount(3), int)


@given(st.lists(positive | st.just(0.0), min_size=1, max_size=30).filter(any))
def test_any_weights_keep_their_shares(weights: list[float]) -> None:
    units, unit, worth = sums(weights)
    total = sum(map(Fraction, weights))
    assert 0 < sum(units.tolist()) < 2**62 + len(weights)
    assert all((k > 0) == (w > 0) for k, w in zip(units.tolist(), weights, strict=True))
    if unit.exact:
        assert worth == [Fraction(w) for w in weights] and sum(units.tolist()) < 2**53
    else:
        errors = [abs(a - Fraction(w)) for a, w in zip(worth, weights, strict=True)]
        assert sum(errors) <= total * Fraction(1, 10**12)


@given(st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=20), st.integers(-40, 40))
def test_scaling_by_a_power_of_two_changes_nothing(weights: list[float], power: int) -> None:
    units, unit = in_units(np.array(weights))
    scaled, scaled_unit = in_units(np.ldexp(weights, power))
    assert unit.exact == scaled_unit.exact
    if not unit.exact:
        assert units.tolist() == scaled.tolist()
        assert scaled_unit.size == unit.size * 2.0**power
    else:  # whole numbers stay in ones, so units may differ by a power of two
        first, second = (np.array(k, float) / max(k) for k in (units, scaled))
        assert first.tolist() == second.tolist()


def test_thirds_are_not_exact() -> None:
    units, unit = in_units(np.array([1 / 3, 1.0, 1e-9]))
    assert not unit.exact
    assert units.min() > 0


@pytest.mark.parametrize("weights", [[0.1], [1e-300], [1e300], [0.0, 5e-324]])
def test_a_single_weight(weights: list[float]) -> None:
    units, unit = in_units(np.array(weights))
    total = sum(units.tolist()) * Fraction(unit.size)
    assert abs(total - Fraction(sum(weights))) <= Fraction(sum(weights)) / 10**12


def test_amounts_in_units() -> None:
    assert Unit(0.25).amount(6) == 1.5
    assert Unit(4.0).amount(6) == 24.0


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 255)), max_size=20))
def test_units_that_join_others_get_room(more: list[tuple[int, int]]) -> None:
    units = np.array([0, 1, 200, 255], np.uint8)
    found = joined(
        units.copy(), np.array([k for k, _ in more], int), np.array([n for _, n in more], np.uint8)
    )
    expected = [int(own) + sum(n for k, n in more if k == at) for at, own in enumerate(units)]
    assert found.tolist() == expected
