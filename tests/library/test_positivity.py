"""The positivity theory against golden values, quadrature by brute force, scipy and its limits."""

from __future__ import annotations

import doctest
import itertools
import math

import numpy as np
import polars as pl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy import special, stats

from calibkit.numerics import positivity
from calibkit.numerics.positivity import (
    beta_entropy,
    digamma,
    expected_true_positivity,
)
from docs.evidence.arora_theory import expected_test_positivity, model_score, train_score
from tests.conftest import ROOT
from tests.library.samples import golden
from tests.naive.boundaries import naive_expected_true_positivity

GOLDEN = "p11_positivity_theory"

shares = st.floats(0.0, 1.0)
priors = st.builds(
    lambda strength, mean: (strength * mean, strength * (1 - mean)),
    st.floats(-0.3, 3.0).map(lambda power: 10**power),
    st.floats(0.1, 0.9),
)
evidences = st.floats(-3.0, 6.0).map(lambda power: 10**power)
taus = st.floats(-3.0, 3.0).map(lambda power: 10**power)


def test_golden_case() -> None:
    case = golden(GOLDEN)
    frame = pl.read_parquet(ROOT / "tests" / "golden" / GOLDEN / "rows.parquet")
    rows = {column.name: column.to_numpy() for column in frame}
    shown, evidence = rows["s_train"], rows["evidence"]
    model_prior = rows["p1"], rows["p0"]
    true = {"true_prior": (rows["b1"], rows["b0"]), "tau": rows["tau"]}
    score = model_score(shown, evidence, model_prior=model_prior)
    positivity = expected_true_positivity(shown, evidence, **true)
    found = {
        "expected_true_positivity": positivity,
        "postnet_score": score,
        "entropy": beta_entropy(rows["p1"] + evidence * shown, rows["p0"] + evidence * (1 - shown)),
        "bias": score - positivity,
    }
    assert found.keys() == case["expected"].keys()
    near = {"rtol": case["tolerance"]["rel"], "atol": case["tolerance"]["abs"]}
    for name, values in found.items():
        np.testing.assert_allclose(values, case["expected"][name], **near)
    again = expected_test_positivity(score, evidence, model_prior=model_prior, **true)
    np.testing.assert_allclose(again, positivity, rtol=1e-9)


# The mean under thinning -------------------------------------------------------------------------


@example(0.3, 10.0, (2.0, 6.0), 0.5)
@example(0.3, 10.0, (2.0, 6.0), 2.0)
@example(0.5, 3.0, (2.0, 5.0), 1e-12)  # next to nothing of a class is left
@example(0.5, 80.0, (2.0, 5.0), 1e12)
@given(shares, evidences, priors, taus)
def test_mean_equals_brute_force(
    shown: float, evidence: float, prior: tuple[float, float], tau: float
) -> None:
    found = float(expected_true_positivity(shown, evidence, true_prior=prior, tau=tau))
    naive = naive_expected_true_positivity(shown, evidence, *prior, tau)
    assert found == pytest.approx(naive, rel=1e-10, abs=0)


@pytest.mark.more
def test_mean_equals_brute_force_in_the_corners() -> None:
    corners = itertools.product(
        (0.0, 0.5, 1.0),
        (0.0, 1.0, 1e6),
        ((0.05, 0.05), (0.5, 900.0), (900.0, 0.5), (500.0, 500.0)),
        (1e-6, 0.3, 3.0, 1e6),
    )
    for shown, evidence, prior, tau in corners:
        found = expected_true_positivity(shown, evidence, true_prior=prior, tau=tau)
        naive = naive_expected_true_positivity(shown, evidence, *prior, tau)
        assert float(found) == pytest.approx(naive, rel=1e-10, abs=0)


def test_without_thinning_the_bias_has_the_form_of_theorem_3_1() -> None:
    shown, evidence = np.linspace(0, 1, 7), np.array([[0.5], [3.0], [40.0]])
    (b1, b0), (p1, p0) = (2.0, 6.0), (1.0, 0.5)
    gamma, nu = (p1 + p0) / evidence, (b1 + b0) / (p1 + p0)
    omega, xi = p1 / (p1 + p0), b1 / (b1 + b0)
    score = model_score(shown, evidence, model_prior=(p1, p0))
    stated = (score * (nu - 1) + omega - xi * nu) * gamma / (1 + nu * gamma)
    found = score - expected_true_positivity(shown, evidence, true_prior=(b1, b0))
    assert found.shape == (3, 7)
    np.testing.assert_allclose(found, stated, atol=1e-14)


def test_shapes_broadcast_and_a_row_does_not_depend_on_its_neighbours() -> None:
    random = np.random.default_rng(3)
    shown, evidence = random.random(3_000), 10 ** random.uniform(-3, 6, 3_000)
    together = expected_true_positivity(shown, evidence, true_prior=(0.5, 1.5), tau=3)
    alone = [
        float(expected_true_positivity(*row, true_prior=(0.5, 1.5), tau=3))
        for row in zip(shown[:50], evidence[:50], strict=True)
    ]
    assert together[:50].tolist() == alone
    assert expected_true_positivity([], 1, true_prior=(1, 1), tau=3).shape == (0,)
    assert expected_true_positivity(0.5, [[1], [2]], true_prior=([1, 2, 3], 1)).shape == (2, 3)


# Scores ------------------------------------------------------------------------------------------


@given(shares, evidences, priors)
def test_train_score_inverts_model_score(
    shown: float, evidence: float, prior: tuple[float, float]
) -> None:
    score = model_score(shown, evidence, model_prior=prior)
    back = float(train_score(score, evidence, model_prior=prior))
    assert back == pytest.approx(shown, abs=4e-15 * (1 + sum(prior) / evidence))


# Entropy and its functions -----------------------------------------------------------------------


def test_digamma_equals_scipy() -> None:
    wide = 10 ** np.random.default_rng(0).uniform(-8, 8, 20_000)
    for values in (wide, np.linspace(0.1, 12, 20_000)):
        np.testing.assert_allclose(digamma(values), special.psi(values), rtol=1e-12, atol=1e-13)


@given(st.floats(0.05, 50.0), st.floats(0.05, 50.0))
def test_entropy_equals_scipy_in_either_order(a1: float, a0: float) -> None:
    found = float(beta_entropy(a1, a0))
    assert found == pytest.approx(float(stats.beta(a1, a0).entropy()), rel=1e-10, abs=1e-10)
    assert found == pytest.approx(float(beta_entropy(a0, a1)), rel=1e-12, abs=1e-12)


def test_entropy_keeps_its_digits_for_strong_posteriors() -> None:
    """Towards the entropy of the normal distribution with the variance of the Beta."""
    for total in (1e6, 1e9, 1e12):
        normal = 0.5 * math.log(2 * math.pi * math.e * 0.3 * 0.7 / (total + 1))
        assert float(beta_entropy(0.3 * total, 0.7 * total)) == pytest.approx(normal, abs=2 / total)


def test_examples_run() -> None:
    failed, tried = doctest.testmod(positivity)
    assert tried > 0
    assert failed == 0
