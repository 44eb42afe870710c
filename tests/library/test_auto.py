"""The automatic choice of the method."""

from __future__ import annotations

import dataclasses
import itertools
import re
from decimal import Decimal
from typing import Any

import msgspec
import numpy as np
import pytest
from msgspec.structs import replace

import calibkit as ck
from calibkit.columns.weights import AS_THEY_ARE
from calibkit.errors import DataError, InfeasibleError, UsageError
from calibkit.files.sources import open_source
from calibkit.methods.boundary import choice
from calibkit.methods.boundary.choice import (
    EVERY_LEVELS,
    LEVELS,
    candidates,
    choose_levels,
    choose_method,
    fit_choice,
    marginal_prices,
    margins,
)
from calibkit.methods.boundary.result.answer import alert_counts, expectation
from calibkit.methods.boundary.result.figures import cross_validate
from calibkit.methods.boundary.result.fit import FittedBoundary, delivered, fit_boundary
from calibkit.methods.boundary.result.parts import GapFigures
from calibkit.methods.boundary.solvers.summary import summarise
from calibkit.options.boundary import BoundaryOptions
from calibkit.summaries.binning import GridTable, fit_grid
from calibkit.summaries.score_rows import ScoreRows
from calibkit.summaries.tally import count_rows
from tests.conftest import ROOT

from .samples import score_rows


def choose(data: ScoreRows, **options: Any) -> FittedBoundary:
    return fit_choice(choose_method(data, BoundaryOptions(**options)))


def rows(size: int, kind: str, *, seed: int = 0) -> ScoreRows:
    """Rows whose uncertainty is noise, lowers the log-odds, or tells by steps whom to believe."""
    rng = np.random.default_rng(seed)
    z, uncertainty = rng.normal(-1, 1.5, size), rng.random(size)
    if kind == "thirds":
        uncertainty = np.floor(3 * uncertainty)
    truth = {
        "noise": z,
        "smooth": z + 1.5 - 3 * uncertainty,
        "steps": np.where((5 * uncertainty).astype(int) % 2 == 0, z, -2.5),
        "thirds": z + 1.5 - uncertainty,
    }[kind]
    label = (rng.random(size) < 1 / (1 + np.exp(-truth))).astype(np.uint8)
    return score_rows(1 / (1 + np.exp(-z)), label, uncertainty, scale="probability")


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "goal", [{"precision": "0.7"}, {"fpr": "0.05"}, {"maximize": "f1"}, {"minimize": "cost:2,1"}]
)
def test_noise_gets_no_levels_steps_get_levels_and_a_slope_a_surface(goal: dict[str, str]) -> None:
    noise = [choose(rows(4000, "noise", seed=seed), **goal).model.method for seed in range(5)]
    assert noise.count("exact") <= 2
    assert choose(rows(20_000, "steps"), **goal).model.method == "exact"
    assert choose(rows(10_000, "smooth"), **goal).model.method == "logistic"


def test_the_choice_is_the_simplest_within_an_error_of_the_best() -> None:
    for kind in ("noise", "smooth", "steps"):
        fitted = choose(rows(5000, kind), precision="0.7")
        seen: Any = fitted.model.fit.candidates
        assert [one.method for one in seen] == ["st", "logistic", *["exact"] * len(LEVELS)]
        assert [one.uncertainty_bins for one in seen] == [1, 100, *LEVELS]
        running = [one for one in seen if one.within_bound]
        most = max(one.recall_at_bound for one in running)
        eligible = [o for o in running if most - o.recall_at_bound <= o.at_bound_standard_error]
        first = next(one for one in eligible if one.gap <= one.gap_standard_error)
        assert first.method == fitted.model.method
        assert min(one.gap for one in eligible) == 0.0


