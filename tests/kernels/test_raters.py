"""Sums of label histograms and the Dirichlet-multinomial likelihood against their definitions."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from calibkit.measures.classes import BINS, _calibration_moves
from calibkit_kernels.classes import (
    add_bin_sums,
    bin_of,
    histogram_costs,
    log_rising,
)
from tests.naive import raters

unit = st.floats(0.0, 1.0)


@given(unit, st.integers(1, 40))
def test_a_bin_is_counted_by_the_edges_below(value: float, bins: int) -> None:
    edges = np.array([b / bins for b in range(bins)])
    assert bin_of(value, edges) == raters.bin_place(value, bins)
    for edge in edges:
        for near in (edge, np.nextafter(edge, 0.0), np.nextafter(edge, 1.0)):
            assert bin_of(float(near), edges) == raters.bin_place(float(near), bins)


def random_targets(seed: int, rows: int, targets: int) -> tuple[np.ndarray, ...]:
    generator = np.random.default_rng(seed)
    label = generator.integers(0, 5, (rows, targets)) / 4
    prediction = np.round(generator.random((rows, targets)), int(generator.integers(1, 4)))
    return prediction, label, label * (1 - label) / 3


@given(st.integers(0, 2**32), st.integers(1, 30), st.integers(1, 4), st.integers(1, 15))
def test_bin_sums_are_those_of_the_rows_in_any_order(
    seed: int, rows: int, targets: int, bins: int
) -> None:
    given_ = prediction, label, excess = random_targets(seed, rows, targets)
    order = np.random.default_rng(seed).permutation(rows)

    def totals(*parts: np.ndarray | slice) -> np.ndarray:
        sums = np.zeros((targets, bins, 11), np.int64)
        for part in parts:
            own = (np.ascontiguousarray(a[part]) for a in given_)
            add_bin_sums(*own, np.array([b / bins for b in range(bins)]), sums)
        assert sums[:, :, 0].sum() == rows * targets
        wide = sums.astype(object)
        return wide[:, :, 1::2] * 2**32 + wide[:, :, 2::2]

    found, half = totals(slice(None)), rows // 2
    assert (found == totals(order)).all()
    assert (found == totals(slice(None, half), slice(half, None))).all()
    terms = (label, prediction, label**2, (label - prediction) ** 2, excess)
    for k, b in product(range(targets), range(bins)):
        inside = [i for i in range(rows) if raters.bin_place(prediction[i, k], bins) == b]
        for q, values in enumerate(terms):
            exact = sum(raters.units(float(value)) for value in values[inside, k])
            assert abs(found[k, b, q] - exact) <= len(inside)


@given(st.integers(0, 2**32), st.integers(2, 12))
def test_the_influence_is_the_derivative_of_the_loss(seed: int, rows: int) -> None:
    prediction, label, _ = random_targets(seed, rows, 1)
    gaps = np.zeros((1, BINS))
    for b in range(BINS):
        inside = [i for i in range(rows) if raters.bin_place(prediction[i, 0], BINS) == b]
        if inside:
            gaps[0, b] = float((label[inside, 0] - prediction[inside, 0]).mean())
    targets = SimpleNamespace(prediction=prediction, label=label)
    moved = _calibration_moves(targets, SimpleNamespace(gaps=gaps))
    expected = raters.influence(prediction[:, 0].tolist(), list(map(Fraction, label[:, 0])), BINS)
    assert moved == pytest.approx(expected, abs=1e-6)


@given(
    st.one_of(st.floats(1e-300, 1e300), st.floats(1e-3, 1e3)),
    st.one_of(st.integers(0, 40), st.integers(0, 3000)),
)
@example(1e-300, 3)  # a factor too small to be multiplied with others
@example(3e-285, 40)
@example(1e290, 2)  # and too large
def test_rising_factorials_multiply_out(x: float, n: int) -> None:
    log, slope = log_rising(x, n)
    expected = raters.log_rising(x, n)
    assert log == pytest.approx(expected[0], rel=1e-13, abs=1e-13)
    assert slope == pytest.approx(expected[1], rel=1e-13, abs=1e-300)


@pytest.mark.parametrize(("first", "n"), [(16, 13), (16, 100), (17, 40), (40, 13)])
def test_rising_factorials_of_whole_numbers_keep_their_digits(first: int, n: int) -> None:
    exact = math.log(math.prod(range(first, first + n)))
    assert log_rising(float(first), n)[0] == pytest.approx(exact, rel=2e-15, abs=0)


@given(st.integers(0, 2**32), st.floats(-60, 60))
def test_histograms_cost_what_the_likelihood_says(seed: int, log_strength: float) -> None:
    generator = np.random.default_rng(seed)
    classes = int(generator.integers(2, 6))
    z = generator.dirichlet(np.ones(classes), 4)
    y = np.vstack([generator.integers(0, 30, (3, classes)), np.zeros((1, classes), np.int64)])
    cost, slope = np.empty((2, 4))
    histogram_costs(z, y, np.full(4, log_strength), cost, slope)
    for i in range(3):
        known = raters.histogram_costs(z[i].tolist(), y[i].tolist(), log_strength)
        scale = 1 + abs(raters.log_rising(float(np.exp(log_strength)), int(y[i].sum()))[0])
        assert cost[i] == pytest.approx(known[0], abs=1e-13 * scale)
        assert slope[i] == pytest.approx(known[1], abs=1e-12 * (1 + y[i].sum()))
    assert cost[3] == slope[3] == 0.0  # no vote
