"""Moments of replicates: against their definition, whatever the order, the cut and the weights."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibkit.methods.vad.moments import Columns, sum_moments
from calibkit.options.vad import VadOptions
from calibkit_kernels import vad as kernels
from tests.conftest import INTERPRETED
from tests.naive import vad as naive

#: More than one thread's share; interpreted, a part of one already takes long.
MANY = 600 if INTERPRETED else 40_000

probability = st.floats(0.0, 1.0) | st.sampled_from([0.0, 1.0, 0.5, 1e-6, 1e-7])


def tables(columns: int, most: int = 9) -> st.SearchStrategy[np.ndarray]:
    row = st.lists(probability, min_size=columns, max_size=columns)
    return st.lists(row, min_size=1, max_size=most).map(lambda rows: np.array(rows).T.copy())


def links(table: np.ndarray) -> list[list[float]]:
    return [[naive.link(value) for value in member] for member in table.tolist()]


@given(probability)
def test_probabilities_are_clipped_before_their_logit(value: float) -> None:
    out, clipped = np.empty(1), np.zeros(1, np.uint8)
    kernels.clipped_logits(np.array([value]), naive.EPSILON, out, clipped)
    assert out[0] == naive.link(value)
    assert clipped[0] == (not 1e-6 <= value <= 1 - 1e-6)


@given(tables(4), st.integers(0, 2), st.sampled_from(["exchangeable", "bootstrap"]))
def test_moments_are_those_of_the_definition(table: np.ndarray, more: int, replicates: str) -> None:
    used = table[: 2 + more] if replicates == "exchangeable" else table[: max(3, 2 + more)]
    options = VadOptions(scale="probability", link="logit", replicates=replicates)
    found = sum_moments(Columns(list(used)), options).estimate()
    first = 1 if replicates == "bootstrap" else 0
    mean, variance, within = naive.estimate(links(used), [1.0] * used.shape[1], first)
    assert found.mean == float(mean)
    assert found.fit.variance == float(variance)
    # Links lie within 13.9 of 0, and the squares within a row are rounded one by one.
    assert found.fit.conditional_variance == pytest.approx(float(within), rel=1e-12, abs=1e-12)
    assert found.lambda_ <= 1.0
    if variance:
        ratio = float(Fraction(found.fit.conditional_variance) / variance)
        assert found.lambda_ == pytest.approx(1 - ratio, rel=1e-12, abs=1e-12 * ratio)
    else:
        assert found.lambda_ == 1.0


@given(tables(3, 8), st.lists(st.integers(0, 4), min_size=8, max_size=8))
def test_a_weight_of_two_is_two_rows(table: np.ndarray, drawn: list[int]) -> None:
    weight = np.array(drawn[: table.shape[1]], np.float64)
    weight[0] = max(weight[0], 1.0)
    options = VadOptions(scale="probability", link="logit", replicates="exchangeable")
    weighted = sum_moments(Columns(list(table), weight=weight), options)
    written = np.repeat(table, weight.astype(int), axis=1)
    assert weighted == sum_moments(Columns(list(written)), options)


@given(tables(2), st.lists(st.floats(1e-3, 1e3), min_size=9, max_size=9))
def test_weights_weigh(table: np.ndarray, drawn: list[float]) -> None:
    weight = np.array(drawn[: table.shape[1]])
    options = VadOptions(scale="probability", link="identity", replicates="exchangeable")
    found = sum_moments(Columns(list(table), weight=weight), options).estimate()
    mean, variance, within = naive.estimate(table.tolist(), weight.tolist())
    assert found.mean == float(mean)
    assert found.fit.variance == pytest.approx(float(variance), rel=1e-9, abs=1e-28)
    assert found.fit.conditional_variance == pytest.approx(float(within), rel=1e-9, abs=1e-14)
    assert found.fit.rows == pytest.approx(weight.sum())


@given(st.integers(0, 2**32), st.integers(0, MANY))
def test_no_order_and_no_cut_change_a_bit(seed: int, cut: int) -> None:
    random = np.random.default_rng(seed)
    table = random.random((3, MANY))[:, : max(cut, 1)]
    options = VadOptions(scale="probability", link="logit", replicates="bootstrap")
    whole = sum_moments(Columns(list(table), extra=table[0] ** 2), options)
    order = random.permutation(table.shape[1])
    shuffled = Columns(list(table[:, order]), extra=table[0, order] ** 2)
    assert sum_moments(shuffled, options) == whole
    half = table.shape[1] // 2
    if half:
        parts = [shuffled.take(slice(None, half)), shuffled.take(slice(half, None))]
        first, second = (sum_moments(part, options) for part in parts)
        assert second.merge(first) == first.merge(second) == whole


def test_a_constant_member_keeps_everything() -> None:
    options = VadOptions(scale="probability", link="logit", replicates="exchangeable")
    constant, other = np.full(50, 0.1), np.linspace(0.1, 0.9, 50)
    found = sum_moments(Columns([constant, other]), options).estimate()
    assert (found.fit.variance, found.lambda_) == (0.0, 1.0)


def test_replicates_that_agree_up_to_a_shift_have_no_conditional_variance() -> None:
    options = VadOptions(scale="raw", link="identity", replicates="exchangeable")
    member = np.linspace(-1.0, 1.0, 65)
    found = sum_moments(Columns([member, member + 3.0]), options).estimate()
    assert found.fit.conditional_variance == 0.0
    assert found.lambda_ == 1.0


@given(tables(4), st.integers(0, 2))
def test_spread_is_about_the_mean_of_each_row(table: np.ndarray, first: int) -> None:
    mean, out = np.empty((2, table.shape[1]))
    kernels.row_spreads(table, first, 4, mean, out)
    wanted = [naive.row_spread(row[first:]) for row in table.T.tolist()]
    assert out.tolist() == pytest.approx(wanted, rel=1e-12, abs=1e-28)


@given(st.lists(st.floats(-1e150, 1e150).filter(lambda value: not 0 < abs(value) < 1e-130)))
def test_squares_keep_what_rounding_takes(values: list[float]) -> None:
    square, rest = np.empty((2, len(values)))
    kernels.squares(np.array(values, np.float64), square, rest)
    for value, high, low in zip(values, square.tolist(), rest.tolist(), strict=True):
        assert Fraction(high) + Fraction(low) == naive.square(value)


@given(st.floats(-50, 50), st.floats(-1, 2), st.floats(-5, 5))
def test_links_are_shrunk_towards_the_mean(value: float, shrinkage: float, mean: float) -> None:
    factor = np.array([1.0, max(shrinkage, 0.0)])
    out = np.empty(2)
    offset = (1.0 - factor) * mean
    kernels.shrink(np.array([value, value]), np.array([0, 1]), factor, offset, out)
    assert out[0] == value
    assert out[1] == naive.debias(value, shrinkage, mean)
    assert math.isfinite(out[1])
