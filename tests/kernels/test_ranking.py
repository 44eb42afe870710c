"""Ranking kernels against rows written out: ties, one class, stretches, counts of every type."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibkit_kernels import metrics as kernels
from tests.naive import metrics as naive

rows = st.lists(st.tuples(st.integers(0, 6).map(float), st.integers(0, 1)), min_size=1, max_size=20)
count_types = pytest.mark.parametrize("counts", [np.uint8, np.int32, np.int64])


def arrays(rows: list[naive.Row], counts: type = np.int64) -> tuple[np.ndarray, np.ndarray]:
    _, count, positive = zip(*naive.tally(rows), strict=True)
    return np.array(count, counts), np.array(positive, counts)


@given(rows)
@count_types
def test_sums_count_pairs_and_precisions(counts: type, data: list[naive.Row]) -> None:
    count, positive = arrays(data, counts)
    pairs, precisions = kernels.ranking_sums(count, positive, 0, 0)
    assert pairs == naive.pairs_ranked_right(data)
    _, good, _ = naive.totals(data)
    expected = naive.average_precision(data)
    assert precisions == pytest.approx(0.0 if expected is None else expected * good, abs=1e-12)


@given(rows, st.integers(0, 7))
def test_stretches_add_up_to_the_whole(data: list[naive.Row], cut: int) -> None:
    count, positive = arrays(data)
    above = int(count[:cut].sum()), int(positive[:cut].sum())
    parts = [
        kernels.ranking_sums(count[:cut], positive[:cut], 0, 0),
        kernels.ranking_sums(count[cut:], positive[cut:], *above),
    ]
    whole = kernels.ranking_sums(count, positive, 0, 0)
    assert np.sum(parts, axis=0) == pytest.approx(whole, rel=1e-14)


@given(rows, st.integers(0, 7))
def test_precision_is_met_on_the_way_through_ties(data: list[naive.Row], cut: int) -> None:
    count, positive = arrays(data)
    above = int(count[:cut].sum()), int(positive[:cut].sum())
    found = kernels.precision_integral(count[:cut], positive[:cut], 0, 0)
    found += kernels.precision_integral(count[cut:], positive[cut:], *above)
    assert found == pytest.approx(naive.precision_integral(data), rel=1e-12)
