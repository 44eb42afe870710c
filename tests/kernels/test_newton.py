"""Newton's method: where it ends, against a slow minimiser, and that bounds hold."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibkit.numerics.solve import newton
from calibkit_kernels import newton as kernels
from calibkit_kernels._jit import INTERPRETED, Brief
from calibkit_kernels.newton import FIXED, FREE, RISING, move, solve_cholesky
from tests.naive import newton as naive

Sums = tuple[float, np.ndarray, np.ndarray]

#: What is left of the numbers that Python runs as they are.
PLAIN, COMPILED = 2**60, 0


@contextmanager
def run_by(left: int) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for one in vars(kernels).values() if not INTERPRETED else ():
            if isinstance(one, Brief):
                patch.setattr(one, "left", left)
        yield


@pytest.fixture(scope="module", autouse=True, params=[PLAIN, COMPILED], ids=["plain", "compiled"])
def _ways(request: pytest.FixtureRequest) -> Iterator[None]:
    with run_by(request.param):
        yield


def quadratic(seed: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    root = random.normal(size=(size, size))
    return root @ root.T + 0.1 * np.eye(size), random.normal(size=size)


@given(st.integers(0, 10_000), st.integers(1, 4))
def test_cholesky_solves(seed: int, size: int) -> None:
    matrix, right = quadratic(seed, size)
    x = right.copy()
    solve_cholesky(matrix.copy(), x)
    assert np.allclose(x, naive.solve_cholesky(matrix, right), atol=1e-8)


def test_a_singular_matrix_gives_numbers() -> None:
    x = np.zeros(2)
    solve_cholesky(np.zeros((2, 2)), x)
    assert np.isfinite(x).all()


@given(st.integers(0, 10_000), st.integers(1, 4), st.data())
def test_the_minimum_of_a_quadratic_within_bounds(
    seed: int, size: int, data: st.DataObject
) -> None:
    matrix, right = quadratic(seed, size)
    kinds = data.draw(
        st.lists(st.sampled_from((FREE, RISING, FIXED)), min_size=size, max_size=size)
    )
    start = np.array(data.draw(st.lists(st.floats(-2, 2), min_size=size, max_size=size)))

    def sums(x: np.ndarray) -> Sums:
        return 0.5 * x @ matrix @ x - right @ x + 100.0, matrix @ x - right, matrix

    found = newton(sums, start, kinds=kinds)
    begin = np.where(np.array(kinds) == RISING, np.maximum(start, 0.0), start)
    wanted = naive.newton(matrix, right, kinds, begin)
    assert found.converged
    assert found.point == pytest.approx(wanted, rel=1e-6, abs=1e-6)
    assert (found.point[np.array(kinds) == RISING] >= 0.0).all()


def test_steps_that_rise_are_halved() -> None:
    """The slope of ln cosh falls off so soon that a whole step from 3 leads far beyond its minimum."""
    trials = []

    def sums(x: np.ndarray) -> Sums:
        trials.append(float(x[0]))
        level = np.tanh(x)
        return float(np.log(np.cosh(x[0]))), level, np.array([[1.0 - level[0] ** 2]])

    found = newton(sums, [3.0])
    assert found.converged
    assert abs(found.point[0]) < 1e-9
    assert max(map(abs, trials)) > 50.0  # the whole step was tried
    assert 0 < found.iterations < 20


def test_a_search_ends_at_the_tolerance_that_is_met_first() -> None:
    def sums(x: np.ndarray) -> Sums:
        return float(np.cosh(x[0])), np.sinh(x), np.array([[np.cosh(x[0])]])

    near = newton(sums, [1.0], slope=1e-3, last_step=False)
    assert 0.0 < near.gradient <= 1e-3
    assert abs(newton(sums, [1.0], slope=1e-3).point[0]) < abs(near.point[0])
    assert newton(sums, [1.0], slope=0.0, decrement=1e-2).iterations <= near.iterations
    assert newton(sums, [1.0], scale=1e3, slope=1e-6).iterations == near.iterations


def test_where_nothing_has_a_value_the_search_stays() -> None:
    def sums(x: np.ndarray) -> Sums:
        return (0.0 if x[0] == 1.0 else np.nan), np.ones(1), np.ones((1, 1))

    found = newton(sums, [1.0])
    assert not found.converged
    assert found.point.tolist() == [1.0]


def test_a_step_ends_at_the_first_bound() -> None:
    points = np.array([[1.0, 1.0], [0.0, 0.0], [-4.0, -2.0]])
    move(points, np.array([RISING, RISING]), 1.0)
    assert points[1].tolist() == [0.0, 0.5]


def search(seed: int, size: int) -> bytes:
    """Return where a search among logistic losses ends, and what it knows then, bit for bit."""
    random = np.random.default_rng(seed)
    rows, signs = random.normal(size=(30, size)), random.choice((-1.0, 1.0), 30)

    def sums(weights: np.ndarray) -> Sums:
        odds = np.exp(-signs * (rows @ weights))
        share = odds / (1.0 + odds)
        curves = rows * (share * (1.0 - share))[:, None]
        return float(np.log1p(odds).sum()), rows.T @ (-signs * share), rows.T @ curves

    kinds = random.integers(0, 3, size)
    found = newton(sums, random.normal(size=size), kinds=kinds, ridge=1e-9)
    return found.point.tobytes() + repr(found.told).encode()


compiles = pytest.mark.skipif(INTERPRETED, reason="nothing is compiled")


@compiles
@given(st.integers(0, 10_000), st.integers(1, 7))
def test_what_python_runs_as_it_is_has_the_bits_of_what_is_compiled(seed: int, size: int) -> None:
    with run_by(PLAIN):
        plain = search(seed, size)
    with run_by(COMPILED):
        assert search(seed, size) == plain


@compiles
def test_many_numbers_are_for_compiled_code_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels.newton, "kept", lambda _: False)
    monkeypatch.setattr(kernels.newton, "left", kernels.newton.numbers)
    search(1, 3)
    assert 0 < kernels.newton.left < kernels.newton.numbers
    size = 150
    newton(lambda x: (0.5 * float(x @ x), x, np.eye(size)), np.ones(size))
    assert kernels.newton.left < 0
