"""Moments of replicates: against their definition, whatever the order, the cut and the weights."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import calibkit as ck
from calibkit.methods.vad.moments import sum_moments, to_link
from calibkit.options.vad import VadOptions
from calibkit_kernels.elementary import logits
from tests.conftest import INTERPRETED
from tests.naive import vad as naive

#: More than one thread's share; interpreted, a part of one already takes long.
MANY = 600 if INTERPRETED else 40_000

probability = st.floats(0.0, 1.0) | st.sampled_from([0.0, 1.0, 0.5, 1e-6, 1e-7])


def tables(columns: int, most: int = 9) -> st.SearchStrategy[np.ndarray]:
    row = st.lists(probability, min_size=columns, max_size=columns)
    return st.lists(row, min_size=1, max_size=most).map(lambda rows: np.array(rows).T.copy())


def links(table: np.ndarray) -> list[list[float]]:
    """Return logits as fits take them, whose last digits are not those of `naive.link`."""
    found = np.empty(table.size)
    logits(table.ravel(), found)
    return found.reshape(table.shape).tolist()


@given(probability)
def test_probabilities_are_clipped_before_their_logit(value: float) -> None:
    out = np.empty(1)
    clipped = to_link(np.array([value]), "probability", "logit", out)
    assert out[0] == naive.link(value)
    assert clipped is not None and clipped[0] == (not 1e-6 <= value <= 1 - 1e-6)


@given(tables(4), st.integers(0, 2), st.sampled_from(["exchangeable", "bootstrap"]))
def test_moments_are_those_of_the_definition(table: np.ndarray, more: int, replicates: str) -> None:
    used = table[: 2 + more] if replicates == "exchangeable" else table[: max(3, 2 + more)]
    options = VadOptions(scale="probability", link="logit", replicates=replicates)
    found = sum_moments(list(used), options).estimate()
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


@given(tables(2), st.lists(st.floats(1e-3, 1e3), min_size=9, max_size=9))
def test_weights_weigh(table: np.ndarray, drawn: list[float]) -> None:
    weight = np.array(drawn[: table.shape[1]])
    options = VadOptions(scale="probability", link="identity", replicates="exchangeable")
    found = sum_moments(list(table), options, weight).estimate()
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
    table = np.vstack([table, table[0] ** 2])
    whole = sum_moments(list(table), options, extra=True)
    shuffled = table[:, random.permutation(table.shape[1])].copy()
    assert sum_moments(list(shuffled), options, extra=True) == whole
    half = table.shape[1] // 2
    if half:
        parts = shuffled[:, :half], shuffled[:, half:]
        first, second = (sum_moments(list(part), options, extra=True) for part in parts)
        assert second.merge(first) == first.merge(second) == whole


def test_replicates_that_agree_up_to_a_shift_have_no_conditional_variance() -> None:
    options = VadOptions(scale="raw", link="identity", replicates="exchangeable")
    member = np.linspace(-1.0, 1.0, 65)
    found = sum_moments([member, member + 3.0], options).estimate()
    assert found.fit.conditional_variance == 0.0
    assert found.lambda_ == 1.0


@pytest.mark.parametrize("scale", ["raw", "logit"])
def test_narrow_members_are_read_without_a_warning(scale: str) -> None:
    """The limits of members of any size are beyond float32."""
    wide = np.array([[1.5, 1.0], [0.5, 0.25], [0.75, 0.5]])
    one, two = (
        ck.fit_vad(members=members, scale=scale, link="identity")
        for members in (wide, wide.astype(np.float32))
    )
    assert one.lambda_ == two.lambda_
