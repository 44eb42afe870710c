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

from calibkit.errors import DataError, UsageError
from calibkit.numerics import positivity
from calibkit.numerics.positivity import (
    beta_entropy,
    digamma,
    expected_test_positivity,
    expected_true_positivity,
    model_score,
    train_score,
)
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


def test_train_score_forgives_the_rounding_of_the_scores_own_type() -> None:
    score = model_score([0.0, 1.0], 3.0, model_prior=(5, 7))
    back = train_score(score.astype(np.float32), 3.0, model_prior=(5, 7))
    np.testing.assert_allclose(back, [0, 1], atol=1e-6)
    assert ((back >= 0) & (back <= 1)).all()


def test_an_unreachable_score_is_refused_with_its_limits() -> None:
    with pytest.raises(DataError, match=r"expected 0\.25 to 0\.75") as refused:
        train_score([0.5, 0.8, 0.2], 2, model_prior=(1, 1))
    assert (refused.value.rows, refused.value.first_rows) == (2, [2, 3])
    with pytest.raises(DataError, match="the evidence is 0"):
        train_score(0.5, 0, model_prior=(1, 1))


@pytest.mark.parametrize(
    ("changed", "error", "message"),
    [
        ({"train_score": [0.5, 1.5]}, DataError, r"train score is 1\.5; expected 0 to 1"),
        ({"train_score": math.nan}, DataError, "train score is nan"),
        ({"evidence": -1.0}, DataError, "evidence is -1; expected at least 0 and finite"),
        ({"evidence": math.inf}, DataError, "evidence is inf"),
        ({"true_prior": (0, 1)}, UsageError, "the true prior is 0; expected more than 0"),
        ({"true_prior": (1, 2, 3)}, UsageError, "the true prior has 3 numbers; expected 2"),
        ({"tau": 0}, UsageError, r"tau is 0; expected 1e-12 to 1e\+12"),
    ],
)
def test_bad_input_is_refused(
    changed: dict[str, object], error: type[Exception], message: str
) -> None:
    values = {"train_score": 0.5, "evidence": 1.0, "true_prior": (1, 1), "tau": 3.0, **changed}
    with pytest.raises(error, match=message):
        expected_true_positivity(**values)


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


@pytest.mark.parametrize("evidence", [(0.0, 1.0), (1.0, 0.0), (-1.0, 1.0)])
def test_entropy_needs_evidence_of_both_classes(evidence: tuple[float, float]) -> None:
    with pytest.raises(DataError):
        beta_entropy(*evidence)


def test_entropy_keeps_its_digits_for_strong_posteriors() -> None:
    """Towards the entropy of the normal distribution with the variance of the Beta."""
    for total in (1e6, 1e9, 1e12):
        normal = 0.5 * math.log(2 * math.pi * math.e * 0.3 * 0.7 / (total + 1))
        assert float(beta_entropy(0.3 * total, 0.7 * total)) == pytest.approx(normal, abs=2 / total)


def test_examples_run() -> None:
    failed, tried = doctest.testmod(positivity)
    assert tried > 0
    assert failed == 0
