"""Keys of floats: their order, and how far coarser scales move values; sizes of memory."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibkit.errors import UsageError
from calibkit.runtime.memory import FEWEST_ENTRIES, memory_budget, size_in_bytes
from calibkit.summaries.counted import SIGNIFICAND, keys_of, least_of

probabilities = st.floats(0.0, 1.0) | st.sampled_from([0.5, 1 - 2**-53, 2**-1074, 0.5 + 2**-52])
any_floats = st.floats(allow_nan=False) | st.sampled_from([np.inf, -np.inf, 2**-1074])
dtypes = st.sampled_from([np.float32, np.float64])
samples = st.one_of(
    st.tuples(st.just(True), st.lists(probabilities, min_size=1, max_size=20)),
    st.tuples(st.just(False), st.lists(any_floats, min_size=1, max_size=20)),
)


def as_array(values: list[float], dtype: type) -> np.ndarray:
    """Return sorted values without a negative zero."""
    with np.errstate(over="ignore"):
        return np.sort(np.array(values).astype(dtype) + dtype(0))


def coarser(values: np.ndarray, bits: int, *, probability: bool) -> np.ndarray:
    """Return values rounded down to some bits after the exponent of their keys."""
    drop = np.uint64(SIGNIFICAND - bits)
    keys = keys_of(values, probability=probability)
    return least_of(keys >> drop << drop, values.dtype, probability=probability)


@given(samples, dtypes)
def test_keys_have_the_order_of_the_values(sample: tuple[bool, list[float]], dtype: type) -> None:
    probability, values = sample[0], as_array(sample[1], dtype)
    keys = keys_of(values, probability=probability)
    assert ((keys[1:] > keys[:-1]) == (values[1:] > values[:-1])).all()
    assert ((keys[1:] == keys[:-1]) == (values[1:] == values[:-1])).all()
    assert (least_of(keys, dtype, probability=probability) == values).all()


@given(st.lists(st.floats(1e-12, 1.0), min_size=1, max_size=20), st.integers(1, 40))
def test_values_move_by_a_known_share_of_themselves(values: list[float], bits: int) -> None:
    score = np.array(values)
    moved = score - coarser(score, bits, probability=True)
    assert (moved <= np.minimum(score, np.maximum(1 - score, 2**-53)) * 2.0 ** (1 - bits)).all()


def test_sizes_of_memory() -> None:
    assert size_in_bytes("500MB", "--memory") == 500_000_000
    assert size_in_bytes(" 1.5 gib", "--memory") == 3 * 2**29
    assert size_in_bytes("7", "--memory") == 7
    assert size_in_bytes("9" * 400 + "GB", "--memory") > 10**400
    assert memory_budget("1MB").entries == FEWEST_ENTRIES
    assert memory_budget("2GB").entries > memory_budget("1GB").entries
    assert memory_budget(None).entries > FEWEST_ENTRIES
    for text in ("", "much", "-1GB", "0", "1 XB"):
        with pytest.raises(UsageError, match="--memory"):
            memory_budget(text)
