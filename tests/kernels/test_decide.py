"""Margins: how far a score lies from its threshold."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibkit_kernels import maps
from tests.naive import boundaries as naive

special = st.sampled_from([math.inf, -math.inf, math.nan])
probability = st.floats(0, 1) | st.sampled_from([0.0, 1.0, 5e-324, 1 - 2**-53, 0.5])
raw = st.floats(-1e6, 1e6) | st.integers(-3, 3).map(float)


def same(found: list[float], expected: list[float]) -> bool:
    return all(
        math.isclose(a, b, rel_tol=1e-14) or (math.isnan(a) and math.isnan(b))
        for a, b in zip(found, expected, strict=True)
    )


def margins(score: np.ndarray, threshold: np.ndarray, probability: bool) -> np.ndarray:
    """Return the margins of rows that each have a level, hence a threshold, of their own."""
    return maps.margins(score, np.arange(score.size, dtype=np.uint16), threshold, probability)


@given(st.lists(st.tuples(probability, probability | special), max_size=8))
def test_margins_of_probabilities_are_differences_of_logits(
    rows: list[tuple[float, float]],
) -> None:
    rows = [(s, t) for s, t in rows if t != math.inf]  # never the threshold of a probability
    score, threshold = np.array(rows, np.float64).reshape(-1, 2).T.copy()
    assert same([maps.logit(p) for p in score], [naive.logit(p) for p in score.tolist()])
    found = margins(score, threshold, True).tolist()
    assert same(found, naive.margins(score.tolist(), threshold.tolist(), probability=True))
    for (s, t), margin in zip(rows, found, strict=True):
        assert math.isnan(margin) == (math.isnan(t) or t == -math.inf)
        if not math.isnan(margin):
            assert margin == 0 if s == t else (margin > 0) == (s > t)


def test_between_neighbours_the_sign_survives_and_the_margin_is_the_slope_of_the_logit() -> None:
    threshold = np.linspace(0.01, 0.99, 999)
    for side in (0.0, 1.0):
        score = np.nextafter(threshold, side)
        found = margins(score, threshold, True)
        assert ((found > 0) == (side > 0)).all() and (found != 0).all()
        assert (abs(found) < 1e-13).all()
        tied = np.array(
            [maps.logit(s) == maps.logit(t) for s, t in zip(score, threshold, strict=True)]
        )
        assert tied.sum() > 10
        expected = ((score - threshold) / (threshold * (1.0 - threshold)))[tied]
        assert found[tied] == pytest.approx(expected, rel=1e-12, abs=0.0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@given(rows=st.lists(st.tuples(raw, raw | special), max_size=8))
def test_margins_of_other_scores_are_differences(
    dtype: type, rows: list[tuple[float, float]]
) -> None:
    score = np.array([s for s, _ in rows], dtype)
    threshold = np.array([t for _, t in rows], np.float64)
    found = margins(score, threshold, False).tolist()
    single = score.astype(np.float64).tolist()
    assert same(found, naive.margins(single, threshold.tolist(), probability=False))
    infinite = np.array([math.inf])  # equal infinities are equal
    assert margins(infinite, infinite, False).tolist() == [0.0]
