"""Fitted boundaries: every figure counted again on the rows, by plain definitions."""

from __future__ import annotations

import math
import statistics
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from calibkit.bins.binning import fit_grid
from calibkit.columns.columns import ScoreRows
from calibkit.columns.weights import in_units
from calibkit.errors import DataError, InfeasibleError
from calibkit.methods.boundary.application import decide
from calibkit.methods.boundary.result.model import BoundaryModel
from calibkit.models.model import decode
from tests.library.samples import BOUNDS, FEWER, bins_of, example, fit, score_rows, tables
from tests.naive import boundaries as naive

bounds = st.sampled_from(BOUNDS)
figures_bounded = pytest.mark.parametrize("bounded", ["precision", "recall"])


def naive_thresholds(model: BoundaryModel, rows: ScoreRows) -> list[float]:
    """Return each row's threshold, read off the model's JSON."""
    content = model.as_dict()
    named = {None: math.nan, "-inf": -math.inf, "inf": math.inf}
    by_level = [named.get(t, t) for t in content["score_thresholds"]]
    edges, low = content["uncertainty_edges"], content["uncertainty_min"]
    if len(by_level) == 1:
        return by_level * rows.score.size
    assert rows.uncertainty is not None
    levels = naive.assign_levels(rows.uncertainty.tolist(), low, edges)
    return [by_level[level] for level in levels]


def naive_figures(model: BoundaryModel, rows: ScoreRows, bounded: str) -> dict[str, Any]:
    """Return the figures of a boundary on rows, counted in fractions."""
    assert rows.label is not None
    weight = [
        Fraction(w) for w in (np.ones(rows.score.size) if rows.weight is None else rows.weight)
    ]
    cuts = naive_thresholds(model, rows)
    chosen = [s >= t for s, t in zip(rows.score.astype(float).tolist(), cuts, strict=True)]
    label = rows.label.tolist()

    def count(keep: Any) -> Fraction:
        return sum(
            (w for w, *row in zip(weight, chosen, label, strict=True) if keep(*row)), Fraction()
        )

    selected, hits = count(lambda c, y: c), count(lambda c, y: c and y)
    everything, positives = count(lambda c, y: True), count(lambda c, y: y)
    negatives = everything - positives

    def ratio(part: Fraction, whole: Fraction) -> float | None:
        return float(part / whole) if whole else None

    precision, recall = ratio(hits, selected), ratio(hits, positives)
    return {
        "selected": float(selected),
        "true_positives": float(hits),
        "precision": precision,
        "recall": recall,
        "false_positive_rate": ratio(selected - hits, negatives),
        "objective_value": recall if bounded == "precision" else precision,
    }


def assert_figures(found: Any, expected: dict[str, Any]) -> None:
    for name, value in expected.items():
        if value is None:
            assert getattr(found, name) is None, name
        else:
            assert getattr(found, name) == pytest.approx(value, rel=1e-11, abs=1e-300), name


def fitted_or_none(rows: ScoreRows, **options: Any) -> BoundaryModel | None:
    try:
        return fit(rows, **options).model
    except InfeasibleError:
        return None


METHODS = [
    {},
    {"method": "st"},
    {"method": "st", "uncertainty_bins": 3},
    {"method": "gmt"},
    {"method": "mist"},
    {"score_bins": 3},
    {"method": "vw-dpmt", "score_bins": 4},
    {"strategy": "equal-width"},
    {"uncertainty_bins": 1},
]


PAIRS = [(bounded, options) for bounded in ("precision", "recall") for options in METHODS]


