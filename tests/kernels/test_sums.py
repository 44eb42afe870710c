"""Exact sums: against rational arithmetic, whatever the order and the cut."""

from __future__ import annotations

import doctest
import math
from typing import Any
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
narrow = st.integers(-1074, 800).flatmap(
    lambda unit: st.lists(
        st.builds(math.ldexp, st.integers(1 - 2**53, 2**53 - 1), st.integers(unit, unit + 69)),
        max_size=12,
    )
)
lists = (
    st.lists(finite, max_size=12)
    | narrow  # whose sum takes three parts, where they are of a few magnitudes, else bins
    | st.lists(st.floats(-8.0, 8.0) | st.sampled_from([0.0, 5e-324, 2.0**70]), max_size=12)
)
TINY = 5e-324


@given(lists, st.randoms(use_true_random=False))
def test_sums_are_exact_in_any_order_and_cut(values: list[float], random: Any) -> None:
    shuffled = random.sample(values, len(values))
    cut = random.randint(0, len(values))
    first, second, whole = ExactSum(), ExactSum(), ExactSum()
    first.add(np.array(shuffled[cut:]))
    second.add(np.array(shuffled[:cut]))
    whole.add(np.array(values))
    assert whole.fraction == naive.exact_sum(values)
    assert first.merge(second) == second.merge(first) == whole


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


@given(st.lists(st.tuples(finite, finite), max_size=8))
def test_products_are_exact(values: list[tuple[float, float]]) -> None:
    first, second = (np.array(column) for column in np.array(values).reshape(-1, 2).T)
    total = ExactSum()
    total.add(first, second)
    assert total.fraction == naive.exact_sum_products(first.tolist(), second.tolist())


@given(st.lists(st.tuples(finite, st.integers(0, 3)), max_size=12), st.booleans())
def test_groups_are_summed_apart(rows: list[tuple[float, int]], squares: bool) -> None:
    values = np.array([value for value, _ in rows], np.float64) / 64.0
    codes = np.array([code for _, code in rows], np.uint32)
    if squares:
        values = np.clip(values, -1e100, 1e100)
        own = [values[codes == code].tolist() for code in range(4)]
        expected = [naive.exact_sum_products(part, part) for part in own]
    else:
        expected = naive.exact_group_sums(values.tolist(), codes.tolist(), 4)
    found = exact_group_sums(values, codes, 4, times=values if squares else None)
    assert found.tolist() == list(map(float, expected))


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


@pytest.mark.parametrize(
    ("values", "total"),
    [
        ([1e300, 1.0, TINY, -1e300, -1.0], TINY),  # what is left where a sum cancels
        ([], 0.0),
        ([-0.0], 0.0),
        ([1.7e308, 1.7e308], math.inf),
        ([-1.7e308, -1.7e308], -math.inf),
        (np.array([0.1, 0.2], np.float32), float(np.float32(0.1)) + float(np.float32(0.2))),
        (np.array([1, 2, 3], np.uint8), 6.0),
    ],
)
def test_sums_at_the_ends_of_floats_and_of_other_types(values: Any, total: float) -> None:
    assert exact_sum(np.array(values)) == total


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
