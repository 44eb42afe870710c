"""The best cut of an order, looked for in stretches of it, against every prefix."""

from __future__ import annotations

from unittest.mock import patch

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from calibkit.methods.boundary.problem.found import found_at
from calibkit.methods.boundary.problem.goals import tally_totals
from calibkit.methods.boundary.solvers import prefixes
from calibkit.methods.boundary.solvers.methods import goal_of
from calibkit.options.objective import read_target
from tests.library.samples import counted

ROWS = st.lists(
    st.tuples(
        st.integers(0, 9),  # score
        st.integers(0, 2),  # level
        st.integers(0, 1),  # label
        st.integers(1, 3),  # weight
        st.integers(0, 2),  # part
        st.integers(-4, 6),  # what it is worth
    ),
    min_size=1,
    max_size=30,
)
OBJECTIVES = (
    {"precision": "0.5"},
    {"recall": "0.5"},
    {"fpr": "0.3"},
    {"capacity": "0.4"},
    {"maximize": "f1"},
    {"maximize": "gmean"},
    {"maximize": "mcc"},
    {"minimize": "cost:a,b"},
)


@given(ROWS, st.sampled_from(OBJECTIVES), st.booleans(), st.integers(-1, 2), st.integers(1, 7))
def test_the_best_threshold_is_that_of_all_prefixes(
    rows: list[tuple[int, ...]], asked: dict[str, str], valued: bool, excluded: int, stretch: int
) -> None:
    score, level, label, weight, part, worth = map(np.array, zip(*rows, strict=True))
    valued = valued and not {"maximize", "minimize"} & asked.keys()
    if valued:
        worth = np.abs(worth) * label
    gain = worth.astype(np.int64) if valued or "minimize" in asked else None
    tally = counted(score, level, label, 3, weight, part=part.astype(np.uint8), gain=gain)
    target = read_target(asked, value="v" if valued else None)
    goal = goal_of(target, tally_totals(tally.where(tally.part != excluded)))
    points = tally.points(excluded=excluded, together=True)
    choice = np.array([prefixes.pick_in_level(points, goal, 0)])
    with patch.object(prefixes, "_STRETCH", stretch):
        found = prefixes.single_threshold(tally, goal, excluded)
    expected = found_at(tally, points, choice)
    assert found.counts == expected.counts
    assert np.array_equal(found.thresholds, expected.thresholds, equal_nan=True)


def test_what_is_worth_less_than_nothing_hides_no_gain() -> None:
    """The second stretch is worth -10 in all, and 10 down to its first score."""
    worth = np.array([3, 1, 10, -20])
    tally = counted([4, 3, 2, 1], [0] * 4, [1, 1, 1, 0], 1, gain=worth)
    goal = goal_of(read_target({"minimize": "cost:a,b"}), tally_totals(tally))
    with patch.object(prefixes, "_STRETCH", 2):
        found = prefixes.single_threshold(tally, goal)
    assert (found.thresholds.tolist(), found.gain) == ([2.0], 14)