@pytest.mark.parametrize("goal", [{"precision": "0.7"}, {"fpr": "0.1"}, {"capacity": "0.2"}])
@pytest.mark.parametrize("method", ["st", "exact", "logistic"])
def test_a_cut_is_moved_to_where_the_bound_just_holds(goal: dict[str, str], method: str) -> None:
    """By rows: the most that any cut of the log-odds above the threshold of a row's fold finds."""
    summary = summarise(rows(6000, "smooth"), BoundaryOptions(method=method, **goal))
    asked, dealt = summary.aim()[1], summary.deal(AS_THEY_ARE)
    checked = cross_validate(dealt, summary.planned, asked)
    found = margins(dealt, checked, probability=True)
    limits = np.array([checked.found[fold].thresholds for fold in range(5)])
    limit = limits[dealt.part, dealt.level]
    assert np.array_equal(found.taken(0), dealt.score >= limit) and not found.taken(None).any()
    slope = np.ones_like(limits)
    for fold, boundary in checked.found.items():
        if boundary.surface is not None:
            slope[fold] = boundary.surface.lines()[:, 1]
    margin = np.log(dealt.score / (1 - dealt.score)) - np.log(limit / (1 - limit))
    order = np.argsort(-slope[dealt.part, dealt.level] * margin, kind="stable")
    every = np.cumsum(dealt.count[order]), np.cumsum(dealt.positive[order])
    (counted, hits), cut = found.move(asked)  # type: ignore[arg-type]
    assert cut is not None
    ((name, text),) = goal.items()

    def figure(selected: Any, hits: Any) -> Any:
        return {
            "precision": hits / selected,
            "fpr": (selected - hits) / (6000 - every[1][-1]),
            "capacity": selected / 6000,
        }[name]

    bound, reached = float(text), figure(counted.sum(), hits.sum())
    sign = 1 if name == "precision" else -1
    most = every[1][sign * figure(*every) >= sign * bound].max()
    assert hits.sum() == pytest.approx(most, rel=0.01)
    assert reached == pytest.approx(bound, abs=0.002)  # rows of no positive are left where they are
    assert sign * reached >= sign * bound - 1e-12


@pytest.mark.parametrize("kind", ["noise", "smooth", "steps", "thirds"])
def test_the_model_is_that_of_the_chosen_method(kind: str) -> None:
    data = rows(3000, kind)
    found = choose(data, precision="0.7").model
    assert found.provenance is not None and found.provenance.options["method"] == "auto"
    alone = BoundaryOptions(precision="0.7", method=found.method)
    if found.method == "exact":
        alone = dataclasses.replace(alone, uncertainty_bins=found.levels)
    direct = fit_boundary(data, alone).model
    found.fit.candidates = msgspec.UNSET
    found.provenance = direct.provenance = None
    assert found.to_json() == direct.to_json()
    assert kind != "thirds" or (found.method, found.levels) == ("logistic", 3)


def test_where_nothing_is_selected_no_difference_has_an_error() -> None:
    data = score_rows([0.5] * 40, [0, 0, 0, 1] * 10, [1.0] * 20 + [2.0] * 20)
    for one in choose_method(data, BoundaryOptions(precision="0.9")).seen:
        assert one.recall_at_bound == one.at_bound_standard_error == 0.0


def test_candidates_follow_the_chosen_one_by_their_worth() -> None:
    for kind in ("noise", "smooth", "steps"):
        found = choose_method(rows(2000, kind), BoundaryOptions(precision="0.7"))
        gap = {(one.method, one.uncertainty_bins): one.gap for one in found.seen}
        plans = [summary.planned for summary, _ in found.ranked]
        gaps = [gap[planned.method.name, planned.kept_levels] for planned in plans[1:]]
        # Those that may be chosen come first, the others after them.
        assert sum(one > other for one, other in itertools.pairwise(gaps)) <= 1
        assert len({*gaps}) > 3


def test_the_spread_is_the_range_of_the_middle_half_of_all_rows() -> None:
    """Of 8 rows the second lies at 30, the sixth at 7."""
    score, level = np.array([40.0, 30, 20, 10, 8, 7, 2, 1]), np.zeros(8, np.uint16)
    tally = count_rows(score, level, np.arange(8, dtype=np.uint8) % 2, 1)
    assert choice._spread(tally, tally.score) == 23.0


def test_weights_are_rows() -> None:
    data = rows(1500, "steps")
    weight = np.arange(1500) % 3
    columns = ("score", "uncertainty", "label")
    twice = replace(data, **{name: np.repeat(getattr(data, name), weight) for name in columns})
    weighted = replace(data, weight=weight.astype(float))
    one, two = choose(weighted, precision="0.6").model, choose(twice, precision="0.6").model
    assert one.fit.candidates == two.fit.candidates
    fractions = choose(replace(data, weight=weight / 3 + 0.1), precision="0.6").model
    assert fractions.fit.candidates


