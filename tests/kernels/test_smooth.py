"""Smooth calibration error: the cosine series against reflections summed one by one."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibkit.measures import resampling
from calibkit.measures.reliability import cosine_sums, smoothed
from calibkit_kernels import metrics as kernels
from tests.naive import metrics as naive

probability = st.integers(0, 20).map(lambda n: n / 20) | st.floats(0, 1)
rows = st.lists(st.tuples(probability, st.integers(0, 1)), min_size=1, max_size=8)
TERMS = 64


def coefficients(data: list[naive.Row], terms: int = TERMS) -> np.ndarray:
    middle = np.array([score for score, _ in data])
    residual = np.array([label - score for score, label in data])
    out = np.zeros(terms)
    kernels.cosine_sums(middle, residual[:, None].copy(), out)
    return out


@given(rows)
def test_coefficients_are_sums_of_cosines(data: list[naive.Row]) -> None:
    assert coefficients(data) == pytest.approx(naive.cosines(data, TERMS), abs=1e-12)


@given(st.lists(st.floats(-3, 3), min_size=1, max_size=40))
def test_sums_at_equal_cells_are_a_transform(values: list[float]) -> None:
    middle, terms = (np.arange(len(values)) + 0.5) / len(values), len(values)
    expected = np.zeros(terms)
    kernels.cosine_sums(middle, np.array(values)[:, None].copy(), expected)
    assert cosine_sums(np.array(values), terms) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("sigma", [0.004, 0.05, 0.6])
def test_noise_is_that_of_every_place_and_its_reflections(sigma: float) -> None:
    draw = np.random.default_rng(1)
    places, variances = np.sort(draw.random(300)), draw.random(300)
    t = np.linspace(0.0, 1.0, 41)[:, None]
    images = (places, -places, 2.0 - places)
    kernel = sum(np.exp(-0.5 * ((t - f) / sigma) ** 2) for f in images)
    kernel = kernel / (sigma * math.sqrt(2.0 * math.pi))
    expected = np.sqrt((kernel * kernel * variances).sum(axis=1))
    assert resampling._noise(places, variances, sigma, 41) == pytest.approx(expected, rel=1e-12)


@given(rows)
def test_moments_of_cells_give_the_same_coefficients(data: list[naive.Row]) -> None:
    cells, orders, out = 4 * TERMS, 10, np.zeros(TERMS)
    score, count, positive = zip(*naive.tally(data), strict=True)
    moments = np.zeros((cells, orders))
    kernels.residual_moments(np.array(score), np.array(count), np.array(positive), moments)
    for order in (0, 1, 4):
        expected = naive.moments(data, cells, order)
        assert moments[:, order] == pytest.approx(expected, abs=1e-15)
    kernels.cosine_sums((np.arange(cells) + 0.5) / cells, moments, out)
    assert out == pytest.approx(coefficients(data), abs=1e-10)


@given(rows, st.sampled_from([0.05, 0.2, 0.7]))
def test_the_series_is_the_reflected_kernel(data: list[naive.Row], sigma: float) -> None:
    size, series = smoothed(coefficients(data) / len(data), sigma, 129)
    expected = [naive.smoothed(data, sigma, i / 8) for i in range(9)]
    assert series[::16] == pytest.approx(expected, abs=1e-9)
    # Its integral over [0, 1] is the mean residual: the kernel loses nothing at the ends.
    mean = sum(label - score for score, label in data) / len(data)
    assert size >= abs(mean) - 1e-12
    if (series >= 0.0).all() or (series <= 0.0).all():
        assert size == pytest.approx(abs(mean), abs=1e-12)


@given(st.floats(-2, 2), st.floats(-2, 2))
def test_a_line_is_integrated_exactly(before: float, after: float) -> None:
    value, integral = np.array([before, after]), np.array([0.0, (before + after) / 2])
    expected = naive.absolute_integral_of_line(before, after)
    assert kernels.absolute_integral(value, integral) == pytest.approx(expected, abs=1e-12)


def test_a_wave_is_integrated_through_its_roots() -> None:
    t = np.linspace(0, 1, 1001)
    value, integral = np.cos(3 * np.pi * t), np.sin(3 * np.pi * t) / (3 * np.pi)
    assert kernels.absolute_integral(value, integral) == pytest.approx(2 / math.pi, abs=1e-6)
