"""Calibrators: what every method must keep, and each against an independent implementation."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import msgspec
import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import expit, logit
from sklearn.isotonic import IsotonicRegression

from calibkit.errors import DataError, ModelError, UsageError
from calibkit.maps.method import pooled
from calibkit.maps.methods import METHODS
from calibkit.maps.model import CalibratorModel, ScoreMap
from calibkit.methods.calibrators.run import fit_calibrator
from calibkit.models.model import decode
from calibkit.options.calibrate import CalibrateOptions
from calibkit.summaries.tally import count_rows
from tests.conftest import INTERPRETED, ROOT
from tests.library.samples import FEWER, golden, score_rows
from tests.naive import maps as naive

OWN: dict[str, dict[str, Any]] = {
    "prior-shift": {"negatives_kept": 0.3},
    "histogram": {"bins": 4},
    "scaling-binning": {"bins": 4},
}
RISING = [name for name in METHODS if name not in ("histogram", "scaling-binning")]
UNSMOOTHED: dict[str, dict[str, Any]] = {"platt": {"targets": "mle"}}
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


def log_loss(label: np.ndarray, p: np.ndarray) -> float:
    p = p.clip(1e-15, 1 - 1e-15)
    return float(-np.where(label == 1, np.log(p), np.log1p(-p)).mean())


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
    assert model.clip == 1 / (len(table["label"]) + 2)
    assert model.clip <= found.min() and found.max() <= 1 - model.clip
    if method in RISING and not (method == "platt" and model.own_map.a < 0):
        assert (np.diff(found) >= -1e-15).all()


@pytest.mark.parametrize("method", WITH_IDENTITY)
@FEWER
@given(tables())
def test_in_sample_log_loss_is_no_worse_than_the_identity(
    method: str, table: dict[str, list[Any]]
) -> None:
    score, label = np.array(table["score"]).clip(0.01, 0.99), np.array(table["label"])
    model = fit(score, label, method=method, clip=0.0, **UNSMOOTHED.get(method, {}))
    assert model.fit.log_loss_before is not None
    assert model.fit.log_loss <= model.fit.log_loss_before + 1e-12
    p = values(model, score)
    assert model.fit.log_loss == pytest.approx(log_loss(label, p), abs=1e-12)
    assert model.fit.brier == pytest.approx(((p - label) ** 2).mean(), abs=1e-12)


@pytest.mark.parametrize("seed", range(6))
def test_beta_is_the_bounded_minimum(seed: int) -> None:
    score, label = sample(150, seed)
    if seed >= 3:  # the best slopes without a bound would be negative
        score = np.where(label == 1, 0.5 + (score - 0.5) / 3, score)
    one = fit(score, label, clip=0.0).own_map

    def loss(at: np.ndarray) -> float:
        z = at[0] * np.log(score) - at[1] * np.log1p(-score) + at[2]
        return float(np.logaddexp(0, np.where(label == 1, -z, z)).mean())

    bounds = [(0, None), (0, None), (None, None)]
    best = minimize(loss, [1, 1, 0], bounds=bounds, method="L-BFGS-B", options={"ftol": 1e-14})
    assert one.a is not None and one.b is not None and min(one.a, one.b) >= 0
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
    with pytest.raises(DataError, match="weights too small"):
        fit([0.1, 0.2], [0, 1], np.array([2.0**-70, 2.0**-70]), method="venn-abers")


@FEWER
@given(tables(), st.integers(-1, 17))
def test_venn_abers_is_fitting_twice_with_the_row(table: dict[str, list[Any]], new: int) -> None:
    score, label, weight = (np.array(table[name]) for name in ("score", "label", "weight"))
    own = {"method": "venn-abers", "scale": "raw", "clip": 0.0}
    model = fit(score, label, weight.astype(float), **own)
    found = METHODS["venn-abers"].mapped(model.own_map, np.array([new / 16]), "raw", 1)
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
    best = fit(score, label, method="temperature").temperature
    assert isinstance(best, float)
    loss = [log_loss(label, expit(logit(score) / t)) for t in (best / 1.001, best, best * 1.001)]
    assert loss[1] <= min(loss)


@pytest.mark.parametrize("far", [-1e9, -3e38])
@pytest.mark.parametrize("method", ["platt", "temperature", "beta"])
def test_a_far_score_that_costs_nothing_moves_no_line(method: str, far: float) -> None:
    score, label = sample(1200)
    score, label[0] = logit(score), 0
    losses = []
    for first in (-1e4, far):
        score[0] = first
        model = fit(score, label, method=method, scale="logit", **UNSMOOTHED.get(method, {}))
        losses.append(model.fit.log_loss)
    assert losses[1] == pytest.approx(losses[0], rel=1e-9)


def test_platt_finds_the_minimum_of_very_uneven_weights() -> None:
    weight = np.array([1e9, 1.0, 1.0, 1e9])
    own = {"method": "platt", "targets": "mle", "clip": 0.0, "weight": weight}
    found = fit([0.1, 0.499, 0.5, 0.9], [0, 1, 0, 1], **own).fit.log_loss
    best = 1.41323957  # by Nelder and Mead's method
    assert found is not None and found * weight.sum() == pytest.approx(best, rel=1e-6)


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
        with pytest.raises(DataError, match="all of one class"):
            fit(score, label, method=method, **UNSMOOTHED.get(method, {}))
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
    flat = fit(1 - score, label, method="beta")
    assert (flat.own_map.a, flat.own_map.b) == (0.0, 0.0)
    assert values(flat, [0.3])[0] == pytest.approx(label.mean())
    infinite = fit(1 - score, label, method="temperature")
    assert (infinite.temperature, values(infinite, [0.3])[0]) == (None, 0.5)
    binned = fit(1 - score, label, method="scaling-binning", clip=0.0)
    same = fit(score, label, method="scaling-binning", clip=0.0)
    assert binned.own_map.a == pytest.approx(-same.own_map.a)
    assert (np.diff(values(binned, np.linspace(0, 1, 50))) <= 0).all()


@pytest.mark.parametrize(
    ("method", "expected"),
    [("platt", (4 * 5 / 6 + 6 / 8) / 10), ("beta", 0.4), ("isotonic", 0.4)],
)
def test_constant_scores(method: str, expected: float) -> None:
    model = fit(np.full(10, 0.25), [1] * 4 + [0] * 6, method=method)
    assert values(model, [0.25])[0] == pytest.approx(expected)
    assert method != "platt" or model.own_map.a == 0.0


def test_float32_scores_and_their_inner_clip() -> None:
    score, label = sample()
    score = np.append(score, [0.0, 1.0]).astype(np.float32)
    label = np.append(label, [0, 1])
    model = fit(score, label)
    assert model.columns["score"].dtype == "float32"
    assert model.fit.inputs_clipped == 2
    assert fit(score, label, method="isotonic").fit.inputs_clipped == 0


def test_thirds_differ_by_seed_and_not_by_order() -> None:
    score, label = sample(900, ties=True)
    options = {"method": "scaling-binning", "split": "thirds"}
    order = np.random.default_rng(4).permutation(900)
    for weight in (None, np.random.default_rng(3).random(900)):
        one = fit(score, label, weight, **options).own_map
        mixed = None if weight is None else weight[order]
        assert fit(score[order], label[order], mixed, **options).own_map == one
        assert fit(score, label, weight, seed=1, **options).own_map != one
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
    "options",
    [
        {"method": "sigmoid"},
        {"targets": "mle"},
        {"method": "platt", "bins": 3},
        {"method": "histogram", "split": "thirds"},
        {"method": "histogram", "bins": 0},
        {"method": "histogram", "bin_strategy": "range"},
        {"method": "prior-shift", "negatives_kept": None},
        {"method": "prior-shift", "negatives_kept": 0.0},
        {"method": "prior-shift", "by": "x"},
        {"negatives_kept": 0.5},
        {"clip": 0.5},
        {"min_rows": 0},
        {"method": "beta", "scale": "raw"},
        {"method": "histogram", "bin_strategy": "equal-width", "scale": "raw"},
        {"method": "isotonic", "out_of_range": "clip", "scale": "logit"},
    ],
)
def test_refused_options(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        fit([0.2, 0.4, 0.6], [0, 1, 1], **options)


@pytest.mark.parametrize("method", METHODS)
def test_models_read_back_and_refuse_damage(method: str) -> None:
    model = fit(*sample(), method=method)
    assert decode(model.to_json()) == model
    whole = msgspec.json.decode(model.to_json())
    wrong = {
        "method": "sigmoid",
        "clip": 0.7,
        "columns": {},
        "out_of_range": "wrap",
        "groups": {},
        "unknown": 1,
    }
    odd = {"knots": [2.0, 1.0], "values": [2.0] * len(whole.get("values", ())), "temperature": -1.0}
    wrong |= {name: value for name, value in odd.items() if name in whole}
    own = {"a", "b", "c", "temperature", "negatives_kept", "knots", "low", "high"} & whole.keys()
    lacking = [{k: v for k, v in whole.items() if k != name} for name in own]
    for content in (*lacking, *({**whole, name: value} for name, value in wrong.items())):
        with pytest.raises(ModelError):
            decode(msgspec.json.encode(content))


CENTRED: dict[str, Any] = {"method": "centred-isotonic", "clip": 0.0}
IN_LINES: dict[str, Any] = {"method": "isotonic", "interpolate": True, "clip": 0.0}


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("ties", [False, True])
def test_isotonic_in_lines_is_that_of_scikit_learn(dtype: type, ties: bool) -> None:
    score, label = sample(ties=ties)
    score = score.astype(dtype)
    new = np.linspace(0.0, 1.0, 3001).astype(dtype)
    model = fit(score, label, **IN_LINES)
    oracle = IsotonicRegression(out_of_bounds="clip").fit(score.astype(np.float64), label)
    assert values(model, new) == pytest.approx(oracle.predict(new.astype(np.float64)), abs=1e-15)
    stepped = fit(score, label, method="isotonic", clip=0.0)
    assert values(model, score) == pytest.approx(values(stepped, score), abs=1e-15)


def test_centred_isotonic_goes_through_the_centres_of_pools() -> None:
    model = fit([0.1, 0.2, 0.4, 0.5, 0.9, 0.95], [0, 1, 0, 1, 1, 1], **CENTRED)
    assert model.knots == pytest.approx([0.1, 0.3, (0.5 + 0.9 + 0.95) / 3])
    assert model.values == [0.0, 0.5, 1.0]
    found = values(model, [0.0, 0.2, 0.3, 0.6, 1.0])
    assert found == pytest.approx([0.0, 0.25, 0.5, 0.5 + 0.5 * 0.3 / (2.35 / 3 - 0.3), 1.0])
    model = fit(*sample(ties=True), **CENTRED)
    assert model.knots is not None
    inner = np.linspace(model.knots[0], model.knots[-1], 2001)
    assert (np.diff(values(model, inner)) > 0.0).all()


@pytest.mark.parametrize("options", [IN_LINES, CENTRED])
def test_lines_between_numbers_of_any_size(options: dict[str, Any]) -> None:
    tiny = float(np.nextafter(0.0, 1.0))
    score = np.array([-1.7e308, -1.0, 0.0, tiny, 1.0, 1.7e308] * 3)
    label = [0, 0, 0, 1, 1, 1] * 2 + [0, 1, 0, 1, 0, 1]
    found = values(fit(score, label, scale="raw", **options), np.sort(score))
    assert np.isfinite(found).all() and (np.diff(found) >= 0.0).all()


def test_golden_scaling_binning_of_three_parts() -> None:
    known, folder = golden("p18_maps"), ROOT / "tests" / "golden" / "p18_maps"
    frame = pl.read_parquet(folder / "rows.parquet")
    score, label = frame["score"].to_numpy(), frame["label"].to_numpy().astype(np.uint8)
    size = frame.height // 3
    parts = []
    for own in (slice(size), slice(size, 2 * size), slice(2 * size, None)):
        level = np.zeros(score[own].size, np.uint16)
        parts.append(pooled(count_rows(score[own], level, label[own], 1), "probability"))
    options = CalibrateOptions(method="scaling-binning", bins=known["params"]["bins"])
    method = METHODS["scaling-binning"]
    one = ScoreMap(clip=0.0, **method.fit(parts[0], options, parts).fields)
    new = pl.read_parquet(folder / "new.parquet")["score"].to_numpy().clip(0, 1)
    found, allowed = method.mapped(one, new, "probability", 1)[0], known["tolerance"]
    expected = known["expected"]["scaling_binning_split"]
    assert found == pytest.approx(expected, rel=allowed["rel"], abs=allowed["abs"])
