"""The curved logistic surface: its sums and values against matrices."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from calibkit_kernels import curved
from tests.naive import curved as naive

reals = st.floats(-3, 3)
entries = st.lists(
    st.tuples(reals, st.floats(0, 1), st.integers(1, 9), st.integers(0, 9)), min_size=1, max_size=9
)
scalings = st.lists(st.tuples(reals, st.sampled_from([0.0, 0.5, 2.0])), min_size=6, max_size=6)
weights_ = st.lists(reals, min_size=6, max_size=6)


@given(entries, scalings, weights_)
def test_sums_and_values(
    rows: list[tuple[float, float, int, int]],
    scaling: list[tuple[float, float]],
    weights: list[float],
) -> None:
    s, u, count, positive = (np.array(column) for column in zip(*rows, strict=True))
    positive = np.minimum(positive, count)
    units, at = np.array(scaling), np.array(weights)
    found, expected = np.empty((2, 9, 6))
    curved.curved_sums(s, u, count, positive, units, at, found)
    naive.curved_sums(s, u, count, positive, units, at, expected)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
    values, wanted = np.empty((2, s.size))
    curved.curved_values(s, u, units, at, values)
    naive.curved_values(s, u, units, at, wanted)
    np.testing.assert_allclose(values, wanted, rtol=1e-9, atol=1e-9)
    terms, own = np.empty((2, 6))
    curved.curved_terms(float(s[0]), float(u[0]), units, terms)
    naive.curved_terms(float(s[0]), float(u[0]), units, own)
    np.testing.assert_array_equal(terms, own)
