"""The kernels of the logistic surface against plain Python."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from calibkit.methods.boundary.solvers.logistic import surface_slopes
from calibkit_kernels import logistic
from tests.naive import surface as naive

NOT_DEALT = np.empty(0, np.uint8)
ROWS = st.lists(
    st.tuples(
        st.integers(-6, 6).map(lambda k: k / 4),  # score
        st.integers(0, 2),  # level
        st.integers(1, 3),  # count
        st.integers(0, 3),  # positive, at most count
        st.integers(0, 2),  # part
    ),
    min_size=1,
    max_size=12,
)


def arrays(rows: list[tuple[float, int, int, int, int]]) -> tuple[np.ndarray, ...]:
    """Return a tally: by falling score, then level."""
    rows = sorted(rows, key=lambda row: (-row[0], row[1], row[4]))
    score, level, count, positive, part = (np.array(column) for column in zip(*rows, strict=True))
    return (
        score.astype(np.float64),
        level.astype(np.uint16),
        count.astype(np.int32),
        np.minimum(positive, count).astype(np.int32),
        part.astype(np.uint8),
    )


@given(ROWS, st.integers(-1, 2))
def test_sums_of_a_step_are_those_of_the_rows(
    rows: list[tuple[float, int, int, int, int]], excluded: int
) -> None:
    score, level, count, positive, part = arrays(rows)
    lines = np.array([[0.1, 1.0], [-0.3, 0.5], [0.0, 2.0], [0.25, 2.0]])
    sums, moments = np.zeros((3, 6)), np.zeros((3, 4))
    tally = (score, level, count, positive, part)
    logistic.surface_sums(*tally, lines, excluded, sums)
    logistic.moment_sums(*tally, lines, excluded, moments)
    expected, wanted = np.zeros((3, 6)), np.zeros((3, 4))
    for s, own, n, y, p in zip(*tally, strict=True):
        if p == excluded:
            continue
        s = (s - 0.25) / 2
        v = lines[own, 0] + lines[own, 1] * s
        q = 1 / (1 + math.exp(-v))
        r, w = n * q - y, n * q * (1 - q)
        loss = -(y * math.log(q) + (n - y) * math.log(1 - q))
        expected[own] += [r, r * s, w, w * s, w * s * s, loss]
        wanted[own] += [n, n * s, n * s * s, y]
    assert np.allclose(sums, expected, atol=1e-12)
    assert np.allclose(moments, wanted, atol=1e-12)


def keys_of(
    tally: tuple[np.ndarray, ...], lines: np.ndarray, excluded: int, gain: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    score, level, count, positive, part = tally
    keys = np.empty(score.size, np.uint32)
    cells = np.zeros((1 << 32 - logistic.CELL_BITS, 4), np.int64)
    logistic.surface_keys(score, level, part, keys, lines, excluded)
    logistic.cell_sums(keys, count, positive, gain, cells)
    return keys, cells


@given(ROWS, st.integers(-1, 2), st.booleans())
def test_order_and_limits(
    rows: list[tuple[float, int, int, int, int]], excluded: int, valued: bool
) -> None:
    score, level, count, positive, part = tally = arrays(rows)
    lines = np.array([[0.1, 1.0], [-0.3, 0.5], [0.0, 2.0], [0.0, 1.0]])
    gain = 5 * positive.astype(np.int64) - 3 * count if valued else np.empty(0, np.int64)
    keys, cells = keys_of(tally, lines, excluded, gain)
    weights = [(float(a), float(g), 0.0, 0.0) for a, g in lines[:-1]]
    values = [naive.value(weights[k], s, 0.0) for s, k in zip(score, level, strict=True)]
    kept = np.flatnonzero(part != excluded)
    by_key = sorted(range(score.size), key=lambda i: (int(keys[i]), i))
    assert by_key[: kept.size] == sorted(kept.tolist(), key=lambda i: (-values[i], i))
    assert all(keys[i] == logistic.NO_KEY for i in by_key[kept.size :])
    expected = np.zeros_like(cells)
    for i in kept:
        worth = int(gain[i]) if valued else 0
        own = expected[keys[i] >> logistic.CELL_BITS]
        own += [count[i], positive[i], worth, max(worth, 0)]
    assert np.array_equal(cells, expected)
    key_of = {values[i]: keys[i] for i in kept}
    of_kept = [values[i] for i in kept]
    cuts = naive.cuts(of_kept, count[kept].tolist(), positive[kept].tolist())
    for cut in cuts:
        limits = np.full((3, 2), np.nan)
        logistic.level_limits(score, keys, level, np.uint64(key_of[cut]), limits)
        again = naive.limits(score[kept].tolist(), of_kept, level[kept].tolist(), 3, cut)
        assert np.array_equal(limits, np.array(again), equal_nan=True)


def test_minus_zero_is_zero() -> None:
    score, one = np.array([0.0, -0.0]), np.ones(2, np.int32)
    tally = score, np.zeros(2, np.uint16), one, one, NOT_DEALT
    keys, _ = keys_of(tally, np.array([[0.0, 1.0], [0.0, 1.0]]), -1, np.empty(0, np.int64))
    assert keys[0] == keys[1]


def test_a_step_leads_downhill_and_ends_at_the_optimum() -> None:
    rng = np.random.default_rng(1)
    score = np.sort(rng.normal(size=400))[::-1].copy()
    level = rng.integers(0, 3, 400).astype(np.uint16)
    positive = (rng.random(400) < 1 / (1 + np.exp(-score))).astype(np.int32)
    tally = score, level, np.ones(400, np.int32), positive, NOT_DEALT
    ones, ranks, none = np.ones(3), np.array([0.2, 0.5, 0.8]), np.zeros(3)
    fixed, along = np.array([ones, none, ranks, none]), np.array([none, ones, none, ranks])
    weights = np.zeros(4)
    for _ in range(12):
        lines = np.vstack([np.column_stack([weights @ fixed, weights @ along]), [0.0, 1.0]])
        sums = np.zeros((3, 6))
        logistic.surface_sums(*tally, lines, -1, sums)
        gradient, curvature = surface_slopes(sums, fixed, along, weights, 400.0, 1 / 400)
        step = np.linalg.solve(curvature, gradient)
        weights, decrement = weights - step, gradient @ step
    rank = ranks[level]
    design = np.column_stack([np.ones(400), score, rank, score * rank])
    assert decrement < 1e-18
    assert np.allclose(weights, naive.newton(design, positive, np.ones(400)), atol=1e-9)
