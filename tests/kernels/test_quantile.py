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
from calibkit_kernels import sorting, tally
from tests.conftest import INTERPRETED
from tests.naive import boundaries as naive

float_types = pytest.mark.parametrize("floats", [np.float32, np.float64])
value = (
    st.floats(allow_nan=False, width=32)
    | st.integers(-3, 3).map(float)
    | st.sampled_from([math.inf, -math.inf])
)


@float_types
@given(values=st.lists(value, min_size=1, max_size=30), data=st.data())
def test_values_of_ranks(floats: type, values: list[float], data: st.DataObject) -> None:
    array = np.array(values, floats) + floats(0)
    rank = st.integers(0, len(values) - 1)
    ranks = sorted(data.draw(st.lists(rank, min_size=1, max_size=6)))
    for few in (0, 10**6):  # by counting heads, and by sorting
        with patch.object(numerics, "_FEW", few):
            found = order_statistics(array, np.array(ranks))
        assert found.dtype == floats
        assert found.tolist() == naive.order_statistics(array.tolist(), ranks)


@float_types
@given(
    rows=st.lists(st.tuples(value, st.integers(0, 4)), max_size=20).filter(
        lambda rows: any(weight for _, weight in rows)
    ),
    data=st.data(),
)
def test_weighted_values_stand_as_often_as_they_weigh(
    floats: type, rows: list[tuple[float, int]], data: st.DataObject
) -> None:
    array = np.array([value for value, _ in rows], floats) + floats(0)
    weight = np.array([weight for _, weight in rows], np.int64)
    rank = st.integers(0, int(weight.sum()) - 1)
    ranks = sorted(data.draw(st.lists(rank, min_size=1, max_size=6)))
    expected = naive.order_statistics(np.repeat(array, weight).tolist(), ranks)
    for few in (0, 10**6):
        with patch.object(numerics, "_FEW", few):
            found = order_statistics(array, np.array(ranks), weight)
        assert found.dtype == floats
        assert found.tolist() == expected


@float_types
def test_values_of_ranks_among_many(floats: type) -> None:
    values = (
        np.random.default_rng(4).normal(0, 1, 20_000 if INTERPRETED else 200_000).astype(floats)
    )
    ranks = np.arange(0, values.size, 9_973)
    assert np.array_equal(order_statistics(values, ranks), np.sort(values)[ranks])


@float_types
@given(values=st.lists(value, min_size=1, max_size=20))
def test_heads_rise_with_values(floats: type, values: list[float]) -> None:
    array = np.array(values, floats) + floats(0)
    bits = array.view(np.uint32 if floats is np.float32 else np.uint64)
    shift = np.uint64(8 * bits.itemsize - 16)
    heads = [int(sorting.head(np.uint64(word), shift)) for word in bits]
    order = sorted(range(array.size), key=array.tolist().__getitem__)
    assert [heads[i] for i in order] == sorted(heads)
    assert all(0 <= found < 65_536 for found in heads)

    counts = np.zeros(65_536, np.int64)
    none = np.empty(0, np.int64)
    sorting.count_heads(bits, none, counts)
    assert counts[heads].tolist() == [heads.count(found) for found in heads]

    wanted = np.zeros(65_536, np.bool_)
    wanted[heads[0]] = True
    out = np.empty(heads.count(heads[0]), bits.dtype)
    assert sorting.gather_heads(bits, none, wanted, out, none) == out.size
    chosen = [i for i, found in enumerate(heads) if found == heads[0]]
    assert out.tolist() == bits[chosen].tolist()

    weight = np.arange(bits.size) % 3  # floats that weigh nothing are left out
    held, own = [i for i in chosen if weight[i]], np.empty(out.size, np.int64)
    assert sorting.gather_heads(bits, weight, wanted, out, own) == len(held)
    assert out[: len(held)].tolist() == bits[held].tolist()
    assert own[: len(held)].tolist() == weight[held].tolist()


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
