"""Losses of label histograms by Monte Carlo; maps and strengths beside general optimisers."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import polars as pl
import pytest
import scipy.optimize
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import gammaln
from sklearn.isotonic import IsotonicRegression

from calibkit import CalibkitWarning, fit_alpha, simulate_raters
from calibkit.errors import UsageError
from calibkit.maps.class_rows import logits_of, softmax
from calibkit.maps.logit_maps import GRID, fit_logit_map
from calibkit.measures.classes import Judged, Measured, ensemble, measure, standard_error
from calibkit.methods.raters.application import with_steps
from calibkit.methods.raters.run import (
    MOST_LOG,
    SHARE_UNITS,
    fit_strength,
    isotonic_steps,
    positive_probabilities,
)
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
from calibkit.simulate import beta_parameters
from calibkit_kernels.classes import histogram_costs
from tests.conftest import ROOT
from tests.library.samples import golden
from tests.naive import raters as naive


def approx(exact: Fraction) -> Any:
    return pytest.approx(float(exact), abs=1e-12)


def random_rows(seed: int, rows: int = 12, classes: int = 3) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    z = generator.dirichlet(np.ones(classes), rows)
    y = generator.integers(0, 4, (rows, classes))
    y[:, 0] += y.sum(axis=1) < 2  # every row has a vote, most have two
    return z, y


def judged(z: np.ndarray, y: np.ndarray) -> Measured:
    """Return what is measured of class probabilities by votes."""
    names = tuple("abcdef"[: z.shape[1]])
    return measure(
        Judged(probabilities=z, disagreement=predicted_disagreement(z), counts=y, classes=names)
    )


@given(st.integers(0, 2**32))
def test_losses_are_those_of_the_definitions(seed: int) -> None:
    z, y = random_rows(seed)
    found = losses(bin_sums(class_targets(z, y)))
    assert found.squared.sum() == approx(naive.squared_loss(z.tolist(), y.tolist()))
    several = y.sum(axis=1) >= 2
    pairs = losses(bin_sums(class_targets(z[several], y[several])))
    for k in range(z.shape[1]):
        label = [naive.shares(row)[k] for row in y.tolist()]
        plugin, debiased = naive.class_losses(z[:, k].tolist(), label, 15)
        assert found.calibration_plugin[k] == approx(plugin)
        assert found.calibration[k] == approx(debiased)
        plugin, unbiased = naive.epistemic_loss(z[several].tolist(), y[several].tolist(), k)
        assert pairs.epistemic_plugin[k] == approx(plugin)
        assert pairs.epistemic[k] == approx(unbiased)


@given(st.integers(0, 2**32))
def test_disagreement_is_counted_pair_by_pair(seed: int) -> None:
    z, y = random_rows(seed)
    several = y.sum(axis=1) >= 2
    phi = predicted_disagreement(z[several])
    known = [naive.disagreement(row) for row in y[several].tolist()]
    expected = np.array([[float(d), *map(float, about)] for d, about in known])
    assert disagreement_shares(y[several]) == pytest.approx(expected, abs=1e-14)
    found = losses(bin_sums(disagreement_targets(phi, y[several])))
    lost = [naive.disagreement_loss(p, d) for p, (d, _) in zip(phi[:, 0], known, strict=True)]
    assert found.squared[0] == pytest.approx(np.mean([float(one) for one in lost]), abs=1e-12)


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
    found = np.empty((TIMES, 4))
    for own in found:
        y = generator.multinomial(votes, truth)
        one, two = (
            losses(bin_sums(targets))
            for targets in (class_targets(z, y), disagreement_targets(phi, y))
        )
        own[:] = (
            *(one.squared.sum(), one.epistemic.sum(), one.calibration.sum()),
            two.squared[0],
        )
    distance, differ = ((truth - z) ** 2).sum(axis=1), 1 - (truth**2).sum(axis=1)
    loss, within = binned(truth, z)
    known = [
        (distance + differ).mean(),
        distance.mean(),
        loss - within,
        (differ * (1 - phi[:, 0]) ** 2 + (1 - differ) * phi[:, 0] ** 2).mean(),
    ]
    error = found.std(axis=0, ddof=1) / np.sqrt(TIMES)
    assert (np.abs(found.mean(axis=0) - known) < 4 * error).all()


def binned(truth: np.ndarray, z: np.ndarray) -> tuple[float, float]:
    """Return the calibration loss of fixed rows with known probabilities, and what varies in bins.

    With the rows fixed the debiased calibration loss also takes off the latter.
    """
    loss = within = 0.0
    for k in range(3):
        place = np.minimum((z[:, k] * 15).astype(int), 14)
        for rows in (place == b for b in np.unique(place)):
            size, square = rows.sum(), (truth[rows, k] - z[rows, k]).mean() ** 2
            loss += size / len(z) * square
            varied = truth[rows, k].var() / (size - 1) if size > 1 else square
            within += size / len(z) * varied
    return loss, within


def test_standard_errors_are_those_of_repeated_samples() -> None:
    generator = np.random.default_rng(3)
    values, errors = defaultdict(list), defaultdict(list)
    for _ in range(300):
        truth = generator.dirichlet(np.ones(3), 300)
        y = generator.multinomial(4, truth)
        found = judged(softmax(1.8 * logits_of(truth)), y)
        for name, influence in found.influence.items():
            values[name].append(found.values[name] or 0.0)
            errors[name].append(standard_error(influence, None)[0] or 0.0)
    for name in values:
        assert np.mean(errors[name]) == pytest.approx(np.std(values[name]), rel=0.2), name


def test_rows_with_one_vote_tell_nothing_of_disagreement() -> None:
    z, y = np.array([[0.3, 0.7], [0.6, 0.4]]), np.array([[1, 0], [0, 1]])
    found = judged(z, y).values
    assert found["rows_two_raters"] == 0
    assert found["squared_loss"] is not None
    for name in ("epistemic_loss", "dispersion_error", "disagreement_loss"):
        assert found[name] is None
    assert fit_strength(z, y).intercept == pytest.approx(0.0, abs=1e-9)


def test_the_strength_on_features_is_the_best_there_is() -> None:
    generator = np.random.default_rng(5)
    z, y = random_rows(5, rows=200)
    u = generator.normal(size=(200, 3)) * [1.0, 100.0, 0.01] + [0.0, 50.0, 3.0]
    found = fit_strength(z, y, u, threads=2)
    scale = u.std(axis=0)

    def objective(point: np.ndarray) -> float:
        eta = (u - u.mean(axis=0)) / scale @ point[:3] + point[3]
        a0, n = np.exp(eta), y.sum(axis=1)
        a = a0[:, None] * z
        parts = (gammaln(a + y) - gammaln(a)).sum(axis=1)
        return float((gammaln(a0 + n) - gammaln(a0) - parts + 0.005 * eta**2).mean())

    known = scipy.optimize.minimize(objective, np.zeros(4), method="BFGS", options={"gtol": 1e-8})
    assert found.ended.value <= known.fun + 1e-9
    assert found.weights * scale == pytest.approx(known.x[:3], abs=1e-4)
    assert found.ended.converged


def test_a_feature_that_does_not_vary_has_no_weight() -> None:
    found = fit_strength(
        *random_rows(6, rows=50), np.column_stack([np.full(50, 7.0), np.arange(50.0)])
    )
    assert found.weights[0] == 0.0
    assert np.isfinite(found.intercept)


@pytest.mark.parametrize("unit", [1e-250, 1e-13, 1e160])
def test_the_unit_of_a_feature_does_not_matter(unit: float) -> None:
    z, y = random_rows(6, rows=50)
    u = np.arange(50.0).reshape(-1, 1)
    (own,), (other,) = (fit_strength(z, y, scale * u).weights for scale in (1.0, unit))
    assert own != 0.0
    assert other * unit == pytest.approx(own, rel=1e-9)


def test_unanimous_raters_have_no_strength_and_even_ones_all_of_it() -> None:
    z = np.full((40, 2), 0.5)
    unanimous = np.array([[6, 0], [0, 6]] * 20)
    assert fit_strength(z, unanimous).intercept < -2
    even = np.full((40, 2), 3)
    assert fit_strength(z, even).intercept > 2
    free = fit_strength(z, even, regularization=0.0)
    assert free.intercept == MOST_LOG
    assert not free.ended.converged


def test_temperatures_at_their_limits() -> None:
    u = np.array([[2.0, 0.0], [0.0, 2.0]])
    against = fit_logit_map(u, np.array([[0, 3], [3, 0]]), "temperature")
    assert against.weights[0] == 0.0
    with_ = fit_logit_map(u, np.array([[3, 0], [0, 3]]), "temperature")
    assert with_.weights[0] > 30
    rows = pl.DataFrame({"prob_a": [0.9, 0.2], "prob_b": [0.1, 0.8]})
    votes = rows.with_columns(count_a=pl.Series([0, 3]), count_b=pl.Series([3, 0]))
    with pytest.warns(CalibkitWarning, match="the best temperature is infinite"):
        fit_alpha(votes, map="temperature")


@pytest.mark.parametrize(("method", "candidates"), [("vector", 4), ("matrix", 16)])
def test_cross_validation_takes_what_loses_least_on_votes_left_out(
    method: str, candidates: int
) -> None:
    generator = np.random.default_rng(9)
    truth = generator.dirichlet(np.ones(3), 90)
    y, u = generator.multinomial(3, truth), logits_of(truth)
    folds = generator.integers(0, 3, 90)
    lost = dict.fromkeys(product(GRID, GRID if method == "matrix" else (0.0,)), 0.0)
    for penalties, fold in product(lost, range(3)):
        held = folds == fold
        one = fit_logit_map(u[~held], y[~held], method, penalties)
        lost[penalties] -= (y[held] * np.log(one.probabilities(u[held]))).sum()
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
    phi, shares = np.array(rows).T / [[8], [6]]
    noise = np.arange(phi.size) % 3 * 1e-15  # of predictions that are computed in other ways
    steps = isotonic_steps(phi + noise, np.rint(shares * SHARE_UNITS).astype(np.int64))
    known = IsotonicRegression().fit(phi, shares).predict(phi)
    assert steps.mapped(phi) == pytest.approx(known, abs=1e-9)
    assert steps.knots == sorted(set(steps.knots))
    both = with_steps(np.column_stack([phi, phi / 2]), steps)
    assert (both[:, 0] == steps.mapped(phi)).all()
    assert (both[:, 1] <= both[:, 0]).all()


def test_the_minimiser_walks_a_bent_valley() -> None:
    def rosenbrock(point: np.ndarray) -> tuple[float, np.ndarray]:
        return float(scipy.optimize.rosen(point)), scipy.optimize.rosen_der(point)

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
    assert (ideal["count_0"] + ideal["count_1"] == 3).all()
    away = (ideal["count_1"] / 3 - ideal["prob_1"]).to_numpy()
    assert abs(away.mean()) < 4 * np.sqrt(away.var() / 20_000)
    assert simulate_raters(70_000, seed=1, raters=3).head(20_000).equals(ideal)
    modes = simulate_raters(20_000, seed=1, raters=3, design="modes")
    for kind in range(10):
        rows = modes.filter(pl.col(f"feature_{kind}") == 1)
        first, second = beta_parameters(kind)
        mean = first / (first + second)
        assert rows["prob_1"].to_numpy() == pytest.approx(mean)
        spread = np.sqrt(mean * (1 - mean) / (first + second + 1) / rows.height)
        assert abs(rows["true_probability"].to_numpy().mean() - mean) < 4 * spread


def test_exact_sums_do_not_cancel() -> None:
    label = np.full((1000, 1), 1.0)
    label[0] = 1.0 - 2.0**-40
    found = losses(bin_sums(Targets(np.full((1000, 1), 0.5), label, np.zeros((1000, 1)))))
    plugin, debiased = naive.class_losses([0.5] * 1000, [*map(Fraction, label[:, 0])], 15)
    apart = found.calibration_plugin[0] - found.calibration[0]
    assert apart == pytest.approx(float(plugin - debiased), abs=2e-17)


# ---------------------------------------------------------------- golden cases


def matrices(case: str, file: str = "rows.parquet") -> dict[str, np.ndarray]:
    """Return rows x classes of predictions (z or logit), votes (y) and features (u)."""
    frame = pl.read_parquet(ROOT / "tests" / "golden" / case / file)
    found = {}
    for letter in ("z", "logit", "y", "u", "alpha"):
        names = [name for name in frame.columns if name.rstrip("0123456789") == letter]
        found[letter] = frame.select(names).to_numpy().copy()
    found["y"] = found["y"].astype(np.int64)
    return found


def close(exact: Any) -> Any:
    return pytest.approx(exact, rel=1e-10, abs=1e-10)


def test_p19_order_one() -> None:
    expected, data = (read("p19_histograms_order1") for read in (golden, matrices))
    expected = expected["expected"]
    votes = data["y"].sum(axis=1) > 0
    found = judged(data["z"][votes], data["y"][votes]).values
    names = {
        "n_used": "rows_used",
        "n_used_two": "rows_two_raters",
        "L_sq": "squared_loss",
        "CL_plugin": "calibration_loss_plugin",
        "CL_debiased": "calibration_loss",
        "CE_debiased": "class_calibration_error",
        "EL_plugin": "epistemic_loss_plugin",
        "EL_unbiased": "epistemic_loss",
        "DL_plugin": "dispersion_loss_plugin",
        "DL_debiased": "dispersion_loss",
        "DE_debiased": "dispersion_error",
    }
    for name, metric in names.items():
        assert found[metric] == close(expected[name]), metric
    assert found["calibration_loss_plugin"] ** 0.5 == close(expected["CE_plugin"])
    for kind, metric in (("plugin", "calibration_loss_plugin"), ("debiased", "calibration_loss")):
        own = [found[f"{metric}[{name}]"] for name in "abc"]
        assert own == close(expected[f"CL_{kind}_class"])


@pytest.mark.parametrize("kind", ["raw", "alpha"])
def test_p20_order_two(kind: str) -> None:
    name = "p20_histograms_order2"
    expected, y = golden(name)["expected"], matrices(name)["y"]
    members = [matrices(name, f"member{place}.parquet") for place in range(2)]
    strengths = [None if kind == "raw" else member["alpha"][:, 0] for member in members]
    _, phi = ensemble([member["z"] for member in members], strengths)
    several = y.sum(axis=1) >= 2
    found = losses(bin_sums(disagreement_targets(phi[several], y[several])))
    for place, target in enumerate(("D", "D0", "D1", "D2")):
        known = expected[kind][target]
        assert found.squared[place] == close(known["L"])
        assert found.calibration_plugin[place] == close(known["CL_plugin"])
        assert found.calibration[place] == close(known["CL_debiased"])
        assert phi[: len(known["phi_first"]), place] == close(known["phi_first"])
    shares = disagreement_shares(np.maximum(y, 0)[several])
    for place, target in enumerate(("D", "D0")):
        known = [mu for mu in expected["mu_first"][target] if mu is not None]
        assert shares[: len(known), place] == close(known)


def test_p21_alpha_calibration() -> None:
    case, data = (read("p21_alpha_calibration") for read in (golden, matrices))
    expected, fixed, weight = case["expected"], case["params"]["fixed"], case["params"]["lam"]
    votes = positive_probabilities(data["z"]), data["y"]

    def objective(log_alpha0: np.ndarray) -> float:
        cost, slope = np.empty((2, log_alpha0.size))
        histogram_costs(*votes, log_alpha0, cost, slope)
        return float((cost + weight * log_alpha0**2).mean())

    for place, value in expected["objective_at"].items():
        found = objective(np.full(len(data["y"]), float(place)))
        assert found == pytest.approx(value, rel=1e-6, abs=1e-6)
    constant = fit_strength(*votes, regularization=weight)
    assert constant.intercept == pytest.approx(expected["constant"]["log_alpha0"], abs=2e-3)
    assert constant.ended.value <= expected["constant"]["objective"] + 1e-6
    linear, known = fit_strength(*votes, data["u"], regularization=weight), expected["linear"]
    assert linear.ended.value <= known["objective"] + 1e-6
    assert linear.weights == pytest.approx(known["W"], abs=2e-3)
    assert linear.intercept == pytest.approx(known["b"], abs=2e-3)
    own = data["u"] @ np.array(fixed["W"]) + fixed["b"]
    assert objective(own) == pytest.approx(known["objective_at_fixed"], rel=1e-6)


@pytest.mark.parametrize(
    ("method", "penalties", "loss", "weights"),
    [
        ("temperature", (), "loss", "beta"),
        ("vector", ("lam_b",), "objective", "v"),
        ("matrix", ("lam_b", "lam_w"), "objective", "W"),
    ],
)
def test_p22_logit_maps(method: str, penalties: tuple[str, ...], loss: str, weights: str) -> None:
    case, data = (read("p22_logit_scaling") for read in (golden, matrices))
    known = case["expected"][method]
    given = (*(case["params"][name] for name in penalties), 0.0, 0.0)[:2]
    found = fit_logit_map(data["logit"], data["y"], method, given)
    assert found.loss_before == pytest.approx(case["expected"]["raw_loss"], rel=1e-6)
    assert found.ended.value <= known[loss] + 1e-6
    if method == "temperature":
        assert found.weights[0] == pytest.approx(known[weights], abs=2e-3)
        return
    assert found.weights == pytest.approx(np.array(known[weights]), abs=2e-3)
    assert found.intercept == pytest.approx(known["b"], abs=2e-3)
    if method == "matrix":
        beside = found.weights * (1 - np.eye(3))
        assert beside.sum(axis=0) == pytest.approx(np.zeros(3), abs=1e-6)
