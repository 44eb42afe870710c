"""Calibration kernels against rows written out: ties, ends 0 and 1, stretches, large weights."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibkit.numerics.isotonic import pool_block
from calibkit_kernels import metrics as kernels
from tests.naive import metrics as naive

probability = st.integers(0, 8).map(lambda n: n / 8) | st.sampled_from([1e-300, 0.1, 1 - 1e-16])
rows = st.lists(st.tuples(probability, st.integers(0, 1)), min_size=1, max_size=20)
float_types = pytest.mark.parametrize("floats", [np.float32, np.float64], ids=["f32", "f64"])
one_each = np.empty(0, np.int64)


def arrays(rows: list[naive.Row], floats: type = np.float64) -> tuple[np.ndarray, ...]:
    score, count, positive = zip(*naive.tally(rows), strict=True)
    return np.array(score, floats), np.array(count), np.array(positive)


@given(rows)
@float_types
def test_losses_are_those_of_the_rows(floats: type, data: list[naive.Row]) -> None:
    data = [(float(floats(score)), label) for score, label in data]
    found = kernels.loss_sums(*arrays(data, floats))
    assert found == pytest.approx(naive.loss_sums_of_rows(data), rel=1e-12, abs=1e-12)
    assert kernels.range_sums(*arrays(data, floats)) == pytest.approx(naive.totals(data))


def pooled(count: np.ndarray, positive: np.ndarray, entries: np.ndarray) -> list[tuple[int, ...]]:
    return [tuple(row) for row in pool_block(count, positive, entries).tolist()]


@given(rows, st.sampled_from([1, 2**40]), st.integers(0, 9))
def test_pools_are_those_of_isotonic_regression(
    data: list[naive.Row], scale: int, cut: int
) -> None:
    _, count, positive = arrays(data)
    count, positive = count * scale, positive * scale
    found = pooled(count, positive, one_each)
    expected = naive.pool_rates(naive.tally(data))
    assert found == [(held * scale, hits * scale, size) for held, hits, size in expected]
    halves = [
        *pooled(count[:cut], positive[:cut], one_each),
        *pooled(count[cut:], positive[cut:], one_each),
    ]
    columns = (np.array(column, np.int64) for column in zip(*halves, strict=True))
    assert pooled(*columns) == found


@given(st.lists(st.floats(-800, 800) | st.sampled_from([math.inf, -math.inf]), min_size=1))
def test_logits_become_probabilities(logits: list[float]) -> None:
    out = np.empty(len(logits))
    kernels.expit(np.array(logits), out)
    assert out == pytest.approx([naive.expit(value) for value in logits], rel=1e-14, abs=1e-300)
    assert ((out >= 0) & (out <= 1)).all()
