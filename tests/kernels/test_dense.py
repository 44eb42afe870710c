"""Products and sums over rows against plain Python."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibkit_kernels import classes as kernels
from tests.naive import dense as naive

shapes = st.tuples(st.integers(1, 9), st.integers(1, 4), st.integers(1, 4), st.integers(0, 2**32))
near = {"rel": 1e-13, "abs": 1e-12}


@given(shapes)
def test_products_and_sums(shape: tuple[int, int, int, int]) -> None:
    rows, inputs, outputs, seed = shape
    generator = np.random.default_rng(seed)
    x, w = generator.normal(size=(rows, inputs)), generator.normal(size=(outputs, inputs))
    b, r = generator.normal(size=outputs), generator.normal(size=(rows, outputs))
    out = np.empty((rows, outputs))
    kernels.affine_rows(x, w, b, out)
    assert out == pytest.approx(np.array(naive.affine_rows(x.tolist(), w.tolist(), b.tolist())))
    sums = np.empty((outputs, inputs))
    kernels.outer_sums(r, x, sums)
    assert sums == pytest.approx(np.array(naive.outer_sums(r.tolist(), x.tolist())), **near)
    paired, columns = np.empty((2, outputs))
    kernels.column_sums(r, out, paired)
    kernels.column_sums(r, kernels.NO_ROWS, columns)
    assert paired == pytest.approx(np.array(naive.paired_sums(r.tolist(), out.tolist())), **near)
    assert columns == pytest.approx(np.array(naive.column_sums(r.tolist())), **near)
    assert kernels.dot(x[0], w[0]) == pytest.approx(naive.dot(x[0].tolist(), w[0].tolist()), **near)


@given(st.integers(1, 6), st.integers(2, 5), st.floats(0, 400), st.integers(0, 2**32))
def test_softmax(rows: int, classes: int, spread: float, seed: int) -> None:
    generator = np.random.default_rng(seed)
    scores = generator.normal(size=(rows, classes)) * spread
    counts = generator.integers(0, 4, (rows, classes))
    residual, out = np.empty((2, rows, classes))
    cost = kernels.softmax_residuals(scores, counts, residual)
    kernels.softmax_rows(scores, out)
    known = naive.softmax_residuals(scores.tolist(), counts.tolist())
    assert cost == pytest.approx(known[0], rel=1e-12, abs=1e-12)
    assert residual == pytest.approx(np.array(known[1]), abs=1e-12)
    assert out == pytest.approx(
        np.array(naive.softmax_rows(scores.tolist())), rel=1e-12, abs=1e-300
    )


def test_sums_over_blocks_are_sums_over_rows() -> None:
    values = np.random.default_rng(1).integers(-9, 9, (3 * kernels.BLOCK_ROWS + 7, 2)).astype(float)
    sums, paired, outer = np.empty(2), np.empty(2), np.empty((2, 2))
    kernels.column_sums(values, kernels.NO_ROWS, sums)
    kernels.column_sums(values, values, paired)
    kernels.outer_sums(values, values, outer)
    assert (sums == values.sum(axis=0)).all()
    assert (paired == (values**2).sum(axis=0)).all()
    assert (outer == values.T @ values).all()
