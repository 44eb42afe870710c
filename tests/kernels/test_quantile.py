"""Order statistics against sorting; sums of few values against counting."""

from __future__ import annotations

import math
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibkit.summaries import edges as numerics
from calibkit.summaries.edges import order_statistics
from calibkit_kernels import tally
from tests.conftest import INTERPRETED
from tests.naive import boundaries as naive

float_types = pytest.mark.parametrize("floats", [np.float32, np.float64])
value = (
    st.floats(allow_nan=False, width=32)
    | st.integers(-3, 3).map(float)
    | st.sampled_from([math.inf, -math.inf])
)


@float_types
@given(
    rows=st.lists(st.tuples(value, st.integers(0, 4)), min_size=1, max_size=30).filter(
        lambda rows: any(weight for _, weight in rows)
    ),
    weighted=st.booleans(),
    data=st.data(),
)
def test_values_of_ranks_stand_as_often_as_they_weigh(
    floats: type, rows: list[tuple[float, int]], weighted: bool, data: st.DataObject
) -> None:
    array = np.array([value for value, _ in rows], floats) + floats(0)
    weight = np.array([weight for _, weight in rows if weighted], np.int64)
    written = np.repeat(array, weight) if weighted else array
    rank = st.integers(0, written.size - 1)
    ranks = sorted(data.draw(st.lists(rank, min_size=1, max_size=6)))
    for short in (0, 10**6):  # by counting heads, and by sorting
        with patch.object(numerics, "_SHORT", short):
            found = order_statistics(array, np.array(ranks), weight)
        assert found.dtype == floats
        assert found.tolist() == naive.order_statistics(written.tolist(), ranks)


@float_types
def test_values_of_ranks_among_many(floats: type) -> None:
    values = (
        np.random.default_rng(4).normal(0, 1, 20_000 if INTERPRETED else 200_000).astype(floats)
    )
    ranks = np.arange(0, values.size, 9_973)
    assert np.array_equal(order_statistics(values, ranks), np.sort(values)[ranks])


@given(
    st.lists(
        st.tuples(st.sampled_from([-1.5, 0.0, 0.25, 7.0]), st.integers(0, 2**40)), max_size=20
    ),
    st.sets(st.sampled_from([-1.5, 0.0, 0.25, 1.0, 7.0]), min_size=1),
)
@float_types
def test_few_values_are_summed_or_another_is_found(
    floats: type, pairs: list[tuple[float, int]], distinct: set[float]
) -> None:
    values, units = [value for value, _ in pairs], [unit for _, unit in pairs]
    known, sums = sorted(distinct), np.zeros(len(distinct), np.int64)
    found = tally.sum_few(
        np.array(values, floats), np.array(units, np.int64), np.array(known, floats), sums
    )
    expected = naive.sum_few(values, units, known)
    assert (sums.tolist() if found else None) == expected
