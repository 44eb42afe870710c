"""Metrics of one score: scikit-learn and rows written out as oracles, ties, weights, edges."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics as oracle

import calibkit as ck
from calibkit.measures import metrics as registry
from calibkit.measures.reliability import Series
from calibkit.measures.views import Sample, View, view_of
from calibkit.numerics import sums
from calibkit.numerics.bounds import decimal_bound
from calibkit.options.metrics import Settings
from tests.conftest import ROOT
from tests.library.samples import golden
from tests.naive import metrics as naive

GOLDEN = ROOT / "tests" / "golden"
STRATEGIES = ("equal-width", "equal-mass", "range")

probability = st.integers(0, 6).map(lambda n: n / 6) | st.sampled_from([0.0, 1.0, 0.5])
rows = st.lists(
    st.tuples(probability, st.integers(0, 1), st.integers(0, 3)), min_size=1, max_size=25
)


def settings(**more: Any) -> Settings:
    bounds = {"precisions": (decimal_bound("0.6"),), "recalls": (decimal_bound("0.5"),)}
    return Settings(**{**bounds, **more})


def view(score: Any, label: Any, weight: Any = None, dtype: type = np.float64, **more: Any) -> View:
    sample = Sample(
        score=np.array(score, dtype),
        label=np.array(label, np.uint8),
        weight=None if weight is None else np.array(weight, np.float64),
    )
    return view_of(sample, "score", "all", settings(**more))


def all_of(found: View) -> dict[str, Any]:
    return registry.compute(found, registry.names(found.settings))


def assert_close(found: Any, expected: Any, name: str, **tolerance: float) -> None:
    """Compare two values of a metric, either of which may be None."""
    if found is None or expected is None:
        assert found is expected, name
    else:
        assert found == pytest.approx(expected, **tolerance), name


def tied(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return scores with ties, labels and weights with quarters."""
    rng = np.random.default_rng(seed)
    score = np.round(rng.beta(0.7, 1.5, rows), 2)
    return score, rng.binomial(1, score**1.3), rng.integers(1, 9, rows) / 4


