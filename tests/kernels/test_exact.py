"""Products of counts compared exactly, next to and beyond what floats can tell apart."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from hypothesis import assume, example, given
from hypothesis import strategies as st

from calibkit_kernels import rates as kernels
from tests.naive import boundaries as naive

#: Counts: small, near 2^53 where floats lose integers, up to the largest int64.
counts = st.one_of(
    st.integers(0, 20),
    st.integers(2**53 - 5, 2**53 + 5),
    st.integers(2**62 - 5, 2**63 - 1),
    st.integers(0, 2**63 - 1),
)
bounds = st.builds(Fraction, st.integers(0, 10**9), st.just(10**9)) | st.sampled_from(
    [Fraction(0), Fraction(1, 2), Fraction(1), Fraction(756178293, 10**9)]
)
ties = st.sampled_from([scale * k for scale in (1, 2**50) for k in range(4)])
int64s = st.lists(st.tuples(counts, counts), max_size=6)


@given(counts, counts, counts, counts)
@example(2**32, 2**32, 2**32 - 1, 2**32 + 1)
@example(2**63 - 1, 2**63 - 1, 2**63 - 2, 2**63 - 1)
def test_products_compare_as_integers(a: int, b: int, c: int, d: int) -> None:
    """Also where they differ by little, equal in every leading digit."""
    assert kernels.compare_products(a, b, b, a) == 0
    for other in ((c, d), (max(a - 1, 0), b), (max(a - 1, 0), min(b + 1, 2**63 - 1))):
        assert kernels.compare_products(a, b, *other) == naive.compare_products(a, b, *other)


def as_int64(pairs: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    first, second = np.array(pairs, np.int64).reshape(-1, 2).T.copy()
    return first, second


@given(int64s, bounds)
@example([(6_999_305, 9_256_157)], Fraction(756178293, 10**9))
@example([(0, 0)], Fraction(1))
def test_ratios_meet_a_bound_exactly(pairs: list[tuple[int, int]], bound: Fraction) -> None:
    numerators, denominators = as_int64(pairs)
    met = kernels.ratio_at_least(numerators, denominators, bound.numerator, bound.denominator)
    expected = naive.ratio_at_least(
        numerators.tolist(), denominators.tolist(), bound.numerator, bound.denominator
    )
    assert met.dtype == np.bool_ and met.tolist() == expected


@given(bounds, st.integers(1, 2**30))
def test_a_bound_met_with_equality_is_met_and_one_row_more_is_not(bound: Fraction, k: int) -> None:
    hits, rows = bound.numerator * k, bound.denominator * k
    assume(hits > 0)
    met = kernels.ratio_at_least(
        np.array([hits, hits, hits - 1]),
        np.array([rows, rows + 1, rows]),
        bound.numerator,
        bound.denominator,
    )
    assert met.tolist() == [True, False, False]


@given(int64s | st.lists(st.tuples(ties, ties), max_size=8), st.integers(0, 2) | counts)
def test_the_largest_ratio_is_found(pairs: list[tuple[int, int]], least: int) -> None:
    """Of equal ones that of the larger numerator."""
    numerators, denominators = as_int64(pairs)
    expected = naive.largest_ratio(numerators.tolist(), denominators.tolist(), least)
    assert kernels.largest_ratio(numerators, denominators, least) == expected
