"""Pools of rates: as a concave hull, against its definition, and as an isotonic regression."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.isotonic import IsotonicRegression

from calibkit.numerics.isotonic import pool_prefixes
from tests.naive import boundaries as naive

#: Rows and positives of each score, from the highest.
steps = st.lists(
    st.tuples(st.integers(1, 6), st.integers(0, 6)).map(lambda s: (s[0], min(s))), max_size=14
)


def prefixes(groups: list[tuple[int, int]], scale: int = 1) -> tuple[np.ndarray, np.ndarray]:
    rows, hits = np.array(groups, np.int64).reshape(-1, 2).T
    return np.cumsum(rows) * scale, np.cumsum(hits) * scale


def vertices(selected: np.ndarray, hits: np.ndarray) -> list[int]:
    return (np.cumsum(pool_prefixes(selected, hits)[:, 2]) - 1).tolist()


@given(steps, st.sampled_from([1, 3, 2**45]))
def test_vertices_lie_above_every_chord(groups: list[tuple[int, int]], scale: int) -> None:
    selected, hits = prefixes(groups, scale)
    assert vertices(selected, hits) == naive.concave_hull(selected.tolist(), hits.tolist())


@given(steps)
def test_rates_of_blocks_fall_strictly(groups: list[tuple[int, int]]) -> None:
    selected, hits = prefixes(groups)
    corners = [(0, 0), *((int(selected[i]), int(hits[i])) for i in vertices(selected, hits))]
    rates = [Fraction(y - b, x - a) for (a, b), (x, y) in itertools.pairwise(corners)]
    assert all(high > low for high, low in itertools.pairwise(rates))
    if groups:
        assert corners[-1] == (int(selected[-1]), int(hits[-1]))


@given(steps.filter(bool))
def test_rates_are_those_of_isotonic_regression(groups: list[tuple[int, int]]) -> None:
    selected, hits = prefixes(groups)
    fitted, before = np.empty(len(groups)), (0, 0, 0)
    for i in vertices(selected, hits):
        x, y, start = before
        fitted[start : i + 1] = (hits[i] - y) / (selected[i] - x)
        before = (selected[i], hits[i], i + 1)
    rows, positives = np.array(groups).T
    regression = IsotonicRegression(increasing=False)
    expected = regression.fit_transform(
        np.arange(len(groups)), positives / rows, sample_weight=rows
    )
    assert np.allclose(fitted, expected, atol=1e-12)


@pytest.mark.parametrize("count", [1, 5])
def test_all_scores_of_one_rate_are_one_block(count: int) -> None:
    assert vertices(*prefixes([(4, 3)] * count)) == [count - 1]


def test_slopes_that_floats_confuse_are_told_apart() -> None:
    # Chords of slope just above and just below 1/2, closer than floats of this size resolve.
    near = 2**52
    above = (np.array([2 * near, 4 * near]), np.array([near + 1, 2 * near + 1]))
    on = (np.array([2 * near, 4 * near]), np.array([near, 2 * near]))
    assert vertices(*above) == [0, 1]
    assert vertices(*on) == [1]
