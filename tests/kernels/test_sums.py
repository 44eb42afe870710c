"""Exact sums: against rational arithmetic, whatever the order and the cut."""

from __future__ import annotations

import doctest
import math
from fractions import Fraction
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibkit.numerics import sums
from calibkit.numerics.sums import ExactSum, exact_group_sums, exact_sum
from calibkit_kernels import sums as kernels
from tests.naive import sums as naive

finite = st.floats(allow_nan=False, allow_infinity=False)
lists = st.lists(finite, max_size=12)
pairs = st.lists(st.tuples(finite, finite), max_size=8)
TINY = 5e-324


def bins_of(values: list[float]) -> tuple[np.ndarray, int]:
    bins = np.zeros((2047, 2), np.int64)
    column = np.array(values, np.float64).view(np.int64)
    kernels.add_columns(column, sums.NO_FACTORS, kernels.NO_CODES, -1074, bins[None])
    return bins, -1074


@given(lists)
def test_bins_hold_the_true_sum(values: list[float]) -> None:
    assert naive.bins_value(*bins_of(values)) == naive.exact_sum(values)


@given(st.integers(0, 500), st.integers(0, 2**55 - 1), st.sampled_from([-1, 0]))
def test_bits_are_placed_whole(place: int, mantissa: int, sign: int) -> None:
    bins = np.zeros((501, 2), np.int64)
    kernels.add_bits(bins, place, mantissa, sign)
    assert naive.bins_value(bins, 0) == (-1 if sign else 1) * mantissa * 2**place


@given(
    st.integers(-1074, 800),
    st.lists(st.tuples(st.integers(1 - 2**53, 2**53 - 1), st.integers(0, 69)), max_size=12),
)
def test_three_parts_are_the_sum(unit: int, values: list[tuple[int, int]]) -> None:
    numbers = np.array([math.ldexp(mantissa, unit + shift) for mantissa, shift in values])
    low, middle, high = (math.ldexp(1.5, unit + 52 + 41 * part) for part in range(3))
    ones, fine, coarse = kernels.sum_in_parts(numbers.view(np.int64), low, middle, high)
    total = int(ones) + (int(fine) << 41) + (int(coarse) << 82)
    assert total * Fraction(2) ** unit == naive.exact_sum(numbers.tolist())


@given(
    st.lists(st.one_of(st.floats(-8.0, 8.0), st.sampled_from([0.0, TINY, 2.0**70])), max_size=12)
)
def test_sums_of_a_few_magnitudes_are_exact(values: list[float]) -> None:
    total = ExactSum()
    total.add(np.array(values))
    assert total.fraction == naive.exact_sum(values)


@pytest.mark.parametrize("binades", [60, 69, 70, 71, 80, 95, 120])
def test_sums_over_many_binades_are_exact(binades: int) -> None:
    """Whichever of its two ways a sum takes, and in however many pieces."""
    values = [1.0 + 2.0**-52, *(-1.25 * 2.0**k for k in range(1, binades)), 1.9 * 2.0**binades]
    with patch("calibkit.numerics.sums._MOST_IN_PARTS", 7):
        total = ExactSum()
        total.add(np.array(values))
    assert total.fraction == naive.exact_sum(values)


@given(lists.filter(lambda values: abs(naive.exact_sum(values)) < 2**1023))
def test_a_sum_is_rounded_once(values: list[float]) -> None:
    assert exact_sum(np.array(values)) == float(naive.exact_sum(values))


@given(pairs)
def test_products_are_exact(values: list[tuple[float, float]]) -> None:
    first, second = (np.array(column) for column in np.array(values).reshape(-1, 2).T)
    total = ExactSum()
    total.add(first, second)
    assert total.fraction == naive.exact_sum_products(first.tolist(), second.tolist())


@given(finite, finite)
def test_single_values_and_products_are_exact(a: float, b: float) -> None:
    words = np.array([a, b]).view(np.int64)
    bins = np.zeros((4200, 2), np.int64)
    kernels.add_float(bins, -2148, words[0])
    kernels.add_product(bins, -2148, words[0], words[1])
    assert naive.bins_value(bins, -2148) == Fraction(a) + Fraction(a) * Fraction(b)


