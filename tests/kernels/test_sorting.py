"""The radix sort: the order of floats, stability, no influence of threads."""

from __future__ import annotations

import math
from unittest.mock import patch

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


@both_floats
@given(values=st.lists(wide, max_size=12))
def test_keys_rise_where_scores_fall_and_are_turned_back(dtype: type, values: list[float]) -> None:
    with np.errstate(under="ignore"):
        score = np.array(values, dtype) + dtype(0)  # no negative zero
    unsigned, bits = FLOATS[dtype]
    keys = np.empty(score.size, np.uint64)
    sorting.falling_keys(score.view(unsigned), keys)
    ranks = naive.falling_ranks([-key for key in keys.tolist()])
    assert ranks == naive.falling_ranks(score.tolist())
    found = [int(sorting.falling_key(key, np.uint64(2 ** (bits - 1)))) for key in keys]
    assert found == score.view(unsigned).tolist()


@st.composite
def words(draw: st.DrawFn) -> tuple[list[int], int]:
    bits = draw(st.sampled_from([0, 1, 7, 8, 9, 16, 33, 63, 64]))
    few = st.integers(0, min(3, 2**bits - 1))
    return draw(st.lists(few | st.integers(0, 2**bits - 1), max_size=40)), bits


@given(words(), st.sampled_from([16, 131_072]))
def test_words_are_sorted_stably_with_tags_or_without(
    given_: tuple[list[int], int], together: int
) -> None:
    values, bits = given_
    tags = np.arange(len(values), dtype=np.uint32)
    with patch.object(sorting, "_BLOCK", together):  # more are dealt to buckets
        ordered, carried = sorting.sort_pairs(np.array(values, np.uint64), tags, bits)
        assert carried.tolist() == naive.sort_stably(values)
        assert ordered.tolist() == sorted(values)
        ordered, none = sorting.sort_pairs(np.array(values, np.uint64), sorting.NO_TAGS, bits)
        assert none.size == 0
        assert ordered.tolist() == sorted(values)


@pytest.mark.skipif(INTERPRETED, reason="a second thread starts at 131,072 rows")
@pytest.mark.parametrize("bits", [5, 24, 64])
def test_threads_change_nothing(bits: int) -> None:
    rng = np.random.default_rng(bits)
    values = rng.integers(0, 2**bits, 300_001, dtype=np.uint64, endpoint=False)
    values[::2] = values[0]  # half of them are in one bucket
    tags = np.arange(values.size, dtype=np.uint32)
    order = np.argsort(values, kind="stable")
    for threads in (1, 2, 3):
        ordered, carried = sorting.sort_pairs(values.copy(), tags.copy(), bits, threads)
        assert np.array_equal(carried, order)
        assert np.array_equal(ordered, values[order])
        alone, _ = sorting.sort_pairs(values.copy(), sorting.NO_TAGS, bits, threads)
        assert np.array_equal(alone, ordered)


def test_a_few_words_start_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sorting.ThreadPoolExecutor, "submit", None)
    words, _ = sorting.sort_pairs(
        np.array([3, 1, 2], np.uint64), np.empty(0, np.uint32), 2, threads=2
    )
    assert words.tolist() == [1, 2, 3]