def tried(data: object, **options: object) -> list[tuple[str, int]]:
    plans = candidates(data, BoundaryOptions(precision="0.6", **options))  # type: ignore[arg-type]
    return [(planned.method.name, planned.levels) for planned in plans]


def test_what_is_tried() -> None:
    data = rows(300, "noise")
    every = [("st", 1), ("logistic", 100), *(("exact", levels) for levels in LEVELS)]
    assert tried(data) == every
    assert tried(data, uncertainty_bins=4) == [("st", 4), ("logistic", 4), ("exact", 4)]
    assert tried(data, uncertainty_bins=1) == [("st", 1)]
    assert tried(replace(data, uncertainty=None)) == [("st", 1)]
    assert ("logistic", 100) not in tried(data, score_bins=5)
    infinite = replace(data, score=np.where(data.score > 0.9, np.inf, data.score))
    infinite = replace(infinite, options=dataclasses.replace(data.options, scale="raw"))
    assert ("logistic", 100) not in tried(infinite)
    assert choose(infinite, precision="0.6").model.method in ("st", "exact")
    calib = open_source([str(ROOT / "sample_data" / "calib.parquet")])
    for order, bins, methods in (
        ("score-uncertainty", 4, ["st", "exact"]),  # whose score bins the levels share
        ("uncertainty-score", 4, ["exact"]),
        ("uncertainty-score", 2, ["exact"]),
    ):
        grid = fit_grid(rows(50, "noise"), 2, bins, order=order)
        assert [name for name, _ in tried(GridTable(grid, {}, "", calib))] == methods


def test_over_score_bins_the_best_single_threshold_is_that_of_the_rows() -> None:
    data = rows(2000, "steps")
    found = choose(data, precision="0.6", score_bins=20).model.fit
    single = fit_boundary(data, BoundaryOptions(method="st", precision="0.6")).model.fit
    assert found.score_only is not None and single.score_only is not None
    assert found.score_only.recall == single.in_sample.recall
    assert found.in_sample.recall != single.in_sample.recall


def test_without_folds_the_simplest_is_taken_that_meets_the_bound() -> None:
    data = rows(500, "steps")
    model = choose(data, precision="0.5", folds=0).model
    assert model.method == "st" and model.fit.candidates is msgspec.UNSET
    few = score_rows([0.2, 0.9, 0.4, 0.8], [0, 0, 1, 1], [5.0, 6.0, 1.0, 2.0])
    found = choose(few, precision="1")
    assert found.model.method != "st" and found.model.fit.in_sample.recall == 1.0
    assert any("too few" in remark for remark in found.warnings)


def test_what_no_candidate_can_do() -> None:
    same = [0.5] * 40
    with pytest.raises(InfeasibleError):
        choose(score_rows(same, [0, 0, 0, 1] * 10, [1.0] * 40), precision="0.9")
    with pytest.raises(DataError, match="no positive row"):
        choose(score_rows(same, [0] * 40, [1.0] * 40), precision="0.9")
    bad = score_rows([0.9, 0.1] * 20, [0, 1] * 20, [1.0, 2.0] * 20)
    assert choose(bad, precision="0.9").model.method == "exact"
    with pytest.raises(InfeasibleError):
        choose_levels(bad, BoundaryOptions(fpr="0", method="st"))
    few = score_rows(score=[0.1, 0.9], label=[0, 1], uncertainty=[1.0, 2.0])
    for data in (few, replace(bad, uncertainty=None)):
        found = choose_levels(data, BoundaryOptions(precision="0.5", method="exact"))
        assert found.summary.planned.levels == 1


def test_of_many_rows_some_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    data = rows(6000, "steps")
    whole = choose(data, precision="0.6").model
    monkeypatch.setattr(choice, "ENOUGH", 2000)
    some = choose(data, precision="0.6").model
    assert isinstance(some.fit.candidates, list)
    assert some.fit.candidates != whole.fit.candidates
    # The boundary is that of all rows; what to expect of it, of those drawn, which says so.
    fixed = BoundaryOptions(precision="0.6", method=some.method, uncertainty_bins=some.levels)
    alone = fit_boundary(data, fixed).model
    assert some.score_thresholds == alone.score_thresholds
    assert some.fit.in_sample == alone.fit.in_sample
    assert whole.fit.validated_on[0] == 6000
    seen = some.fit.cross_validated
    assert seen is not None and (seen.rows, seen.positives) == some.fit.validated_on
    assert isinstance(seen.rows, int) and 1900 < seen.rows < 2100
    own = (some.method, some.levels, seen.precision, seen.recall)
    judged = [(c.method, c.uncertainty_bins, c.precision, c.recall) for c in some.fit.candidates]
    assert own in judged
    assert f"(cross-validated on {seen.rows:,} of the rows)" in expectation(some)
    counts = alert_counts(some)
    assert counts is not None and counts[0] / counts[1] == pytest.approx(seen.precision)
    assert re.search(rf"cross-validated \(5 folds\) +{seen.rows:,} ", some.summary())


