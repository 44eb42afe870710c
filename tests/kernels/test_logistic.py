"""Logistic regression: its sums, its minimum, and where there is none."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from calibkit.numerics.logistic import fit_logistic
from calibkit_kernels import logistic
from calibkit_kernels.logistic import BLOCK, is_separated
from calibkit_kernels.newton import FLAT
from tests.conftest import INTERPRETED
from tests.naive import logistic as naive
from tests.naive.dense import column_sums

weights = st.integers(0, 3).map(float)
points = st.lists(
    st.tuples(st.integers(-4, 4).map(float), st.integers(-3, 3).map(float), weights, weights),
    min_size=1,
    max_size=12,
).filter(lambda rows: any(p + n for _, _, p, n in rows))


def arrays(rows: list[tuple[float, ...]]) -> list[np.ndarray]:
    return [np.array(column) for column in zip(*rows, strict=True)]


def sample(size: int, seed: int = 1) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    x = np.sort(rng.normal(1.0, 3.0, size))
    positive = rng.binomial(3, 1 / (1 + np.exp(1 - 0.5 * x))).astype(float)
    return [x, positive, 3.0 - positive]


@given(points, st.floats(-2, 2), st.floats(-2, 2), st.floats(-2, 2))
def test_sums_are_those_of_single_rows(
    rows: list[tuple[float, ...]], a: float, b: float, c: float
) -> None:
    x, y, positive, negative = arrays(rows)
    features = [(x - 0.5) * 2.0, (y + 1.0) * 0.25]
    plane, line = [a, b, c, 0.5, -1.0, 2.0, 0.25], [a, 0.0, c, 0.5, 0.0, 2.0, 0.0]
    for other, point, weights, places in (
        (y, plane, [a, b, c], range(10)),
        (np.empty(0), line, [a, c], [0, 1, 3, 4, 6, 9]),
    ):
        out, total = np.empty((1, 10)), np.empty(10)
        logistic.plane_sums(x, other, positive, negative, np.array(point), 0, 1, out)
        logistic.add_blocks(out, total)
        size = len(weights)
        loss, gradient, hessian = naive.logistic_sums(
            features[: size - 1], positive, negative, weights
        )
        upper = [hessian[i][j] for i in range(size) for j in range(i, size)]
        wanted = [loss, *gradient, *upper]
        assert total[[*places]] == pytest.approx(wanted, rel=1e-9, abs=1e-9)


def test_blocks_add_up() -> None:
    sums, total = np.random.default_rng(0).normal(size=(7, 4)), np.empty(4)
    logistic.add_blocks(sums, total)
    assert total == pytest.approx(column_sums(sums.tolist()))


@given(st.data(), st.integers(1, 6), st.integers(1, 3))
def test_sums_of_any_number_of_features(data: st.DataObject, rows: int, inputs: int) -> None:
    def some(values: st.SearchStrategy[float], count: int) -> list[float]:
        return data.draw(st.lists(values, min_size=count, max_size=count))

    x = [some(st.floats(-3, 3), inputs) for _ in range(rows)]
    label, times = some(st.sampled_from([0.0, 1.0]), rows), some(weights, rows)
    at = some(st.floats(-3, 3), inputs)
    gradient, hessian = np.zeros(inputs), np.zeros((inputs, inputs))
    given_ = (np.array(values) for values in (x, label, times, at))
    loss = logistic.newton_sums(*given_, gradient, hessian)
    wanted, slope, curve = naive.newton_sums(x, label, times, at)
    assert loss == pytest.approx(wanted, rel=1e-9, abs=1e-9)
    assert gradient.tolist() == pytest.approx(slope, rel=1e-9, abs=1e-9)
    assert np.allclose(np.tril(hessian), np.tril(curve), rtol=1e-9, atol=1e-9)


@given(points)
def test_spread_separation_and_neighbours(rows: list[tuple[float, ...]]) -> None:
    x, _, positive, negative = arrays(rows)
    one = x, positive, negative
    assert logistic.spread(*one) == pytest.approx(naive.spread(*one), abs=1e-9)
    assert is_separated(*one) == naive.is_separated(*one)
    for stride in (1, 3):
        out = np.empty(-(-x.size // stride))
        logistic.thin_points(*one, stride, out)
        assert out == pytest.approx(naive.neighbour_means(*one, stride))


@given(points)
def test_smoothed_targets_have_a_flat_minimum(rows: list[tuple[float, ...]]) -> None:
    x, _, positive, negative = arrays(rows)
    ones, zeros = naive.smoothed_targets(positive, negative)
    assert ones + zeros == pytest.approx(positive + negative)
    found = fit_logistic((x,), ones, zeros)
    at = [found.slopes[0], found.intercept]
    loss, gradient, _ = naive.logistic_sums([x], ones, zeros, at)
    assert gradient == pytest.approx([0, 0], abs=1e-8)
    assert found.ended.value == pytest.approx(loss, abs=1e-9)
    assert found.ended.gradient <= FLAT
    if np.ptp(x[positive + negative > 0]) == 0:
        assert found.slopes == (0.0,)
        assert found.intercept == pytest.approx(math.log(ones.sum() / zeros.sum()), abs=1e-9)


@given(points)
def test_maximum_likelihood_where_it_exists(rows: list[tuple[float, ...]]) -> None:
    x, _, positive, negative = arrays(rows)
    if is_separated(x, positive, negative):
        return
    found = fit_logistic((x,), positive, negative)
    at = [found.slopes[0], found.intercept]
    _, gradient, _ = naive.logistic_sums([x], positive, negative, at)
    assert gradient == pytest.approx([0, 0], abs=1e-7)


@given(points)
def test_rising_slopes_reach_the_bounded_minimum(rows: list[tuple[float, ...]]) -> None:
    x, y, positive, negative = arrays(rows)
    ones, zeros = naive.smoothed_targets(positive, negative)

    def loss(at: np.ndarray) -> float:
        z = at[0] * x + at[1] * y + at[2]
        return float(ones @ np.logaddexp(0, -z) + zeros @ np.logaddexp(0, z))

    best = minimize(
        loss, [0.1, 0.1, 0.0], bounds=[(0, None), (0, None), (None, None)], method="L-BFGS-B"
    )
    found = fit_logistic((x, y), ones, zeros, rising=True)
    assert min(found.slopes) >= 0.0
    own = loss(np.array([*found.slopes, found.intercept]))
    assert own <= best.fun + 1e-7
    assert found.ended.value == pytest.approx(own, abs=1e-9)


def test_without_an_intercept_the_line_goes_through_the_origin() -> None:
    x, positive, negative = sample(300)
    found = fit_logistic((x,), positive, negative, intercept=False)
    assert found.intercept == 0.0
    _, gradient, _ = naive.logistic_sums([x], positive, negative, [found.slopes[0], 0.0])
    assert gradient[0] == pytest.approx(0, abs=1e-6)


@pytest.mark.skipif(INTERPRETED, reason="many points")
def test_many_points_for_any_number_of_threads() -> None:
    x, *classes = sample(12 * BLOCK + 5)
    one, four = (fit_logistic((x,), *classes, threads=threads) for threads in (1, 4))
    assert (one.slopes, one.intercept) == (four.slopes, four.intercept)
    assert one.ended.value == four.ended.value
    assert one.ended.gradient <= FLAT
    cold = fit_logistic((x,), *classes, start=[0.0, 0.0])
    assert [*one.slopes, one.intercept] == pytest.approx([*cold.slopes, cold.intercept], rel=1e-12)
    # It starts from the fit to means of neighbours.
    assert one.ended.iterations < cold.ended.iterations


@pytest.mark.parametrize("scale", [1e-150, 1.0, 1e150, 1.7e308 / 14])
def test_features_of_any_size(scale: float) -> None:
    x, *classes = sample(200)
    near, far = (fit_logistic((feature,), *classes) for feature in (x, x * scale))
    assert far.slopes[0] * scale == pytest.approx(near.slopes[0], rel=1e-9)
    assert far.intercept == pytest.approx(near.intercept, rel=1e-9)


def test_a_range_beyond_the_largest_float() -> None:
    x = np.array([-1.7e308, -1e308, 1e308, 1.7e308])
    found = fit_logistic((x,), np.array([0.0, 1.0, 1.0, 2.0]), np.array([2.0, 1.0, 1.0, 0.0]))
    assert 0 < found.slopes[0] < 1e-307
    assert found.intercept == pytest.approx(0, abs=1e-9)


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)).map(lambda g: (sum(g), g[0]))),
    st.sampled_from([1.0, 0.25]),
    st.sampled_from([(1.0, 0.0), (0.9, 0.2)]),
)
def test_rows_count_as_shares_of_both_classes(
    pairs: list[tuple[int, int]], size: float, shares: tuple[float, float]
) -> None:
    count, positive = np.array(pairs, np.int64).reshape(-1, 2).T.copy()
    ones, zeros = np.empty(count.size), np.empty(count.size)
    logistic.share_classes(count, positive, ones, zeros, size, *shares)
    wanted = naive.share_classes(count.tolist(), positive.tolist(), size, *shares)
    assert ones == pytest.approx([pair[0] for pair in wanted], abs=1e-12)
    assert zeros == pytest.approx([pair[1] for pair in wanted], abs=1e-12)
