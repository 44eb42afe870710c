"""Losses of label histograms by Monte Carlo; maps and strengths beside general optimisers."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
import scipy.optimize
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import gammaln, logsumexp

from calibkit import simulate_raters
from calibkit.errors import UsageError
from calibkit.maps.class_rows import logits_of, softmax
from calibkit.maps.logit_maps import GRID, fit_logit_map
from calibkit.measures.classes import Judged, measure, standard_error
from calibkit.methods.raters.application import with_steps
from calibkit.methods.raters.run import MOST_LOG, SHARE_UNITS, fit_strength, isotonic_steps
from calibkit.numerics.solve import quasi_newton, rising_root
from calibkit.numerics.votes import (
    Targets,
    bin_sums,
    class_targets,
    disagreement_shares,
    disagreement_targets,
    losses,
    predicted_disagreement,
)
from calibkit.options.calibrate import CLASS_METHODS
from calibkit.simulate import beta_parameters
from tests.naive import raters as naive


def random_rows(seed: int, rows: int = 12, classes: int = 3) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    z = generator.dirichlet(np.ones(classes), rows)
    y = generator.integers(0, 4, (rows, classes))
    y[:, 0] += y.sum(axis=1) < 2  # every row has a vote, most have two
    return z, y


@given(st.integers(0, 2**32))
def test_losses_are_those_of_the_definitions(seed: int) -> None:
    z, y = random_rows(seed)
    found = losses(bin_sums(class_targets(z, y)))
    rows = z.tolist(), y.tolist()
    assert found.squared.sum() == pytest.approx(float(naive.squared_loss(*rows)), abs=1e-12)
    for k in range(z.shape[1]):
        label = [naive.shares(row)[k] for row in rows[1]]
        plugin, debiased = naive.class_losses(z[:, k].tolist(), label, 15)
        assert found.calibration_plugin[k] == pytest.approx(float(plugin), abs=1e-12)
        assert found.calibration[k] == pytest.approx(float(debiased), abs=1e-12)
    several = y.sum(axis=1) >= 2
    pairs = losses(bin_sums(class_targets(z[several], y[several])))
    for k in range(z.shape[1]):
        plugin, unbiased = naive.epistemic_loss(z[several].tolist(), y[several].tolist(), k)
        assert pairs.epistemic_plugin[k] == pytest.approx(float(plugin), abs=1e-12)
        assert pairs.epistemic[k] == pytest.approx(float(unbiased), abs=1e-12)


@given(st.integers(0, 2**32))
def test_disagreement_is_counted_pair_by_pair(seed: int) -> None:
    z, y = random_rows(seed)
    several = y.sum(axis=1) >= 2
    shares, phi = disagreement_shares(y[several]), predicted_disagreement(z[several])
    known = [naive.disagreement(row) for row in y[several].tolist()]
    assert shares == pytest.approx(
        np.array([[float(d), *map(float, about)] for d, about in known]), abs=1e-14
    )
    found = losses(bin_sums(disagreement_targets(phi, y[several])))
    expected = np.mean(
        [float(naive.disagreement_loss(p, d)) for p, (d, _) in zip(phi[:, 0], known, strict=True)]
    )
    assert found.squared[0] == pytest.approx(expected, abs=1e-12)


def test_the_loss_of_a_statistic_of_three_raters_is_unbiased() -> None:
    """Mimori et al., equation 17 for n = 3, over all votes that four raters may give."""
    chances, predicted, rows = (0.5, 0.3, 0.2), 0.4, list(product(range(3), repeat=4))

    def all_agree(a: int, b: int, c: int) -> bool:
        return a == b == c

    weights = np.array([math.prod(chances[vote] for vote in row) for row in rows])
    shares = np.array([[float(naive.statistic(row, 3, all_agree))] for row in rows])
    alone = [Targets(np.array([[predicted]]), share[None], np.zeros((1, 1))) for share in shares]
    found = [losses(bin_sums(one)).squared[0] for one in alone]
    truth = sum(chance**3 for chance in chances)
    assert weights @ shares[:, 0] == pytest.approx(truth, abs=1e-14)
    expected = truth * (1 - predicted) ** 2 + (1 - truth) * predicted**2
    assert weights @ found == pytest.approx(expected, abs=1e-14)


#: Rows, votes a row, and how often: enough that a bias of a few percent of the plugin's would show.
ROWS, TIMES = 400, 400


@pytest.mark.parametrize("votes", [2, 5])
def test_estimators_are_unbiased(votes: int) -> None:
    generator = np.random.default_rng(votes)
    truth = generator.dirichlet(np.ones(3) * 2, ROWS)
    z = 0.7 * truth + 0.3 * generator.dirichlet(np.ones(3) * 3, ROWS)
    phi = predicted_disagreement(z)
    found: dict[str, list[float]] = {"squared": [], "epistemic": [], "disagreement": [], "cl": []}
    for _ in range(TIMES):
        y = generator.multinomial(votes, truth)
        order_one = losses(bin_sums(class_targets(z, y)))
        found["squared"].append(order_one.squared.sum())
        found["epistemic"].append(order_one.epistemic.sum())
        found["cl"].append(order_one.calibration.sum())
        order_two = losses(bin_sums(disagreement_targets(phi, y)))
        found["disagreement"].append(order_two.squared[0])
    distance = ((truth - z) ** 2).sum(axis=1)
    differ = 1 - (truth**2).sum(axis=1)
    known = {
        "squared": (distance + differ).mean(),
        "epistemic": distance.mean(),
        "disagreement": (differ * (1 - phi[:, 0]) ** 2 + (1 - differ) * phi[:, 0] ** 2).mean(),
        "cl": binned_truth(truth, z),
    }
    for name, values in found.items():
        error = np.std(values, ddof=1) / np.sqrt(TIMES)
        # With the rows fixed the debiased calibration loss also takes off what the truth varies
        # within a bin, a known amount.
        expected = known[name] - (within_bins(truth, z) if name == "cl" else 0.0)
        assert abs(np.mean(values) - expected) < 4 * error, name


def cells(z: np.ndarray, k: int) -> list[np.ndarray]:
    place = np.minimum((z[:, k] * 15).astype(int), 14)
    return [np.flatnonzero(place == b) for b in range(15) if (place == b).any()]


def binned_truth(truth: np.ndarray, z: np.ndarray) -> float:
    """Return the calibration loss of fixed rows with known probabilities."""
    return sum(
        rows.size / len(z) * (truth[rows, k] - z[rows, k]).mean() ** 2
        for k in range(3)
        for rows in cells(z, k)
    )


def within_bins(truth: np.ndarray, z: np.ndarray) -> float:
    return sum(
        rows.size / len(z) * truth[rows, k].var() / (rows.size - 1)
        if rows.size > 1
        else (truth[rows, k] - z[rows, k]).mean() ** 2 / len(z)
        for k in range(3)
        for rows in cells(z, k)
    )


def test_standard_errors_are_those_of_repeated_samples() -> None:
    generator = np.random.default_rng(3)
    values: dict[str, list[float]] = {}
    errors: dict[str, list[float]] = {}
    for _ in range(300):
        truth = generator.dirichlet(np.ones(3), 300)
        y = generator.multinomial(4, truth)
        z = softmax(1.8 * logits_of(truth))
        judged = Judged(
            probabilities=z,
            disagreement=predicted_disagreement(z),
            counts=y,
            classes=("a", "b", "c"),
        )
        found = measure(judged)
        for name in found.influence:
            values.setdefault(name, []).append(float(found.values[name] or 0.0))
            errors.setdefault(name, []).append(
                standard_error(found.influence[name], None)[0] or 0.0
            )
    for name in values:
        assert np.mean(errors[name]) == pytest.approx(np.std(values[name]), rel=0.2), name


def test_rows_with_one_vote_tell_nothing_of_disagreement() -> None:
    z, y = np.array([[0.3, 0.7], [0.6, 0.4]]), np.array([[1, 0], [0, 1]])
    found = measure(
        Judged(
            probabilities=z, disagreement=predicted_disagreement(z), counts=y, classes=("a", "b")
        )
    )
    assert found.values["rows_two_raters"] == 0
    assert found.values["squared_loss"] is not None
    for name in ("epistemic_loss", "dispersion_error", "disagreement_loss"):
        assert found.values[name] is None
    one = fit_strength(z, y)
    assert one.intercept == pytest.approx(0.0, abs=1e-9)


def negative_log_likelihood(z: np.ndarray, y: np.ndarray, eta: np.ndarray) -> np.ndarray:
    a0, n = np.exp(eta), y.sum(axis=1)
    a = a0[:, None] * z
    whole = gammaln(a0 + n) - gammaln(a0)
    return whole - (gammaln(a + y) - gammaln(a)).sum(axis=1)


def test_the_strength_on_features_is_the_best_there_is() -> None:
    generator = np.random.default_rng(5)
    z, y = random_rows(5, rows=200)
    u = generator.normal(size=(200, 3)) * [1.0, 100.0, 0.01] + [0.0, 50.0, 3.0]
    found = fit_strength(z, y, u, threads=2)
    scale = u.std(axis=0)

    def objective(point: np.ndarray) -> float:
        eta = (u - u.mean(axis=0)) / scale @ point[:3] + point[3]
        return float((negative_log_likelihood(z, y, eta) + 0.005 * eta**2).mean())

    known = scipy.optimize.minimize(objective, np.zeros(4), method="BFGS", options={"gtol": 1e-8})
    assert found.ended.value <= known.fun + 1e-9
    assert found.weights * scale == pytest.approx(known.x[:3], abs=1e-4)
    assert found.ended.converged


def test_a_feature_that_does_not_vary_has_no_weight() -> None:
    z, y = random_rows(6, rows=50)
    u = np.column_stack([np.full(50, 7.0), np.arange(50.0)])
    found = fit_strength(z, y, u)
    assert found.weights[0] == 0.0
    assert np.isfinite(found.intercept)


def test_unanimous_raters_have_no_strength_and_even_ones_all_of_it() -> None:
    z = np.full((40, 2), 0.5)
    unanimous = np.array([[6, 0], [0, 6]] * 20)
    assert fit_strength(z, unanimous).intercept < -2
    even = np.full((40, 2), 3)
    assert fit_strength(z, even).intercept > 2
    free = fit_strength(z, even, regularization=0.0)
    assert free.intercept == MOST_LOG
    assert not free.ended.converged


@pytest.mark.parametrize("method", CLASS_METHODS[:3])
def test_maps_of_logits_are_the_best_there_are(method: str) -> None:
    generator = np.random.default_rng(8)
    truth = generator.dirichlet(np.ones(3), 300)
    y, u = generator.multinomial(5, truth), 2.0 * logits_of(truth) + [0.5, 0.0, -0.2]
    penalties = (0.1, 1.0) if method == "matrix" else (0.1, 0.0)
    found = fit_logit_map(u, y, method, penalties)

    def objective(point: np.ndarray) -> float:
        if method == "temperature":
            v, penalty = u * point[0], 0.0
        elif method == "vector":
            v = u * point[:3] + point[3:]
            penalty = 0.1 * (point[3:] ** 2).mean()
        else:
            w = point[:9].reshape(3, 3)
            v = u @ w.T + point[9:]
            penalty = 0.1 * (point[9:] ** 2).mean() + ((w * (1 - np.eye(3))) ** 2).sum() / 6
        return float(-(y * (v - logsumexp(v, axis=1, keepdims=True))).sum() / y.sum() + penalty)

    size = {"temperature": 1, "vector": 6, "matrix": 12}[method]
    known = scipy.optimize.minimize(objective, np.full(size, 0.3), method="BFGS")
    assert found.ended.value <= known.fun + 1e-9


def test_temperatures_at_their_limits() -> None:
    u = np.array([[2.0, 0.0], [0.0, 2.0]])
    against = fit_logit_map(u, np.array([[0, 3], [3, 0]]), "temperature")
    assert against.weights[0] == 0.0
    with_ = fit_logit_map(u, np.array([[3, 0], [0, 3]]), "temperature")
    assert with_.weights[0] > 30


@pytest.mark.parametrize(("method", "candidates"), [("vector", 4), ("matrix", 16)])
def test_cross_validation_takes_what_loses_least_on_votes_left_out(
    method: str, candidates: int
) -> None:
    generator = np.random.default_rng(9)
    truth = generator.dirichlet(np.ones(3), 90)
    y, u = generator.multinomial(3, truth), logits_of(truth)
    folds = generator.integers(0, 3, 90)
    lost = {}
    for intercept in GRID:
        for off in GRID if method == "matrix" else (0.0,):
            maps = [
                fit_logit_map(u[folds != fold], y[folds != fold], method, (intercept, off))
                for fold in range(3)
            ]
            lost[intercept, off] = sum(
                -(y[folds == fold] * np.log(one.probabilities(u[folds == fold]))).sum()
                for fold, one in enumerate(maps)
            )
    assert len(lost) == candidates
    found = fit_logit_map(u, y, method, None, folds=folds)
    assert found.regularization == min(lost, key=lambda penalties: lost[penalties])
    alone = fit_logit_map(u, y, method, None, folds=np.zeros(90, np.int64))
    assert alone.regularization == (1.0, 1.0)


def test_penalties_of_too_many_classes_are_not_tried() -> None:
    u, y = np.zeros((3, 101)), np.ones((3, 101), np.int64)
    with pytest.raises(UsageError, match="too many weights to try penalties on"):
        fit_logit_map(u, y, "matrix", None, folds=np.arange(3))


@given(st.lists(st.tuples(st.integers(0, 8), st.integers(0, 6)), min_size=1, max_size=30))
def test_the_isotonic_step_is_the_isotonic_regression(rows: list[tuple[int, int]]) -> None:
    from sklearn.isotonic import IsotonicRegression

    phi = np.array([p / 8 for p, _ in rows])
    shares = np.array([s / 6 for _, s in rows])
    steps = isotonic_steps(phi, np.rint(shares * SHARE_UNITS).astype(np.int64))
    known = IsotonicRegression().fit(phi, shares).predict(phi)
    assert steps.mapped(phi) == pytest.approx(known, abs=1e-9)
    assert steps.knots == sorted(set(steps.knots))
    both = with_steps(np.column_stack([phi, phi / 2]), steps)
    assert (both[:, 0] == steps.mapped(phi)).all()
    assert (both[:, 1] <= both[:, 0]).all()


def rosenbrock(point: np.ndarray) -> tuple[float, np.ndarray]:
    return float(scipy.optimize.rosen(point)), scipy.optimize.rosen_der(point)


def test_the_minimiser_walks_a_bent_valley() -> None:
    found = quasi_newton(rosenbrock, np.full(6, -1.2), tolerance=1e-9)
    assert found.converged
    assert found.point == pytest.approx(np.ones(6), abs=1e-7)


@pytest.mark.parametrize(
    ("function", "root"),
    [
        (lambda x: x - 0.3, 0.3),
        (lambda x: np.tanh(50 * (x - 0.9)), 0.9),
        (lambda x: (x - 0.5) ** 3, 0.5),
        (lambda x: x + 5, 0.0),
        (lambda x: x - 5, 1.0),
    ],
)
def test_a_root_is_found_or_the_end_next_to_it(
    function: Callable[[float], float], root: float
) -> None:
    assert rising_root(function, 0.0, 1.0) == pytest.approx(root, abs=1e-5)


@pytest.mark.parametrize("turned", [False, True])
def test_a_root_takes_few_steps_whichever_end_stays(turned: bool) -> None:
    """A curve that bends keeps one end of the bracket: the upper one where it bends upwards."""
    tried = []

    def function(x: float) -> float:
        tried.append(x)
        return 2.0 - math.exp(-x) if turned else math.exp(x) - 2.0

    low, high = (-5.0, 1.0) if turned else (-1.0, 5.0)
    root = rising_root(function, low, high)
    assert abs(root) == pytest.approx(math.log(2.0), rel=1e-15)
    assert len(tried) <= 20


def test_simulated_raters_are_what_they_are_said_to_be() -> None:
    ideal = simulate_raters(20_000, seed=1, raters=3)
    assert ideal["count_0"].to_numpy() + ideal["count_1"].to_numpy() == pytest.approx(3)
    share = ideal["count_1"].to_numpy() / 3
    error = np.sqrt((share - ideal["prob_1"].to_numpy()).var() / 20_000)
    assert abs((share - ideal["prob_1"].to_numpy()).mean()) < 4 * error
    assert simulate_raters(70_000, seed=1, raters=3).head(20_000).equals(ideal)
    modes = simulate_raters(20_000, seed=1, raters=3, design="modes")
    truth = modes["true_probability"].to_numpy()
    for kind in range(10):
        rows = modes[f"feature_{kind}"].to_numpy() == 1
        first, second = beta_parameters(kind)
        mean = first / (first + second)
        assert modes["prob_1"].to_numpy()[rows] == pytest.approx(mean)
        spread = np.sqrt(mean * (1 - mean) / (first + second + 1) / rows.sum())
        assert abs(truth[rows].mean() - mean) < 4 * spread


def test_exact_sums_do_not_cancel() -> None:
    label = np.full((1000, 1), 1.0)
    label[0] = 1.0 - 2.0**-40
    from calibkit.numerics.votes import Targets

    found = losses(bin_sums(Targets(np.full((1000, 1), 0.5), label, np.zeros((1000, 1)))))
    values = [Fraction(value) for value in label[:, 0].tolist()]
    plugin, debiased = naive.class_losses([0.5] * 1000, values, 15)
    assert found.calibration_plugin[0] - found.calibration[0] == pytest.approx(
        float(plugin - debiased), abs=2e-17
    )
