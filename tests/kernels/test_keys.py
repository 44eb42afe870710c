"""Keys of rows and what is drawn for them, against integers of unlimited size."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from calibkit_kernels import hashes as keys
from tests.naive import keys as naive

word = st.integers(0, 2**64 - 1) | st.sampled_from([0, 1, 2**63, 2**64 - 1])
words = st.lists(word, max_size=12)


def array(numbers: list[int]) -> np.ndarray:
    return np.array(numbers, np.uint64)


@given(st.lists(word | st.just(7), max_size=12))
def test_equal_rows_have_keys_of_their_own(hashes: list[int]) -> None:
    hashes.sort()
    found = array(hashes)
    keys.number_rows(found)
    assert found.tolist() == naive.number_rows(hashes)
    assert len(set(found.tolist())) == len(hashes)


@given(words, word, st.integers(1, 100))
def test_folds_of_keys(own: list[int], salt: int, folds: int) -> None:
    parts = np.empty(len(own), np.uint8)
    keys.keyed_folds(array(own), np.uint64(salt), folds, parts)
    assert parts.tolist() == naive.keyed_folds(own, salt, folds)
    assert all(part < folds for part in parts)


@given(words, word, words)
def test_counts_of_keys(own: list[int], salt: int, steps: list[int]) -> None:
    steps.sort()
    found = np.empty(len(own), np.uint8)
    keys.keyed_counts(array(own), np.uint64(salt), array(steps), found)
    assert found.tolist() == naive.keyed_counts(own, salt, steps)


@given(st.lists(st.tuples(word, st.integers(0, 5), st.integers(0, 5)), max_size=12))
def test_rows_are_spread_in_the_order_of_their_hashes(rows: list[tuple[int, int, int]]) -> None:
    hashes = [own for own, _, _ in rows]
    first, last = ([pick(a, b) for _, a, b in rows] for pick in (min, max))
    found = np.array(first, np.int64)
    keys.spread_rows(array(hashes), found, np.array(last, np.int64))
    assert found.tolist() == naive.spread_rows(hashes, first, last)
    assert all(a <= own <= b for own, a, b in zip(found.tolist(), first, last, strict=True))
