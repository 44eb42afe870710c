"""Values, costs of single rows and base rates against the enumeration of all boundaries."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calibkit.columns.weights import AS_THEY_ARE, Unit, at_prevalence, in_units
from calibkit.methods.boundary.problem.goals import Goal, Totals, tally_totals
from calibkit.methods.boundary.result.figures import linearised_error
from calibkit.methods.boundary.solvers.methods import METHODS, classes_of, goal_of
from calibkit.methods.boundary.solvers.prefixes import solve as best_choice
from calibkit.options.objective import Target, read_target
from calibkit.summaries.tally import Tally
from tests.library.samples import counted
from tests.naive import boundaries
from tests.naive import gains as naive

BOUNDED = [
    {"precision": "0.5"},
    {"precision": "0.371"},
    {"precision": "1"},
    {"recall": "0"},
    {"recall": "0.5"},
    {"recall": "0.83"},
    {"recall": "1"},
    {"fpr": "0"},
    {"fpr": "0.3"},
    {"capacity": "3"},
    {"capacity": "0.4"},
]


@dataclass(frozen=True)
class Rows:
    """Rows of both classes, with values."""

    score: list[float]
    level: list[int]
    label: list[int]
    weight: list[int]
    amount: list[float]

    def boundaries(self, worth: list[Fraction]) -> list[naive.Totals]:
        return naive.all_boundaries(self.score, self.level, self.label, self.weight, worth)

    def tally(self, gain: np.ndarray | None = None, unit: Unit | None = None) -> Tally:
        columns = self.score, self.level, self.label, max(self.level) + 1, self.weight
        return counted(*columns, gain=gain, gain_unit=unit or Unit())


@st.composite
def samples(draw: st.DrawFn) -> Rows:
    size = draw(st.integers(2, 14))
    numbers = {"min_size": size, "max_size": size}
    values = st.integers(0, 6).map(float) | st.integers(0, 40).map(lambda eighth: eighth / 8)
    return Rows(
        draw(st.lists(st.integers(0, draw(st.integers(1, 12))).map(float), **numbers)),
        draw(st.lists(st.integers(0, draw(st.integers(0, 2))), **numbers)),
        [0, 1, *draw(st.lists(st.integers(0, 1), min_size=size - 2, max_size=size - 2))],
        [1, 1, *draw(st.lists(st.integers(0, 3), min_size=size - 2, max_size=size - 2))],
        [1.0, 1.0, *draw(st.lists(values, min_size=size - 2, max_size=size - 2))],
    )


def valued(rows: Rows) -> tuple[Tally, list[Fraction]]:
    """Return the tally with values as gains, and each row's value."""
    amounts = np.array(rows.amount) * np.array(rows.label)
    units, unit = in_units(amounts * np.array(rows.weight))
    return rows.tally(units, unit), [Fraction(amount) for amount in amounts.tolist()]


def feasible(target: Target, found: naive.Totals, everything: naive.Totals) -> bool:
    """Return whether totals meet the bound of a target, in exact arithmetic."""
    rows, hits, worth = found
    bound = Fraction(target.bound.numerator, target.bound.denominator) if target.bound else None
    assert bound is not None
    if target.option == "precision":
        return hits >= bound * rows
    if target.option == "recall":
        return rows > 0 and worth >= bound * everything[2]  # of none, where that is enough
    if target.option == "fpr":
        return rows - hits <= bound * (everything[0] - everything[1])
    return rows <= (bound if bound >= 1 else bound * everything[0])


