"""What every fit says of scores that it can use and should not: and of good ones nothing."""

from __future__ import annotations

import warnings
from collections.abc import Callable

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


FITS: dict[str, Callable[..., object]] = {
    "boundary": lambda frame, **more: ck.fit_boundary(frame, recall=0.5, method="st", **more),
    "auto": lambda frame, **more: ck.fit_boundary(frame, recall=0.5, **more),
    "segments": lambda frame, **more: ck.fit_boundary(
        frame, recall=0.5, method="exact", by="part", weight="weight", **more
    ),
    "certified": lambda frame, **more: ck.fit_boundary(
        frame, fpr=0.5, confidence=0.9, method="st", **more
    ),
    "platt": lambda frame, **more: ck.fit_calibrator(frame, method="platt", **more),
    "by": lambda frame, **more: ck.fit_calibrator(frame, method="isotonic", by="part", **more),
    "hetcal": lambda frame, **more: ck.fit_hetcal(frame, max_depth=1, min_leaf=100, **more),
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
    turned = said(fit, rows().with_columns(score=1 - pl.col("score")))
    assert "higher scores go with fewer positives (AUC 0.1" in turned or turned == "infeasible"
    if name not in ("hetcal", "certified"):
        constant = said(fit, rows().with_columns(score=pl.lit(0.5)))
        assert "every row has the same score" in constant
    logits = said(fit, rows(), scale="logit")
    assert "look like probabilities, not like logits" in logits
    percentages = said(fit, rows(), scale="percent")
    assert "look like probabilities, not like percentages" in percentages
    hundredths = said(fit, rows().with_columns(pl.col("score") * 100), scale="percent")
    assert hundredths == ""


@given(
    st.lists(st.tuples(st.integers(0, 9), st.booleans()), min_size=1, max_size=120),
    st.booleans(),
)
def test_counted_rows_say_what_rows_say(some: list[tuple[int, bool]], spread: bool) -> None:
    score = np.array([value for value, _ in some]) / (9.0 if spread else 1.0)
    label = np.array([hit for _, hit in some], np.uint8)
    order = np.argsort(-score, kind="stable")
    for scale in ("probability", "logit", "raw"):
        counted = of_tally(
            "s", scale, score[order], np.ones(label.size, int), label[order], label.size
        )
        assert counted == of_rows("s", scale, score, label)
        heavy = of_tally(
            "s", scale, score[order], np.full(label.size, 7), 7 * label[order], label.size
        )
        assert heavy == counted


def test_two_scores_are_not_one() -> None:
    assert of_rows("s", "raw", np.repeat([0.0, 1.0], 20), np.repeat([0, 1], 20)) == []
    (remark,) = of_rows("s", "raw", np.ones(40), np.repeat([0, 1], 20))
    assert "every row has the same score" in remark


def test_four_standard_deviations_below_a_half_are_inverted() -> None:
    # sqrt((2 n + 1) / (12 n n)) of n rows each: 0.1259 of 11, 0.1203 of 12.
    assert inverted(np.array([11, 11]), np.array([11, 0])) is None
    assert inverted(np.array([12, 12]), np.array([12, 0])) is not None


def test_weights_make_no_rows() -> None:
    rows, hits = np.array([1, 1]), np.array([1, 0])
    assert inverted(rows, hits) is None
    for weight in (1, 7):
        assert "AUC 0.000" in (inverted(20 * weight * rows, 20 * weight * hits, 40) or "")
        assert inverted(20 * weight * rows, 20 * weight * hits, 8) is None


def test_many_distinct_scores_are_judged_in_blocks() -> None:
    frame = rows(200_000)
    score, label = frame["score"].to_numpy(), frame["label"].to_numpy()
    order = np.argsort(score)
    (remark,) = of_tally(
        "s", "raw", score[order], np.ones(label.size, int), label[order], label.size
    )
    assert "AUC 0.83" in remark or "AUC 0.16" in remark
    falling = order[::-1]
    ones = np.ones(label.size, int)
    assert of_tally("s", "raw", score[falling], ones, label[falling], label.size) == []


def test_chance_alone_is_not_called_inverted() -> None:
    rng = np.random.default_rng(0)
    for _ in range(300):
        score, label = rng.random(200), rng.integers(0, 2, 200)
        assert of_rows("s", "probability", score, label) == []
    assert inverted(np.array([3, 3]), np.array([3, 0])) is None  # too few to tell


def test_classes_are_far_apart_from_the_least_unit_on() -> None:
    whole = 2**60
    assert far_apart(whole, 0) == []  # of one class nothing is beside the other
    for hits, light in ((1, "positive"), (whole - 1, "negative")):
        (said,) = far_apart(whole, hits)
        assert said.startswith(f"weights: {light} rows together weigh 9e-19 ")
    assert far_apart(whole // 2, 1) == []


def test_a_few_rows_may_be_any_way_round() -> None:
    score = np.array([0.1, 0.2, 0.3, 0.8, 0.9])
    assert of_rows("s", "logit", score, np.array([1, 1, 1, 0, 0])) == []
