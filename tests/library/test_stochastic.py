"""Randomised boundaries: golden cases, enumeration, linear programmes, and rows counted again."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from calibkit.columns.weights import AS_THEY_ARE
from calibkit.errors import InfeasibleError
from calibkit.methods.boundary.compare import compare_methods
from calibkit.methods.boundary.problem.found import Found
from calibkit.methods.boundary.problem.goals import Goal, Totals
from calibkit.methods.boundary.result.application import probabilities
from calibkit.methods.boundary.result.model import BoundaryModel
from calibkit.methods.boundary.solvers import prefixes
from calibkit.methods.boundary.solvers.methods import goal_of
from calibkit.methods.boundary.solvers.prefixes import random_block, random_tie
from calibkit.methods.boundary.solvers.summary import summarise
from calibkit.numerics.confusion import OBJECTIVES
from calibkit.options.boundary import BoundaryOptions
from calibkit.options.objective import read_target
from calibkit.summaries.score_rows import ScoreRows
from calibkit.summaries.tally import Tally
from tests.conftest import ROOT
from tests.library.samples import all_totals, example, fit, golden, score_rows, tables
from tests.library.test_objectives import MEASURES, tallies, totals_of
from tests.naive import boundaries as naive

CASES = ("p26_thresholds_ties", "p27_thresholds_all_tied")
BOUNDS = ("0", "0.1", "0.25", "0.333333333", "0.5", "0.7", "0.9", "1")
BOUNDED = [
    *itertools.product(("precision", "recall", "fpr"), ("0", "0.25", "0.7", "1")),
    *itertools.product(["capacity"], ("0.05", "0.999", "2", "1000")),
]
TIE = {"method": "stochastic", "randomise": "tie"}
BLOCK = {"method": "stochastic", "randomise": "block"}

#: For tests whose every example solves many problems.
SOME = settings(max_examples=20)

# ---------------------------------------------------------------- golden cases


def rows_of(case: str) -> ScoreRows:
    frame = pl.read_parquet(ROOT / "tests" / "golden" / case / "rows.parquet")
    return score_rows(frame["score"].to_numpy(), frame["label"].to_numpy(), scale="probability")


def option_of(known: dict[str, Any]) -> dict[str, str]:
    """Return the objective that finds the same threshold as a measure of a golden case."""
    name, arguments = known["measure"], known["args"]
    if name == "recall":
        return {"precision": "0"}
    if name == "specificity":
        return {"minimize": "cost:1,0"}
    name = {"gmeasure": "fowlkes-mallows"}.get(name, name.replace("_", "-"))
    return {"maximize": ":".join([name, ",".join(map(str, arguments.values()))]).rstrip(":")}


def value_of(known: dict[str, Any], model: BoundaryModel, rows: ScoreRows) -> float:
    """Return the measure of a golden case that a model reaches."""
    value = model.fit.in_sample.objective_value
    assert value is not None and rows.label is not None
    if known["measure"] == "specificity":  # the cost is that of a false positive, per row
        negatives = np.count_nonzero(rows.label == 0)
        return 1.0 - value * rows.label.size / negatives
    return value


def p_and_t(model: BoundaryModel, rows: ScoreRows) -> tuple[float, float]:
    """Return probability and threshold; (0, the highest score) where nothing is selected."""
    assert isinstance(model.tie_probability, list)
    ((p,), (t,)) = model.tie_probability, model.score_thresholds
    if t is None:
        assert p == 0.0
        return 0.0, float(rows.score.max())
    assert isinstance(t, float)
    return p, t


@pytest.mark.parametrize("case", CASES)
def test_golden_measures(case: str) -> None:
    rows = rows_of(case)
    for known in golden(case)["expected"]["measures"]:
        option = option_of(known)
        model = fit(rows, folds=0, **TIE, **option).model
        assert value_of(known, model, rows) == pytest.approx(known["value"], rel=1e-9, abs=1e-9)
        assert p_and_t(model, rows) == pytest.approx((known["p"], known["t"]), rel=1e-9, abs=1e-9)
        single = fit(rows, folds=0, method="st", **option).model
        assert value_of(known, single, rows) == pytest.approx(known["deterministic"], rel=1e-9)


@pytest.mark.parametrize("case", CASES)
def test_golden_constraints(case: str) -> None:
    rows = rows_of(case)
    options = {"neyman-pearson": "fpr", "recall-at-precision": "precision"}
    for known in golden(case)["expected"]["constrained"]:
        option = {options[known["problem"]]: known["bound"]}
        if known["recall"] == 0.0:
            with pytest.raises(InfeasibleError, match="selects a row"):
                fit(rows, folds=0, **TIE, **option)
            continue
        model = fit(rows, folds=0, **TIE, **option).model
        assert model.fit.in_sample.recall == pytest.approx(known["recall"], rel=1e-9)
        assert p_and_t(model, rows) == pytest.approx((known["p"], known["t"]), rel=1e-9)


# ---------------------------------------------------------------- random at one score


def groups_of(tally: Tally) -> list[naive.Group]:
    """Return the positives and negatives at each score of all levels, by falling score."""
    found: dict[float, list[int]] = {}
    for score, count, hits in zip(tally.score, tally.count, tally.positive, strict=True):
        group = found.setdefault(float(score), [0, 0])
        group[0] += int(hits)
        group[1] += int(count) - int(hits)
    return [(a, b) for _, (a, b) in sorted(found.items(), reverse=True)]


def together(tally: Tally) -> Tally:
    """Return a tally as one level."""
    return Tally(
        tally.score, np.zeros_like(tally.level), tally.count, tally.positive, 1, tally.unit
    )


def recounted(tally: Tally, mixture: Found) -> tuple[float, float]:
    """Return expected rows and positives of a mixture, entry by entry."""
    narrow, wide = mixture.thresholds[tally.level], mixture.wide[tally.level]
    chance = np.where(
        tally.score >= narrow, 1.0, np.where(tally.score >= wide, mixture.probability, 0.0)
    )
    return float(chance @ tally.count), float(chance @ tally.positive)


def assert_counts(tally: Tally, mixture: Found) -> None:
    assert recounted(tally, mixture) == pytest.approx(
        (mixture.selected, mixture.true_positives), rel=1e-12, abs=1e-12
    )
    assert 0.0 <= mixture.probability < 1.0
    differs = ~(
        (mixture.thresholds == mixture.wide)
        | (np.isnan(mixture.thresholds) & np.isnan(mixture.wide))
    )
    assert differs.sum() <= 1
    assert differs.any() == (mixture.probability > 0.0)


@given(st.sampled_from(BOUNDED), tallies())
@settings(max_examples=50)
def test_ties_reach_the_best_probability_at_the_best_score(
    asked: tuple[str, str], tally: Tally
) -> None:
    option, bound = asked
    totals = totals_of(tally)
    goal, groups = goal_of(read_target({option: bound}), totals), groups_of(tally)
    found = random_tie(together(tally), goal)
    assert_counts(together(tally), found)
    slack = naive.slack_of(option, Fraction(bound), totals.rows, totals.positives)
    ends = [(m, t) for m, t in naive.random_ties(groups, slack) if m > 0]
    value = (found.selected, found.true_positives)
    if not ends or (option != "recall" and not any(t for _, t in ends)):
        assert value == (0.0, 0.0)
        return
    if option == "recall":
        wanted = max(ends, key=lambda end: (end[1] / end[0], end[1]))
    else:
        wanted = max(ends, key=lambda end: (end[1], -end[0]))
    assert value == pytest.approx((float(wanted[0]), float(wanted[1])), rel=1e-9)


def measured(text: str, totals: Totals) -> tuple[Goal, Callable[[float, float], float]]:
    """Return the goal of a measure, and what rows and positives are worth by it."""
    option, sign = ("minimize", -1) if text.startswith("cost") else ("maximize", 1)

    def value(m: float, t: float) -> float:
        return sign * naive.measure(text, m, t, totals.rows, totals.positives)

    return goal_of(read_target({option: text}), totals), value


@given(st.sampled_from(MEASURES), tallies())
@settings(max_examples=60)
def test_only_the_gmean_gains_from_a_tie(text: str, tally: Tally) -> None:
    (goal, value), groups = measured(text, totals_of(tally)), groups_of(tally)
    found = random_tie(together(tally), goal)
    assert_counts(together(tally), found)
    reached = value(found.selected, found.true_positives)
    single = prefixes.solve(together(tally).points(), goal)
    assert reached >= value(single.selected, single.true_positives) - 1e-12
    every = [
        value(*naive.mixed(groups, k, Fraction(step, 20)))
        for k in range(len(groups))
        for step in range(21)
    ]
    assert reached >= max(every) - 1e-12
    if text != "gmean":
        assert found.probability == 0.0
        assert reached == pytest.approx(max(every), abs=1e-12)
        rows = np.cumsum([0] + [a + b for a, b in groups])
        hits = np.cumsum([0] + [a for a, _ in groups])
        whole = zip(rows.tolist(), hits.tolist(), strict=True)
        assert found.selected == min(m for m, t in whole if value(m, t) >= reached - 1e-12)


# ---------------------------------------------------------------- random over a block


def best_mixture(
    tally: Tally, option: str, bound: Fraction, totals: Totals
) -> tuple[float, float] | None:
    """Return objective and rows of the best randomised boundary, by linear programming.

    A randomised boundary is a mixture of boundaries.  Recall is linear in the weights; precision is
    a ratio, made linear by scaling the weights to one selected row (Charnes, Cooper).
    """
    points = [(float(m), float(t)) for m, t in all_totals(tally)]
    m, t = (np.array(column) for column in zip(*points, strict=True))
    over = naive.slack_of(option, bound, totals.rows, totals.positives)
    slack = np.array([float(over(*map(Fraction, p))) for p in points])
    ones = np.ones_like(m)
    if option == "recall":
        done = linprog(-t, A_ub=[-slack], b_ub=[0.0], A_eq=[m], b_eq=[1.0])
        return (-done.fun, math.nan) if done.status == 0 else None
    done = linprog(-t, A_ub=[-slack], b_ub=[0.0], A_eq=[ones], b_eq=[1.0])
    assert done.status == 0
    fewest = linprog(m, A_ub=[-slack, -t], b_ub=[0.0, done.fun + 1e-9], A_eq=[ones], b_eq=[1.0])
    return -done.fun, fewest.fun


@given(st.sampled_from(BOUNDED), tallies())
@settings(max_examples=50)
def test_blocks_reach_the_best_mixture_of_boundaries(asked: tuple[str, str], tally: Tally) -> None:
    option, bound = asked
    totals, exact_bound = totals_of(tally), Fraction(bound)
    goal = goal_of(read_target({option: bound}), totals)
    found = random_block(tally, goal)
    assert_counts(tally, found)
    m, t = found.selected, found.true_positives
    best = best_mixture(tally, option, exact_bound, totals)
    assert best is not None
    slack = naive.slack_of(option, exact_bound, totals.rows, totals.positives)
    over = float(slack(Fraction(m), Fraction(t)))
    assert over >= -1e-9
    single = prefixes.solve(tally.points(), goal)
    if option == "recall":
        assert t / m == pytest.approx(best[0], rel=1e-7)
        assert t / m >= single.true_positives / single.selected - 1e-12
        highest = max(b / a for a, b in all_totals(tally) if a)
        assert over <= 1e-9 or t / m == pytest.approx(highest)
        return
    assert (t, m) == pytest.approx(best, rel=1e-6, abs=1e-6)
    assert t >= single.true_positives - 1e-9
    assert over <= 1e-9 or t == totals.positives or (t, option) == (0.0, "precision")


@pytest.mark.few(4)
@pytest.mark.parametrize("text", MEASURES)
@given(tallies())
@SOME
def test_where_a_vertex_is_best_nothing_is_random(text: str, tally: Tally) -> None:
    """Only the G-mean is larger within an edge of the hull; the others end at a boundary."""
    goal, value = measured(text, totals_of(tally))
    found = random_block(tally, goal)
    assert_counts(tally, found)
    reached = value(found.selected, found.true_positives)
    hull = naive.upper_hull(all_totals(tally))
    if text != "gmean":
        assert found.probability == 0.0
        single = prefixes.solve(tally.points(), goal)
        assert reached == pytest.approx(value(single.selected, single.true_positives), abs=1e-12)
    for (m0, t0), (m1, t1) in itertools.pairwise(hull):
        for share in np.linspace(0, 1, 41):
            assert value(m0 + share * (m1 - m0), t0 + share * (t1 - t0)) <= reached + 1e-12
    # What is reached lies under the hull.
    heights = np.interp(found.selected, *zip(*hull, strict=True))
    assert found.true_positives <= heights + 1e-9


def test_all_rows_tied() -> None:
    rows = score_rows([0.4] * 10, [1] * 4 + [0] * 6)
    for kind in (TIE, BLOCK):
        recall = fit(rows, recall="0.25", folds=0, **kind).model.fit.in_sample
        # Every share has the same precision: of these the largest is taken.
        assert (recall.precision, recall.recall) == (0.4, 1.0)
        for impossible in ({"fpr": "0"}, {"precision": "0.41"}):
            with pytest.raises(InfeasibleError):
                fit(rows, folds=0, **kind, **impossible)


# ---------------------------------------------------------------- models on rows


def assert_recounted(model: BoundaryModel, rows: ScoreRows, figures: Any) -> None:
    """Compare the figures of a model with the probabilities of rows."""
    assert rows.label is not None
    weight = np.ones(rows.score.size) if rows.weight is None else rows.weight
    chance = probabilities(model, rows.score, rows.uncertainty)
    selected, hits = math.fsum(chance * weight), math.fsum(chance * weight * rows.label)
    positives = math.fsum(weight * rows.label)
    negatives = math.fsum(weight) - positives
    assert figures.selected == pytest.approx(selected, rel=1e-9, abs=1e-9)
    assert figures.true_positives == pytest.approx(hits, rel=1e-9, abs=1e-9)
    assert figures.recall == (pytest.approx(hits / positives) if positives else None)
    if selected:
        assert figures.precision == pytest.approx(hits / selected)
    else:
        assert figures.precision is None
    if negatives > 1e-9:
        assert figures.false_positive_rate == pytest.approx(
            (selected - hits) / negatives, rel=1e-9, abs=1e-9
        )


OBJECTIVES = st.one_of(
    st.tuples(st.sampled_from(["precision", "recall"]), st.sampled_from(BOUNDS)),
    st.tuples(st.just("capacity"), st.sampled_from(["0.05", "0.3", "2"])),
    st.tuples(
        st.just("maximize"),
        st.sampled_from(
            [n for n, k in OBJECTIVES.items() if k.needs in ("", "p") and not k.parameters]
        ),
    ),
)


@pytest.mark.parametrize("kind", [BLOCK, TIE], ids=["block", "tie"])
@given(tables(), OBJECTIVES, st.booleans())
def test_figures_are_those_of_the_rows(
    kind: dict[str, str], table: dict[str, list[Any]], objective: tuple[str, str], narrow: bool
) -> None:
    rows = score_rows(**table, floats=np.float32 if narrow else np.float64)
    option, value = objective
    try:
        model = fit(rows, folds=0, test=rows, **kind, **{option: value}).model
    except InfeasibleError:
        assert option in ("precision", "capacity", "recall")
        return
    again = BoundaryModel.from_json(model.to_json())
    assert again == model
    assert_recounted(again, rows, model.fit.in_sample)
    assert_recounted(again, rows, model.fit.test)
    assert model.randomise == kind["randomise"]
    assert model.fit.optimal_in_sample and model.fit.bound_met
    assert model.fit.upper_bound == model.fit.in_sample.objective_value


@given(tables(), st.sampled_from(["0.3", "0.5", "0.8"]), st.integers(1, 6))
def test_grid_thresholds(table: dict[str, list[Any]], bound: str, bins: int) -> None:
    table["score"] = [float(np.clip(s, -3, 3)) for s in table["score"]]
    rows = score_rows(**table)
    options = {"precision": bound, "score_bins": bins, "uncertainty_bins": 2, "folds": 0}
    try:
        model = fit(rows, **BLOCK, **options).model
    except InfeasibleError:
        with pytest.raises(InfeasibleError):
            fit(rows, **options)
        return
    assert_recounted(model, rows, model.fit.in_sample)
    try:
        single = fit(rows, **options).model.fit.in_sample.recall
    except InfeasibleError:
        return
    assert single is not None and model.fit.in_sample.recall is not None
    assert model.fit.in_sample.recall >= single - 1e-12


@pytest.mark.parametrize(
    "option", [{"precision": "0.7"}, {"recall": "0.4"}, {"fpr": "0.1"}], ids=str
)
def test_cross_validation_counts_what_is_to_be_expected(option: dict[str, str]) -> None:
    rows = score_rows(**example(300, seed=3, distinct=12))
    model = fit(rows, uncertainty_bins=2, **BLOCK, **option).model
    levels = [model.uncertainty_min, *model.uncertainty_edges]
    assert len(levels) == 2
    summary = summarise(rows, BoundaryOptions(uncertainty_bins=2, **BLOCK, **option))
    dealt = summary.deal(AS_THEY_ARE)
    goal = goal_of(read_target(option), summary.totals())
    selected = hits = 0.0
    for fold in range(5):
        inside = dealt.part == fold
        others, held = (
            Tally(dealt.score[p], dealt.level[p], dealt.count[p], dealt.positive[p], 2)
            for p in (~inside, inside)
        )
        mixture = random_block(others, goal.of(totals_of(others)))
        assert mixture.probability > 0.0
        m, t = recounted(held, mixture)
        selected, hits = selected + m, hits + t
    seen = model.fit.cross_validated
    assert seen is not None
    assert seen.precision == pytest.approx(hits / selected)
    assert seen.recall == pytest.approx(hits / summary.totals().positives)


def test_infinite_scores_may_be_tied() -> None:
    rows = score_rows(
        [np.inf] * 40 + [-np.inf] * 40, ([1] * 10 + [0] * 10) * 2 + ([1] + [0] * 9) * 4
    )
    for kind in (TIE, BLOCK):
        model = fit(rows, capacity="0.25", **kind).model
        assert_recounted(model, rows, model.fit.in_sample)
        assert model.tie_probability == [0.5]
        checked = model.fit.cross_validated
        assert checked is not None and checked.recall == pytest.approx(20 * 0.5 / 24, abs=0.02)


def test_a_comparison_randomises_where_a_method_does() -> None:
    options = BoundaryOptions(precision="0.6", method="exact", randomise="tie", folds=0)
    found = {row.method: row for row in compare_methods(score_rows(**example(100)), options)}
    for name, row in found.items():
        assert row.model is not None, row.note
        assert (row.model.randomise == "tie") == (name == "stochastic")