@pytest.mark.few(7)
@pytest.mark.parametrize(("bounded", "options"), PAIRS, ids=str)
@FEWER
@given(table=tables(), bound=bounds)
def test_figures_are_counted_again(
    bounded: str, options: dict[str, Any], table: dict[str, list[Any]], bound: str
) -> None:
    if options.get("method") == "vw-dpmt":  # one table entry a unit of weight: rows only
        table.pop("weight", None)
    rows = score_rows(**table)
    model = fitted_or_none(rows, folds=0, **{bounded: bound}, **options)
    if model is None:
        assert bounded == "precision"
        return
    expected = naive_figures(model, rows, bounded)
    assert_figures(model.fit.in_sample, expected)
    weight = np.ones(len(table["score"])) if rows.weight is None else rows.weight
    assert model.fit.rows == pytest.approx(math.fsum(weight), rel=1e-12)
    assert model.fit.positives == pytest.approx(math.fsum(weight * rows.label), rel=1e-12)
    assert model.fit.exact_arithmetic == (rows.weight is None or in_units(rows.weight)[1].exact)
    limit = float(Fraction(bound))
    assert model.fit.bound_met
    assert expected[bounded] >= limit or expected[bounded] == pytest.approx(limit, rel=1e-15)
    value = model.fit.in_sample.objective_value
    assert value <= model.fit.upper_bound + 1e-12
    assert model.fit.optimal_in_sample == (value == model.fit.upper_bound)
    single = fitted_or_none(rows, folds=0, method="st", **{bounded: bound})
    if single is None:
        assert model.fit.score_only.selected == 0
    else:
        # Rounded weights are carried within levels: over other levels a sum may differ by a unit.
        alone = single.fit.in_sample
        assert_figures(model.fit.score_only, {name: getattr(alone, name) for name in expected})
        assert model.fit.score_only == alone or not model.fit.exact_arithmetic
    assert decode(model.to_json()) == model


