"""The logistic surface: its fit, its fallbacks, its cut, what a model of it decides."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibkit.bins.binning import uncertainty_levels
from calibkit.columns.columns import ScoreRows
from calibkit.errors import DataError, UsageError
from calibkit.methods.boundary.application import decide, level_thresholds
from calibkit.methods.boundary.solvers.cells import best_cut
from calibkit.methods.boundary.solvers.logistic import distinct, fit_surface, surface_cut
from calibkit.methods.boundary.solvers.methods import goal_of
from calibkit.numerics import sums
from calibkit.options.objective import read_target
from calibkit.summaries.tally import Tally, count_rows
from tests.naive import surface as naive

from .samples import FEWER, example, fit, score_rows


def rows(
    size: int = 300, *, seed: int = 0, scale: str = "probability", **changed: np.ndarray
) -> ScoreRows:
    return score_rows(**{**example(size, seed=seed), **changed}, scale=scale)  # type: ignore[arg-type]


def tally_of(data: ScoreRows, levels: int = 100) -> Tally:
    assert data.label is not None
    found = distinct(uncertainty_levels(data, levels))
    level = found.of(data.uncertainty, data.score.size)
    return count_rows(data.score, level, data.label, found.count, weight=data.weight)


def rank_of(data: ScoreRows, levels: int = 100) -> np.ndarray:
    """Return the middle of the ranks of the rows in each row's level."""
    level = distinct(uncertainty_levels(data, levels)).of(data.uncertainty, data.score.size)
    weight = np.ones(data.score.size) if data.weight is None else data.weight
    return np.array(
        [
            (weight[level < own].sum() + weight[level == own].sum() / 2) / weight.sum()
            for own in level
        ]
    )


@pytest.mark.parametrize("scale", ["probability", "logit", "raw"])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_fit_is_ridge_logistic_regression(scale: str, weighted: bool) -> None:
    data = example(250, seed=3)
    if scale != "probability":
        data["score"] = 3 * data["score"] + (1000.0 if scale == "raw" else -1.0)
    weight = np.arange(250) % 3 if weighted else None
    table = score_rows(**data, weight=weight, scale=scale)  # type: ignore[arg-type]
    found = fit_surface(tally_of(table), scale=scale)
    units = np.ones(250) if weight is None else weight.astype(float)
    expected = naive.fit(table.score, rank_of(table), data["label"], units, scale)
    got = [found.intercept, found.score, found.uncertainty, found.product]
    assert np.allclose(got, expected, rtol=1e-6, atol=1e-6)


def test_the_product_and_the_uncertainty_are_dropped_where_the_surface_would_fall() -> None:
    rng = np.random.default_rng(1)
    size = 4000
    score, uncertainty = rng.random(size), rng.random(size)
    # Reliable where certain, turned round where not: falls in the score at the uncertain end.
    turned = np.where(uncertainty < 0.75, score, 1 - score)
    label = (rng.random(size) < turned).astype(np.uint8)
    found = fit_surface(tally_of(score_rows(score, label, uncertainty)))
    assert found.product == 0.0 and found.score > 0.0
    # Falls everywhere: the score itself.
    label = (rng.random(size) < 1 - score).astype(np.uint8)
    found = fit_surface(tally_of(score_rows(score, label, uncertainty)))
    assert (found.intercept, found.score) == (0.0, 1.0)
    assert (found.uncertainty, found.product) == (0.0, 0.0)


@FEWER
@given(st.integers(0, 10_000), st.integers(5, 60), st.sampled_from([2, 5, 50]))
def test_small_tables_with_ties(seed: int, size: int, digits: int) -> None:
    data = example(size, seed=seed, distinct=digits)
    if data["label"].min() == data["label"].max():
        data["label"][0] ^= 1
    table = score_rows(**data, scale="probability")
    tally = tally_of(table)
    goal = goal_of(read_target({"precision": "0.6"}), fit_totals(tally))
    cut = best_cut(tally, goal)
    # The thresholds select exactly what the cut does, and the bound holds.
    assert tally.selected(cut.thresholds) == (cut.selected, cut.true_positives)
    assert goal.met(cut.selected, cut.true_positives)
    own = naive.fit(
        table.score, rank_of(table), data["label"].astype(float), np.ones(size), "probability"
    )
    got = [
        cut.surface.intercept, cut.surface.score, cut.surface.uncertainty, cut.surface.product
    ]  # fmt: skip
    assert np.allclose(got, own, rtol=1e-4, atol=1e-4)
    # No other cut of the same surface has more positives within the bound.
    s = [naive.regressor(float(p), True) for p in tally.score]
    values = [
        naive.value(got, one, cut.surface.ranks[k]) for one, k in zip(s, tally.level, strict=True)
    ]
    totals = naive.cuts(values, tally.count.tolist(), tally.positive.tolist()).values()
    best = max((t for m, t in totals if goal.met(m, t)), default=0)
    assert cut.true_positives == best


def fit_totals(tally: Tally):  # type: ignore[no-untyped-def]
    from calibkit.methods.boundary.problem.goals import tally_totals

    return tally_totals(tally)


