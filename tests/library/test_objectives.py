"""Every objective against the enumeration of all boundaries."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibkit.errors import UsageError, nearest
from calibkit.methods.boundary.problem.goals import Measure, Totals
from calibkit.methods.boundary.solvers import prefixes
from calibkit.methods.boundary.solvers.methods import goal_of
from calibkit.numerics.confusion import OBJECTIVES
from calibkit.numerics.knapsack import STATE_CAP
from calibkit.options.objective import OPTIONS, read_target
from calibkit.summaries.tally import Tally
from tests.library.samples import all_totals, counted
from tests.naive import boundaries as naive

BOUNDED = [
    *({"fpr": bound} for bound in ("0", "0.1", "0.35", "1")),
    *({"capacity": bound} for bound in ("1", "3", "0.3", "100")),
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
    size, levels = draw(st.integers(2, 25)), draw(st.integers(1, 4))

    def column(values: st.SearchStrategy[int], first: Sequence[int] = ()) -> list[int]:
        count = size - len(first)
        return [*first, *draw(st.lists(values, min_size=count, max_size=count))]

    score = column(st.integers(0, draw(st.integers(1, 20))))
    level, label = column(st.integers(0, levels - 1)), column(st.integers(0, 1), (0, 1))
    weight = column(st.integers(0, 4), (1, 1)) if draw(st.booleans()) else None
    return counted(score, level, label, levels, weight)


def totals_of(tally: Tally) -> Totals:
    _, rows, positives = tally.level_totals.sum(axis=0).tolist()
    return Totals(rows, positives)


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
    found, cut = (prefixes.solve(tally.points(), goal, cap=cap) for cap in (STATE_CAP, 0))
    assert (found.true_positives, -found.selected) == max(feasible)
    assert found.proven and goal.met(found.selected, found.true_positives)
    assert found.ceiling == found.true_positives / totals.positives
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
        (sign * naive.measure(text, rows, hits, totals.rows, totals.positives), rows)
        for rows, hits in all_totals(tally)
    ]
    best = max(value for value, _ in every)
    exactly = pytest.approx(best, abs=1e-12, rel=1e-12)
    found, cut = (prefixes.solve(tally.points(), goal, cap=cap) for cap in (STATE_CAP, 0))
    assert found.proven
    assert sign * (goal.value(found.selected, found.true_positives) or 0.0) == exactly
    assert found.selected == min(rows for value, rows in every if value >= best - 1e-12)
    assert sign * found.ceiling == pytest.approx(best, abs=1e-12)
    if text == "gmean":
        assert cut.ceiling >= found.ceiling - 1e-12
    else:  # the best value is known without a search, which only saves rows
        value = sign * (goal.value(cut.selected, cut.true_positives) or 0.0)
        assert cut.proven and value == pytest.approx(best, abs=1e-12)


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
    with pytest.raises(UsageError, match=said):
        read_target({name: given_options.get(name) for name in OPTIONS})


def test_other_names_of_a_measure_and_other_cases_lead_to_its_own() -> None:
    known = ["--recall", "--score", "--scores", "AUC", "accuracy"]
    for asked, meant in (("--sensitivity", "--recall"), ("--SCORE", "--score"), ("roc_auc", "AUC")):
        assert nearest(asked, known) == f" (did you mean {meant!r}?)"
    assert nearest("--scor", known) == " (did you mean '--score', '--scores'?)"
    assert nearest("nothing", known) == ""


def test_the_recall_alone_is_of_a_column() -> None:
    for option, said in (
        ({"recall": "0.9"}, "recall of amount >= 0.9"),
        ({"precision": "0.5"}, "precision >= 0.5"),
        ({"capacity": "30"}, "capacity <= 30"),
    ):
        assert read_target(option, value="amount").text == said
