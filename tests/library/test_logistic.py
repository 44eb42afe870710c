"""The logistic surface: its fit, its fallbacks, its cut, what a model of it decides."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibkit.methods.boundary.problem.goals import tally_totals
from calibkit.methods.boundary.result.application import decide, level_thresholds
from calibkit.methods.boundary.solvers.cells import best_cut
from calibkit.methods.boundary.solvers.logistic import distinct, fit_surface, surface_cut
from calibkit.methods.boundary.solvers.methods import goal_of
from calibkit.numerics import sums
from calibkit.options.objective import read_target
from calibkit.summaries.binning import uncertainty_levels
from calibkit.summaries.score_rows import ScoreRows
from calibkit.summaries.tally import Tally, count_rows
from tests.naive import surface as naive

from .samples import FEWER, example, fit, score_rows


@pytest.mark.parametrize("scale", ["probability", "logit", "raw"])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_fit_is_ridge_logistic_regression(scale: str, weighted: bool) -> None:
    data = example(250, seed=3)
    if scale != "probability":
        data["score"] = 3 * data["score"] + (1000.0 if scale == "raw" else -1.0)
    weight = np.arange(250) % 3 if weighted else None
    table = score_rows(**data, weight=weight, scale=scale)  # type: ignore[arg-type]
    tally, rank = ranked(table)
    units = np.ones(250) if weight is None else weight.astype(float)
    expected = naive.fit(table.score, rank, data["label"], units, scale)
    assert np.allclose(line_of(fit_surface(tally, scale=scale)), expected, rtol=1e-6, atol=1e-6)


def test_the_product_and_the_uncertainty_are_dropped_where_the_surface_would_fall() -> None:
    rng = np.random.default_rng(1)
    score, uncertainty = rng.random(4000), rng.random(4000)
    # Reliable where certain, turned round where not: falls in the score at the uncertain end.
    turned = np.where(uncertainty < 0.75, score, 1 - score)
    part, falls = (
        fit_surface(ranked(score_rows(score, rng.random(4000) < rate, uncertainty))[0])
        for rate in (turned, 1 - score)
    )
    assert part.product == 0.0 and part.score > 0.0
    assert line_of(falls) == [0.0, 1.0, 0.0, 0.0]  # the score itself


@FEWER
@given(st.integers(0, 10_000), st.integers(5, 60), st.sampled_from([2, 5, 50]))
def test_small_tables_with_ties(seed: int, size: int, digits: int) -> None:
    data = example(size, seed=seed, distinct=digits)
    if data["label"].min() == data["label"].max():
        data["label"][0] ^= 1
    table = score_rows(**data, scale="probability")
    tally, rank = ranked(table)
    goal = goal_of(read_target({"precision": "0.6"}), tally_totals(tally))
    cut = best_cut(tally, goal)
    # The thresholds select exactly what the cut does, and the bound holds.
    assert tally.selected(cut.thresholds) == (cut.selected, cut.true_positives)
    assert goal.met(cut.selected, cut.true_positives)
    got, label = line_of(cut.surface), data["label"].astype(float)
    own = naive.fit(table.score, rank, label, np.ones(size), "probability")
    assert np.allclose(got, own, rtol=1e-4, atol=1e-4)
    # No other cut of the same surface has more positives within the bound.
    s = [naive.regressor(float(p), True) for p in tally.score]
    ranks = cut.surface.ranks[tally.level]
    values = [naive.value(got, *pair) for pair in zip(s, ranks, strict=True)]
    totals = naive.cuts(values, tally.count.tolist(), tally.positive.tolist()).values()
    assert cut.true_positives == max((t for m, t in totals if goal.met(m, t)), default=0)


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
    names = ("intercept", "score", "uncertainty", "product")
    a, b, c, d = (model.coefficients[name] for name in names)
    ranks = np.array(model.uncertainty_ranks)
    assert isinstance(model.cut, float)
    s = (np.log(model.cut / (1 - model.cut)) - a - c * ranks) / (b + d * ranks)
    expected = 1 / (1 + np.exp(-s)) if scale == "probability" else s
    assert np.allclose(level_thresholds(model), expected, atol=1e-4)
    # By hand from the surface, as docs/models.md says: the row at the cut is selected too.
    rank = ranks[np.searchsorted(model.uncertainty_edges, table.uncertainty, side="right")]
    x = np.asarray(table.score, np.float64)
    x = np.log(x / (1 - x)) if scale == "probability" else x
    line = a + b * x + c * rank + d * x * rank
    assert np.array_equal(1 / (1 + np.exp(-line)) >= model.cut, decision == 1)


@pytest.mark.parametrize("excluded", [-1, 0])
@pytest.mark.parametrize("threads", [1, 3])
def test_a_cut_is_found_block_by_block(
    excluded: int, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    tally = ranked(score_rows(**example(700, seed=9), scale="probability"), 5)[0].deal(3, 0)
    lines = fit_surface(tally, excluded).lines()
    goal = goal_of(read_target({"precision": "0.6"}), tally_totals(tally))
    whole = surface_cut(tally, lines, goal, excluded, probability=True)
    monkeypatch.setattr(sums, "BLOCK", 64)
    found = surface_cut(tally, lines, goal, excluded, probability=True, threads=threads)
    assert found.thresholds.tolist() == whole.thresholds.tolist()
    assert (found.counts, found.cut) == (whole.counts, whole.cut)
    taken = (tally.part != excluded) & (tally.score >= found.thresholds[tally.level])
    assert found.selected == tally.count[taken].sum() > 0


def test_rows_of_every_kind_have_a_surface() -> None:
    """Without uncertainties the score alone counts; of positives alone all are taken."""
    table = example(300, seed=7)
    table["score"][:7] = [0.0, 1.0, 1e-9, 1 - 1e-9, 1e-6, 0.5, 1 - 1e-6]
    few = fit(score_rows(**table, scale="probability"), method="logistic", precision="0.5").model
    assert few.clipped == 4
    sure = score_rows(**{**table, "label": np.ones(300)}, scale="probability")
    every = fit(sure, method="logistic", precision="0.5").model
    decision, margin = decide(every, sure.score, sure.uncertainty)
    assert decision.all() and (np.isnan(margin) | (margin >= 0)).all()
    alone = score_rows(table["score"], table["label"], scale="probability")
    model, single = (fit(alone, method=name, precision="0.6").model for name in ("logistic", "st"))
    assert model.levels == 1 and "uncertainty" not in model.columns
    assert model.fit.in_sample == single.fit.in_sample
    assert model.coefficients and model.coefficients["product"] == 0.0


def ranked(data: ScoreRows, levels: int = 100) -> tuple[Tally, np.ndarray]:
    """Return a tally by levels, and the middle of the ranks of the rows in each row's level."""
    assert data.label is not None
    found = distinct(uncertainty_levels(data, levels))
    level = found.of(data.uncertainty, data.score.size)
    tally = count_rows(data.score, level, data.label, found.count, weight=data.weight)
    units = np.ones(level.size) if data.weight is None else data.weight
    sums = np.bincount(level, units, found.count)
    return tally, ((np.cumsum(sums) - sums / 2) / sums.sum())[level]


def line_of(found: Any) -> list[float]:
    return [found.intercept, found.score, found.uncertainty, found.product]
