"""Weights as integers: exact where they can be, else off by less than anyone can see."""

from __future__ import annotations

import itertools
from fractions import Fraction
from random import Random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from calibkit.columns.weights import (
    Unit,
    Weighed,
    in_units,
    whole_units,
)
from calibkit.summaries.tally import Tally, count_rows

positive = st.floats(5e-324, 1e300)


def sums(weights: list[float]) -> tuple[np.ndarray, Unit, list[Fraction]]:
    units, unit = in_units(np.array(weights))
    assert units.dtype == np.int64
    return units, unit, [Fraction(int(k)) * Fraction(unit.size) for k in units]


@given(st.lists(st.integers(0, 2**40), min_size=1).filter(any), st.integers(0, 30))
def test_binary_fractions_are_exact_and_whole_weights_count_in_ones(
    numerators: list[int], power: int
) -> None:
    weights = [k / 2**power for k in numerators]
    units, unit, worth = sums(weights)
    if sum(numerators) < 2**53:
        assert unit.exact
        assert worth == [Fraction(w) for w in weights]
        assert unit.amount(units[0]) == weights[0]
        units, unit, _ = sums([float(k) for k in numerators])
        assert units.tolist() == numerators and unit == Unit(1.0, exact=True)
        assert isinstance(unit.amount(3), int)


@given(
    st.lists(st.one_of(positive, st.integers(0, 40).map(lambda k: k / 8)), min_size=1).filter(any)
)
def test_the_unit_follows_from_what_is_known_of_parts(weights: list[float]) -> None:
    array = np.array(weights)
    units, unit = in_units(array)
    parts = Weighed()
    for part in (array[::2], array[1::2]):
        parts.add(part)
    found = parts.unit
    # Where weights are rounded, their sum lies to both sides of a power of two at times.
    assert found == unit or (not unit.exact and 0.5 <= found.size / unit.size <= 2.0)
    if found == unit:
        assert whole_units(array, found).tolist() == units.tolist()


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
        assert sum(errors) <= total * Fraction(len(weights), 2**61)
        assert sum(units.tolist()) >= 2**60 or unit.size == 5e-324


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


def test_units_at_the_ends_of_floats() -> None:
    units, unit = in_units(np.full(4, 2.0**52))  # beyond exact sums
    assert not unit.exact and 2**60 <= sum(units.tolist()) < 2**62
    alike, _ = in_units(np.full(31, 0.9999))  # which have room to the last bit
    assert 2**61 <= sum(alike.tolist()) < 2**62
    units, unit = in_units(np.full(4, 2.0**50))
    assert (units.tolist(), unit) == ([2**50] * 4, Unit(1.0, exact=True))
    units, unit = in_units(np.array([2.0**-1016, 5e-324]))  # no less than the least float
    assert (units.tolist(), unit) == ([2**58, 1], Unit(5e-324, exact=False))


def test_one_heavy_row_takes_no_digits_from_many_light_ones() -> None:
    units, unit = in_units(np.append(np.full(1_000_000, 0.3), 0.7e16))
    assert not unit.exact
    light_share = Fraction(int(units[:-1].sum())) * Fraction(unit.size) / (Fraction(0.3) * 10**6)
    assert abs(light_share - 1) < Fraction(1, 100)  # a unit is 2^-61 of the total: 0.3 is a hundred
    whole, unit = in_units(np.append(np.ones(1_000_000), 1e16))
    assert int(whole[0]) * unit.size == 1.0 and int(whole[-1]) * unit.size == 1e16


mixed = st.floats(0.1, 10.0) | st.floats(1e8, 1e10) | st.floats(1e-18, 1e-16) | st.just(0.0)


@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 1), st.integers(0, 1), mixed),
        min_size=1,
        max_size=40,
    ).filter(lambda rows: any(w for *_, w in rows)),
    st.randoms(),
)
def test_tallies_of_mixed_weights(rows: list[tuple[int, int, int, float]], random: Random) -> None:
    def counted(rows: list[tuple[int, int, int, float]]) -> Tally:
        score, level, label, weight = (np.array(column) for column in zip(*rows, strict=True))
        return count_rows(
            score / 4, level.astype(np.uint16), label.astype(np.uint8), 2, weight=weight
        )

    tally = counted(rows)
    random.shuffle(rows)
    again = counted(rows)
    assert tally.count.tolist() == again.count.tolist()
    assert tally.positive.tolist() == again.positive.tolist()
    size = Fraction(tally.unit.size)
    for cut, level in itertools.product(range(4), range(2)):
        for label in (0, 1):
            exact = sum(
                Fraction(w) for s, u, y, w in rows if s >= cut and u == level and y == label
            )
            taken = (tally.score >= cut / 4) & (tally.level == level)
            column = tally.positive if label else tally.count - tally.positive
            assert (column[taken].sum() > 0) == (exact > 0)
            error = int(column[taken].sum()) * size - exact
            assert abs(error) <= (size * Fraction(5001, 10_000)) + sum(
                size for *_, w in rows if 0 < Fraction(w) < size
            )


def test_amounts_in_units() -> None:
    assert Unit(0.25).amount(6) == Unit(0.25).amount(6.0) == 1.5
    assert Unit(4.0).amount(6) == 24.0
