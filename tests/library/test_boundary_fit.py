"""Fitted boundaries: every figure counted again on the rows, by plain definitions."""

from __future__ import annotations

import math
import statistics
from fractions import Fraction
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from calibkit.columns.weights import in_units
from calibkit.errors import DataError, InfeasibleError
from calibkit.methods.boundary.result.application import decide
from calibkit.methods.boundary.result.model import BoundaryModel
from calibkit.models.model import decode
from calibkit.summaries.score_rows import ScoreRows
from tests.cli.score_files import decisions, margins, recount
from tests.library.samples import BOUNDS, FEWER, example, fit, score_rows, tables
from tests.naive import boundaries as naive

bounds = st.sampled_from(BOUNDS)
figures_bounded = pytest.mark.parametrize("bounded", ["precision", "recall"])


def frame_of(rows: ScoreRows) -> pl.DataFrame:
    columns = {"score": rows.score, "label": rows.label, "uncertainty": rows.uncertainty}
    return pl.DataFrame({name: own for name, own in columns.items() if own is not None})


def check_figures(found: Any, model: BoundaryModel, rows: ScoreRows, bounded: str) -> None:
    """Count the figures of a boundary on rows again, by the reader of models that shares no code."""
    weight = None if rows.weight is None else rows.weight.tolist()
    again = recount(model.as_dict(), frame_of(rows), weight)
    again["objective_value"] = again["recall" if bounded == "precision" else "precision"]
    for name, value in again.items():
        wanted = None if value is None else pytest.approx(value, rel=1e-11, abs=1e-300)
        assert getattr(found, name) == wanted, name


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
@given(table=tables(), fresh=tables(), bound=bounds)
def test_figures_are_counted_again(
    bounded: str,
    options: dict[str, Any],
    table: dict[str, list[Any]],
    fresh: dict[str, list[Any]],
    bound: str,
) -> None:
    """Of the rows of the fit and of others."""
    if options.get("method") == "vw-dpmt":  # one table entry a unit of weight: rows only
        table.pop("weight", None)
    rows, test = score_rows(**table), score_rows(**fresh)
    model = fitted_or_none(rows, test=test, folds=0, **{bounded: bound}, **options)
    if model is None:
        assert bounded == "precision"
        return
    for found, figures, own in (
        (model.fit, model.fit.in_sample, rows),
        (model.fit.test, model.fit.test, test),
    ):
        check_figures(figures, model, own, bounded)
        weight = np.ones(own.score.size) if own.weight is None else own.weight
        assert found.rows == pytest.approx(math.fsum(weight), rel=1e-12)
        assert found.positives == pytest.approx(math.fsum(weight * own.label), rel=1e-12)
    assert model.fit.exact_arithmetic == (rows.weight is None or in_units(rows.weight)[1].exact)
    limit, reached = float(Fraction(bound)), getattr(model.fit.in_sample, bounded)
    assert model.fit.bound_met
    assert reached >= limit or reached == pytest.approx(limit, rel=1e-15)
    value = model.fit.in_sample.objective_value
    assert value <= model.fit.upper_bound + 1e-12
    assert model.fit.optimal_in_sample == (value == model.fit.upper_bound)
    single = fitted_or_none(rows, folds=0, method="st", **{bounded: bound})
    if single is None:
        assert model.fit.score_only.selected == 0
    else:
        # Rounded weights are carried within levels: over other levels a sum may differ by a unit.
        check_figures(model.fit.score_only, single, rows, bounded)
        assert model.fit.score_only == single.fit.in_sample or not model.fit.exact_arithmetic
    assert decode(model.to_json()) == model


