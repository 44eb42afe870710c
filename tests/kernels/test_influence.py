"""Influence functions: DeLong against all pairs, precision against its slope, sums of squares."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibkit_kernels import metrics as kernels
from tests.naive import intervals as naive

rows_of_both = st.lists(
    st.tuples(st.sampled_from([0.1, 0.2, 0.5, 0.7, 0.9]), st.integers(0, 1)),
    min_size=4,
    max_size=25,
).filter(lambda rows: 2 <= sum(y for _, y in rows) <= len(rows) - 2)


def tally(rows: list[tuple[float, int]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    scores = sorted({score for score, _ in rows}, reverse=True)
    count = np.array([sum(s == score for s, _ in rows) for score in scores])
    positive = np.array([sum(y for s, y in rows if s == score) for score in scores])
    return np.array(scores), count, positive


def stretches(size: int, cut: int) -> list[slice]:
    return [slice(0, cut % (size + 1)), slice(cut % (size + 1), size)]


@given(rows_of_both, st.integers(0, 6))
def test_delong_is_the_variance_of_the_means_over_pairs(
    rows: list[tuple[float, int]], cut: int
) -> None:
    scores, count, positive = tally(rows)
    good, bad = int(positive.sum()), int((count - positive).sum())
    plus, minus = np.empty(scores.size), np.empty(scores.size)
    for part in stretches(scores.size, cut):
        above = int(count[: part.start].sum()), int(positive[: part.start].sum())
        own = [array[part] for array in (count, positive)]
        one, two = plus[part], minus[part]
        kernels.delong_shares(*own, *above, good, bad, one, two)
    auc, variance = naive.delong_by_pairs(rows)
    assert (plus * positive).sum() / good == pytest.approx(auc, abs=1e-14)
    assert (minus * (count - positive)).sum() / bad == pytest.approx(auc, abs=1e-14)
    found = ((plus - auc) ** 2 * positive).sum() / good / (good - 1)
    found += ((minus - auc) ** 2 * (count - positive)).sum() / bad / (bad - 1)
    assert found == pytest.approx(variance, abs=1e-14)


@given(rows_of_both, st.integers(0, 6))
def test_precision_shares_are_slopes(rows: list[tuple[float, int]], cut: int) -> None:
    scores, count, positive = tally(rows)
    plus, minus = np.empty(scores.size), np.empty(scores.size)
    below = (0.0, 0.0)
    for part in reversed(stretches(scores.size, cut)):
        own = [array[part] for array in (count, positive)]
        ends = [int(array[: part.stop].sum()) for array in (count, positive)]
        starts = [int(array[: part.start].sum()) for array in (count, positive)]
        one, two = plus[part], minus[part]
        kernels.precision_shares(*own, *ends, *below, one, two)
        steps = kernels.precision_steps(*own, *starts)
        below = (below[0] + steps[0], below[1] + steps[1])
    for place, score in enumerate(scores.tolist()):
        slopes = [naive.precision_gains(rows, score, label) for label in (1, 0)]
        assert [plus[place], minus[place]] == pytest.approx(slopes, abs=1e-6)


@given(st.lists(st.tuples(st.floats(0, 1), st.integers(0, 3), st.integers(0, 3)), max_size=9))
def test_losses_and_squares(entries: list[tuple[float, int, int]]) -> None:
    p = np.array([one[0] for one in entries])
    positive = np.array([one[1] for one in entries], np.int64)
    count = positive + np.array([one[2] for one in entries], np.int64)
    plus, minus = np.empty(p.size), np.empty(p.size)
    kernels.log_losses(p, count, positive, plus, minus)
    rows = []
    for place, (value, hits, misses) in enumerate(entries):
        expected = naive.losses(value)
        assert plus[place] == (pytest.approx(expected[0]) if hits else 0.0)
        assert minus[place] == (pytest.approx(expected[1]) if misses else 0.0)
        rows += [expected[0]] * hits + [expected[1]] * misses
    found = kernels.sum_of_squares(count, positive, plus, minus)
    assert found == pytest.approx(naive.squares(rows))
