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


FITS: dict[str, dict[str, Any]] = {
    "stochastic, each": {"precision": 0.6, "method": "stochastic", "by": "g", "bound": "each"},
    "value, prevalence": {"fpr": 0.3, "value": "amount", "prevalence": 0.1, "method": "exact"},
    "value, prevalence, each": {
        "fpr": 0.3,
        "value": "amount",
        "prevalence": 0.1,
        "method": "exact",
        "by": "g",
        "bound": "each",
    },
    "prevalence, segments": {"precision": 0.1, "prevalence": 0.1, "method": "exact", "by": "g"},
    "prevalence, each": {"fpr": 0.5, "prevalence": 0.1, "method": "st", "by": "g", "bound": "each"},
    "a surface of the score alone": {"recall": 0.6, "method": "logistic"},
    "a surface of single scores": {"fpr": 0.4, "method": "logistic"},
}


@pytest.mark.filterwarnings("ignore::calibkit.CalibkitWarning")
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("name", FITS)
def test_figures_of_the_fit_are_those_of_a_test_on_its_rows(name: str, seed: int) -> None:
    frame, options = rows(seed), FITS[name] | {"folds": 0}
    options |= {"min_group_positives": 0} if "by" in options else {}
    model = ck.fit_boundary(frame, test=frame, **options)
    turned = ck.fit_boundary(frame.reverse(), test=frame.reverse(), **options)
    assert model.to_json() == turned.to_json()
    assert model.fit.test is not None
    near(model.fit.in_sample, model.fit.test)
    segments = list(model.groups.values()) if model.groups else []
    for segment in segments:
        if segment.fit.test is not None:
            near(segment.fit.in_sample, segment.fit.test)
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
    maps = [
        ck.fit_calibrator(score=own, label=label, method=method, scale="logit", clip=0)
        for own in (score, score.astype(np.float32))
    ]
    wide, narrow = (
        one.apply(score=own) for one, own in zip(maps, (score, score.astype("f4")), strict=True)
    )
    assert wide.tolist() == narrow.tolist()
    judged = [
        ck.evaluate(scores=own, label=label, scale="logit", intervals=False).metrics
        for own in (score, score.astype(np.float32))
    ]
    assert judged[0] == judged[1]


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
    options: dict[str, Any] = {"method": "st", "by": "g", "bound": "each", "folds": 0}
    twice = pl.concat([frame, frame])
    written = ck.fit_boundary(twice, precision=0.4, **options)
    weighed = ck.fit_boundary(
        frame.with_columns(weight=2), precision=0.4, weight="weight", **options
    )
    assert written.groups and weighed.groups
    assert list(written.groups) == list(weighed.groups)