@given(st.lists(st.tuples(finite, st.integers(0, 3)), max_size=12), st.booleans())
def test_groups_are_summed_apart(rows: list[tuple[float, int]], squares: bool) -> None:
    values = np.array([value for value, _ in rows], np.float64) / 4.0
    codes = np.array([code for _, code in rows], np.uint32)
    if squares:
        values = np.clip(values, -1e100, 1e100)
        found = exact_group_sums(values, codes, 4, times=values)
        own = [values[codes == code].tolist() for code in range(4)]
        expected = [float(naive.exact_sum_products(part, part)) for part in own]
    else:
        found = exact_group_sums(values / 16.0, codes, 4)
        sums = naive.exact_group_sums((values / 16.0).tolist(), codes.tolist(), 4)
        expected = [float(total) for total in sums]
    assert found.tolist() == expected


@given(st.lists(st.one_of(finite, st.sampled_from([0.0, -0.0, TINY])), max_size=6))
def test_exponents_are_those_of_nonzero_values(values: list[float]) -> None:
    bits = np.array(values, np.float64).view(np.int64)
    assert tuple(kernels.exponent_range(bits)) == naive.exponent_range(values)


#: Numbers whose squares lose no bit at either end of what float64 holds.
middling = st.one_of(st.just(0.0), st.floats(1e-130, 1e130), st.floats(-1e130, -1e-130))


@given(st.lists(middling, max_size=6))
def test_a_square_is_two_numbers(values: list[float]) -> None:
    square, rest = np.empty((2, len(values)))
    kernels.split_squares(np.array(values), square, rest)
    pairs = zip(square.tolist(), rest.tolist(), strict=True)
    assert [naive.exact_sum(pair) for pair in pairs] == list(map(naive.square, values))


@given(st.lists(st.lists(st.floats(-20, 20), min_size=3, max_size=3), min_size=1, max_size=5))
def test_squares_about_a_mean(values: list[list[float]]) -> None:
    found = np.empty(3)
    kernels.squares_about_mean(np.array(values), found)
    for column, own in zip(zip(*values, strict=True), found.tolist(), strict=True):
        size = max(map(abs, column))
        assert own == pytest.approx(
            float(naive.squares_about_mean(column)), rel=1e-12, abs=1e-30 * size**2
        )


@given(st.lists(finite, min_size=1, max_size=12), st.randoms(use_true_random=False))
def test_no_order_and_no_cut_changes_a_bit(values: list[float], random: object) -> None:
    shuffled = list(values)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    cut = random.randint(0, len(values))  # type: ignore[attr-defined]
    first, second, whole = ExactSum(), ExactSum(), ExactSum()
    first.add(np.array(shuffled[cut:]))
    second.add(np.array(shuffled[:cut]))
    whole.add(np.array(values))
    assert first.merge(second) == second.merge(first) == whole


def test_a_sum_that_cancels_keeps_what_is_left() -> None:
    assert exact_sum(np.array([1e300, 1.0, TINY, -1e300, -1.0])) == TINY
    assert exact_sum(np.array([1e300, 1e-300]), np.array([1e-300, 1e300])) == 2 * float(
        Fraction(1e300) * Fraction(1e-300)
    )


def test_nothing_sums_to_zero() -> None:
    assert exact_sum(np.array([])) == 0.0
    assert exact_sum(np.array([-0.0])) == 0.0
    assert exact_group_sums(np.array([]), np.array([], np.uint32), 2).tolist() == [0.0, 0.0]


def test_other_types_are_summed_as_float64() -> None:
    assert exact_sum(np.array([0.1, 0.2], np.float32)) == float(np.float32(0.1)) + float(
        np.float32(0.2)
    )
    assert exact_sum(np.array([1, 2, 3], np.uint8)) == 6.0


def test_a_sum_beyond_the_largest_float_is_infinite() -> None:
    assert exact_sum(np.array([1.7e308, 1.7e308])) == math.inf
    assert exact_sum(np.array([-1.7e308, -1.7e308])) == -math.inf


@pytest.mark.parametrize("bad", [math.inf, -math.inf, math.nan])
def test_what_is_not_finite_is_refused(bad: float) -> None:
    with pytest.raises(ValueError, match="infinity or NaN"):
        exact_sum(np.array([1.0, bad]))
    with pytest.raises(ValueError, match="infinity or NaN"):
        exact_group_sums(np.array([1.0, bad]), np.array([0, 1]), 2)


def test_columns_of_different_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match="different lengths: 1 and 2"):
        exact_sum(np.array([1.0]), np.array([1.0, 2.0]))
    with pytest.raises(ValueError, match="2 values but 1 codes"):
        exact_group_sums(np.array([1.0, 2.0]), np.array([0]), 1)


def test_examples() -> None:
    assert doctest.testmod(sums).failed == 0
