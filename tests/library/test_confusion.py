"""Measures of a confusion matrix beside scikit-learn, their slopes, what their intervals cover."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from sklearn import metrics as oracle

from calibkit.errors import UsageError
from calibkit.measures import decisions
from calibkit.measures.decisions import Confusion, confusion_of
from calibkit.measures.metrics import IntervalOptions, intervals, method
from calibkit.measures.result import Interval
from calibkit.measures.views import Sample
from calibkit.numerics.confusion import MEASURES, OBJECTIVES, Cells
from calibkit.options.evaluate import EvaluateOptions
from calibkit.options.metrics import Settings, read_metrics

PARAMETERS = {
    "weighted_accuracy": "0.7",
    "fbeta": "2",
    "utility": "1,-0.5,-2,0.1",
    "cost": "5,1",
}
NAMES = [f"{name}:{PARAMETERS[name]}" if name in PARAMETERS else name for name in MEASURES]


def weigh(*values: float) -> Callable[[np.ndarray, np.ndarray], float]:
    """Return the mean of what true and false positives, false and true negatives are worth."""

    def mean(label: np.ndarray, taken: np.ndarray) -> float:
        worth = np.array([[values[3], values[1]], [values[2], values[0]]])
        return float(worth[label, taken].mean())

    return mean


ORACLES: dict[str, Callable[[np.ndarray, np.ndarray], float]] = {
    "selected_share": lambda label, taken: taken.mean(),
    "accuracy": oracle.accuracy_score,
    "weighted_accuracy": weigh(0.3, 0.0, 0.0, 0.7),
    "balanced_accuracy": oracle.balanced_accuracy_score,
    "precision": oracle.precision_score,
    "recall": oracle.recall_score,
    "specificity": partial(oracle.recall_score, pos_label=0),
    "fpr": lambda label, taken: 1 - oracle.recall_score(label, taken, pos_label=0),
    "npv": partial(oracle.precision_score, pos_label=0),
    "f1": oracle.f1_score,
    "fbeta": partial(oracle.fbeta_score, beta=2),
    "jaccard": oracle.jaccard_score,
    "mcc": oracle.matthews_corrcoef,
    "kappa": oracle.cohen_kappa_score,
    "gmean": lambda label, taken: math.prod(oracle.recall_score(label, taken, average=None)) ** 0.5,
    "fowlkes_mallows": lambda label, taken: math.sqrt(
        oracle.precision_score(label, taken) * oracle.recall_score(label, taken)
    ),
    "youden": partial(oracle.balanced_accuracy_score, adjusted=True),
    "informedness": partial(oracle.balanced_accuracy_score, adjusted=True),
    "lift": lambda label, taken: oracle.precision_score(label, taken) / label.mean(),
    "utility": weigh(1.0, -0.5, -2.0, 0.1),
    "cost": weigh(0.0, 5.0, 1.0, 0.0),
}

cells_given = pytest.mark.parametrize(
    "cells", [(30, 10, 20, 140), (1, 1, 1, 1), (5, 60, 3, 20), (100, 1, 2, 3)]
)


def confusion_in(
    tp: int, fp: int, fn: int, tn: int, settings: Settings | None = None, **more: np.ndarray
) -> Confusion:
    label = np.repeat(np.array([1, 0, 1, 0], np.uint8), [tp, fp, fn, tn])
    taken = np.repeat(np.array([1, 1, 0, 0], np.uint8), [tp, fp, fn, tn])
    sample = Sample(score=taken, label=label, **more)
    return confusion_of(sample, "d", "all", settings or Settings())


def intervals_of(found: Confusion) -> dict[str, Interval]:
    return intervals(decisions.compute(found, NAMES), found, IntervalOptions())


@cells_given
def test_values_and_slopes_are_those_of_other_definitions(cells: tuple[int, ...]) -> None:
    """Values are scikit-learn's, slopes the quotients of differences."""
    assert ORACLES.keys() == MEASURES.keys()
    found = confusion_in(*cells)
    label, taken = found.sample.label, found.sample.score
    for text, value in decisions.compute(found, NAMES).items():
        name, _, rest = text.partition(":")
        assert value == pytest.approx(ORACLES[name](label, taken), rel=1e-12, abs=1e-15), name
        low, high = MEASURES[name].bounds
        assert low <= value <= high
        slopes = MEASURES[name].slopes(cells, *(float(x) for x in rest.split(",") if x))
        for place, slope in enumerate(slopes):
            step = np.eye(4)[place] * 1e-5
            up, down = (formula(text, Cells(*(cells + one)[:, None])) for one in (step, -step))
            assert slope == pytest.approx((up - down) / 2e-5, rel=1e-5, abs=1e-8), (name, place)


