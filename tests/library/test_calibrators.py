"""Calibrators: what every method must keep, and each against an independent implementation."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import expit, logit
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression

from calibkit.errors import DataError, ModelError, UsageError
from calibkit.maps.application import into_unit_interval
from calibkit.maps.methods import METHODS
from calibkit.maps.model import CalibratorModel, ScoreMap
from calibkit.methods.calibrators.run import fit_calibrator
from calibkit.models.model import decode
from calibkit.options.calibrate import CalibrateOptions
from tests.conftest import INTERPRETED
from tests.library.samples import FEWER, score_rows
from tests.naive import maps as naive

OWN: dict[str, dict[str, Any]] = {
    "prior-shift": {"negatives_kept": 0.3},
    "histogram": {"bins": 4},
    "scaling-binning": {"bins": 4},
}
RISING = [name for name in METHODS if name not in ("histogram", "scaling-binning")]
#: Families that hold the map which changes nothing.
WITH_IDENTITY = ("beta", "platt", "temperature", "isotonic")


def fit(
    score: Any, label: Any, weight: Any = None, *, scale: str = "probability", **options: Any
) -> CalibratorModel:
    rows = score_rows(score, label, weight=weight, scale=scale, floats=np.asarray(score).dtype.type)
    options = {"method": "beta", "scale": scale, **options}
    own = OWN.get(options["method"], {})
    return fit_calibrator(rows, CalibrateOptions(**{**own, **options})).model


def values(model: CalibratorModel, score: Any) -> np.ndarray:
    """Return `calibrated` of scores."""
    scale = model.columns["score"].scale or ""
    array = np.asarray(score, np.float64)
    return METHODS[model.method].mapped(model.own_map, array, scale, 1)[0]


def sample(size: int = 300, seed: int = 0, ties: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Return over-confident probabilities and labels."""
    rng = np.random.default_rng(seed)
    z = rng.normal(-0.5, 1.0, size)
    score = expit(2.0 * z + 0.7)
    if ties:
        score = np.round(score, 1)
    return score, (rng.random(size) < expit(z)).astype(np.uint8)


@st.composite
def tables(draw: st.DrawFn) -> dict[str, list[Any]]:
    """Rows of both classes in which no threshold separates them."""
    size = draw(st.integers(4, 12))
    score = draw(st.lists(st.integers(0, 8), min_size=size, max_size=size))
    weight = draw(st.lists(st.integers(1, 3), min_size=size, max_size=size))
    label = draw(st.lists(st.integers(0, 1), min_size=size, max_size=size))
    # One row of each class at either end: no threshold separates them.
    score += [0, 0, 8, 8]
    label += [0, 1, 0, 1]
    weight += [1, 1, 1, 1]
    return {"score": [s / 8 for s in score], "label": label, "weight": weight}


@pytest.mark.parametrize("method", METHODS)
@FEWER
@given(tables())
def test_weights_are_rows_and_order_does_not_matter(
    method: str, table: dict[str, list[Any]]
) -> None:
    score, label, weight = (np.array(table[name]) for name in ("score", "label", "weight"))
    weighted = fit(score, label, weight.astype(float), method=method)
    again = np.repeat(score, weight), np.repeat(label, weight)
    order = np.random.default_rng(0).permutation(again[0].size)
    written = fit(again[0][order], again[1][order], method=method)
    assert weighted.own_map == written.own_map
    assert weighted.fit == written.fit


@pytest.mark.parametrize("method", [name for name in METHODS if name != "none"])
@FEWER
@given(tables())
def test_maps_rise_inside_the_clip(method: str, table: dict[str, list[Any]]) -> None:
    model = fit(np.array(table["score"]), table["label"], method=method)
    found = values(model, np.linspace(0, 1, 101))
    assert found.min() >= model.clip > 0
    assert found.max() <= 1 - model.clip
    assert model.clip == 1 / (len(table["label"]) + 2)
    falls = method in ("platt", "scaling-binning") and model.own_map.a < 0
    if method in RISING and not falls:
        assert (np.diff(found) >= -1e-15).all()


@pytest.mark.parametrize("method", WITH_IDENTITY)
@FEWER
@given(tables())
def test_in_sample_log_loss_is_no_worse_than_the_identity(
    method: str, table: dict[str, list[Any]]
) -> None:
    score, label = np.array(table["score"]).clip(0.01, 0.99), np.array(table["label"])
    targets = {"targets": "mle"} if method == "platt" else {}
    model = fit(score, label, method=method, clip=0.0, **targets)
    assert model.fit.log_loss_before is not None
    assert model.fit.log_loss <= model.fit.log_loss_before + 1e-12
    p = values(model, score).clip(1e-15, 1 - 1e-15)
    losses = -np.where(label == 1, np.log(p), np.log1p(-p))
    assert model.fit.log_loss == pytest.approx(losses.mean(), abs=1e-12)
    assert model.fit.brier == pytest.approx(((p - label) ** 2).mean(), abs=1e-12)


