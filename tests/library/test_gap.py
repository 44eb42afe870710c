"""Boundaries whose segments are alike against the enumeration of all of them."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
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


def goal_of(tally: Tally, asked: tuple[str, str, str, str], within: int = 1) -> WithinGap:
    name, bound, measure, most = asked
    wanted = decimal_bound(bound, most=None)
    goal = GOALS[name](wanted, tally_totals(tally))
    assert isinstance(goal, CountGoal)
    return WithinGap(goal, measure, Fraction(most), tally.levels // within)


def best(
    rows: list[Row], goal: WithinGap, within: int = 1, levels: int = 3
) -> tuple[float | None, int]:
    """Return the best objective by its definition; None where nothing meets bound and gap.

    With it comes how many rows it takes: the fewest, of equal precision the most.
    """
    sign = 1 if goal.goal.bounded == "recall" else -1
    prefixes = []
    for level in range(levels):
        own = [row for row in rows if row[1] == level]
        cuts = [8, *sorted({row[0] for row in own}, reverse=True)]
        prefixes.append(
            [
                (
                    sum(r[3] for r in own if r[0] >= cut),
                    sum(r[3] * r[2] for r in own if r[0] >= cut),
                )
                for cut in cuts
            ]
        )
    values = []
    for choice in product(*prefixes):
        if rates_differ(rows, choice, goal, within) > goal.most:
            continue
        selected, hits = (sum(one[k] for one in choice) for k in (0, 1))
        if goal.goal.met(selected, hits):
            value = goal.goal.value(selected, hits)
            if value is not None:
                values.append((value, sign * selected))
    value, rows_taken = max(values, default=(None, 0))
    return value, sign * rows_taken


def rates_differ(
    rows: list[Row], choice: tuple[tuple[int, int], ...], goal: WithinGap, within: int
) -> Fraction:
    rates = []
    for first in range(0, len(choice), within):
        own = [row for row in rows if first <= row[1] < first + within]
        selected, hits = (sum(one[k] for one in choice[first : first + within]) for k in (0, 1))
        recall = goal.measure == "recall"
        whole = sum(r[3] for r in own if r[2] == recall)
        if whole:
            rates.append(Fraction(hits if recall else selected - hits, whole))
    return max(rates, default=Fraction(0)) - min(rates, default=Fraction(0))


@pytest.mark.parametrize("at", [0.0, 0.05, 0.3, 0.5, 0.618, 0.97])
def test_the_least_of_a_function_is_found(at: float) -> None:
    where, least = gap.least_of(lambda x: abs(x - at), 0.0, 1.0)
    assert where == pytest.approx(at, abs=1e-5) and least == pytest.approx(0.0, abs=1e-5)


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


@given(ROWS, ASKED)
def test_the_optimum_is_that_of_the_enumeration(
    rows: list[Row], asked: tuple[str, str, str, str]
) -> None:
    if not any(row[2] for row in rows):
        return
    tally = tally_of(rows)
    goal = goal_of(tally, asked)
    wanted, fewest = best(rows, goal)
    found = gap.find(tally, goal)
    selected, hits = tally.selected(found.thresholds)
    assert selected == fewest
    assert (found.selected, found.true_positives) == (selected, hits)
    assert goal.goal.met(selected, hits)
    assert goal.goal.value(selected, hits) == wanted
    assert found.proven and found.ceiling == wanted


@given(ROWS.map(lambda rows: [(s, level % 4, y, w) for s, level, y, w in rows]), ASKED)
def test_several_levels_a_segment_keep_gap_and_bound(
    rows: list[Row], asked: tuple[str, str, str, str]
) -> None:
    rows = [
        (score, (2 * level + weight) % 4, label, weight) for score, level, label, weight in rows
    ]
    if not any(row[2] for row in rows):
        return
    tally = tally_of(rows, 4)
    goal = goal_of(tally, asked, 2)
    wanted, _ = best(rows, goal, 2, 4)
    found = gap.find(tally, goal)
    selected, hits = tally.selected(found.thresholds)
    value = goal.goal.value(selected, hits)
    assert wanted is not None and value is not None
    assert goal.goal.met(selected, hits) and value <= wanted <= found.ceiling + 1e-12
    levels = np.arange(4)
    choice = tuple(
        tally.selected(np.where(levels == one, found.thresholds, np.nan)) for one in levels
    )
    assert rates_differ(rows, choice, goal, 2) <= goal.most
    if found.proven:
        assert value == wanted


#: Of a range of rates the highest ones lie between two candidates.
BETWEEN: list[tuple[list[Row], tuple[str, str, str, str]]] = [
    (
        [
            *((1, 1, 0, 1), (6, 2, 0, 3), (0, 0, 1, 1), (2, 0, 0, 1), (6, 1, 1, 3), (5, 1, 1, 3)),
            *((3, 0, 1, 2), (5, 1, 0, 2), (3, 0, 1, 3), (6, 1, 0, 2), (0, 3, 0, 2)),
        ],
        ("fpr", "0.1", "recall", "0"),
    ),
    (
        [
            *((4, 3, 1, 3), (7, 1, 1, 1), (1, 0, 0, 3), (0, 3, 1, 3), (7, 3, 0, 3), (2, 0, 0, 1)),
            *((2, 0, 1, 1), (7, 3, 1, 2), (2, 1, 0, 1), (5, 3, 1, 3), (3, 2, 0, 3)),
        ],
        ("fpr", "0.5", "fpr", "0.25"),
    ),
]


@pytest.mark.parametrize(("rows", "asked"), BETWEEN)
def test_rates_between_candidates_are_within_the_bound(
    rows: list[Row], asked: tuple[str, str, str, str]
) -> None:
    tally = tally_of(rows, 4)
    goal = goal_of(tally, asked, 2)
    (wanted, _), ceiling = best(rows, goal, 2, 4), gap.find(tally, goal).ceiling
    assert wanted is not None and wanted <= ceiling + 1e-12


@given(ROWS.map(lambda rows: [(s, level % 4, y, w) for s, level, y, w in rows]), ASKED)
def test_a_gap_that_does_not_bind_changes_nothing(
    rows: list[Row], asked: tuple[str, str, str, str]
) -> None:
    if not any(row[2] for row in rows):
        return
    tally = tally_of(rows, 4)
    goal = goal_of(tally, (*asked[:3], "1"), 2)
    found, free = gap.find(tally, goal), METHODS["exact"].find(tally, goal.goal)
    assert (found.selected, found.true_positives) == (free.selected, free.true_positives)
    assert found.proven == free.proven


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
