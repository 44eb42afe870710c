"""What every fit says of scores that it can use and should not: and of good ones nothing."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import calibkit as ck
from calibkit.columns.remarks import far_apart, inverted, of_tally


def of_rows(name: str, scale: str, score: np.ndarray, label: np.ndarray) -> list[str]:
    """Return the remarks on rows in any order."""
    distinct, place = np.unique(score, return_inverse=True)
    rows = np.bincount(place, minlength=distinct.size)
    hits = np.bincount(place[label == 1], minlength=distinct.size)
    return of_tally(name, scale, distinct[::-1], rows[::-1], hits[::-1], score.size)


def rows(size: int = 2_000, seed: int = 0) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    score = rng.random(size)
    return pl.DataFrame(
        {
            "score": score,
            "label": (rng.random(size) < score).astype(np.int8),
            "feature_1": rng.integers(0, 3, size),
            "part": rng.integers(0, 2, size),
            "weight": rng.integers(1, 4, size),
        }
    )


boundary = partial(ck.fit_boundary, recall=0.5)

FITS: dict[str, Callable[..., object]] = {
    "boundary": partial(boundary, method="st"),
    "auto": boundary,
    "segments": partial(boundary, method="exact", by="part", weight="weight"),
    "certified": partial(ck.fit_boundary, fpr=0.5, confidence=0.9, method="st"),
    "platt": partial(ck.fit_calibrator, method="platt"),
    "by": partial(ck.fit_calibrator, method="isotonic", by="part"),
    "hetcal": partial(ck.fit_hetcal, max_depth=1, min_leaf=100),
}


def said(fit: Callable[..., object], frame: pl.DataFrame, **more: object) -> str:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ck.CalibkitWarning)
        try:
            fit(frame, **more)
        except ck.InfeasibleError:
            return "infeasible"
    texts = [str(one.message) for one in caught]
    return " ".join(text for text in texts if not text.startswith("expect "))  # of a bound so near


@pytest.mark.parametrize("name", FITS)
def test_fits_of_good_rows_say_nothing_and_of_odd_ones_something(name: str) -> None:
    fit = FITS[name]
    assert said(fit, rows()) == ""
    assert said(fit, rows().with_columns(pl.col("score") * 100), scale="percent") == ""
    turned = said(fit, rows().with_columns(score=1 - pl.col("score")))
    assert "higher scores go with fewer positives (AUC 0.1" in turned or turned == "infeasible"
    if name not in ("hetcal", "certified"):
        constant = said(fit, rows().with_columns(score=pl.lit(0.5)))
        assert "every row has the same score" in constant
    for scale, words in (("logit", "logits"), ("percent", "percentages")):
        assert f"look like probabilities, not like {words}" in said(fit, rows(), scale=scale)


@given(
    st.lists(st.tuples(st.integers(0, 9), st.booleans()), min_size=1, max_size=120),
    st.booleans(),
)
def test_counted_rows_say_what_rows_say(some: list[tuple[int, bool]], spread: bool) -> None:
    score = np.array([value for value, _ in some]) / (9.0 if spread else 1.0)
    label = np.array([hit for _, hit in some], np.uint8)
    order = np.argsort(-score, kind="stable")
    for scale in ("probability", "logit", "raw"):
        for heavy in (1, 7):
            times, hits = np.full(label.size, heavy), heavy * label[order]
            counted = of_tally("s", scale, score[order], times, hits, label.size)
            assert counted == of_rows("s", scale, score, label)


def test_what_few_rows_may_be() -> None:
    assert of_rows("s", "raw", np.repeat([0.0, 1.0], 20), np.repeat([0, 1], 20)) == []
    (remark,) = of_rows("s", "raw", np.ones(40), np.repeat([0, 1], 20))
    assert "every row has the same score" in remark
    score = np.array([0.1, 0.2, 0.3, 0.8, 0.9])  # any way round
    assert of_rows("s", "logit", score, np.array([1, 1, 1, 0, 0])) == []


def test_four_standard_deviations_below_a_half_are_inverted() -> None:
    rows, hits = np.array([1, 1]), np.array([1, 0])
    # sqrt((2 n + 1) / (12 n n)) of n rows each: 0.1259 of 11, 0.1203 of 12.
    for few in (1, 3, 11):
        assert inverted(few * rows, few * hits) is None
    assert inverted(12 * rows, 12 * hits) is not None
    for weight in (1, 7):  # weights make no rows
        assert "AUC 0.000" in (inverted(20 * weight * rows, 20 * weight * hits, 40) or "")
        assert inverted(20 * weight * rows, 20 * weight * hits, 8) is None


def test_many_distinct_scores_are_judged_in_blocks() -> None:
    score, label = rows(200_000).sort("score").select("score", "label").to_numpy().T
    ones = np.ones(label.size, int)
    (remark,) = of_tally("s", "raw", score, ones, label, label.size)
    assert "AUC 0.83" in remark or "AUC 0.16" in remark
    assert of_tally("s", "raw", score[::-1], ones, label[::-1], label.size) == []


def test_chance_alone_is_not_called_inverted() -> None:
    rng = np.random.default_rng(0)
    for _ in range(300):
        score, label = rng.random(200), rng.integers(0, 2, 200)
        assert of_rows("s", "probability", score, label) == []


def test_classes_are_far_apart_from_the_least_unit_on() -> None:
    whole = 2**60
    assert far_apart(whole, 0) == []  # of one class nothing is beside the other
    for hits, light in ((1, "positive"), (whole - 1, "negative")):
        (said,) = far_apart(whole, hits)
        assert said.startswith(f"weights: {light} rows together weigh 9e-19 ")
    assert far_apart(whole // 2, 1) == []
