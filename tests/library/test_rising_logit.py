"""Quadratic and spline calibration against general optimisers, and no calibration."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression

import calibkit as ck
from calibkit.maps.model import ScoreMap
from calibkit.numerics.logistic import RisingSpline, fit_rising_spline
from tests.naive.maps import spline_map

Floats = np.ndarray[Any, np.dtype[np.float64]]


def rows(count: int, seed: int, bend: float = 0.1) -> tuple[Floats, Floats]:
    """Return rising logits, and labels of a bent truth."""
    random = np.random.default_rng(seed)
    z = np.sort(random.normal(0.0, 1.5, count))
    truth = -0.5 + 0.7 * z + bend * z * z
    return z, (random.random(count) < 1.0 / (1.0 + np.exp(-truth))).astype(np.float64)


def loss(logit: Floats, y: Floats, weight: Floats | float = 1.0) -> float:
    """Return minus the log-likelihood."""
    return float(np.sum(weight * (np.logaddexp(0.0, logit) - y * logit)))


def calibrated(model: Any, score: Any) -> Floats:
    found: Floats = model.apply(pl.DataFrame({"score": score}))["calibrated"].to_numpy()
    return found


def value(found: RisingSpline, z: Floats) -> Floats:
    """Return the logit of a fitted spline."""
    knots, logits, slopes = (each.tolist() for each in (found.knots, found.logits, found.slopes))
    q = np.array(spline_map(z.tolist(), knots, logits, slopes, False, 0.0, 0.0))
    return np.log(q / (1.0 - q))


def basis(z: Floats, knots: Floats) -> Floats:
    """Return the integral of each hat function of the slope, by the trapezoidal rule on its bends."""
    found = np.empty((z.size, knots.size))
    for row, x in enumerate(z):
        low, high = min(knots[0], x), max(knots[0], x)
        grid = np.unique([low, high, *(k for k in knots if low < k < high)])
        for place, hat in enumerate(np.eye(knots.size)):
            area = np.trapezoid(np.interp(grid, knots, hat), grid)
            found[row, place] = area if x >= knots[0] else -area
    return found


def test_a_quadratic_that_rises_anyway_is_plain_logistic_regression() -> None:
    z, y = rows(2000, 1, bend=0.02)
    model = ck.fit_calibrator(score=z, label=y, scale="logit", method="quadratic", clip=0.0)
    oracle = LogisticRegression(C=np.inf, tol=1e-10, max_iter=1000).fit(np.c_[z, z * z], y)
    ends = z[[0, -1]]
    slopes = oracle.coef_[0, 0] + 2.0 * oracle.coef_[0, 1] * ends
    assert (slopes > 0.0).all()
    assert model.slopes == pytest.approx(slopes, rel=1e-4)
    assert model.logit_knots == ends.tolist()
    logits = oracle.decision_function(np.c_[ends, ends * ends])
    assert model.logits == pytest.approx(logits, rel=1e-4)


@pytest.mark.parametrize("bend", [0.4, -0.4, 0.0])
@pytest.mark.parametrize("seed", range(3))
def test_a_quadratic_that_would_fall_is_the_best_of_those_that_do_not(
    bend: float, seed: int
) -> None:
    z, y = rows(300, seed, bend)
    found = fit_rising_spline(z, y, 1.0 - y, z[[0, -1]])
    ends = z[[0, -1]]
    oracle = minimize(
        lambda p: loss(p[0] + p[1] * z + p[2] * z * z, y),
        [0.0, 0.5, 0.0],
        method="SLSQP",
        constraints={"type": "ineq", "fun": lambda p: p[1] + 2.0 * p[2] * ends},
        options={"maxiter": 500, "ftol": 1e-12},
    )
    assert found.ended.value <= oracle.fun + 1e-7
    assert found.ended.value == pytest.approx(oracle.fun, abs=1e-4)
    assert loss(value(found, z), y) == pytest.approx(found.ended.value, rel=1e-9)
    assert found.slopes.min() >= 0.0


@pytest.mark.few(13)
@pytest.mark.parametrize("bend", [np.inf, 0.3])
@pytest.mark.parametrize("count", [1, 3, 5, 8])
@pytest.mark.parametrize("seed", range(3))
def test_a_spline_is_the_best_sum_of_integrals_of_hats(count: int, seed: int, bend: float) -> None:
    z, y = rows(200, seed, 0.3)
    weight = np.random.default_rng(seed).integers(0, 4, z.size).astype(np.float64)
    knots = np.quantile(z, np.linspace(0.1, 0.9, count))
    found = fit_rising_spline(z, weight * y, weight * (1.0 - y), knots, bend=bend)
    line = fit_rising_spline(z, weight * y, weight * (1.0 - y), knots[:1]).slopes[0]
    unit = max(line, 1.0 / (knots[-1] - knots[0] or np.inf)) * bend / np.sqrt(max(count - 1, 1))
    pull = np.diff(np.eye(count, count + 1), axis=0) / unit
    features = np.c_[basis(z, knots), np.ones(z.size)]
    oracle = minimize(
        lambda p: loss(features @ p, y, weight) + 0.5 * np.sum((pull @ p) ** 2),
        np.zeros(count + 1),
        jac=lambda p: (
            features.T @ (weight * (1.0 / (1.0 + np.exp(-features @ p)) - y)) + pull.T @ pull @ p
        ),
        method="L-BFGS-B",
        bounds=[(0.0, None)] * count + [(None, None)],
        options={"maxiter": 5000, "ftol": 1e-14, "gtol": 1e-9},
    )
    assert found.ended.value <= oracle.fun + 1e-7
    assert found.ended.value == pytest.approx(oracle.fun, rel=1e-5)
    price = 0.5 * np.sum((np.diff(found.slopes) / unit) ** 2)
    assert loss(value(found, z), y, weight) + price == pytest.approx(found.ended.value, rel=1e-9)
    assert found.ended.gradient < 1e-9


def test_many_points_start_from_few() -> None:
    z, y = rows(120_000, 1, 0.3)
    knots = np.quantile(z, [0.1, 0.5, 0.9])
    found, again = (fit_rising_spline(z, y, 1.0 - y, knots, threads=count) for count in (2, 1))
    assert (found.logits == again.logits).all() and (found.slopes == again.slopes).all()
    assert found.ended.gradient < 1e-9


@pytest.mark.parametrize("method", ["quadratic", "spline"])
def test_maps_rise_and_go_on_as_lines(method: str) -> None:
    z, y = rows(1500, 2, 0.4)
    model = ck.fit_calibrator(score=z, label=y, scale="logit", method=method, clip=0.0)
    far = np.linspace(-12.0, 8.0, 2001)
    q = calibrated(model, far)
    assert (np.diff(q) >= -1e-15).all()
    assert model.slopes is not None and model.logit_knots is not None and model.logits is not None
    low = model.logits[0] + model.slopes[0] * (far - model.logit_knots[0])
    below = far < model.logit_knots[0]
    assert np.log(q / (1.0 - q))[below] == pytest.approx(low[below], abs=1e-6)


@pytest.mark.parametrize("method", ["quadratic", "spline"])
def test_rows_without_an_answer(method: str) -> None:
    score, steps = np.linspace(0.1, 0.9, 20), np.arange(20)
    for label, said in ((score > 0.5, "separated by a threshold"), (np.zeros(20), "one class")):
        with pytest.raises(ck.DataError, match=said):
            ck.fit_calibrator(score=score, label=label, method=method)
    with pytest.warns(ck.CalibkitWarning, match="every slope is 0"):
        falling = ck.fit_calibrator(score=score, label=score < 0.5, method=method)
    assert falling.slopes is not None and not any(falling.slopes)
    with pytest.warns(ck.CalibkitWarning, match="every row has the same score"):
        same = ck.fit_calibrator(score=np.full(20, 0.3), label=steps < 5, method=method)
    assert calibrated(same, [0.1, 0.3, 0.9]) == pytest.approx([0.25] * 3)


@pytest.mark.parametrize("method", ["quadratic", "spline"])
def test_raw_scores_of_any_size(method: str) -> None:
    score = np.array([-1e149, -1.0, 0.0, 1.0, 1e100, 1e149] * 40)
    label = np.random.default_rng(1).random(240) < np.tile([0.1, 0.3, 0.5, 0.5, 0.6, 0.9], 40)
    model = ck.fit_calibrator(score=score, label=label, scale="raw", method=method)
    q = calibrated(model, score[:6])
    assert np.isfinite(q).all() and (np.diff(q) >= 0.0).all()
    with pytest.raises(ck.DataError, match="too far apart"):
        ck.fit_calibrator(score=1e10 * score, label=label, scale="raw", method=method)
    near = np.tile(np.arange(6.0), 40)
    known = ck.fit_calibrator(score=near, label=label, scale="raw", method=method)
    model = ck.fit_calibrator(score=1e-140 * near, label=label, scale="raw", method=method)
    wanted = calibrated(known, near[:6])
    assert calibrated(model, 1e-140 * near[:6]) == pytest.approx(wanted, rel=1e-9)
    with pytest.raises(ck.DataError, match="too near for a curve"):
        ck.fit_calibrator(score=1e-160 * near, label=label, scale="raw", method=method)


@pytest.mark.filterwarnings("ignore:.*(look like|is infinite):calibkit.CalibkitWarning")
@pytest.mark.parametrize("method", ["platt", "temperature", "auto"])
def test_scores_nearer_than_floats_tell_are_one(method: str) -> None:
    score = np.array([0.0, 1e-310] * 20)
    model = ck.fit_calibrator(score=score, label=[1, 0, 0, 1] * 10, scale="logit", method=method)
    assert calibrated(model, [0.0, 1e-310]) == pytest.approx([0.5, 0.5], abs=1e-15)


def test_none_leaves_scores_as_they_are() -> None:
    score, label = np.array([0.0, 1e-9, 0.25, 1.0], np.float32), [0, 1, 0, 1]
    model = ck.fit_calibrator(score=score, label=label, method="none")
    assert calibrated(model, score).tolist() == score.astype(np.float64).tolist()
    clipped = ck.fit_calibrator(score=score, label=label, method="none", clip=0.1)
    assert calibrated(clipped, score).tolist() == [0.1, 0.1, 0.25, 0.9]
    logits = ck.fit_calibrator(score=[0.0, 1.0], label=[0, 1], method="none", scale="logit")
    assert calibrated(logits, [0.0]) == [0.5]
    assert logits.own_map == ScoreMap(clip=0.0)


def test_knots_share_out_the_rows_where_each_class_has_half_of_the_weight() -> None:
    z, y = np.arange(80.0), (np.arange(80) < 16).astype(np.float64)
    with pytest.warns(ck.CalibkitWarning):  # of scores that run the wrong way
        model = ck.fit_calibrator(score=z, label=y, scale="logit", method="spline")
    # Twelve shares from .05 to .95: a positive row is 1/32 of all weight, a negative one 1/128.
    assert model.logit_knots == [1, 4, 6, 9, 12, 14, 21, 31, 42, 52, 63, 73]