@pytest.mark.parametrize("ties", [False, True])
def test_platt_is_the_logistic_regression_of_scikit_learn(ties: bool) -> None:
    score, label = sample(ties=ties)
    x = logit(score.clip(1e-6, 1 - 1e-6))
    model = fit(score, label, method="platt", targets="mle", clip=0.0)
    oracle = LogisticRegression(C=np.inf, solver="newton-cholesky", tol=1e-14)
    oracle.fit(x[:, None], label)
    assert model.own_map.a == pytest.approx(oracle.coef_[0, 0], abs=1e-9)
    assert model.own_map.b == pytest.approx(oracle.intercept_[0], abs=1e-9)
    found = oracle.predict_proba(x[:, None])[:, 1]
    assert values(model, score) == pytest.approx(found, abs=1e-9)


@pytest.mark.parametrize("seed", range(6))
def test_beta_is_the_bounded_minimum(seed: int) -> None:
    score, label = sample(150, seed)
    if seed >= 3:  # the best slopes without a bound would be negative
        score = np.where(label == 1, 0.5 + (score - 0.5) / 3, score)
    model = fit(score, label, clip=0.0)

    def loss(at: np.ndarray) -> float:
        z = at[0] * np.log(score) - at[1] * np.log1p(-score) + at[2]
        return float(np.logaddexp(0, np.where(label == 1, -z, z)).mean())

    bounds = [(0, None), (0, None), (None, None)]
    best = minimize(loss, [1, 1, 0], bounds=bounds, method="L-BFGS-B", options={"ftol": 1e-14})
    one = model.own_map
    assert min(one.a, one.b) >= 0
    assert loss(np.array([one.a, one.b, one.c])) == pytest.approx(best.fun, abs=1e-9)
    assert [one.a, one.b, one.c] == pytest.approx(best.x, abs=2e-3)


def test_venn_abers_takes_any_fractions_that_weigh_a_row_together() -> None:
    score, label = np.arange(20) / 20, [0, 1] * 10
    for total in (1.0, 1.3, 7.9, 15.99):  # 15.99 is nearly all that 62 bits hold
        weight = np.full(20, total / 20) * np.where(np.arange(20) % 3, 1.01, 0.98)
        weight *= total / weight.sum()
        model = fit(score, label, weight, method="venn-abers", scale="raw", clip=0.0)
        found = METHODS["venn-abers"].mapped(model.own_map, np.array([0.5]), "raw", 1)
        p0, p1 = naive.venn_abers(score, label, [Fraction(w) for w in weight], 0.5)
        assert [found[1][0], found[2][0]] == pytest.approx([p0, p1], abs=1e-14)


@FEWER
@given(tables(), st.integers(-1, 17))
def test_venn_abers_is_fitting_twice_with_the_row(table: dict[str, list[Any]], new: int) -> None:
    model = fit(
        np.array(table["score"]),
        table["label"],
        np.array(table["weight"], float),
        method="venn-abers",
        scale="raw",
        clip=0.0,
    )
    at = np.array([new / 16])
    found = METHODS["venn-abers"].mapped(model.own_map, at, "raw", 1)
    p0, p1 = naive.venn_abers(table["score"], table["label"], table["weight"], new / 16)
    assert [found[1][0], found[2][0]] == [p0, p1]
    assert found[0][0] == pytest.approx(p1 / (1 - p0 + p1))


def test_venn_abers_is_one_half_where_low_is_1_and_high_0() -> None:
    own = ScoreMap(clip=0.0, low_knots=[0.25], low=[1.0], high_knots=[0.75], high=[0.0])
    merged, low, high = np.full((3, 3), 0.125)
    METHODS["venn-abers"].writer(own, "raw")(np.array([0.0, 0.5, 1.0]), merged, low, high)
    assert low.tolist() == [0.0, 1.0, 1.0]
    assert high.tolist() == [0.0, 0.0, 1.0]
    assert merged.tolist() == [0.0, 0.5, 1.0]