@given(table=tables(kinds=[None, "whole"]))
def test_the_data_in_outline(table: dict[str, list[Any]]) -> None:
    rows = score_rows(**table)
    model = fit(rows, recall="0.5", folds=0).model
    outline = model.fit.reference
    assert outline is not None and rows.uncertainty is not None
    times = np.ones(len(table["score"]), int) if rows.weight is None else rows.weight.astype(int)
    named = {"-inf": -math.inf, "inf": math.inf}
    for values, quantiles, counts, largest in (
        (rows.score, outline.score_quantiles, outline.score_counts, outline.score_max),
        (
            rows.uncertainty,
            outline.uncertainty_quantiles,
            outline.uncertainty_counts,
            outline.uncertainty_max,
        ),
    ):
        ordered = sorted(np.repeat(values, times).tolist())
        marks = [ordered[j * len(ordered) // 20] for j in range(20)]
        assert [named.get(q, q) for q in quantiles] == marks
        bins = np.array([naive.place_between(value, marks) for value in values.tolist()])
        assert counts == [int(times[bins == j].sum()) for j in range(20)]
        assert named.get(largest, largest) == values[times > 0].max()
    levels = naive.assign_levels(
        rows.uncertainty.tolist(), model.uncertainty_min, model.uncertainty_edges
    )
    per_level = [int(times[np.array(levels) == level].sum()) for level in range(3)]
    assert outline.rows_per_level == per_level
    assert outline.selected_share == model.fit.in_sample.selected / times.sum()


def test_test_rows_without_a_positive() -> None:
    table = example(50)
    nothing = score_rows([0.1, 0.99], [0, 0], [1.0, 1.0])
    found = fit(score_rows(**table), recall="0.5", test=nothing).model.fit.test
    assert found.positives == 0 and found.recall is None


@figures_bounded
@pytest.mark.parametrize("folds", [2, 5])
@FEWER
@given(seed=st.integers(0, 50), bound=bounds)
def test_cross_validation_by_hand(bounded: str, folds: int, seed: int, bound: str) -> None:
    table = example(60, seed=seed, distinct=9)
    rows = score_rows(table["score"], table["label"])
    model = fitted_or_none(rows, method="st", folds=folds, seed=seed, **{bounded: bound})
    assume(model is not None)
    entries = naive.tally(table["score"].tolist(), [0] * 60, table["label"].tolist())
    dealt = naive.deal_entries(entries, folds, seed)
    counts = []
    for fold in range(folds):
        (prefixes,) = naive.prefix_points(dealt, 1, fold)
        every = max((t for _, t, _ in prefixes), default=0)
        cut = naive.best_threshold(prefixes, bounded, Fraction(bound), every)
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


def test_whole_weights_are_dealt_as_rows() -> None:
    table = example(80, seed=9, distinct=12)
    weight = np.random.default_rng(9).integers(1, 4, 80)
    repeated = {name: np.repeat(column, weight) for name, column in table.items()}
    first = fit(score_rows(**table, weight=weight), precision="0.6").model
    second = fit(score_rows(**repeated), precision="0.6").model
    assert first.fit == second.fit


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


def test_what_cannot_be_reached_is_refused_with_what_can() -> None:
    # One step fits no level alone but two levels together: staircase finds nothing, exact does.
    rows = score_rows([0.9, 0.8, 0.9, 0.8], [1, 0, 0, 0], [1, 1, 2, 2])
    with pytest.raises(InfeasibleError, match="exact"):
        fit(rows, precision="1", method="staircase", score_bins=2, uncertainty_bins=2, folds=0)
    with pytest.raises(InfeasibleError, match=r"selection reaches is 0\.333333, with 3 rows"):
        fit(score_rows([0.9] * 3, [1, 0, 0]), precision="0.5", folds=0)
    # Rounded to six digits it would be the bound itself.
    with pytest.raises(InfeasibleError, match=r"selection reaches is 0\.6666666666666666, with"):
        fit(score_rows([0.9] * 3, [1, 1, 0]), precision="0.666667", folds=0)
    rows = score_rows([np.inf, 0.5, -np.inf], [1, 1, 0], [1, 2, 3])
    with pytest.raises(DataError, match="finite"):
        fit(rows, precision="0.5", score_bins=2, order="score-uncertainty", folds=0)


def test_thresholds_of_never_always_and_infinity() -> None:
    ends = score_rows([np.inf, 0.8, -np.inf], [1, 0, 1])
    split = score_rows([0.9, 0.8], [1, 0], [1, 2])
    new = score_rows([-np.inf, 0.0, 0.9, np.inf], None, [1.0, 1.0, 1.0, 2.0])
    for rows, options, thresholds, expected in (
        (split, {"precision": "1", "uncertainty_bins": 2}, [0.9, None], [0, 0, 1, 0]),
        (score_rows([0.9, 0.8], [1, 1]), {"precision": "1", "score_bins": 2}, ["-inf"], [1] * 4),
        (ends, {"precision": "1"}, ["inf"], [0, 0, 0, 1]),
        (ends, {"recall": "1"}, ["-inf"], [1] * 4),
    ):
        model = fit(rows, **options).model
        assert model.score_thresholds == thresholds
        decision, margin = decide(decode(model.to_json()), new.score, new.uncertainty)
        assert decision.tolist() == expected
        if thresholds != ["inf"]:
            known = margins(model.as_dict(), frame_of(new))
            assert np.isnan(margin).tolist() == [one is None for one in known]


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
    bins = {"uncertainty_bins": shape[0], "score_bins": shape[1], "order": "score-uncertainty"}
    model = fitted_or_none(rows, folds=0, **bins, **{bounded: bound})
    assume(model is not None)
    assert model.score_thresholds == [] and len(model.take) == shape[0]
    # Its figures are of the cells of the grid.
    check_figures(model.fit.in_sample, model, rows, bounded)
    again, content = decode(model.to_json()), model.as_dict()
    # New values beyond the fitted ones fall into the outermost bins that held rows.
    beyond = score_rows([-99.0, 99.0, 0.0], None, [99.0, -99.0, 0.0])
    for some in (rows, beyond):
        decision, _ = decide(again, some.score, some.uncertainty)
        assert decision.tolist() == decisions(content, frame_of(some))


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


def test_provenance_is_of_rows_and_of_options_that_shape_the_result() -> None:
    table = example(60)
    rows = score_rows(**table)
    first = fit(rows, precision="0.60").model.provenance
    assert first.rows == 60 and first.options["precision"] == "0.6"
    assert fit(rows, precision="0.6", threads=2).model.provenance == first
    assert fit(rows, precision="0.7").model.provenance.data_hash == first.data_hash
    table["label"][0] ^= 1
    for other, options in ((rows, {"uncertainty_bins": 1}), (score_rows(**table), {})):
        found = fit(other, precision="0.6", **options).model.provenance
        assert found.data_hash != first.data_hash
    assert fit(rows, precision="0.6", provenance="none").model.provenance is None
    assert fit(rows, precision="0.6", tags={"a": "b"}).model.tags == {"a": "b"}