def test_segments_within_a_gap_are_validated_on_all_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "ENOUGH", 300)
    data = rows(900, "steps")
    given = {"score": data.score, "uncertainty": data.uncertainty, "label": data.labels}
    by = [*"ab"] * 450
    seen = ck.fit_boundary(**given, precision=0.6, by=by, max_gap="recall:0.2").fit
    assert isinstance(seen.gap, GapFigures) and seen.gap.cross_validated is not None
    assert seen.cross_validated is not None and seen.validated_on == (900, seen.positives)
    assert seen.cross_validated.rows is msgspec.UNSET


def test_reweighted_classes_do_not_make_figures_surer_than_they_are() -> None:
    """At another base rate a row counts as many units; errors are still those of rows."""
    data = rows(4000, "smooth")
    choice = choose_method(data, BoundaryOptions(precision="0.5", prevalence="0.1"))
    assert sum(one.within_bound for one in choice.seen) > 2
    assert choice.ranked[0][0].planned.method.name == "logistic"


@pytest.mark.few(4)
@pytest.mark.parametrize(
    "target",
    [
        {"precision": "0.6"},
        {"recall": "0.3"},
        {"fpr": "0.05"},
        {"capacity": "0.1"},
        {"maximize": "f1"},
        {"minimize": "cost:1,2"},
    ],
    ids=str,
)
def test_the_fewest_levels_within_one_standard_error_of_the_best(target: dict[str, str]) -> None:
    data, wanted = rows(3_000, "steps", seed=5), BoundaryOptions(method="exact", **target)
    found = delivered(choose_levels(data, wanted), wanted)
    single = summarise(data, dataclasses.replace(wanted, uncertainty_bins=1))
    (price,) = marginal_prices(single, single.aim()[1])
    worth, error, models = {}, {}, {}
    for levels in EVERY_LEVELS:
        fitted = fit_boundary(data, dataclasses.replace(wanted, uncertainty_bins=levels))
        models[levels], checked = fitted.model, fitted.model.fit.cross_validated
        assert checked is not None
        if wanted.target.bound is None:
            sign = -1 if "minimize" in target else 1
            worth[levels], error[levels] = sign * checked.objective_value, checked.standard_error
            continue
        folds = np.array(fitted.folds)
        gains = folds[:, 3] - price * folds[:, 2]
        worth[levels] = gains.sum() / folds[:, 1].sum()
        error[levels] = (gains / folds[:, 1]).std(ddof=1) / np.sqrt(len(folds))
        assert checked.recall == folds[:, 3].sum() / folds[:, 1].sum()
    best = max(worth, key=lambda levels: worth[levels])
    levels = found.summary.planned.levels
    assert levels == min(k for k in worth if worth[k] >= worth[best] - error[best])
    assert found.model.to_json() == models[levels].to_json()


def test_a_capacity_prices_blocks_that_end_in_any_row() -> None:
    """Seven tenths of the positives reach row 5; of it all but the two reviewed are blocked."""
    data = score_rows(score=[6, 5, 4, 3, 2, 1], label=[1, 1, 0, 0, 1, 0])
    counted = summarise(data, BoundaryOptions(method="st", recall="0.7", review_capacity="2"))
    assert marginal_prices(counted, counted.aim()[1]) == (2 / 3, 1 / 3, 1 / 3)


def test_a_number_of_levels_is_whole_or_left_to_the_rows() -> None:
    for value, levels in (("3", 3), (np.int64(3), 3), ("auto", None)):
        asked = BoundaryOptions(precision="0.6", method="exact", uncertainty_bins=value)
        assert asked.levels == levels
    for wrong in (0, 3.0, True, Decimal(3)):
        with pytest.raises(UsageError, match="expected a whole number, at least 1, or auto"):
            BoundaryOptions(precision="0.6", method="exact", uncertainty_bins=wrong)