@settings(max_examples=100)
@given(rows=samples(), given_option=st.sampled_from(BOUNDED), together=st.booleans())
def test_value_is_caught_best(rows: Rows, given_option: dict[str, str], together: bool) -> None:
    if together:
        rows = Rows(rows.score, [0] * len(rows.score), rows.label, rows.weight, rows.amount)
    tally, worth = valued(rows)
    target = read_target(given_option, value="amount")
    goal = goal_of(target, tally_totals(tally))
    every = rows.boundaries(worth)
    everything = max(every)
    able = [one for one in every if feasible(target, one, everything)]
    points = tally.points()
    if together:
        choice = METHODS["st"].find(tally, goal)
        seen = (choice.selected, choice.true_positives, choice.gain)
    else:
        solved = best_choice(points, goal)
        seen = (*points.totals(solved.choice), points.total_gain(solved.choice))
        assert solved.proven
        assert solved.ceiling == goal.value(*seen)
        assert (solved.selected, solved.true_positives) == seen[:2]
    cut = best_choice(points, goal, cap=0)  # a search cut short bounds the value
    assert goal.met(cut.selected, cut.true_positives, points.total_gain(cut.choice))
    assert cut.ceiling >= goal.value(*seen) - 1e-12
    found = (seen[0], seen[1], seen[2] * Fraction(tally.gain_unit.size))
    assert found in every
    assert feasible(target, found, everything) and goal.met(*seen)
    if target.option == "recall":
        best = max(Fraction(hits, count) for count, hits, _ in able)
        assert Fraction(found[1], found[0]) == best
        assert goal.value(*seen) == found[1] / found[0]
    else:
        assert found[2] == max(value for _, _, value in able)
        assert found[0] == min(rows for rows, _, value in able if value == found[2])
        assert goal.value(*seen) == pytest.approx(float(found[2] / everything[2]), rel=1e-15)


@given(rows=samples(), alarms=st.lists(st.integers(0, 9), min_size=14, max_size=14))
def test_costs_of_single_rows_are_least(rows: Rows, alarms: list[int]) -> None:
    size = len(rows.score)
    worth = [
        Fraction(rows.amount[row]) if rows.label[row] else -Fraction(alarms[row])
        for row in range(size)
    ]
    amounts = np.array([abs(float(one)) for one in worth]) * np.array(rows.weight)
    units, unit = in_units(amounts)
    tally = rows.tally(np.where(np.array(rows.label) == 1, units, -units), unit)
    goal = goal_of(read_target({"minimize": "cost:alarm,miss"}), tally_totals(tally))
    points = tally.points()
    solved = best_choice(points, goal)
    seen = (*points.totals(solved.choice), points.total_gain(solved.choice))
    every = rows.boundaries(worth)
    missed = sum(
        Fraction(rows.amount[row]) * rows.weight[row] for row in range(size) if rows.label[row]
    )
    best = missed - max(gain for _, _, gain in every)
    value = goal.value(*seen)
    assert value == pytest.approx(float(best) / sum(rows.weight), abs=1e-12)
    assert solved.ceiling == value and solved.proven


RATES = ["0.5", "0.013", "0.9", "0.333333333"]


@given(
    share=st.sampled_from(RATES),
    rows=samples(),
    option=st.sampled_from([*BOUNDED, {"maximize": "f1"}, {"maximize": "mcc"}]),
)
def test_another_base_rate_is_reached_by_reweighting(
    rows: Rows, option: dict[str, str], share: str
) -> None:
    tally = rows.tally()
    target = read_target(option, prevalence=share)
    classes = classes_of(target, tally_totals(tally))
    weighed = tally.reweighted(classes)
    totals = tally_totals(weighed)
    assert Fraction(totals.positives, totals.rows) == Fraction(share)
    assert classes.rows(totals.rows, totals.positives) == (
        sum(rows.weight),
        sum(w for w, y in zip(rows.weight, rows.label, strict=True) if y),
    )
    goal = goal_of(target, totals)
    solved = best_choice(weighed.points(), goal)
    every = {classes.weigh(count, hits) for count, hits, _ in rows.boundaries([Fraction(0)] * 14)}
    assert (solved.selected, solved.true_positives) in every
    value = goal.value(solved.selected, solved.true_positives)
    best = _best_value(goal, target, every, totals.rows, totals.positives)
    assert value == pytest.approx(best, abs=1e-12)


