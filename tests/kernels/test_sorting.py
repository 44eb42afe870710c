"""The radix sort: the order of floats, stability, no influence of threads."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibkit_kernels import sorting
from tests.conftest import INTERPRETED
from tests.naive import boundaries as naive

FLOATS = {np.float32: (np.uint32, 32), np.float64: (np.uint64, 64)}
both_floats = pytest.mark.parametrize("dtype", FLOATS, ids=["float32", "float64"])

wide = st.one_of(
    st.integers(-3, 3).map(float),
    st.sampled_from([math.inf, -math.inf, 5e-324, -5e-324, 1e-40, 3.0e38, 0.1, -0.1]),
    st.floats(allow_nan=False, width=32),
)


def scores_of(values: list[float], dtype: type) -> np.ndarray:
    with np.errstate(under="ignore"):
        return np.array(values, dtype) + dtype(0)  # no negative zero


def keys_of(score: np.ndarray) -> np.ndarray:
    unsigned, _ = FLOATS[score.dtype.type]
    keys = np.empty(score.size, np.uint64)
    ends = sorting.falling_keys(score.view(unsigned), keys)
    assert ends == (keys.min(initial=2**64 - 1), keys.max(initial=0))
    return keys


@both_floats
@given(values=st.lists(wide, max_size=12))
def test_keys_rise_where_scores_fall(dtype: type, values: list[float]) -> None:
    score = scores_of(values, dtype)
    keys = keys_of(score).tolist()
    assert naive.falling_ranks([-key for key in keys]) == naive.falling_ranks(score.tolist())


@both_floats
@given(values=st.lists(wide, max_size=12))
def test_keys_are_turned_back_into_scores(dtype: type, values: list[float]) -> None:
    score = scores_of(values, dtype)
    unsigned, bits = FLOATS[dtype]
    sign = np.uint64(2 ** (bits - 1))
    found = [int(sorting.falling_key(key, sign)) for key in keys_of(score)]
    assert found == score.view(unsigned).tolist()


@st.composite
def words(draw: st.DrawFn) -> tuple[list[int], int]:
    bits = draw(st.sampled_from([0, 1, 7, 8, 9, 16, 33, 63, 64]))
    few = st.integers(0, min(3, 2**bits - 1))
    return draw(st.lists(few | st.integers(0, 2**bits - 1), max_size=40)), bits


@given(words())
def test_words_are_sorted(given_: tuple[list[int], int]) -> None:
    values, bits = given_
    ordered, none = sorting.sort_pairs(np.array(values, np.uint64), sorting.NO_TAGS, bits)
    assert none.size == 0
    assert ordered.tolist() == sorted(values)


@given(words())
def test_pairs_are_sorted_stably(given_: tuple[list[int], int]) -> None:
    values, bits = given_
    tags = np.arange(len(values), dtype=np.uint32)
    ordered, carried = sorting.sort_pairs(np.array(values, np.uint64), tags, bits)
    assert carried.tolist() == naive.sort_stably(values)
    assert ordered.tolist() == sorted(values)


@given(st.lists(st.integers(0, 2**64 - 1), max_size=20), st.integers(0, 7))
def test_one_pass_counts_and_scatters_by_one_digit(values: list[int], byte: int) -> None:
    array, shift, mask = np.array(values, np.uint64), np.uint64(8 * byte), np.uint64(255)
    digits = [value >> 8 * byte & 255 for value in values]
    counts = np.zeros(256, np.int64)
    sorting.count_digits(array, shift, mask, counts)
    assert counts.tolist() == [digits.count(digit) for digit in range(256)]

    places = np.cumsum(counts) - counts
    out = np.empty_like(array)
    none = np.empty(0, np.uint32)
    sorting.scatter_pairs(array, none, out, none, shift, mask, places.copy())
    order = naive.sort_stably(digits)
    assert out.tolist() == [values[i] for i in order]

    tags, tags_out = np.arange(array.size, dtype=np.uint32), np.empty(array.size, np.uint32)
    sorting.scatter_pairs(array, tags, out, tags_out, shift, mask, places)
    assert tags_out.tolist() == order


@pytest.mark.skipif(INTERPRETED, reason="a second thread starts at 131,072 rows")
@pytest.mark.parametrize("bits", [5, 24, 64])
def test_threads_change_nothing(bits: int) -> None:
    rng = np.random.default_rng(bits)
    values = rng.integers(0, 2**bits, 300_001, dtype=np.uint64, endpoint=False)
    tags = np.arange(values.size, dtype=np.uint32)
    order = np.argsort(values, kind="stable")
    for threads in (1, 2, 3):
        ordered, carried = sorting.sort_pairs(values.copy(), tags.copy(), bits, threads)
        assert np.array_equal(carried, order)
        assert np.array_equal(ordered, values[order])
        alone, _ = sorting.sort_pairs(values.copy(), sorting.NO_TAGS, bits, threads)
        assert np.array_equal(alone, ordered)


@given(
    st.lists(
        st.tuples(st.integers(0, 2**40 - 1), st.integers(0, 5), st.integers(0, 1)), max_size=10
    )
)
def test_packed_words_hold_key_level_and_label(rows: list[tuple[int, int, int]]) -> None:
    keys, level, label = (list(column) for column in zip(*rows, strict=True)) if rows else ([],) * 3
    packed = np.array(keys, np.uint64) + np.uint64(7)
    tags = np.array(level, np.uint16), np.array(label, np.uint8)
    sorting.pack(packed, *tags, np.uint64(4), np.uint64(7))
    assert packed.tolist() == naive.pack(keys, level, label, 4)
