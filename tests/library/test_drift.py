"""Drift: the stability index and its chance, and counts that do not depend on how rows are cut."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from calibkit.drift.drift import fit as drift
from calibkit.drift.figures import chi_square_tail, stability
from calibkit.files.sources import Source
from calibkit.methods.boundary.problem.columns import (
    place_between,
    quantiles_of_rows,
    quantiles_of_tally,
)
from calibkit.methods.boundary.result.fit import fit_boundary
from calibkit.methods.boundary.result.model import BoundaryModel
from calibkit.models.model import canonical_json
from calibkit.options.boundary import BoundaryOptions
from calibkit.options.shared import ColumnOptions
from calibkit.options.watch import DriftOptions
from calibkit.summaries.score_rows import read_score_rows
from calibkit.summaries.tally import count_rows
from tests.budgets import little_memory
from tests.cli.score_files import simulate
from tests.naive import boundaries as naive


@pytest.mark.parametrize("free", [0, 1, 2, 3, 8, 19, 60])
@pytest.mark.parametrize("x", [0.0, 1e-9, 0.5, 3.0, 19.0, 80.0, 2e3])
def test_the_tail_of_the_chi_square_law(x: float, free: int) -> None:
    expected = stats.chi2.sf(x, free) if free else float(x <= 0.0)
    assert chi_square_tail(x, free) == pytest.approx(expected, rel=1e-11, abs=1e-300)


def test_the_index_is_the_sum_over_bins() -> None:
    new, old = [30.0, 50.0, 20.0], [250.0, 500.0, 250.0]
    found = stability(new, old, (100.0, 1000.0), 0.95)
    terms = [(a / 100 - e / 1000) * math.log(10 * a / e) for a, e in zip(new, old, strict=True)]
    assert found.value == pytest.approx(sum(terms), rel=1e-14)
    assert found.expected == pytest.approx(2 * (1 / 100 + 1 / 1000), rel=1e-14)
    expected = stats.chi2_contingency(np.array([new, old]), correction=False).pvalue
    assert found.p_value == pytest.approx(expected, rel=1e-10)
    assert found.interval.low == 0.0
    # An empty bin counts as half a row.
    found = stability([0.0, 100.0], [50.0, 50.0], (100.0, 100.0), 0.9)
    expected = (0.005 - 0.5) * math.log(0.01) + 0.5 * math.log(2.0)
    assert found.value == pytest.approx(expected, rel=1e-14)
    assert math.isfinite(found.interval.high or 0.0)
    # One bin cannot drift.
    found = stability([7.0], [50.0], (7.0, 50.0), 0.95)
    assert (found.value, found.expected, found.p_value) == (0.0, 0.0, 1.0)
    assert (found.interval.low, found.interval.high) == (0.0, 0.0)


def test_large_drift_has_an_interval_around_it() -> None:
    """The delta method, written out with the true shares."""
    found = stability([9000.0, 1000.0], [5000.0, 5000.0], (10_000.0, 10_000.0), 0.95)
    assert found.p_value < 1e-300
    assert found.interval.low is not None and found.interval.high is not None
    assert 0.0 < found.interval.low < found.value < found.interval.high
    new, old, variance = np.array([0.9, 0.1]), np.array([0.5, 0.5]), 0.0
    for own, other in ((new, old), (old, new)):
        slopes = np.log(own / other) + 1 - other / own
        variance += own @ slopes**2 - (own @ slopes) ** 2
    width = 2 * 1.959964 * math.sqrt(variance / 10_000)
    assert found.interval.high - found.interval.low == pytest.approx(width, rel=1e-2)


@given(
    st.lists(st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0]), min_size=1, max_size=40),
    st.lists(st.floats(-1.0, 2.0), min_size=1, max_size=20),
)
def test_values_between_quantiles_with_ties(known: list[float], new: list[float]) -> None:
    marks = sorted(known)
    quantiles = [marks[j * len(marks) // 20] for j in range(20)]
    values = np.array([*new, *known]) + 0.0
    expected = [naive.place_between(value, quantiles) for value in values.tolist()]
    assert place_between(values, np.array(quantiles)).tolist() == expected


@given(st.lists(st.sampled_from([0.0, 0.125, 0.5, 0.75, 1.0, math.inf]), min_size=1, max_size=60))
def test_the_outline_of_a_tally_is_that_of_its_rows(known: list[float]) -> None:
    values = np.array(known)
    zeros = np.zeros(values.size, np.uint8)
    tally = count_rows(values, zeros.astype(np.uint16), zeros, 1)
    assert quantiles_of_tally(tally) == quantiles_of_rows(values, None)


def fitted(frame: pl.DataFrame, *, weight: str | None = None, **more: Any) -> BoundaryModel:
    options = ColumnOptions(weight=weight, on_missing="drop")
    rows = read_score_rows(Source.from_frame(frame), options)
    given = {"method": "exact", "precision": "0.6", "folds": 0, "threads": 1, **more}
    return fit_boundary(rows, BoundaryOptions(**given)).model


def content(model: BoundaryModel, frame: pl.DataFrame, **options: Any) -> dict[str, Any]:
    return drift(DriftOptions(model=model, **options), Source.from_frame(frame)).as_dict()


@pytest.mark.parametrize(("method", "weight"), [("exact", "weight"), ("stochastic", None)])
def test_counts_do_not_depend_on_batches_or_order(method: str, weight: str | None) -> None:
    frame = simulate(500, seed=3).with_columns(weight=pl.col("weight") / 7)
    model = fitted(frame, method=method, uncertainty_bins=3, weight=weight)
    new = simulate(300, seed=5).with_columns(weight=pl.col("weight") / 3)
    whole = canonical_json(content(model, new, label="label"))
    for batch in (7, 299):
        with little_memory(2 * batch):
            assert canonical_json(content(model, new.reverse(), label="label")) == whole


def test_figures_against_counts_by_hand() -> None:
    fit, new = simulate(800, seed=1), simulate(400, seed=2)
    model = fitted(fit, uncertainty_bins=2)
    found = content(model, new, label="label")
    edge, (low, high) = model.uncertainty_edges[0], model.score_thresholds
    level = np.where(new["uncertainty"].to_numpy() >= edge, high, low)
    taken, label = new["score"].to_numpy() >= level, new["label"].to_numpy()
    assert found["selected_share"] == taken.mean()
    assert found["precision"] == label[taken].mean()
    assert found["recall"] == label[taken].sum() / label.sum()
    outside = pl.lit(False)
    for name in ("score", "uncertainty"):
        marks = np.sort(fit[name].to_numpy())[[j * 40 for j in range(20)]]
        place = np.searchsorted(marks[1:], new[name].to_numpy(), side="right")
        shares = np.bincount(place, minlength=20)
        psi = float(np.sum((shares / 400 - 0.05) * np.log(shares / 20)))
        assert found[f"psi_{name}"] == pytest.approx(psi, rel=1e-12)
        outside |= ~pl.col(name).is_between(fit[name].min(), fit[name].max())
    assert found["outside_range"] == new.filter(outside).height / 400
    assert found["missing_share"] == 0.0
    seen = found["metrics"]["boundary"]["fit"]["selected_share"]
    assert seen == model.fit.in_sample.selected / 800


def test_rows_below_many_equal_ones_have_drifted_and_the_fitting_rows_have_not() -> None:
    frame = simulate(400, ties=True).with_columns(pl.col("score").clip(0.4))
    model = fitted(frame)
    new = frame.with_columns(score=pl.when(pl.col("score") == 0.4).then(0.1).otherwise("score"))
    for rows in (new.with_columns(score=0.1), new.head(1).with_columns(score=0.1)):
        assert content(model, rows)["psi_score"] > 0.5
    # The same bin holds those at the lowest value and those below it: only their count is known.
    found, own = content(model, new), content(model, frame)
    assert found["psi_score"] == pytest.approx(0.0, abs=1e-15)
    assert found["outside_range"] > 0.2
    assert own["psi_score"] == pytest.approx(0.0, abs=1e-15)
    assert own["outside_range"] == 0.0
    assert own["metrics"]["boundary"]["all"]["psi_score_p_value"] == 1.0


def test_missing_rows_are_a_share_and_nothing_else() -> None:
    model, whole = fitted(simulate(500), uncertainty_bins=3), simulate(90, seed=4)
    holes = whole.with_columns(
        score=pl.when(pl.col("id") % 9 > 0).then("score"),
        uncertainty=pl.when(pl.col("id") % 9 == 1).then(math.nan).otherwise("uncertainty"),
    )
    found, expected = content(model, holes), content(model, whole.filter(pl.col("id") % 9 > 1))
    assert found["missing_share"] == 20 / 90
    for name in ("selected_share", "psi_score", "psi_uncertainty", "outside_range"):
        assert found[name] == expected[name]
    found = content(model, whole.with_columns(score=pl.lit(None, pl.Float64)))
    assert found["missing_share"] == 1.0
    assert (found["psi_score"], found["selected_share"]) == (None, None)
    # Without any label rows are compared by their scores.
    found = content(model, whole.with_columns(label=None), label="label", unlabelled="drop")
    assert found["psi_score"] == content(model, whole)["psi_score"]