def test_temperature_is_the_minimum_of_the_log_loss() -> None:
    score, label = sample()
    temperature = fit(score, label, method="temperature").temperature
    assert isinstance(temperature, float)

    def loss(t: float) -> float:
        p = expit(logit(score) / t)
        return float(-np.where(label == 1, np.log(p), np.log1p(-p)).mean())

    assert loss(temperature) <= min(loss(temperature * 1.001), loss(temperature / 1.001))


@pytest.mark.parametrize("far", [-1e9, -3e38])
@pytest.mark.parametrize("method", ["platt", "temperature", "beta"])
def test_a_far_score_that_costs_nothing_moves_no_line(method: str, far: float) -> None:
    score, label = sample(1200)
    score, own = (
        logit(score),
        {"method": method, "scale": "logit"} | ({"targets": "mle"} if method == "platt" else {}),
    )
    score[0], label[0] = -1e4, 0
    near = fit(score, label, **own).fit.log_loss
    score[0] = far
    assert fit(score, label, **own).fit.log_loss == pytest.approx(near, rel=1e-9)


def test_platt_finds_the_minimum_of_very_uneven_weights() -> None:
    weight = np.array([1e9, 1.0, 1.0, 1e9])
    own = {"method": "platt", "targets": "mle", "clip": 0.0, "weight": weight}
    found = fit([0.1, 0.499, 0.5, 0.9], [0, 1, 0, 1], **own).fit.log_loss
    assert found is not None
    assert found * weight.sum() == pytest.approx(
        1.41323957, rel=1e-6
    )  # by Nelder and Mead's method


def test_prior_shift_keeps_the_share_of_negatives() -> None:
    score = np.array([0.0, 0.2, 0.5, 1.0])
    rows = score_rows(score, None, scale="probability")
    options = CalibrateOptions(method="prior-shift", negatives_kept=0.25, clip=0.0)
    model = fit_calibrator(rows, options).model
    assert values(model, score) == pytest.approx(0.25 * score / (0.25 * score + 1 - score))
    assert model.fit.log_loss is None and model.fit.positives is None


#: The centre of a pool is a mean of scores: that of logits is another.
OF_LOGITS = [name for name in (*RISING, "scaling-binning") if name != "centred-isotonic"]


@pytest.mark.parametrize("method", OF_LOGITS)
def test_logits_and_probabilities_give_the_same_map(method: str) -> None:
    score, label = sample()
    by_probability = fit(score, label, method=method)
    by_logit = fit(logit(score), label, method=method, scale="logit")
    one, other = values(by_probability, score), values(by_logit, logit(score))
    assert one == pytest.approx(other, rel=1e-7, abs=1e-9)
    assert by_logit.fit.log_loss_before == pytest.approx(by_probability.fit.log_loss_before)


def test_equal_width_bins_of_logits_are_those_of_probabilities() -> None:
    score, label = np.array([0.01, 0.3, 0.31, 0.6, 0.97]), [0, 0, 1, 0, 1]
    options = {"method": "histogram", "bin_strategy": "equal-width", "bins": 8, "clip": 0.0}
    grid = np.linspace(0.005, 0.995, 80)
    one = values(fit(score, label, **options), grid)
    other = values(fit(logit(score), label, scale="logit", **options), logit(grid))
    assert one.tolist() == other.tolist()
    assert values(fit(score, label, **options), [0.2])[0] == 3 / 16  # an empty bin: its midpoint


@pytest.mark.parametrize("label", [[0, 0, 0], [1, 1, 1]])
def test_one_class(label: list[int]) -> None:
    score = np.array([0.2, 0.5, 0.7])
    for method in ("beta", "platt"):
        targets = {"targets": "mle"} if method == "platt" else {}
        with pytest.raises(DataError, match="all of one class"):
            fit(score, label, method=method, **targets)
    for method in ("platt", "isotonic", "histogram", "venn-abers", "scaling-binning"):
        found = values(fit(score, label, method=method), score)
        assert ((found > 0) & (found < 1)).all()
    line = fit(score, label, method="platt").own_map
    assert line.a == 0.0  # not below it by rounding, which would warn of a falling map
    assert line.b == pytest.approx(np.log(4.0) * (1 if label[0] else -1))


def test_separated_classes() -> None:
    score, label = np.array([0.1, 0.2, 0.7, 0.8]), np.array([0, 0, 1, 1])
    with pytest.raises(DataError, match="separated"):
        fit(score, label)
    with pytest.raises(DataError, match="separated"):
        fit(score, label, method="platt", targets="mle")
    assert fit(score, label, method="platt").own_map.a > 0
    capped = fit(score, label, method="temperature")
    assert capped.temperature == 1e-6
    assert values(capped, score) == pytest.approx([1 / 6, 1 / 6, 5 / 6, 5 / 6])


