"""Golden cases of label histograms, through the library and the command line."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from calibkit.maps.logit_maps import fit_logit_map
from calibkit.measures.classes import Judged, ensemble, measure
from calibkit.methods.raters.run import fit_strength, positive_probabilities
from calibkit.numerics.votes import (
    bin_sums,
    disagreement_shares,
    disagreement_targets,
    losses,
    predicted_disagreement,
)
from calibkit_kernels.classes import histogram_costs
from tests.conftest import ROOT
from tests.library.samples import golden

GOLDEN = ROOT / "tests" / "golden"

exact = {"rel": 1e-10, "abs": 1e-10}


def matrices(case: str, file: str = "rows.parquet") -> dict[str, np.ndarray]:
    """Return rows x classes of predictions (z or logit), votes (y) and features (u)."""
    frame = pl.read_parquet(GOLDEN / case / file)
    found = {}
    for letter in ("z", "logit", "y", "u"):
        names = [name for name in frame.columns if name.rstrip("0123456789") == letter]
        if names:
            found[letter] = frame.select(names).to_numpy().copy()
    if "y" in found:
        found["y"] = found["y"].astype(np.int64)
    if "alpha0" in frame.columns:
        found["alpha0"] = frame["alpha0"].to_numpy()
    return found


def test_p19_order_one() -> None:
    case = golden("p19_histograms_order1")
    data, expected = matrices("p19_histograms_order1"), case["expected"]
    votes = data["y"].sum(axis=1) > 0
    z, y = data["z"][votes], data["y"][votes]
    found = measure(
        Judged(
            probabilities=z,
            disagreement=predicted_disagreement(z),
            counts=y,
            classes=("0", "1", "2"),
        )
    ).values
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
        assert found[metric] == pytest.approx(expected[name], **exact), metric
    assert found["calibration_loss_plugin"] ** 0.5 == pytest.approx(expected["CE_plugin"], **exact)
    for kind, metric in (("plugin", "calibration_loss_plugin"), ("debiased", "calibration_loss")):
        own = [found[f"{metric}[{k}]"] for k in range(3)]
        assert own == pytest.approx(expected[f"CL_{kind}_class"], **exact)


@pytest.mark.parametrize("kind", ["raw", "alpha"])
def test_p20_order_two(kind: str) -> None:
    name = "p20_histograms_order2"
    expected = golden(name)["expected"]
    data = matrices(name)
    members = [matrices(name, f"member{place}.parquet") for place in range(2)]
    strengths = [None if kind == "raw" else member["alpha0"] for member in members]
    _, phi = ensemble([member["z"] for member in members], strengths)
    several = data["y"].sum(axis=1) >= 2
    found = losses(bin_sums(disagreement_targets(phi[several], data["y"][several])))
    for place, target in enumerate(("D", "D0", "D1", "D2")):
        known = expected[kind][target]
        assert found.squared[place] == pytest.approx(known["L"], **exact)
        assert found.calibration_plugin[place] == pytest.approx(known["CL_plugin"], **exact)
        assert found.calibration[place] == pytest.approx(known["CL_debiased"], **exact)
        first = known["phi_first"]
        assert phi[: len(first), place] == pytest.approx(first, **exact)
    shares = disagreement_shares(np.maximum(data["y"], 0)[several])
    for place, target in enumerate(("D", "D0")):
        known = [mu for mu in expected["mu_first"][target] if mu is not None]
        assert shares[: len(known), place] == pytest.approx(known, **exact)


def mean_cost(data: dict[str, np.ndarray], log_alpha0: np.ndarray, regularization: float) -> float:
    cost, slope = np.empty((2, log_alpha0.size))
    histogram_costs(positive_probabilities(data["z"]), data["y"], log_alpha0, cost, slope)
    return float((cost + regularization * log_alpha0**2).mean())


def test_p21_alpha_calibration() -> None:
    case = golden("p21_alpha_calibration")
    data, expected, params = matrices("p21_alpha_calibration"), case["expected"], case["params"]
    weight = params["lam"]
    constant = fit_strength(positive_probabilities(data["z"]), data["y"], regularization=weight)
    assert constant.intercept == pytest.approx(expected["constant"]["log_alpha0"], abs=2e-3)
    assert constant.ended.value <= expected["constant"]["objective"] + 1e-6
    rows = data["y"].shape[0]
    for place, value in expected["objective_at"].items():
        assert mean_cost(data, np.full(rows, float(place)), weight) == pytest.approx(
            value, rel=1e-6, abs=1e-6
        )
    linear, known = (
        fit_strength(
            positive_probabilities(data["z"]), data["y"], data["u"], regularization=weight
        ),
        expected["linear"],
    )
    assert linear.ended.value <= known["objective"] + 1e-6
    assert linear.weights == pytest.approx(known["W"], abs=2e-3)
    assert linear.intercept == pytest.approx(known["b"], abs=2e-3)
    fixed = params["fixed"]
    own = data["u"] @ np.array(fixed["W"]) + fixed["b"]
    assert mean_cost(data, own, weight) == pytest.approx(known["objective_at_fixed"], rel=1e-6)


def test_p22_logit_maps() -> None:
    case = golden("p22_logit_scaling")
    data, expected, params = matrices("p22_logit_scaling"), case["expected"], case["params"]
    u, y = data["logit"], data["y"]
    one = fit_logit_map(u, y, "temperature")
    assert one.loss_before == pytest.approx(expected["raw_loss"], rel=1e-6)
    assert one.ended.value <= expected["temperature"]["loss"] + 1e-6
    assert one.weights[0] == pytest.approx(expected["temperature"]["beta"], abs=2e-3)
    vector = fit_logit_map(u, y, "vector", (params["lam_b"], 0.0))
    assert vector.ended.value <= expected["vector"]["objective"] + 1e-6
    assert vector.weights == pytest.approx(expected["vector"]["v"], abs=2e-3)
    assert vector.intercept == pytest.approx(expected["vector"]["b"], abs=2e-3)
    matrix = fit_logit_map(u, y, "matrix", (params["lam_b"], params["lam_w"]))
    assert matrix.ended.value <= expected["matrix"]["objective"] + 1e-6
    assert matrix.weights == pytest.approx(np.array(expected["matrix"]["W"]), abs=2e-3)
    assert matrix.intercept == pytest.approx(expected["matrix"]["b"], abs=2e-3)
    beside = matrix.weights * (1 - np.eye(3))
    assert beside.sum(axis=0) == pytest.approx(np.zeros(3), abs=1e-6)
