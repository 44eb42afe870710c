"""Row hashes against integers of unlimited size."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from calibkit_kernels import draws as kernels
from tests.naive import boundaries as naive
from tests.naive import keys

word = st.integers(0, 2**64 - 1) | st.sampled_from([0, 1, 2**63, 2**64 - 1])
words = st.lists(word, max_size=12)


def array(numbers: list[int]) -> np.ndarray:
    return np.array(numbers, np.uint64)


@given(word)
def test_mixing_is_the_published_function(value: int) -> None:
    assert int(kernels.mix(np.uint64(value))) == naive.mix(value)


def test_mixing_gives_the_known_stream() -> None:
    # SplitMix64 seeded with 1234567, as published with the generator.
    state, stream = 1234567, []
    for _ in range(3):
        state = (state + naive.GOLDEN) % naive.WORD
        stream.append(int(kernels.mix(np.uint64(state))))
    assert stream == [6457827717110365317, 3203168211198807973, 9817491932198370423]


@given(st.lists(st.tuples(word, word), max_size=8), word)
def test_absorbing(rows: list[tuple[int, int]], salt: int) -> None:
    hashes, words = np.array(rows, np.uint64).reshape(-1, 2).T.copy()
    expected = naive.absorb(hashes.tolist(), words.tolist(), salt)
    kernels.absorb(hashes, words, np.uint64(salt))
    assert hashes.tolist() == expected


@given(st.lists(word | st.just(7), max_size=12))
def test_equal_rows_have_keys_of_their_own(hashes: list[int]) -> None:
    hashes.sort()
    found = array(hashes)
    kernels.number_rows(found)
    assert found.tolist() == keys.number_rows(hashes)
    assert len(set(found.tolist())) == len(hashes)


@given(words, word, words)
def test_counts_of_keys(own: list[int], salt: int, steps: list[int]) -> None:
    steps.sort()
    found = np.empty(len(own), np.uint8)
    kernels.keyed_counts(array(own), np.uint64(salt), array(steps), found)
    assert found.tolist() == keys.keyed_counts(own, salt, steps)


@given(words, word, st.integers(1, 100))
def test_folds_of_keys(own: list[int], salt: int, folds: int) -> None:
    parts = np.empty(len(own), np.uint8)
    kernels.keyed_folds(array(own), np.uint64(salt), folds, parts)
    assert parts.tolist() == keys.keyed_folds(own, salt, folds)
    assert all(part < folds for part in parts)