@given(st.tuples(*[st.integers(0, 5)] * 4))
def test_a_value_is_none_where_it_is_nothing_over_nothing(cells: tuple[int, ...]) -> None:
    values = decisions.compute(confusion_in(*cells), NAMES)
    tp, fp, fn, tn = cells
    assert (values["precision"] is None) == (tp + fp == 0)
    assert (values["youden"] is None) == (tp + fn == 0 or tn + fp == 0)
    assert (values["jaccard"] is None) == (tp + fp + fn == 0)
    assert (values["cost:5,1"] is None) == (not any(cells))
    for text, value in values.items():
        many = formula(text, Cells(*np.array(cells, float)[:, None]))
        assert math.isfinite(many)  # where the best of several is sought, 0 / 0 counts as 0
        if value is not None:
            assert many == pytest.approx(value, rel=1e-12, abs=1e-15)


def test_intervals_hold_what_they_promise() -> None:
    rng = np.random.default_rng(3)
    shares, rows, draws = np.array([0.12, 0.08, 0.1, 0.7]), 600, 500
    truth = {text: formula(text, Cells(*(shares[:, None] * 1e12))) for text in NAMES}
    held = dict.fromkeys(NAMES, 0)
    for drawn in rng.multinomial(rows, shares, draws).tolist():
        own = intervals_of(confusion_in(*drawn))
        assert own.keys() == set(NAMES)
        for text, interval in own.items():
            held[text] += interval.low <= truth[text] <= interval.high
    # Four standard errors of 500 draws are 3.9 points.
    assert {name: hits for name, hits in held.items() if not 0.91 <= hits / draws <= 0.99} == {}


@given(st.tuples(*[st.integers(0, 6)] * 4), st.sampled_from(["rows", "groups", "sampling"]))
def test_values_lie_in_their_intervals(cells: tuple[int, ...], design: str) -> None:
    settings = Settings(weight_kind="sampling" if design == "sampling" else "frequency")
    rows = np.arange(sum(cells))
    more = {"groups": {"group": rows // 2}, "sampling": {"weight": 1.0 + rows % 3}}
    found = confusion_in(*cells, settings, **more.get(design, {}))
    values = decisions.compute(found, NAMES)
    for text, interval in intervals_of(found).items():
        low, high = MEASURES[text.partition(":")[0]].bounds
        assert low - 1e-12 <= interval.low <= values[text] + 1e-9
        assert values[text] - 1e-9 <= interval.high <= high + 1e-12
        assert method(text, found, IntervalOptions()) is not None


def test_perfect_decisions_leave_doubt() -> None:
    own = intervals_of(confusion_in(12, 0, 0, 40))
    for name in ("mcc", "kappa", "gmean", "balanced_accuracy", "youden", "fowlkes_mallows"):
        assert own[name].low < 0.95 and own[name].high == pytest.approx(1.0)
    assert "cost:5,1" not in own  # no cost was seen, and none bounds it


def test_groups_of_equal_rows_widen_intervals() -> None:
    found, kept = confusion_in(30, 10, 20, 140), np.repeat(np.arange(200), 2)
    sample = replace(found.sample.rows_of(kept), group=kept)
    two = intervals_of(confusion_of(sample, "d", "all", Settings()))
    for name, interval in intervals_of(found).items():
        assert two[name].low == pytest.approx(interval.low, rel=0.05, abs=0.01), name
        assert two[name].high == pytest.approx(interval.high, rel=0.05, abs=0.01), name


def test_names_are_read_as_boundary_writes_them() -> None:
    bounds: dict[str, list] = {"recall_at_precision": [], "precision_at_recall": []}
    text = "auc,kappa,balanced-accuracy,fbeta:2,utility:1,-2,0,0,cost:5,1.0,tp"
    assert EvaluateOptions(metrics=text).chosen == (
        *("auc", "kappa", "balanced_accuracy", "fbeta:2", "utility:1,-2,0,0", "cost:5,1", "tp"),
    )
    shared = [name for name in NAMES if name.partition(":")[0].replace("_", "-") in OBJECTIVES]
    assert len(shared) == len(OBJECTIVES)
    read = read_metrics([name.replace("_", "-") for name in shared], bounds)
    assert read is not None and set(read) == set(shared)
    for text, said in (
        ("fbeta", "form fbeta:B"),
        ("fbeta:0", "positive"),
        ("kapa", "did you mean 'kappa'"),
        ("kappa:2", "not known"),
    ):
        with pytest.raises(UsageError, match=said):
            read_metrics([text], bounds)


def formula(text: str, cells: Cells) -> float:
    """Return a measure, by its name with its parameters, of one table of cells."""
    name, _, rest = text.partition(":")
    return float(MEASURES[name].formula(cells, *(float(x) for x in rest.split(",") if x))[0])


def test_metrics_of_decisions_among_those_chosen() -> None:
    assert decisions.names(None) == decisions.names(["auc"]) == list(decisions.DEFAULT)
    chosen = decisions.names(["kappa", "auc", "precision", "fbeta:2"])
    assert chosen == ["precision", "kappa", "fbeta:2"]