def test_scores_that_run_the_wrong_way() -> None:
    score, label = sample()
    rows = score_rows(1 - score, label, scale="probability")
    made = fit_calibrator(rows, CalibrateOptions(method="platt"))
    assert made.model.own_map.a < 0
    assert "negative" in made.warnings[0]
    made = fit_calibrator(rows, CalibrateOptions(method="beta"))
    assert (made.model.own_map.a, made.model.own_map.b) == (0.0, 0.0)
    assert values(made.model, [0.3])[0] == pytest.approx(label.mean())
    made = fit_calibrator(rows, CalibrateOptions(method="temperature"))
    assert made.model.temperature is None
    assert values(made.model, [0.3])[0] == 0.5
    binned = fit(1 - score, label, method="scaling-binning", clip=0.0)
    same = fit(score, label, method="scaling-binning", clip=0.0)
    assert binned.own_map.a == pytest.approx(-same.own_map.a)
    assert (np.diff(values(binned, np.linspace(0, 1, 50))) <= 0).all()


@pytest.mark.parametrize("method", ["platt", "beta", "isotonic", "venn-abers", "temperature"])
def test_constant_scores(method: str) -> None:
    model = fit(np.full(10, 0.25), [1] * 4 + [0] * 6, method=method)
    if method == "platt":
        assert model.own_map.a == 0.0
        assert values(model, [0.9])[0] == pytest.approx((4 * 5 / 6 + 6 / 8) / 10)
    elif method in ("beta", "isotonic"):
        assert values(model, [0.25])[0] == pytest.approx(0.4)


def test_float32_scores_and_their_inner_clip() -> None:
    score, label = sample()
    score = np.append(score, [0.0, 1.0]).astype(np.float32)
    label = np.append(label, [0, 1])
    model = fit(score, label)
    assert model.columns["score"].dtype == "float32"
    assert model.fit.inputs_clipped == 2
    assert fit(score, label, method="isotonic").fit.inputs_clipped == 0


def test_models_say_which_options_shaped_them() -> None:
    score, label = sample(60)
    given_bins = fit(score, label, method="histogram", bins=4).provenance
    by_default = fit(score, label, method="histogram", bins=None).provenance
    assert given_bins is not None and given_bins.options["bins"] == 4
    assert by_default is not None and by_default.options["bins"] == 15
    assert by_default.options["bin_strategy"] == "equal-mass"


def test_thirds_differ_by_seed_and_not_by_order() -> None:
    score, label = sample(900, ties=True)
    options = {"method": "scaling-binning", "split": "thirds"}
    one = fit(score, label, **options)
    assert fit(score[::-1].copy(), label[::-1].copy(), **options).own_map == one.own_map
    assert fit(score, label, seed=1, **options).own_map != one.own_map
    weight = np.random.default_rng(3).random(900)
    weighted = fit(score, label, weight, **options)
    order = np.random.default_rng(4).permutation(900)
    assert fit(score[order], label[order], weight[order], **options).own_map == weighted.own_map
    with pytest.raises(DataError, match="too few for --split thirds"):
        fit([0.2, 0.8], [0, 1], **options)


@pytest.mark.few(3)
@pytest.mark.skipif(INTERPRETED, reason="many rows")
@pytest.mark.parametrize("method", METHODS)
def test_threads_do_not_matter(method: str) -> None:
    score, label = sample(300_000)
    one, four = (fit(score, label, method=method, threads=threads) for threads in (1, 4))
    assert one.to_json() == four.to_json()


@pytest.mark.parametrize(
    ("options", "scale"),
    [
        ({"method": "sigmoid"}, "probability"),
        ({"targets": "mle"}, "probability"),
        ({"method": "platt", "bins": 3}, "probability"),
        ({"method": "histogram", "split": "thirds"}, "probability"),
        ({"method": "histogram", "bins": 0}, "probability"),
        ({"method": "histogram", "bin_strategy": "range"}, "probability"),
        ({"method": "prior-shift", "negatives_kept": None}, "probability"),
        ({"method": "prior-shift", "negatives_kept": 0.0}, "probability"),
        ({"method": "prior-shift", "by": "x"}, "probability"),
        ({"negatives_kept": 0.5}, "probability"),
        ({"clip": 0.5}, "probability"),
        ({"min_rows": 0}, "probability"),
        ({"method": "beta"}, "raw"),
        ({"method": "histogram", "bin_strategy": "equal-width"}, "raw"),
        ({"method": "isotonic", "out_of_range": "clip"}, "logit"),
    ],
)
def test_refused_options(options: dict[str, Any], scale: str) -> None:
    with pytest.raises(UsageError):
        fit([0.2, 0.4, 0.6], [0, 1, 1], scale=scale, **options)


