"""The automatic choice of the method."""

from __future__ import annotations

import dataclasses
import itertools
import re
from typing import Any

import msgspec
import numpy as np
import polars as pl
import pytest
from msgspec.structs import replace

import calibkit as ck
from calibkit.bins.binning import GridTable, fit_grid
from calibkit.columns.columns import ScoreRows
from calibkit.columns.weights import AS_THEY_ARE
from calibkit.errors import DataError, InfeasibleError
from calibkit.files.sources import open_source
from calibkit.methods.boundary import choice
from calibkit.methods.boundary.choice import LEVELS, candidates, choose_method, fit_choice, margins
from calibkit.methods.boundary.result.figures import Judged, cross_validate
from calibkit.methods.boundary.result.fit import FittedBoundary, fit_boundary
from calibkit.methods.boundary.result.parts import GapFigures
from calibkit.methods.boundary.solvers.summary import summarise
from calibkit.options.boundary import BoundaryOptions
from calibkit.summaries.tally import count_rows
from calibkit.views.answer import alert_counts, expectation
from tests.conftest import ROOT

from .samples import score_rows


def choose(data: ScoreRows, **options: Any) -> FittedBoundary:
    return fit_choice(choose_method(data, BoundaryOptions(**options)))


def rows(size: int, kind: str, *, seed: int = 0) -> ScoreRows:
    """Rows whose uncertainty is noise, lowers the log-odds, or tells by steps whom to believe."""
    rng = np.random.default_rng(seed)
    z, uncertainty = rng.normal(-1, 1.5, size), rng.random(size)
    truth = {
        "noise": z,
        "smooth": z + 1.5 - 3 * uncertainty,
        "steps": np.where((5 * uncertainty).astype(int) % 2 == 0, z, -2.5),
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
        seen = fitted.model.fit.candidates
        assert isinstance(seen, list)
        assert [one.method for one in seen] == ["st", "logistic", *["exact"] * len(LEVELS)]
        assert [one.uncertainty_bins for one in seen] == [1, 100, *LEVELS]
        running = [one for one in seen if one.within_bound]
        most = max(float(one.recall_at_bound) for one in running)  # type: ignore[arg-type]
        eligible = [
            one
            for one in running
            if most - one.recall_at_bound <= one.at_bound_standard_error  # type: ignore[operator]
        ]
        first = next(one for one in eligible if one.gap <= one.gap_standard_error)
        assert first.method == fitted.model.method
        assert min(one.gap for one in eligible) == 0.0


@pytest.mark.parametrize("goal", [{"precision": "0.7"}, {"fpr": "0.1"}, {"capacity": "0.2"}])
@pytest.mark.parametrize("method", ["st", "exact", "logistic"])
def test_a_cut_is_moved_to_where_the_bound_just_holds(goal: dict[str, str], method: str) -> None:
    summary = summarise(rows(6000, "smooth"), BoundaryOptions(method=method, **goal))
    asked, planned = summary.aim()[1], summary.planned
    dealt = summary.deal(AS_THEY_ARE)
    checked = cross_validate(dealt, planned, asked)
    found = margins(dealt, checked, probability=True)
    limits = np.array([checked.found[fold].thresholds for fold in range(5)])
    taken = dealt.score >= limits[dealt.part, dealt.level]
    assert np.array_equal(found.taken(0), taken) and not found.taken(None).any()
    seen = np.array([checked.folds[fold][2:4] for fold in range(5)])
    assert np.array_equal(found.above[:, :, found.above.shape[2] // 2], seen.T)
    # By rows: the most that any cut of the log-odds above the threshold of a row's fold finds.
    slope = np.ones_like(limits)
    for fold, boundary in checked.found.items():
        if boundary.surface is not None:
            slope[fold] = boundary.surface.lines()[:, 1]
    logit = np.log(dealt.score / (1 - dealt.score))
    limit = np.log(limits / (1 - limits))[dealt.part, dealt.level]
    order = np.argsort(-slope[dealt.part, dealt.level] * (logit - limit), kind="stable")
    selected, hits = np.cumsum(dealt.count[order]), np.cumsum(dealt.positive[order])
    bound = float(*goal.values())
    figure = {
        "precision": hits >= bound * selected,
        "fpr": selected - hits <= bound * (6000 - hits[-1]),
        "capacity": selected <= bound * 6000,
    }[next(iter(goal))]
    (counted, found_hits), cut = found.move(asked)  # type: ignore[arg-type]
    assert cut is not None
    assert found_hits.sum() == pytest.approx(hits[figure].max(), rel=0.01)
    met = {
        "precision": found_hits.sum() / counted.sum(),
        "fpr": (counted - found_hits).sum() / (6000 - hits[-1]),
        "capacity": counted.sum() / 6000,
    }[next(iter(goal))]
    assert met == pytest.approx(bound, abs=0.002)  # rows of no positive are left where they are
    assert met >= bound - 1e-12 if "precision" in goal else met <= bound + 1e-12


@pytest.mark.parametrize("kind", ["noise", "smooth", "steps"])
def test_the_model_is_that_of_the_chosen_method(kind: str) -> None:
    data = rows(3000, kind)
    found = choose(data, precision="0.7").model
    options = found.provenance.options if found.provenance else {}
    assert options["method"] == "auto"
    alone = BoundaryOptions(precision="0.7", method=found.method)
    if found.method == "exact":
        alone = dataclasses.replace(alone, uncertainty_bins=found.levels)
    direct = fit_boundary(data, alone).model
    found.fit.candidates = msgspec.UNSET
    found.provenance = direct.provenance = None
    assert found.to_json() == direct.to_json()


@pytest.mark.parametrize("options", [{"groups": "user"}, {"time": "day"}, {"folds": 3}])
def test_folds_of_any_kind(options: dict[str, object]) -> None:
    import polars as pl

    from calibkit.columns.rows import RowFinder

    data = rows(2000, "steps")
    others = pl.DataFrame({"user": np.arange(2000) // 3, "day": np.arange(2000)})
    where = RowFinder(open_source([str(ROOT / "sample_data" / "calib.parquet")]))
    data = replace(data, others=others, finder=where)
    found = choose(data, precision="0.6", **options).model
    assert found.fit.candidates
    assert found.fit.cross_validated is not None


def test_candidates_follow_the_chosen_one_by_their_worth() -> None:
    for kind in ("noise", "smooth", "steps"):
        found = choose_method(rows(2000, kind), BoundaryOptions(precision="0.7"))
        gap = {(one.method, one.uncertainty_bins): one.gap for one in found.seen}
        plans = [summary.planned for summary in found.ranked]
        gaps = [gap[planned.method.name, planned.kept_levels] for planned in plans[1:]]
        # Those that may be chosen come first, the others after them.
        assert sum(one > other for one, other in itertools.pairwise(gaps)) <= 1
        assert len({*gaps}) > 3


def test_where_nothing_is_selected_no_difference_has_an_error() -> None:
    data = score_rows([0.5] * 40, [0, 0, 0, 1] * 10, [1.0] * 20 + [2.0] * 20)
    seen = choose_method(data, BoundaryOptions(precision="0.9")).seen
    assert [one.recall_at_bound for one in seen] == [0.0] * len(seen)
    assert [one.at_bound_standard_error for one in seen] == [0.0] * len(seen)
    summary = summarise(data, BoundaryOptions(method="st", precision="0.9"))
    assert choice.Judge(summary.aim()[1], summary).error_at_bound(None, None) == 0.0


def test_a_fold_without_positives_is_worth_what_its_rows_cost() -> None:
    summary = summarise(rows(500, "smooth"), BoundaryOptions(method="st", precision="0.7"))
    judge = choice.Judge(summary.aim()[1], summary)
    assert judge.worth(Judged(10, 0, 4, 0)) == -4 * judge.price < 0


def test_a_surface_has_a_level_for_each_uncertainty_there_is() -> None:
    data = rows(600, "smooth")
    assert data.uncertainty is not None
    few = replace(data, uncertainty=np.floor(3 * data.uncertainty))
    found = choose_method(few, BoundaryOptions(precision="0.7"))
    (own,) = [one for one in found.ranked if one.planned.method.surface]
    assert own.levels is not None and own.levels.count == own.tally.levels == 3


def test_the_spread_is_the_range_of_the_middle_half_of_all_rows() -> None:
    """Of 8 rows the second lies at 30, the sixth at 7."""
    tally = count_rows(
        np.array([40.0, 30, 20, 10, 8, 7, 2, 1]),
        np.zeros(8, np.uint16),
        np.arange(8, dtype=np.uint8) % 2,
        1,
    )
    assert choice._spread(tally, tally.score) == 23.0


def test_weights_are_rows() -> None:
    data = rows(1500, "steps")
    weight = (np.arange(1500) % 3).astype(float)
    assert data.uncertainty is not None and data.label is not None
    twice = replace(
        data,
        score=np.repeat(data.score, weight.astype(int)),
        uncertainty=np.repeat(data.uncertainty, weight.astype(int)),
        label=np.repeat(data.label, weight.astype(int)),
    )
    weighted = replace(data, weight=weight)
    one, two = choose(weighted, precision="0.6").model, choose(twice, precision="0.6").model
    assert one.fit.candidates == two.fit.candidates
    fractions = choose(replace(data, weight=weight / 3 + 0.1), precision="0.6").model
    assert fractions.fit.candidates


def test_what_is_tried() -> None:
    data = rows(300, "noise")

    def names(data: object, **options: object) -> list[tuple[str, int]]:
        plans = candidates(data, BoundaryOptions(precision="0.6", **options))  # type: ignore[arg-type]
        return [(planned.method.name, planned.levels) for planned in plans]

    every = [("st", 1), ("logistic", 100), *(("exact", levels) for levels in LEVELS)]
    assert names(data) == every
    assert names(data, uncertainty_bins=4) == [("st", 4), ("logistic", 4), ("exact", 4)]
    assert names(data, uncertainty_bins=1) == [("st", 1)]
    assert names(replace(data, uncertainty=None)) == [("st", 1)]
    assert ("logistic", 100) not in names(data, score_bins=5)
    infinite = replace(data, score=np.where(data.score > 0.9, np.inf, data.score))
    infinite = replace(infinite, options=dataclasses.replace(data.options, scale="raw"))
    assert ("logistic", 100) not in names(infinite)
    assert choose(infinite, precision="0.6").model.method in ("st", "exact")


@pytest.mark.parametrize(
    ("order", "bins", "tried"),
    [
        ("score-uncertainty", 4, ["st", "exact"]),
        ("uncertainty-score", 4, ["exact"]),
        ("uncertainty-score", 2, ["exact"]),
    ],
)
def test_of_a_grid_of_shared_score_bins_a_single_threshold_is_tried(
    order: Any, bins: int, tried: list[str]
) -> None:
    grid = fit_grid(rows(50, "noise"), 2, bins, order=order)
    table = GridTable(grid, {}, "", open_source([str(ROOT / "sample_data" / "calib.parquet")]))
    plans = candidates(table, BoundaryOptions(precision="0.6"))
    assert [planned.method.name for planned in plans] == tried


@pytest.mark.parametrize("strategy", ["equal-mass", "equal-width"])
def test_score_bins(strategy: str) -> None:
    found = choose(rows(2000, "steps"), precision="0.6", score_bins=20, strategy=strategy).model
    assert found.fit.candidates and found.method in ("st", "exact")
    assert fit_grid(rows(50, "noise"), 2, 3) is not None


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
    bad = score_rows([0.9, 0.1] * 20, [0, 1] * 20, [1.0, 2.0] * 20)
    with pytest.raises(InfeasibleError):
        choose(score_rows([0.5] * 40, [0, 0, 0, 1] * 10, [1.0] * 40), precision="0.9")
    assert choose(bad, precision="0.9").model.method == "exact"
    with pytest.raises(DataError, match="no positive row"):
        choose(score_rows([0.5] * 40, [0] * 40, [1.0] * 40), precision="0.9")


def test_of_many_rows_some_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    data = rows(6000, "steps")
    whole = choose(data, precision="0.6").model
    monkeypatch.setattr(choice, "ENOUGH", 2000)
    some = choose(data, precision="0.6").model
    assert isinstance(whole.fit.candidates, list) and isinstance(some.fit.candidates, list)
    assert some.fit.candidates != whole.fit.candidates
    # The boundary is that of all rows; what to expect of it, of those drawn, which says so.
    fixed = BoundaryOptions(precision="0.6", method=some.method, uncertainty_bins=some.levels)
    alone = fit_boundary(data, fixed).model
    assert (some.score_thresholds, some.fit.in_sample) == (
        alone.score_thresholds,
        alone.fit.in_sample,
    )
    assert whole.fit.cross_validated is not None and whole.fit.validated_on[0] == 6000
    seen = some.fit.cross_validated
    assert seen is not None and (seen.rows, seen.positives) == some.fit.validated_on
    assert isinstance(seen.rows, int) and 1900 < seen.rows < 2100
    own = (some.method, some.levels, seen.precision, seen.recall)
    candidates = some.fit.candidates
    assert own in [(c.method, c.uncertainty_bins, c.precision, c.recall) for c in candidates]
    assert f"(cross-validated on {seen.rows:,} of the rows)" in expectation(some)
    counts = alert_counts(some)
    assert counts is not None and counts[0] / counts[1] == pytest.approx(seen.precision)
    assert re.search(rf"cross-validated \(5 folds\) +{seen.rows:,} ", some.summary())


def test_segments_within_a_gap_are_validated_on_all_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "ENOUGH", 300)
    data = rows(900, "steps")
    frame = pl.DataFrame(
        {"score": data.score, "uncertainty": data.uncertainty, "label": data.labels}
    ).with_columns(s=pl.int_range(900) % 2)
    seen = ck.fit_boundary(frame, precision=0.6, by="s", max_gap="recall:0.2").fit
    assert isinstance(seen.gap, GapFigures) and seen.gap.cross_validated is not None
    assert seen.cross_validated is not None and seen.validated_on == (900, seen.positives)
    assert seen.cross_validated.rows is msgspec.UNSET


def test_reweighted_classes_do_not_make_figures_surer_than_they_are() -> None:
    """At another base rate a row counts as many units; errors are still those of rows."""
    data = rows(4000, "smooth")
    choice = choose_method(data, BoundaryOptions(precision="0.5", prevalence="0.1"))
    assert sum(one.within_bound for one in choice.seen) > 2
    assert choice.ranked[0].planned.method.name == "logistic"
