"""What a model says of the fitting rows is what it does with them, whatever the options."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

import calibkit as ck
from calibkit.methods.boundary.result.parts import Figures


def rows(seed: int, size: int = 60) -> pl.DataFrame:
    draw = np.random.default_rng(seed)
    return pl.DataFrame(
        {
            "score": draw.integers(1, 20, size) / 20,
            "label": draw.integers(0, 2, size),
            "uncertainty": np.arange(size) * 1.0,
            "amount": draw.integers(1, 9, size) * 1.0,
            "g": draw.choice(["a", "b", "c"], size),
        }
    )


EACH = {"by": "g", "bound": "each"}
VALUE = {"fpr": 0.3, "value": "amount", "prevalence": 0.1, "method": "exact"}
FITS: dict[str, dict[str, Any]] = {
    "stochastic, each": {"precision": 0.6, "method": "stochastic", **EACH},
    "value, prevalence": VALUE,
    "value, prevalence, each": VALUE | EACH,
    "prevalence, segments": {"precision": 0.1, "prevalence": 0.1, "method": "exact", "by": "g"},
    "prevalence, each": {"fpr": 0.5, "prevalence": 0.1, "method": "st", **EACH},
    "a surface of the score alone": {"recall": 0.6, "method": "logistic"},
    "a surface of single scores": {"fpr": 0.4, "method": "logistic"},
}


@pytest.mark.filterwarnings("ignore::calibkit.CalibkitWarning")
@pytest.mark.few(14)
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("name", FITS)
def test_figures_of_the_fit_are_those_of_a_test_on_its_rows(name: str, seed: int) -> None:
    frame, options = rows(seed), FITS[name] | {"folds": 0}
    options |= {"min_group_positives": 0} if "by" in options else {}
    model = ck.fit_boundary(frame, test=frame, **options)
    turned = ck.fit_boundary(frame.reverse(), test=frame.reverse(), **options)
    assert model.to_json() == turned.to_json()
    assert model.fit.test is not None
    segments = list(model.groups.values()) if model.groups else []
    for one in (model, *segments):
        if one.fit.test is not None:
            near(one.fit.in_sample, one.fit.test)
    if segments:
        selected = sum(one.fit.in_sample.selected for one in segments)
        assert model.fit.in_sample.selected == pytest.approx(selected)
    if options["method"] != "stochastic":
        assert model.apply(frame)["decision"].sum() == model.fit.in_sample.selected


def near(one: Figures, other: Figures) -> None:
    for name in ("selected", "true_positives", "precision", "recall", "false_positive_rate"):
        assert getattr(one, name) == pytest.approx(getattr(other, name)), name


@pytest.mark.parametrize("order", ["uncertainty-score", "score-uncertainty"])
@pytest.mark.parametrize("share", [1.0, 0.7])
def test_a_grid_whose_lowest_bin_is_empty_fits_as_its_rows_do(order: str, share: float) -> None:
    """Most rows share the least uncertainty (or score), so that equal mass leaves a bin empty."""
    frame = rows(1, 400)
    column = "uncertainty" if order == "uncertainty-score" else "score"
    least = 0.0 if column == "uncertainty" else 0.05
    same = pl.int_range(pl.len()) < share * frame.height
    frame = frame.with_columns(pl.when(same).then(least).otherwise(pl.col(column)).alias(column))
    bins: dict[str, Any] = {"uncertainty_bins": 3, "score_bins": 4, "order": order}
    model = ck.fit_boundary(ck.bin(frame, **bins), recall=0.5, method="exact", folds=0)
    selected = int(model.apply(frame)["decision"].sum())
    assert selected == model.fit.in_sample.selected > 0


@pytest.mark.parametrize("method", ["beta", "platt", "spline", "quadratic", "temperature", "none"])
def test_logits_that_float32_holds_are_worth_the_same(method: str) -> None:
    score = np.array([-3, -1, 0, 1, 2, 3, -2, 1, 2, 0.5] * 10)
    label = [0, 0, 1, 1, 1, 1, 0, 0, 1, 1] * 10
    found = []
    for own in (score, score.astype(np.float32)):
        asked: dict[str, Any] = {"label": label, "scale": "logit"}
        model = ck.fit_calibrator(score=own, method=method, clip=0, **asked)
        judged = ck.evaluate(scores=own, intervals=False, **asked).metrics
        found.append((model.apply(score=own).tolist(), judged))
    assert found[0] == found[1]


def test_intervals_of_groups_with_any_weights_do_not_depend_on_the_order() -> None:
    frame = rows(3, 150).with_columns(
        other=pl.col("score").shift(1, fill_value=0.5),
        weight=pl.Series(np.random.default_rng(3).choice([0.7, 1.1, 2.3], 150)),
    )
    asked: dict[str, Any] = {"scores": ["score", "other"], "weight": "weight", "groups": "g"}
    found = [
        ck.evaluate(one, **asked).to_json()
        for one in (frame, frame.reverse(), frame.sample(150, shuffle=True, seed=1))
    ]
    assert found[0] == found[1] == found[2]


@pytest.mark.filterwarnings("ignore::calibkit.CalibkitWarning")
def test_segments_count_positives_as_their_weights_do() -> None:
    frame = rows(4, 200)
    options: dict[str, Any] = {"precision": 0.4, "method": "st", "folds": 0, **EACH}
    written = ck.fit_boundary(pl.concat([frame, frame]), **options)
    weighed = ck.fit_boundary(frame.with_columns(weight=2), weight="weight", **options)
    assert written.groups and weighed.groups
    assert list(written.groups) == list(weighed.groups)


def weighed_rows(scale: float) -> pl.DataFrame:
    draw = np.random.default_rng(7)
    weight = scale * draw.choice([0.5, 1.0, 3.0], 300)
    likely = pl.col("score") > pl.Series(draw.random(300))
    return rows(6, 300).with_columns(weight=weight, u=pl.col("uncertainty") % 7 / 7, label=likely)


DRAWN = {"ece", "ace", "mce", "ece_debiased", "smooth_ece", "miscalibration", "discrimination"}
DRAWN |= {"pr_auc"}

SAMPLING: dict[str, Any] = {"weight": "weight", "weight_kind": "sampling"}


@pytest.mark.few(3)
@pytest.mark.parametrize("scale", [1 / 4, 64, 0.001])
@pytest.mark.parametrize("groups", [None, "uncertainty"])
def test_sampling_weights_may_have_any_scale(scale: float, groups: str | None) -> None:
    counts = {"count", "positives", "tp", "fp", "fn", "tn", "selected"}
    asked: dict[str, Any] = SAMPLING | {"groups": groups, "threshold": 0.5, "by": "g"}
    one, other = (ck.evaluate(weighed_rows(own), **asked, min_rows=9) for own in (1.0, scale))
    for part, values in one.metrics["score"].items():
        for name in values.keys() - counts:
            value = other.metrics["score"][part][name]
            assert values[name] == pytest.approx(value, abs=2e-6), (part, name)
        for name, ends in one.intervals["score"][part].items():
            if scale == 0.001 and name in DRAWN:  # weights are rounded: other numbers are drawn
                continue
            found = other.intervals["score"][part][name]
            near = pytest.approx((found.low, found.high), abs=1e-9)
            assert (ends.low, ends.high) == near, (part, name)


@pytest.mark.filterwarnings("ignore::calibkit.CalibkitWarning")
@pytest.mark.parametrize("uncertainty", ["u", ["u", "amount"]])
def test_a_surface_is_the_same_for_sampling_weights_of_any_scale(uncertainty: Any) -> None:
    asked: dict[str, Any] = {"recall": 0.5, "method": "logistic", "uncertainty": uncertainty}
    one, other = (
        ck.fit_boundary(weighed_rows(scale), **asked, **SAMPLING, folds=0)
        for scale in (1.0, 2.0**-20)
    )
    assert one.score_thresholds == other.score_thresholds
    assert one.coefficients == other.coefficients


@pytest.mark.parametrize("groups", [None, "group"])
@pytest.mark.parametrize("kind", ["frequency", "sampling"])
def test_rows_that_weigh_nothing_are_none(groups: str | None, kind: str) -> None:
    frame = rows(8, 20).with_columns(weight=pl.lit(1.5), group=pl.int_range(20) // 2)
    nothing = frame.with_columns(weight=pl.lit(0.0), group=pl.int_range(100, 120))
    asked: dict[str, Any] = {"weight": "weight", "weight_kind": kind, "groups": groups}
    one, other = (
        ck.evaluate(found, **asked, threshold=0.5) for found in (frame, pl.concat([frame, nothing]))
    )
    for part, intervals in one.intervals["score"].items():
        for name, ends in intervals.items():
            if groups is None or name not in DRAWN:  # groups are drawn by their numbers
                assert ends == other.intervals["score"][part][name], (part, name)


def test_segments_have_as_many_rows_as_their_weights_say() -> None:
    frame = rows(9, 60).filter(pl.col("g") != "c").with_columns(weight=pl.lit(5))
    written = pl.concat([frame] * 5)
    least = int(written["g"].value_counts()["count"].min()) + 1  # type: ignore[arg-type]
    for asked in (least, least - 1):
        nulls = []
        for rows_, weight in ((frame, "weight"), (written, None)):
            found = ck.evaluate(rows_, by="g", weight=weight, min_rows=asked, intervals=False)
            nulls.append({part: own["auc"] is None for part, own in found.metrics["score"].items()})
        assert nulls[0] == nulls[1]


@pytest.mark.filterwarnings("ignore::calibkit.CalibkitWarning")
@pytest.mark.parametrize("prevalence", [None, 0.3])
def test_a_table_with_fractions_of_rows_is_judged_by_about_as_many_rows(prevalence: Any) -> None:
    draw = np.random.default_rng(11)
    frame = pl.DataFrame({"score": draw.random(2000), "weight": draw.choice([0.3, 0.7, 2.0], 2000)})
    frame = frame.with_columns(label=pl.col("score") > pl.Series(draw.random(2000)))
    table = ck.bin(frame, weight="weight", score_bins=20)
    bound: dict[str, Any] = {"precision": 0.6, "prevalence": prevalence, "method": "exact"}
    found, near = (
        ck.fit_boundary(own, **bound).fit.cross_validated for own in (table, ck.bin(frame))
    )
    assert found is not None and near is not None
    assert found.standard_error is not None and near.standard_error is not None
    assert 0.2 < found.standard_error / near.standard_error < 5.0