def _best_value(
    goal: Goal, target: Target, every: set[tuple[int, int]], rows: int, positives: int
) -> float:
    if target.bound is None:
        return max(
            boundaries.measure(target.measure, count, hits, rows, positives)
            for count, hits in every
        )
    bound = Fraction(target.bound.numerator, target.bound.denominator)
    if target.option == "recall":
        return max(
            hits / count for count, hits in every if count and hits and hits >= bound * positives
        )
    able = [hits for count, hits in every if goal.met(count, hits)]
    if target.option == "precision":
        assert able == [hits for count, hits in every if hits >= bound * count]
    return max(able) / positives


def test_weights_of_classes_stay_integers_that_can_be_summed() -> None:
    assert at_prevalence(10, 0, Fraction(1, 2)) == AS_THEY_ARE
    assert at_prevalence(10, 4, None) == AS_THEY_ARE
    for rows, positives in ((2**52, 2**40 + 1), (10**8, 1_234_567)):
        huge = at_prevalence(rows, positives, Fraction(123_456_789, 10**9))
        assert not huge.exact
        weighed = huge.weigh(rows, positives)
        assert weighed[0] < 2**61
        assert weighed[1] / weighed[0] == pytest.approx(0.123456789, rel=1e-15)
        assert huge.rows(*weighed) == (rows, positives)
        hits, harm = huge.of(np.array([positives]), np.array([rows - positives]))
        assert (int(hits[0] + harm[0]), int(hits[0])) == weighed
    light = at_prevalence(2**62, 2**61, Fraction(1, 3))  # a row of weight 1 stays a row
    some = np.array([0, 1, 2**60])
    for units in light.of(some, some):
        assert units[0] == 0 and units[1] == 1 and 2**57 < units[2] < 2**60


@given(
    st.lists(
        st.tuples(st.integers(1, 9).map(float), st.integers(0, 1), st.integers(0, 1)),
        min_size=4,
        max_size=30,
    ),
    st.sampled_from(["recall", "precision"]),
)
def test_errors_of_sampled_rows_are_those_of_their_influences(
    data: list[tuple[float, int, int]], figure: str
) -> None:
    data = [(2.0, 1, 1), (1.0, 0, 1), (1.0, 1, 0), *data]
    corners = [(1, 1), (0, 1), (1, 0), (0, 0)]
    cells = np.array([sum(w for w, y, d in data if (y, d) == corner) for corner in corners])
    squares = np.array([sum(w * w for w, y, d in data if (y, d) == corner) for corner in corners])
    option = {"precision": "0.5"} if figure == "recall" else {"recall": "0.5"}
    goal = goal_of(read_target(option), Totals(1, 1))
    found = linearised_error(goal, cells.astype(float), squares.astype(float), None)
    assert found == pytest.approx(naive.influence_error(data, figure), rel=1e-12)


def test_errors_at_another_prevalence_are_those_of_the_rates() -> None:
    cells, squares = np.array([6.0, 3.0, 2.0, 9.0]), np.array([9.0, 4.0, 2.0, 25.0])
    goal = goal_of(read_target({"recall": "0.5"}), Totals(1, 1))
    tp, fp, fn, tn = cells
    positives, negatives = tp + fn, fp + tn
    hit, harm = 0.2 * tp / positives, 0.8 * fp / negatives
    of_hit, of_harm = (one / (hit + harm) ** 2 for one in (harm, -hit))
    slopes = np.array(
        [
            of_hit * 0.2 * fn / positives**2,
            of_harm * 0.8 * tn / negatives**2,
            -of_hit * 0.2 * tp / positives**2,
            -of_harm * 0.8 * fp / negatives**2,
        ]
    )
    expected = np.sqrt(np.square(slopes) @ squares)
    assert linearised_error(goal, cells, squares, 0.2) == pytest.approx(expected, rel=1e-12)