def test_weights_that_no_row_could_join() -> None:
    with pytest.raises(DataError, match="weights too small"):
        fit([0.1, 0.2], [0, 1], np.array([2.0**-70, 2.0**-70]), method="venn-abers")


@pytest.mark.parametrize("method", METHODS)
def test_models_read_back_and_refuse_damage(method: str) -> None:
    score, label = sample()
    model = fit(score, label, method=method)
    content = model.to_json()
    assert decode(content) == model
    whole = msgspec.json.decode(content)
    for name, value in {
        "method": "sigmoid",
        "clip": 0.7,
        "columns": {},
        "out_of_range": "wrap",
        "groups": {},
        "unknown": 1,
    }.items():
        with pytest.raises(ModelError):
            decode(msgspec.json.encode({**whole, name: value}))
    own = {"a", "b", "c", "temperature", "negatives_kept", "knots", "low", "high"} & whole.keys()
    for name in own:
        with pytest.raises(ModelError):
            decode(msgspec.json.encode({k: v for k, v in whole.items() if k != name}))
    for name, value in {"knots": [2.0, 1.0], "values": [2.0, 2.0], "temperature": -1.0}.items():
        if name in whole:
            more = {"knots": [1.0, 2.0]} if name == "values" else {}
            with pytest.raises(ModelError):
                decode(msgspec.json.encode({**whole, **more, name: value}))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("ties", [False, True])
def test_isotonic_in_lines_is_that_of_scikit_learn(dtype: type, ties: bool) -> None:
    score, label = sample(ties=ties)
    score = score.astype(dtype)
    new = np.linspace(0.0, 1.0, 3001).astype(dtype)
    model = fit(score, label, method="isotonic", interpolate=True, clip=0.0)
    oracle = IsotonicRegression(out_of_bounds="clip").fit(score.astype(np.float64), label)
    assert values(model, new) == pytest.approx(oracle.predict(new.astype(np.float64)), abs=1e-15)
    stepped = fit(score, label, method="isotonic", clip=0.0)
    assert values(model, score) == pytest.approx(values(stepped, score), abs=1e-15)


def test_centred_isotonic_goes_through_the_centres_of_pools() -> None:
    score = np.array([0.1, 0.2, 0.4, 0.5, 0.9, 0.95])
    label = [0, 1, 0, 1, 1, 1]
    model = fit(score, label, method="centred-isotonic", clip=0.0)
    assert model.knots == pytest.approx([0.1, 0.3, (0.5 + 0.9 + 0.95) / 3])
    assert model.values == [0.0, 0.5, 1.0]
    found = values(model, [0.0, 0.2, 0.3, 0.6, 1.0])
    assert found == pytest.approx([0.0, 0.25, 0.5, 0.5 + 0.5 * 0.3 / (2.35 / 3 - 0.3), 1.0])
    score, label = sample(ties=True)
    model = fit(score, label, method="centred-isotonic", clip=0.0)
    inner = np.linspace(model.knots[0], model.knots[-1], 2001)
    assert (np.diff(values(model, inner)) > 0.0).all()


@pytest.mark.parametrize("method", ["isotonic", "centred-isotonic"])
def test_lines_between_numbers_of_any_size(method: str) -> None:
    tiny = float(np.nextafter(0.0, 1.0))
    score = np.array([-1.7e308, -1.0, 0.0, tiny, 1.0, 1.7e308] * 3)
    label = [0, 0, 0, 1, 1, 1] * 2 + [0, 1, 0, 1, 0, 1]
    more = {"interpolate": True} if method == "isotonic" else {}
    model = fit(score, label, method=method, scale="raw", clip=0.0, **more)
    found = values(model, np.sort(score))
    assert np.isfinite(found).all() and (np.diff(found) >= 0.0).all()


def test_scores_on_the_ends_of_the_unit_interval_are_inside() -> None:
    score = np.array([0.0, 0.5, 1.0])
    inside, moved = into_unit_interval(score)
    assert inside is score and moved == 0
    clipped, moved = into_unit_interval(np.array([-0.5, 0.0, 1.0, 1.5, 2.0]))
    assert (clipped.tolist(), moved) == ([0.0, 0.0, 1.0, 1.0, 1.0], 3)
