"""Kernels of metrics and their influence functions against rows written out.

Ties, one class, stretches, ends 0 and 1, large weights, numbers of every type.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibkit.numerics.isotonic import pool_block
from calibkit_kernels import metrics as kernels
from tests.naive import intervals as naive_intervals
from tests.naive import metrics as naive
from tests.naive.maps import expit_of

labels = st.integers(0, 1)
ranked = st.lists(st.tuples(st.integers(0, 6).map(float), labels), min_size=1, max_size=20)
probability = st.integers(0, 8).map(lambda n: n / 8) | st.sampled_from([1e-300, 0.1, 1 - 1e-16])
likely = st.lists(st.tuples(probability, labels), min_size=1, max_size=20)
cuts = st.integers(0, 7)
rows_of_both = st.lists(
    st.tuples(st.sampled_from([0.1, 0.2, 0.5, 0.7, 0.9]), labels), min_size=4, max_size=25
).filter(lambda rows: 2 <= sum(y for _, y in rows) <= len(rows) - 2)


def arrays(
    rows: list[naive.Row], counts: type = np.int64, floats: type = np.float64
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    score, count, positive = zip(*naive.tally(rows), strict=True)
    return np.array(score, floats), np.array(count, counts), np.array(positive, counts)


def stretches(size: int, cut: int) -> list[slice]:
    return [slice(0, min(cut, size)), slice(min(cut, size), size)]


def before(place: int, *columns: np.ndarray) -> list[int]:
    return [int(column[:place].sum()) for column in columns]


@given(ranked, cuts)
@pytest.mark.parametrize("counts", [np.uint8, np.int32, np.int64])
def test_stretches_add_up_to_pairs_and_precisions(
    counts: type, data: list[naive.Row], cut: int
) -> None:
    _, count, positive = arrays(data, counts)
    pairs = precisions = integral = 0.0
    for part in stretches(count.size, cut):
        own, above = (count[part], positive[part]), before(part.start, count, positive)
        more, hits = kernels.ranking_sums(*own, *above)
        pairs, precisions = pairs + more, precisions + hits
        integral += kernels.precision_integral(*own, *above)
    assert pairs == naive.pairs_ranked_right(data)
    _, good, _ = naive.totals(data)
    expected = naive.average_precision(data)
    assert precisions == pytest.approx(0.0 if expected is None else expected * good, abs=1e-12)
    assert integral == pytest.approx(naive.precision_integral(data), rel=1e-12)


@given(likely)
@pytest.mark.parametrize("floats", [np.float32, np.float64])
def test_losses_are_those_of_the_rows(floats: type, data: list[naive.Row]) -> None:
    data = [(float(floats(score)), label) for score, label in data]
    found = kernels.loss_sums(*arrays(data, floats=floats))
    assert found == pytest.approx(naive.loss_sums_of_rows(data), rel=1e-12, abs=1e-12)
    assert kernels.range_sums(*arrays(data, floats=floats)) == pytest.approx(naive.totals(data))


@given(likely, st.sampled_from([1, 2**40]), cuts)
def test_pools_are_those_of_isotonic_regression(
    data: list[naive.Row], scale: int, cut: int
) -> None:
    _, count, positive = arrays(data)
    none = np.empty(0, np.int64)
    found = pool_block(count * scale, positive * scale, none).tolist()
    expected = naive.pool_rates(naive.tally(data))
    assert found == [[held * scale, hits * scale, size] for held, hits, size in expected]
    halves = [
        pool_block(count[part] * scale, positive[part] * scale, none)
        for part in stretches(count.size, cut)
    ]
    columns = np.concatenate(halves).T.astype(np.int64)
    assert pool_block(*map(np.ascontiguousarray, columns)).tolist() == found


@given(st.lists(st.floats(-800, 800) | st.sampled_from([math.inf, -math.inf]), min_size=1))
def test_logits_become_probabilities(logits: list[float]) -> None:
    out = np.empty(len(logits))
    kernels.expit(np.array(logits), out)
    assert out == pytest.approx([expit_of(value) for value in logits], rel=1e-14, abs=1e-300)
    assert ((out >= 0) & (out <= 1)).all()


@given(rows_of_both, cuts)
def test_delong_is_the_variance_of_the_means_over_pairs(rows: list[naive.Row], cut: int) -> None:
    _, count, positive = arrays(rows)
    negative = count - positive
    good, bad = int(positive.sum()), int(negative.sum())
    plus, minus = np.empty(count.size), np.empty(count.size)
    for part in stretches(count.size, cut):
        above = before(part.start, count, positive)
        own = count[part], positive[part]
        kernels.delong_shares(*own, *above, good, bad, plus[part], minus[part])
    auc, variance = naive_intervals.delong_by_pairs(rows)
    assert (plus * positive).sum() / good == pytest.approx(auc, abs=1e-14)
    assert (minus * negative).sum() / bad == pytest.approx(auc, abs=1e-14)
    found = ((plus - auc) ** 2 * positive).sum() / good / (good - 1)
    found += ((minus - auc) ** 2 * negative).sum() / bad / (bad - 1)
    assert found == pytest.approx(variance, abs=1e-14)


@given(rows_of_both, cuts)
def test_precision_shares_are_slopes(rows: list[naive.Row], cut: int) -> None:
    scores, count, positive = arrays(rows)
    plus, minus = np.empty(scores.size), np.empty(scores.size)
    below = (0.0, 0.0)
    for part in reversed(stretches(scores.size, cut)):
        own = count[part], positive[part]
        ends, starts = (before(at, count, positive) for at in (part.stop, part.start))
        kernels.precision_shares(*own, *ends, *below, plus[part], minus[part])
        steps = kernels.precision_steps(*own, *starts)
        below = (below[0] + steps[0], below[1] + steps[1])
    for place, score in enumerate(scores.tolist()):
        slopes = [naive_intervals.precision_gains(rows, score, label) for label in (1, 0)]
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
        expected = naive_intervals.losses(value)
        assert plus[place] == (pytest.approx(expected[0]) if hits else 0.0)
        assert minus[place] == (pytest.approx(expected[1]) if misses else 0.0)
        rows += [expected[0]] * hits + [expected[1]] * misses
    found = kernels.sum_of_squares(count, positive, plus, minus)
    assert found == pytest.approx(naive_intervals.squares(rows))
