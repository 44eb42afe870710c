"""Hashes of rows of any columns, which add up over parts."""

from __future__ import annotations

import numpy as np
import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from calibkit.numerics.hashes import hash_rows, random_keys


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