@given(table=tables(kinds=[None, "whole"]))
def test_the_data_in_outline(table: dict[str, list[Any]]) -> None:
    rows = score_rows(**table)
    model = fit(rows, recall="0.5", folds=0).model
    outline = model.fit.reference
    assert outline is not None and rows.uncertainty is not None
    times = np.ones(len(table["score"]), int) if rows.weight is None else rows.weight.astype(int)

    def quantiles(values: np.ndarray) -> list[float]:
        ordered = sorted(np.repeat(values, times).tolist())
        return [ordered[j * len(ordered) // 20] for j in range(20)]

    named = {"-inf": -math.inf, "inf": math.inf}
    assert [named.get(q, q) for q in outline.score_quantiles] == quantiles(rows.score)
    assert outline.uncertainty_quantiles == quantiles(rows.uncertainty)
    for values, counts, largest in (
        (rows.score, outline.score_counts, outline.score_max),
        (rows.uncertainty, outline.uncertainty_counts, outline.uncertainty_max),
    ):
        marks = quantiles(values)
        bins = np.array([bin_between(max(value, marks[0]), marks) for value in values.tolist()])
        assert counts == [int(times[bins == j].sum()) for j in range(20)]
        assert named.get(largest, largest) == values[times > 0].max()
    levels = naive.assign_levels(
        rows.uncertainty.tolist(), model.uncertainty_min, model.uncertainty_edges
    )
    per_level = [int(times[np.array(levels) == level].sum()) for level in range(3)]
    assert outline.rows_per_level == per_level
    assert outline.selected_share == model.fit.in_sample.selected / times.sum()


def bin_between(value: float, marks: list[float]) -> int:
    """Return the last quantile at or below a value; of several equal to it the first."""
    if marks.count(value) > 1:
        return marks.index(value)
    return max(j for j, mark in enumerate(marks) if mark <= value)


@figures_bounded
@FEWER
@given(table=tables(), fresh=tables(), bound=bounds)
def test_figures_on_test_rows(
    bounded: str, table: dict[str, list[Any]], fresh: dict[str, list[Any]], bound: str
) -> None:
    test = score_rows(**fresh)
    model = fitted_or_none(score_rows(**table), test=test, folds=0, **{bounded: bound})
    assume(model is not None)
    found = model.fit.test
    assert_figures(found, naive_figures(model, test, bounded))
    weight = np.ones(len(fresh["score"])) if test.weight is None else test.weight
    assert found.rows == pytest.approx(math.fsum(weight))
    assert found.positives == pytest.approx(math.fsum(weight * test.label))


def test_test_rows_without_a_positive() -> None:
    table = example(50)
    nothing = score_rows([0.1, 0.99], [0, 0], [1.0, 1.0])
    found = fit(score_rows(**table), recall="0.5", test=nothing).model.fit.test
    assert found.positives == 0 and found.recall is None


# ---------------------------------------------------------------- cross-validation


def naive_single_threshold(
    rows: list[tuple[int, int, float]], bounded: str, bound: Fraction
) -> float:
    """Return the threshold of the best prefix of (rows, positives, lowest score); NaN for none."""
    positives = max((t for _, t, _ in rows), default=0)
    if bounded == "precision":
        able = [(t, -m, s) for m, t, s in rows if t >= bound * m]
    else:
        able = [(Fraction(t, m), t, s) for m, t, s in rows if t >= bound * positives]
    return max(able)[2] if able else math.nan


@figures_bounded
@pytest.mark.parametrize("folds", [2, 5])
@FEWER
@given(seed=st.integers(0, 50), bound=bounds)
def test_cross_validation_by_hand(bounded: str, folds: int, seed: int, bound: str) -> None:
    table = example(60, seed=seed, distinct=9)
    rows = score_rows(table["score"], table["label"])
    options = {"method": "st", "folds": folds, "seed": seed, bounded: bound}
    model = fitted_or_none(rows, **options)
    assume(model is not None)
    entries = naive.tally(table["score"].tolist(), [0] * 60, table["label"].tolist())
    dealt = naive.deal_entries(entries, folds, seed)
    counts = []
    for fold in range(folds):
        (prefixes,) = naive.prefix_points(dealt, 1, fold)
        cut = naive_single_threshold(prefixes, bounded, Fraction(bound))
        held = [e for e in dealt if e[2] == fold]
        positives = sum(e[4] for e in held)
        counts.append((*naive.count_selected(held, [cut]), positives))
    selected, hits, positives = (sum(column) for column in zip(*counts, strict=True))
    precision = hits / selected if selected else None
    recall = hits / positives
    pairs = [(t, y) if bounded == "precision" else (t, m) for m, t, y in counts]
    values = [part / whole for part, whole in pairs if whole]
    error = statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else None
    found = model.fit.cross_validated
    assert (found.precision, found.recall, found.folds) == (precision, recall, folds)
    assert found.objective_value == (recall if bounded == "precision" else precision)
    assert found.standard_error == (None if error is None else pytest.approx(error, abs=1e-15))


def test_each_row_is_in_one_fold() -> None:
    table = example(60)
    folds = fit(score_rows(**table), recall="0.5", folds=3).folds
    assert [fold.rows for fold in folds] == [20, 20, 20]
    assert sum(fold.positives for fold in folds) == table["label"].sum()


def test_whole_weights_are_dealt_as_rows() -> None:
    table = example(80, seed=9, distinct=12)
    weight = np.random.default_rng(9).integers(1, 4, 80)
    repeated = {name: np.repeat(column, weight) for name, column in table.items()}
    first = fit(score_rows(**table, weight=weight), precision="0.6").model
    second = fit(score_rows(**repeated), precision="0.6").model
    assert first.fit == second.fit


def test_folds_see_what_is_to_be_expected() -> None:
    """Labels that scores say nothing of: precision in folds is near the base rate, not above."""
    rng = np.random.default_rng(5)
    score, label = rng.random(3000), rng.random(3000) < 0.3
    rows = score_rows(score, label.astype(int), rng.random(3000))
    model = fit(rows, precision="0.35", uncertainty_bins=10).model
    assert model.fit.in_sample.precision >= 0.35
    assert model.fit.cross_validated.precision < 0.34


@pytest.mark.parametrize(
    ("score", "label"),
    [([0.1, 0.5, 0.9], [0, 0, 1]), ([0.1 * i for i in range(30)], [1, 1] + [0] * 28)],
)
def test_too_few_rows_for_folds(score: list[float], label: list[int]) -> None:
    found = fit(score_rows(score, label), recall="1", folds=5)
    assert found.model.fit.cross_validated is None
    assert any("too few" in warning for warning in found.warnings)
    without = fit(score_rows(score, label), recall="1", folds=0)
    assert without.model.fit.cross_validated is None and not without.warnings


# ---------------------------------------------------------------- refused


def test_what_a_method_misses_the_advice_names() -> None:
    # One step fits no level alone but two levels together: staircase finds nothing, exact does.
    rows = score_rows([0.9, 0.8, 0.9, 0.8], [1, 0, 0, 0], [1, 1, 2, 2])
    with pytest.raises(InfeasibleError, match="exact"):
        fit(rows, precision="1", method="staircase", score_bins=2, uncertainty_bins=2, folds=0)


def test_the_highest_precision_that_can_be_reached_is_named() -> None:
    with pytest.raises(InfeasibleError, match=r"selection reaches is 0\.333333, with 3 rows"):
        fit(score_rows([0.9] * 3, [1, 0, 0]), precision="0.5", folds=0)
    # Rounded to six digits it would be the bound itself.
    with pytest.raises(InfeasibleError, match=r"selection reaches is 0\.6666666666666666, with"):
        fit(score_rows([0.9] * 3, [1, 1, 0]), precision="0.666667", folds=0)


# ---------------------------------------------------------------- thresholds


def test_thresholds_of_never_always_and_infinity() -> None:
    never = fit(score_rows([0.9, 0.8], [1, 0], [1, 2]), precision="1", uncertainty_bins=2).model
    assert never.score_thresholds == [0.9, None]
    always = fit(score_rows([0.9, 0.8], [1, 1]), precision="1", score_bins=2).model
    assert always.score_thresholds == ["-inf"]
    infinite = fit(score_rows([np.inf, 0.8, -np.inf], [1, 0, 1]), precision="1").model
    assert infinite.score_thresholds == ["inf"]
    lowest = fit(score_rows([np.inf, 0.8, -np.inf], [1, 0, 1]), recall="1").model
    assert lowest.score_thresholds == ["-inf"]

    score, uncertainty = np.array([-np.inf, 0.0, 0.9, np.inf]), np.array([1.0, 1.0, 1.0, 2.0])
    for model, expected in ((never, [0, 0, 1, 0]), (always, [1] * 4), (infinite, [0, 0, 0, 1])):
        again = decode(model.to_json())
        decision, margin = decide(again, score, uncertainty)
        assert decision.tolist() == expected
        if model is not infinite:
            threshold = np.array(naive_thresholds(model, score_rows(score, None, uncertainty)))
            assert np.isnan(margin).tolist() == (~np.isfinite(threshold)).tolist()


@pytest.mark.parametrize("floats", [np.float32, np.float64])
def test_scores_equal_to_the_threshold_are_positive_in_their_type(floats: type) -> None:
    rows = score_rows([0.1, 0.3, 0.7, 0.9], [0, 0, 1, 1], floats=floats, scale="probability")
    model = fit(rows, precision="1").model
    assert model.columns["score"].dtype == np.dtype(floats).name
    assert model.score_thresholds == [float(floats(0.7))]
    decision, margin = decide(model, rows.score, None)
    assert decision.tolist() == [0, 0, 1, 1]
    assert margin[2] == 0.0 and margin[1] < 0 < margin[3]


@figures_bounded
@FEWER
@given(table=tables(kinds=[None, "whole"]), bound=bounds, shape=st.tuples(*[st.integers(1, 4)] * 2))
def test_score_first_models_decide_as_their_grid(
    bounded: str, table: dict[str, list[Any]], bound: str, shape: tuple[int, int]
) -> None:
    table["score"] = np.nan_to_num(np.array(table["score"]), posinf=3.0, neginf=-3.0)
    rows = score_rows(**table)
    model = fitted_or_none(
        rows,
        folds=0,
        uncertainty_bins=shape[0],
        score_bins=shape[1],
        order="score-uncertainty",
        **{bounded: bound},
    )
    assume(model is not None)
    assert model.score_thresholds == [] and len(model.take) == shape[0]
    grid = fit_grid(rows, *shape, order="score-uncertainty")
    level, column = bins_of(grid, rows)
    inside = column >= shape[1] - np.array(model.take)[level]
    decision, _ = decide(decode(model.to_json()), rows.score, rows.uncertainty)
    weight = np.ones(inside.size) if rows.weight is None else rows.weight
    present = weight > 0
    assert decision[present].tolist() == inside[present].astype(int).tolist()
    assert model.fit.in_sample.selected == weight[inside].sum()
    assert model.fit.in_sample.true_positives == (weight * rows.label)[inside].sum()
    # New values beyond the fitted ones fall into the outermost bins that held rows.
    new = np.array([-99.0, 99.0, 0.0]), np.array([99.0, -99.0, 0.0])
    assert decide(model, *new)[0].size == 3


def test_score_bins_without_rows_have_no_levels() -> None:
    rows = score_rows([0.2, 0.2, 0.2, 0.2, 0.8, 0.8], [0, 1, 0, 0, 1, 1], [1, 2, 3, 4, 5, 6])
    shape = {"score_bins": 3, "uncertainty_bins": 2, "order": "score-uncertainty"}
    model = fit(rows, precision="0.5", folds=0, **shape).model
    assert model.score_edges == [0.2, 0.8]
    assert model.uncertainty_min == [None, 1.0, 5.0]
    assert model.uncertainty_edges == [[], [3.0], [6.0]]


def test_a_surface_that_never_selects_has_no_cut() -> None:
    rows = score_rows([0.1, 0.2, 0.3, 0.4, 0.6, 0.8], [0, 1, 0, 0, 1, 0], scale="probability")
    model = fit(rows, method="logistic", minimize="cost:9,1", folds=0).model
    assert model.cut is None and set(model.score_thresholds) == {None}


def test_infinite_scores_have_no_score_first_order() -> None:
    rows = score_rows([np.inf, 0.5, -np.inf], [1, 1, 0], [1, 2, 3])
    with pytest.raises(DataError, match="finite"):
        fit(rows, precision="0.5", score_bins=2, order="score-uncertainty", folds=0)


# ---------------------------------------------------------------- what a model says of itself


def test_provenance_is_of_rows_and_of_options_that_shape_the_result() -> None:
    table = example(60)
    rows = score_rows(**table)
    first = fit(rows, precision="0.60").model.provenance
    assert first.rows == 60 and first.options["precision"] == "0.6"
    assert fit(rows, precision="0.6", threads=2).model.provenance == first
    assert fit(rows, precision="0.7").model.provenance.data_hash == first.data_hash
    assert (
        fit(rows, precision="0.6", uncertainty_bins=1).model.provenance.data_hash != first.data_hash
    )
    table["label"][0] = 1 - table["label"][0]
    assert fit(score_rows(**table), precision="0.6").model.provenance.data_hash != first.data_hash
    assert fit(rows, precision="0.6", provenance="none").model.provenance is None
    assert fit(rows, precision="0.6", tags={"a": "b"}).model.tags == {"a": "b"}


def test_rounded_weights_are_said_but_no_warning() -> None:
    table = example(60)
    weight = np.random.default_rng(0).random(60)
    found = fit(score_rows(**table, weight=np.round(weight * 8) / 8), precision="0.5", folds=0)
    assert found.model.fit.exact_arithmetic and not found.warnings
    found = fit(score_rows(**table, weight=weight), precision="0.5", folds=0)
    assert not found.model.fit.exact_arithmetic
    assert not found.warnings  # weights of 0.1 are as good as any under --warnings error