@pytest.mark.few(19)
@pytest.mark.parametrize("scale", ["probability", "logit", "raw"])
@pytest.mark.parametrize("floats", [np.float64, np.float32])
@pytest.mark.parametrize(
    "goal",
    [
        {"precision": "0.6"},
        {"recall": "0.5"},
        {"fpr": "0.1"},
        {"capacity": "0.2"},
        {"maximize": "f1"},
        {"maximize": "mcc"},
        {"maximize": "gmean"},
        {"minimize": "cost:1,4"},
    ],
    ids=str,
)
def test_decisions_are_margins_of_zero_or_more(
    goal: dict[str, str], floats: type, scale: str
) -> None:
    data = example(500, seed=4)
    if scale != "probability":
        data["score"] = np.log(data["score"] / (1 - data["score"]))
    table = score_rows(**data, floats=floats, scale=scale)
    model = fit(table, method="logistic", **goal).model
    decision, margin = decide(model, table.score, table.uncertainty)
    assert np.array_equal(decision == 1, margin >= 0)
    assert decision.sum() == model.fit.in_sample.selected
    assert decision[data["label"] == 1].sum() == model.fit.in_sample.true_positives
    assert model.fit.bound_met and model.fit.optimal_in_sample
    assert model.coefficients and model.coefficients["score"] > 0
    # Thresholds follow the surface: the cut, turned into a score at each level's rank.
    weights, ranks = model.coefficients, np.array(model.uncertainty_ranks)
    assert isinstance(model.cut, float)
    needed = np.log(model.cut / (1 - model.cut)) - weights["intercept"]
    s = (needed - weights["uncertainty"] * ranks) / (weights["score"] + weights["product"] * ranks)
    expected = 1 / (1 + np.exp(-s)) if scale == "probability" else s
    thresholds = level_thresholds(model)
    assert np.allclose(thresholds, expected, atol=1e-4)
    # By hand from the surface, as docs/models.md says: the row at the cut is selected too.
    rank = ranks[np.searchsorted(model.uncertainty_edges, table.uncertainty, side="right")]
    x = np.asarray(table.score, np.float64)
    x = np.log(x / (1 - x)) if scale == "probability" else x
    line = weights["intercept"] + weights["score"] * x + weights["uncertainty"] * rank
    line += weights["product"] * x * rank
    assert np.array_equal(1 / (1 + np.exp(-line)) >= model.cut, decision == 1)


def test_a_level_without_threshold_and_one_without_rows_below() -> None:
    data = rows(400, seed=2, label=np.ones(400, np.uint8))
    model = fit(data, method="logistic", precision="0.5").model
    decision, margin = decide(model, data.score, data.uncertainty)
    assert decision.all() and (np.isnan(margin) | (margin >= 0)).all()


@pytest.mark.parametrize("excluded", [-1, 0])
@pytest.mark.parametrize("threads", [1, 3])
def test_a_cut_is_found_block_by_block(
    excluded: int, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    tally = tally_of(rows(700, seed=9), 5).deal(3, 0)
    lines = fit_surface(tally, excluded).lines()
    goal = goal_of(read_target({"precision": "0.6"}), fit_totals(tally))
    whole = surface_cut(tally, lines, goal, excluded, probability=True)
    monkeypatch.setattr(sums, "BLOCK", 64)
    found = surface_cut(tally, lines, goal, excluded, probability=True, threads=threads)
    assert found.thresholds.tolist() == whole.thresholds.tolist()
    assert (found.selected, found.true_positives) == (whole.selected, whole.true_positives)
    assert found.cut == whole.cut
    used = tally.part != excluded
    taken = used & (tally.score >= found.thresholds[tally.level])
    assert found.selected == tally.count[taken].sum() > 0


def test_without_uncertainty_the_score_alone_counts() -> None:
    table = example(300, seed=7)
    del table["uncertainty"]
    data = score_rows(**table, scale="probability")
    model = fit(data, method="logistic", precision="0.6").model
    single = fit(data, method="st", precision="0.6").model
    assert model.levels == 1 and "uncertainty" not in model.columns
    assert model.fit.in_sample == single.fit.in_sample
    assert model.coefficients and model.coefficients["product"] == 0.0


def test_a_number_of_levels_is_that_of_the_thresholds() -> None:
    model = fit(rows(), method="logistic", precision="0.6", uncertainty_bins=4).model
    assert model.levels == 4 == len(model.uncertainty_ranks or [])


def test_what_a_surface_cannot_do() -> None:
    with pytest.raises(UsageError, match="--score-bins"):
        fit(rows(), method="logistic", precision="0.6", score_bins=5)
    infinite = rows(scale="raw")
    infinite.score[0] = np.inf
    with pytest.raises(DataError, match="infinite in 1 rows"):
        fit(infinite, method="logistic", precision="0.6")


def test_clipped_scores_are_counted() -> None:
    data = rows()
    data.score[:7] = [0.0, 1.0, 1e-9, 1 - 1e-9, 1e-6, 0.5, 1 - 1e-6]
    assert fit(data, method="logistic", precision="0.5").model.clipped == 4
