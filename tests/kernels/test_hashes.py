"""Hashes of rows: against integers of unlimited size, of any columns, adding up over parts."""

from __future__ import annotations

import numpy as np
import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from calibkit.numerics.hashes import hash_rows, random_keys
from calibkit_kernels import draws as kernels
from tests.naive import boundaries as naive
from tests.naive import keys

word = st.integers(0, 2**64 - 1) | st.sampled_from([0, 1, 2**63, 2**64 - 1])
words = st.lists(word, max_size=12)


def array(numbers: list[int]) -> np.ndarray:
    return np.array(numbers, np.uint64)


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


@given(st.integers(0, 60), st.integers(0, 2**32))
def test_hashes_of_rows_add_up(cut: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    frame = pl.DataFrame(
        {
            "number": random.integers(0, 5, 60),
            "text": random.choice(["a", "b", ""], 60),
            "list": [random.random(size).tolist() for size in random.integers(0, 4, 60)],
            "flag": random.random(60) < 0.5,
        }
    ).with_columns(text=pl.when(pl.col("number") > 0).then("text"))
    whole = hash_rows(frame)
    assert (hash_rows(frame[:cut]) + hash_rows(frame[cut:])) % 2**64 == whole
    other = frame.sample(fraction=1.0, shuffle=True, seed=1).select(reversed(frame.columns))
    assert hash_rows(other.cast({"text": pl.Categorical, "number": pl.Float32})) == whole
    assert hash_rows(frame.with_columns(number=pl.lit(None))) != whole
    missing = frame.with_columns(number=pl.lit(None, pl.Float64))
    assert hash_rows(missing) != hash_rows(frame.with_columns(number=pl.lit(float("nan"))))


@given(st.lists(st.integers(0, 6), min_size=1, max_size=40), st.integers(0, 2**63))
def test_keys_of_identical_rows_do_not_depend_on_the_others(values: list[int], seed: int) -> None:
    score = np.array(values, np.float64)
    keys = random_keys({"score": score}, seed)
    assert len(set(keys.tolist())) == keys.size
    for value in set(values):
        own = score == value
        assert np.array_equal(keys[own], random_keys({"score": score[own]}, seed))
