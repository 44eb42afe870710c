"""Boundaries whose segments are alike against the enumeration of all of them."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import calibkit as ck
from calibkit.methods.boundary.problem.bounded import GOALS
from calibkit.methods.boundary.problem.goals import CountGoal, tally_totals
from calibkit.methods.boundary.solvers import gap
from calibkit.methods.boundary.solvers.gap import WithinGap
from calibkit.methods.boundary.solvers.methods import METHODS
from calibkit.numerics.bounds import decimal_bound
from calibkit.summaries.tally import Tally
from tests.library.samples import Row, tally_of

ROWS = st.lists(
    st.tuples(st.integers(0, 7), st.integers(0, 2), st.integers(0, 1), st.integers(1, 3)),
    min_size=1,
    max_size=14,
)
BOUNDS = {
    "precision": st.sampled_from(["0", "0.3", "0.5", "0.7", "1"]),
    "recall": st.sampled_from(["0.2", "0.5", "0.9"]),
    "fpr": st.sampled_from(["0", "0.1", "0.5"]),
    "capacity": st.sampled_from(["2", "5", "0.5"]),
}
ASKED = st.sampled_from(sorted(BOUNDS)).flatmap(
    lambda name: st.tuples(
        st.just(name),
        BOUNDS[name],
        st.sampled_from(["recall", "fpr"]),
        st.sampled_from(["0", "0.05", "0.25", "0.4", "1"]),
    )
)


#: Score, level, label and weight of rows, one of them positive.
TABLES = ROWS.filter(lambda rows: any(row[2] for row in rows))


Asked = tuple[str, str, str, str]


#: Of a range of rates the highest ones lie between two candidates.
FIRST: list[Row] = [
    *((1, 1, 0, 1), (6, 2, 0, 3), (0, 0, 1, 1), (2, 0, 0, 1), (6, 1, 1, 3), (5, 1, 1, 3)),
    *((3, 0, 1, 2), (5, 1, 0, 2), (3, 0, 1, 3), (6, 1, 0, 2), (0, 3, 0, 2)),
]


SECOND: list[Row] = [
    *((4, 3, 1, 3), (7, 1, 1, 1), (1, 0, 0, 3), (0, 3, 1, 3), (7, 3, 0, 3), (2, 0, 0, 1)),
    *((2, 0, 1, 1), (7, 3, 1, 2), (2, 1, 0, 1), (5, 3, 1, 3), (3, 2, 0, 3)),
]


def goal_of(tally: Tally, asked: Asked, within: int = 1) -> WithinGap:
    name, bound, measure, most = asked
    goal = GOALS[name](decimal_bound(bound, most=None), tally_totals(tally))
    assert isinstance(goal, CountGoal)
    return WithinGap(goal, measure, Fraction(most), tally.levels // within)


def counts(rows: list[Row]) -> tuple[int, int]:
    """Return how much rows and positive rows weigh."""
    return sum(w for *_, w in rows), sum(y * w for _, _, y, w in rows)


def differ(rows: list[Row], taken: list[Row], goal: WithinGap, within: int) -> Fraction:
    """Return how far rates of segments of so many levels lie apart, of the rows that are taken."""
    kind, rates = int(goal.measure == "recall"), []
    for segment in range(4):
        whole, part = (
            sum(w for _, level, y, w in some if level // within == segment and y == kind)
            for some in (rows, taken)
        )
        if whole:
            rates.append(Fraction(part, whole))
    return max(rates, default=Fraction(0)) - min(rates, default=Fraction(0))


def best(rows: list[Row], goal: WithinGap, within: int = 1) -> tuple[float | None, int]:
    """Return the best objective by its definition; None where nothing meets bound and gap.

    With it comes how many rows it takes: the fewest, of equal precision the most.
    """
    sign = 1 if goal.goal.bounded == "recall" else -1
    cuts = [[8, *{row[0] for row in rows if row[1] == level}] for level in range(4)]
    values = []
    for choice in product(*cuts):
        taken = [row for row in rows if row[0] >= choice[row[1]]]
        if differ(rows, taken, goal, within) > goal.most or not goal.goal.met(*counts(taken)):
            continue
        value = goal.goal.value(*counts(taken))
        if value is not None:
            values.append((value, sign * counts(taken)[0]))
    value, rows_taken = max(values, default=(None, 0))
    return value, sign * rows_taken


def test_a_choice_of_positives_alone_ends_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    looks, look = [], gap._Search.look
    monkeypatch.setattr(gap._Search, "look", lambda *given_: looks.append(1) or look(*given_))
    random = np.random.default_rng(200)
    rows = [
        (int(score), level, int(score >= 100 + 20 * level), 1)
        for level in range(3)
        for score in random.permutation(200)[:100]
    ]
    tally = tally_of(rows)
    found = gap.find(tally, goal_of(tally, ("capacity", "0.3", "recall", "0.05")))
    assert found.selected == found.true_positives == 90
    assert len(looks) < 10


@pytest.mark.parametrize(
    ("seed", "bound", "most", "wanted"),
    [
        (525, {"recall": 0.2}, "fpr:0.06", (16, 8)),
        (595, {"capacity": 0.42}, "recall:0.16", (25, 16)),
    ],
)
def test_of_equal_boundaries_the_canonical_one_is_found(
    seed: int, bound: dict[str, float], most: str, wanted: tuple[int, int]
) -> None:
    random = np.random.default_rng(seed)
    size = int(random.integers(20, 70))
    score = random.random(size).round(int(random.integers(1, 3)))
    part = random.integers(0, int(random.integers(2, 4)), size)
    label = (random.random(size) < score * 0.8 + 0.05 * part).astype(int)
    frame = pl.DataFrame({"score": score, "label": label, "part": part})
    asked: dict[str, Any] = {"method": "exact", "folds": 0, "by": "part", "max_gap": most}
    seen = ck.fit_boundary(frame, **asked, **bound).fit.in_sample
    assert (seen.selected, seen.true_positives) == wanted


@given(TABLES, ASKED)
def test_the_optimum_is_that_of_the_enumeration(rows: list[Row], asked: Asked) -> None:
    tally = tally_of(rows)
    goal = goal_of(tally, asked)
    found = gap.find(tally, goal)
    selected, hits = tally.selected(found.thresholds)
    assert (goal.goal.value(selected, hits), selected) == best(rows, goal)
    assert (found.selected, found.true_positives) == (selected, hits)
    assert goal.goal.met(selected, hits)
    assert found.proven and found.ceiling == goal.goal.value(selected, hits)


@given(TABLES.map(lambda rows: [(s, (2 * u + w) % 4, y, w) for s, u, y, w in rows]), ASKED)
@example(FIRST, ("fpr", "0.1", "recall", "0"))
@example(SECOND, ("fpr", "0.5", "fpr", "0.25"))
def test_several_levels_a_segment_keep_gap_and_bound(rows: list[Row], asked: Asked) -> None:
    tally = tally_of(rows, 4)
    goal = goal_of(tally, asked, 2)
    wanted, _ = best(rows, goal, 2)
    found = gap.find(tally, goal)
    selected, hits = tally.selected(found.thresholds)
    value = goal.goal.value(selected, hits)
    assert wanted is not None and value is not None
    assert goal.goal.met(selected, hits) and value <= wanted <= found.ceiling + 1e-12
    taken = [row for row in rows if row[0] >= found.thresholds[row[1]]]
    assert differ(rows, taken, goal, 2) <= goal.most
    if found.proven:
        assert value == wanted
    # A gap that does not bind changes nothing.
    wide = gap.find(tally, goal_of(tally, (*asked[:3], "1"), 2))
    free = METHODS["exact"].find(tally, goal.goal)
    assert (wide.selected, wide.true_positives) == (free.selected, free.true_positives)
    assert wide.proven == free.proven


@pytest.mark.filterwarnings("ignore::calibkit.CalibkitWarning")
@pytest.mark.parametrize("unit", [0.1, 0.7, 1_000_000_007])
def test_a_gap_is_kept_in_whatever_weights_are_counted(unit: float) -> None:
    """Of units that are small beside their sum, and of large weights, products exceed 64 bits."""
    score = [0.2, 0.8, 0.5, 0.5, 0.2, 0.8, 0.5, 0.8]
    label, by = [0, 1, 0, 1, 0, 1, 0, 1], [*"babbbbba"]
    weight = np.array([3, 11, 11, 11, 11, 3, 11, 11])
    asked = {"method": "exact", "max_gap": "recall:0.25", "min_group_positives": 0, "folds": 0}
    one, other = (
        ck.fit_boundary(score=score, label=label, by=by, weight=own, fpr=0.5, **asked)
        for own in (weight, weight * unit)
    )
    assert one.fit.gap is not None and other.fit.gap is not None
    assert one.fit.gap.in_sample == pytest.approx(3 / 14)
    assert other.fit.gap.in_sample == pytest.approx(3 / 14)
    assert one.fit.in_sample.recall == pytest.approx(other.fit.in_sample.recall)
