"""Every objective against the enumeration of all boundaries."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibkit.errors import UsageError, nearest
from calibkit.methods.boundary.problem.goals import Measure, Totals
from calibkit.methods.boundary.solvers import prefixes
from calibkit.methods.boundary.solvers.methods import goal_of
from calibkit.numerics.confusion import OBJECTIVES
from calibkit.options.objective import OPTIONS, read_target
from calibkit.summaries.tally import Tally, count_rows
from tests.naive import boundaries as naive

BOUNDED = [
    {"fpr": "0"},
    {"fpr": "0.1"},
    {"fpr": "0.35"},
    {"fpr": "1"},
    {"capacity": "1"},
    {"capacity": "3"},
    {"capacity": "0.3"},
    {"capacity": "100"},
]
MEASURES = [
    *(name for name, kind in OBJECTIVES.items() if not kind.parameters),
    "weighted-accuracy:0.7",
    "fbeta:0.5",
    "fbeta:2",
    "utility:1,-0.3,-0.5,0",
    "cost:5,1",
    "cost:1,5",
]


@st.composite
def tallies(draw: st.DrawFn) -> Tally:
    """Rows of both classes over a few levels, tied more or less, weighted or not."""
    size = draw(st.integers(2, 25))
    levels = draw(st.integers(1, 4))
    scores = draw(st.lists(st.integers(0, draw(st.integers(1, 20))), min_size=size, max_size=size))
    level = draw(st.lists(st.integers(0, levels - 1), min_size=size, max_size=size))
    label = draw(st.lists(st.integers(0, 1), min_size=size - 2, max_size=size - 2))
    weight = draw(
        st.none() | st.lists(st.integers(0, 4).map(float), min_size=size - 2, max_size=size - 2)
    )
    return count_rows(
        np.array(scores, np.float64),
        np.array(level, np.uint16),
        np.array([0, 1, *label], np.uint8),
        levels,
        weight=None if weight is None else np.array([1.0, 1.0, *weight]),
    )


def totals_of(tally: Tally) -> Totals:
    counts = tally.level_totals
    return Totals(int(counts[:, 1].sum()), int(counts[:, 2].sum()))


def all_totals(tally: Tally) -> list[tuple[int, int]]:
    """Return (rows, positive rows) of every boundary, whether a sensible one or not."""
    found = {(0, 0)}
    for level in range(tally.levels):
        own = tally.level == level
        rows = np.append(0, np.cumsum(tally.count[own].astype(int))).tolist()
        hits = np.append(0, np.cumsum(tally.positive[own].astype(int))).tolist()
        found = {(m + a, t + b) for m, t in found for a, b in zip(rows, hits, strict=True)}
    return sorted(found)


@pytest.mark.few(5)
@pytest.mark.parametrize("given_option", BOUNDED, ids=str)
@given(tallies())
def test_bounded_goals_reach_the_best_of_all_boundaries(
    given_option: dict[str, str], tally: Tally
) -> None:
    totals = totals_of(tally)
    ((option, text),) = given_option.items()
    bound = Fraction(text)
    limit = bound * (totals.rows - totals.positives)
    if option == "capacity":
        limit = bound if bound >= 1 else bound * totals.rows
    feasible = [
        (hits, -rows)
        for rows, hits in all_totals(tally)
        if rows - (hits if option == "fpr" else 0) <= limit
    ]
    goal = goal_of(read_target(given_option), totals)
    found = prefixes.solve(tally.points(), goal)
    assert (found.true_positives, -found.selected) == max(feasible)
    assert found.proven and goal.met(found.selected, found.true_positives)
    assert found.ceiling == found.true_positives / totals.positives
    cut = prefixes.solve(tally.points(), goal, cap=0)
    assert goal.met(cut.selected, cut.true_positives)
    assert cut.ceiling >= found.ceiling - 1e-12


@pytest.mark.few(6)
@pytest.mark.parametrize("text", MEASURES)
@given(tallies())
def test_measures_reach_the_best_of_all_boundaries(text: str, tally: Tally) -> None:
    option = "minimize" if text.startswith("cost") else "maximize"
    totals = totals_of(tally)
    goal = goal_of(read_target({option: text}), totals)
    assert isinstance(goal, Measure)
    sign = -1 if option == "minimize" else 1
    every = [
        (sign * naive.measure(text, rows, hits, totals.rows, totals.positives), rows, hits)
        for rows, hits in all_totals(tally)
    ]
    best = max(value for value, _, _ in every)
    fewest = min(rows for value, rows, _ in every if value >= best - 1e-12)
    found = prefixes.solve(tally.points(), goal)
    assert found.proven
    assert goal.value(found.selected, found.true_positives) == pytest.approx(
        sign * best, abs=1e-12, rel=1e-12
    )
    assert found.selected == fewest
    assert sign * found.ceiling == pytest.approx(best, abs=1e-12)
    if text != "gmean":  # the best value is known without a search, which only saves rows
        cut = prefixes.solve(tally.points(), goal, cap=0)
        value = goal.value(cut.selected, cut.true_positives)
        assert cut.proven and sign * (value or 0.0) == pytest.approx(best, abs=1e-12)


@given(tallies())
def test_a_search_for_the_gmean_cut_short_bounds_it(tally: Tally) -> None:
    goal = goal_of(read_target({"maximize": "gmean"}), totals_of(tally))
    best = prefixes.solve(tally.points(), goal)
    cut = prefixes.solve(tally.points(), goal, cap=0)
    assert cut.ceiling >= best.ceiling - 1e-12


def test_a_number_of_rows_is_a_share_of_other_rows() -> None:
    goal = goal_of(read_target({"capacity": "30"}), Totals(100, 50))
    assert goal.met(30, 20) and not goal.met(31, 20)
    part = goal.of(Totals(50, 20))
    assert part.met(15, 9) and not part.met(16, 9)
    assert part.of(Totals(100, 50)).met(30, 20)


@pytest.mark.parametrize(
    ("given_options", "said"),
    [
        ({}, "exactly one"),
        ({"precision": "0.5", "fpr": "0.1"}, "--precision and --fpr"),
        ({"fpr": "1.5"}, "from 0 to 1"),
        ({"capacity": "0"}, "whole number"),
        ({"capacity": "2.5"}, "whole number"),
        ({"maximize": "acuracy"}, "did you mean 'accuracy'"),
        ({"maximize": "cost:1,2"}, "does not know 'cost'"),
        ({"minimize": "f1"}, "does not know 'f1'"),
        ({"maximize": "fbeta"}, "fbeta:B"),
        ({"maximize": "f1:2"}, "not of the form f1"),
        ({"maximize": "weighted-accuracy:1"}, "between 0 and 1"),
        ({"maximize": "fbeta:0"}, "positive"),
        ({"maximize": "utility:0,0,1,0"}, "true positive is worth"),
        ({"minimize": "cost:-1,1"}, "not negative"),
        ({"minimize": "cost:,1"}, "name of a column"),
        ({"minimize": "cost:0,1e12"}, "expected a number"),
    ],
)
def test_impossible_objectives_are_refused(given_options: dict[str, str], said: str) -> None:
    with pytest.raises(UsageError, match=said.replace("(", r"\(")):
        read_target({name: given_options.get(name) for name in OPTIONS})


def test_other_names_of_a_measure_and_other_cases_lead_to_its_own() -> None:
    known = ["--recall", "--score", "--scores", "AUC", "accuracy"]
    for asked, meant in (("--sensitivity", "--recall"), ("--SCORE", "--score"), ("roc_auc", "AUC")):
        assert nearest(asked, known) == f" (did you mean {meant!r}?)"
    assert nearest("--scor", known) == " (did you mean '--score', '--scores'?)"
    assert nearest("nothing", known) == ""


@pytest.mark.parametrize(
    ("given_option", "said"),
    [
        ({"recall": "0.9"}, "recall of amount >= 0.9"),
        ({"precision": "0.5"}, "precision >= 0.5"),
        ({"capacity": "30"}, "capacity <= 30"),
    ],
)
def test_the_recall_alone_is_of_a_column(given_option: dict[str, str], said: str) -> None:
    assert read_target(given_option, value="amount").text == said