@pytest.mark.parametrize("size", [50, 20_000])
@pytest.mark.parametrize("weighted", [False, True], ids=["rows", "weights"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_scikit_learn_agrees(size: int, weighted: bool, dtype: type) -> None:
    score, label, weight = tied(size, size)
    given_weight = weight if weighted else None
    found = all_of(view(score, label, given_weight, dtype))
    score = score.astype(dtype).astype(np.float64)
    inside = np.clip(score, 1e-15, 1 - 1e-15)
    expected = {
        "auc": oracle.roc_auc_score(label, score, sample_weight=given_weight),
        "average_precision": oracle.average_precision_score(
            label, score, sample_weight=given_weight
        ),
        "log_loss": oracle.log_loss(label, inside, sample_weight=given_weight),
        "brier": oracle.brier_score_loss(label, score, sample_weight=given_weight),
    }
    for name, value in expected.items():
        assert found[name] == pytest.approx(value, rel=1e-12, abs=1e-12), name


@given(rows.filter(lambda rows: any(weight for *_, weight in rows)), st.integers(1, 7))
def test_metrics_are_those_of_the_rows_written_out(
    data: list[tuple[float, int, int]], bins: int
) -> None:
    score, label, weight = zip(*data, strict=True)
    plain = naive.written_out(data)
    count, good, mass = naive.totals(plain)
    for strategy in STRATEGIES:
        own = view(score, label, weight, bins=bins, strategy=strategy, weighted=True)
        found = all_of(own)
        expected: dict[str, Any] = {
            "count": count,
            "positives": good,
            "base_rate": good / count,
            "mean_score": mass / count,
            "calibration_bias": mass / good - 1 if good else None,
            "auc": naive.auc(plain),
            "average_precision": naive.average_precision(plain),
            "pr_auc": naive.precision_integral(plain) / good if good else None,
            "brier": naive.loss_sums_of_rows(plain)[1] / count,
            "log_loss": naive.loss_sums_of_rows(plain)[0] / count,
            "ece": naive.expected_calibration_error(plain, bins, strategy),
            "ace": naive.expected_calibration_error(plain, bins, "equal-mass"),
            "mce": naive.maximum_calibration_error(plain, bins, strategy),
            "ece_debiased": naive.debiased_calibration_error(plain, bins, strategy),
        }
        parts = ("miscalibration", "discrimination", "brier_uncertainty")
        expected |= dict(zip(parts, naive.corp(plain), strict=True))
        for name, value in expected.items():
            slack = 1e-7 if name == "ece_debiased" else 1e-12
            assert_close(found[name], value, name, rel=1e-9, abs=slack)
        total = found["miscalibration"] - found["discrimination"] + found["brier_uncertainty"]
        assert total == pytest.approx(found["brier"], abs=1e-12)


@given(rows)
def test_metrics_are_defined_or_null(data: list[tuple[float, int, int]]) -> None:
    found = all_of(view(*zip(*data, strict=True)))
    for name, value in found.items():
        assert value is None or math.isfinite(value), name
    for name in ("ece", "ace", "mce", "ece_debiased", "smooth_ece", "auc", "average_precision"):
        assert found[name] is None or 0 <= found[name] <= 1 + 1e-12, name


@given(rows, st.randoms())
def test_weights_and_order_of_rows(data: list[tuple[float, int, int]], random: Any) -> None:
    """A weight 2 is the row twice, and no order of rows shows: the same bits."""
    plain = naive.written_out(data)
    if not plain:
        return
    score, label, weight = zip(*data, strict=True)
    shuffled = random.sample(plain, len(plain))
    weighted = all_of(view(score, label, weight))
    assert weighted == all_of(view(*zip(*plain, strict=True)))
    assert weighted == all_of(view(*zip(*shuffled, strict=True)))
    halved = all_of(view(score, label, [one / 2 for one in weight]))
    for name in weighted.keys() - {"count", "positives", "ece_debiased"}:
        assert halved[name] == weighted[name], name


@given(rows, st.sampled_from(["0.3", "0.6", "1"]))
def test_the_best_threshold_is_found_exactly(
    data: list[tuple[float, int, int]], bound: str
) -> None:
    plain = naive.written_out(data)
    exact = decimal_bound(bound)
    score, label, weight = zip(*data, strict=True)
    names = [f"recall_at_precision:{bound}", f"precision_at_recall:{bound}"]
    own = view(score, label, weight, precisions=(exact,), recalls=(exact,))
    found = registry.compute(own, names)
    _, good, _ = naive.totals(plain)
    if not good:
        assert found == dict.fromkeys(names)
        return
    entries = naive.tally(plain)
    hits = naive.most_hits_at_precision(entries, exact.numerator, exact.denominator)
    assert found[f"recall_at_precision:{bound}"] == hits / good
    least = math.ceil(good * exact.numerator / exact.denominator)
    expected = naive.best_precision_at_recall(entries, least)
    assert found[f"precision_at_recall:{bound}"] == float(expected)


def test_smooth_error_is_where_it_equals_its_width() -> None:
    rng = np.random.default_rng(6)
    score = rng.random(300)
    data = list(zip(score.tolist(), rng.binomial(1, 0.25 + score / 2).tolist(), strict=True))
    own = view(*zip(*data, strict=True))
    found = registry.compute(own, ["smooth_ece"])["smooth_ece"]
    assert found is not None
    assert naive.smooth_error(data, found, 500) == pytest.approx(found, abs=1e-5)


def test_smooth_error_of_many_scores_is_that_of_few() -> None:
    """Moments over cells stand for scores one by one: 1e-9 apart."""
    rng = np.random.default_rng(5)
    score = rng.beta(2, 3, 4000)
    own = view(score, rng.binomial(1, score**1.5))
    series = Series(own)
    for terms in (64, 128, 512):
        many = series._sums(terms)
        residual = own.positive - own.count * own.score
        expected = np.array(
            [np.sum(residual * np.cos(np.pi * k * own.score)) for k in range(terms)]
        )
        assert np.abs(many - expected).max() < 1e-9 * np.abs(residual).sum()


def test_logits_and_raw_scores() -> None:
    score, label, _ = tied(500, 1)
    inside = np.clip(score, 0.01, 0.99)
    logits = np.log(inside / (1 - inside))
    plain, found = all_of(view(inside, label)), all_of(view(logits, label, scale="logit"))
    for name, value in plain.items():
        assert_close(found[name], value, name, rel=1e-9, abs=1e-6)
    raw = all_of(view(logits, label, scale="raw"))
    assert raw["auc"] == plain["auc"]
    assert raw["mean_score"] == pytest.approx(float(logits.mean()))
    for name in ("log_loss", "brier", "ece", "smooth_ece", "miscalibration", "calibration_bias"):
        assert raw[name] is None
    logits[0] = np.inf
    endless = all_of(view(logits, label, scale="logit"))
    assert endless["auc"] is not None
    assert endless["mean_score"] is endless["brier"] is endless["ece"] is None


@pytest.mark.parametrize("threads", [2, 5])
def test_threads_do_not_show(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sums, "BLOCK", 100)
    rng = np.random.default_rng(3)
    score = rng.random(1500)
    label = rng.binomial(1, score)
    assert all_of(view(score, label)) == all_of(view(score, label, threads=threads))
    whole = all_of(view(score, label))
    monkeypatch.setattr(sums, "BLOCK", 10**6)
    for name, value in all_of(view(score, label)).items():
        assert_close(value, whole[name], name, rel=1e-12, abs=1e-12)


# Golden cases ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("strategy", "bins"), [("equal-width", "unit"), ("range", "range"), ("equal-mass", "mass")]
)
def test_metrics_of_the_top_keep_ties_at_the_cut(strategy: str, bins: str) -> None:
    case = golden("p13_top_alpha_ties_at_cut")
    found = ck.evaluate(
        GOLDEN / "p13_top_alpha_ties_at_cut" / "rows.parquet",
        scores=("pred", "pred2"),
        bins=case["params"]["bins"],
        bin_strategy=strategy,
        top=case["params"]["alphas"],
        top_by="pred",
        intervals=False,
    ).metrics
    for share, expected in case["expected"].items():
        own, other = found["pred"][f"top:{share}"], found["pred2"][f"top:{share}"]
        values = [own[name] for name in ("count", "calibration_bias", "log_loss", "ece", "mce")]
        wanted = ("n", "calibration_error", "log_loss", f"ece_{bins}", f"mce_{bins}")
        assert values == pytest.approx([expected[name] for name in wanted], rel=1e-12, abs=1e-12)
        reduction = other["log_loss_reduction"]
        assert reduction == pytest.approx(expected["log_loss_reduction"], rel=1e-10, abs=1e-12)


def test_calibration_error_over_the_cells_of_a_grid() -> None:
    case, rows = golden("p12_ece_at_j"), GOLDEN / "p12_ece_at_j" / "rows.parquet"
    levels, bins = case["params"]["K"], case["params"]["L"]
    grid = ck.bin(rows, uncertainty_bins=levels, score_bins=bins)
    found = ck.evaluate(rows, scores="prob", grid=grid, grid_score="score").metrics["prob"]["all"]
    for name, wanted in (("ece_at", "ece_at_j"), ("cumulative_ece_at", "cumulative")):
        values = [found[f"{name}:{j}"] for j in range(bins)]
        assert values == pytest.approx(case["expected"][wanted], rel=1e-10, abs=1e-10)
