"""Class probabilities and votes for a fit: the same arrays for any order of rows and any memory."""

from __future__ import annotations

from unittest.mock import patch

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calibkit.errors import DataError
from calibkit.files.sources import Source
from calibkit.maps.class_rows import RaterOptions, logits_of, softmax
from calibkit.maps.logit_maps import StoredRows, read_rater_rows
from calibkit.runtime.memory import Memory

ARRAYS = ("prediction", "counts", "features", "key")


def voted(rows: int, seed: int) -> pl.DataFrame:
    """Return rows of few kinds, some without a vote, some without a value."""
    random = np.random.default_rng(seed)
    first = random.integers(0, 4, rows) / 4
    return pl.DataFrame(
        {
            "prob_a": first,
            "prob_b": 1.0 - first,
            **{f"count_{name}": random.integers(0, 2, rows) for name in "ab"},
            "x": random.integers(0, 2, rows).astype(float),
        }
    ).with_columns(x=pl.when(pl.int_range(rows) % 7 < 6).then("x"))


def read(frame: pl.DataFrame, memory: Memory | None, **changed: object) -> StoredRows:
    options = RaterOptions(
        probs=("prob_*",),
        counts="count_*",
        others=("x",),
        on_missing="drop",
        **changed,  # type: ignore[arg-type]
    )
    with patch("calibkit.runtime.memory._FEWEST_ROWS", 20):
        return read_rater_rows(Source.from_frame(frame), options, memory)


@settings(max_examples=12)  # every one reads four times
@given(st.integers(30, 90), st.integers(0, 2**32), st.booleans())
def test_order_and_memory_change_nothing(rows: int, seed: int, logits: bool) -> None:
    frame = voted(rows, seed)
    known = read(frame, None, logits=logits)
    votes = pl.col("count_a") + pl.col("count_b") > 0
    left = frame.drop_nulls().filter(votes)
    assert known.rows == left.height
    assert known.clipped == left.filter(pl.col("prob_a").is_in([0.0, 1.0])).height
    assert np.unique(known.key).size == left.height
    mixed = frame.sample(fraction=1.0, shuffle=True, seed=seed % 1000)
    with patch("calibkit.maps.logit_maps._BLOCK_ROWS", 8):
        blockwise = read(frame, None, logits=logits)
    for other in (
        blockwise,
        read(mixed, None, logits=logits),
        read(mixed, Memory(1), logits=logits),
    ):
        for name in ARRAYS:
            np.testing.assert_array_equal(getattr(other, name), getattr(known, name))
        assert (other.hash, other.clipped) == (known.hash, known.clipped)
        assert other.classes == ("a", "b")
        assert sorted(one.text for one in other.remarks) == sorted(
            one.text for one in known.remarks
        )
    held = pl.DataFrame([*known.prediction.T, *known.counts.T, *known.features.T]).rows()
    probabilities = left.select("prob_a", "prob_b").to_numpy()
    wanted = logits_of(probabilities) if logits else probabilities
    rest = left.select("count_a", "count_b", "x").to_numpy().T
    assert sorted(held) == sorted(pl.DataFrame([*wanted.T, *rest]).rows())


@pytest.mark.parametrize("memory", [None, Memory(1)])
def test_probabilities_and_logits_of_each_other(memory: Memory | None) -> None:
    found = read(voted(60, 1), memory)
    np.testing.assert_array_equal(found.probabilities, found.prediction)
    np.testing.assert_array_equal(found.logits, logits_of(np.array(found.prediction)))
    held = read(voted(60, 1), memory, logits=True)
    np.testing.assert_array_equal(np.sort(held.logits, axis=0), np.sort(found.logits, axis=0))
    np.testing.assert_array_equal(held.probabilities, softmax(np.array(held.prediction)))
    assert (held.column.scale, held.scale) == ("probability", "logit")


def test_windows_without_any_vote_are_refused() -> None:
    frame = voted(60, 1).with_columns(count_a=pl.lit(0), count_b=pl.lit(0))
    with pytest.raises(DataError, match=r"no row is left to fit on: .*name the columns of votes"):
        read(frame, Memory(1))
