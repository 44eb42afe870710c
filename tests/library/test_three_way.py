"""Three-way decisions against the enumeration of all pairs of nested prefixes."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calibkit.methods.boundary.problem.goals import Totals, tally_totals
from calibkit.methods.boundary.solvers import three_way
from calibkit.methods.boundary.solvers.methods import goal_of
from calibkit.methods.boundary.solvers.three_way import MostRowsAtPrecision, ThreeWay
from calibkit.numerics.bounds import decimal_bound
from calibkit.options.objective import Review, Target, read_target
from calibkit.summaries.tally import Tally
from tests.library.samples import Row, tally_of

#: Rows and positives that are blocked, then blocked or reviewed.
Counts = tuple[int, int, int, int]

ROWS = st.lists(
    st.tuples(st.integers(0, 7), st.integers(0, 2), st.integers(0, 1), st.integers(1, 3)),
    min_size=1,
    max_size=11,
)
BOUNDS = st.sampled_from(["0.2", "0.5", "0.7", "0.9", "1"])


def enumerated(rows: list[Row]) -> set[Counts]:
    """Return what every pair of nested prefixes in each level comes to."""
    found = {(0, 0, 0, 0)}
    for level in range(3):
        own = [row for row in rows if row[1] == level]
        cuts = [8, *sorted({row[0] for row in own}, reverse=True)]
        prefixes = [
            (sum(r[3] for r in own if r[0] >= cut), sum(r[3] * r[2] for r in own if r[0] >= cut))
            for cut in cuts
        ]
        pairs = [one + other for k, one in enumerate(prefixes) for other in prefixes[k:]]
        found = {
            (a + e, b + f, c + g, d + h)
            for (a, b, c, d), (e, f, g, h) in product(found, set(pairs))
        }
    return found


def best(rows: list[Row], asked: Review) -> Fraction:
    """Return the best objective by its definition."""
    positives, whole = sum(r[3] * r[2] for r in rows), sum(r[3] for r in rows)
    bounds, values = {name: Fraction(one.text) for name, one in asked.bounds.items()}, []
    for blocked, hits, reach, caught in enumerated(rows):
        reviewed = reach - blocked
        if asked.costs:
            alarm, miss, review = (Fraction(cost.text) for cost in asked.costs)
            cost = alarm * (blocked - hits) + miss * (positives - caught) + review * reviewed
            values.append(cost / whole)
        elif hits < bounds.get("precision", 0) * blocked or (
            caught < bounds.get("recall", 0) * positives
            or reviewed > bounds.get("review_capacity", whole)
        ):
            continue
        elif asked.objective == "review":
            values.append(Fraction(reviewed, whole))
        elif asked.objective == "recall":
            values.append(-Fraction(caught, positives))
        elif blocked:
            values.append(-Fraction(hits, blocked))
    return abs(min(values))


def goal_and_tally(rows: list[Row], target: Target) -> tuple[ThreeWay, Tally]:
    tally = tally_of(rows)
    goal = goal_of(target, tally_totals(tally))
    assert isinstance(goal, ThreeWay)
    return goal, tally


def check(rows: list[Row], target: Target) -> None:
    goal, tally = goal_and_tally(rows, target)
    found = three_way.find(tally, goal)
    value = goal.value(*found.counts)
    assert target.review is not None
    assert value == pytest.approx(float(best(rows, target.review)), abs=1e-12)
    assert found.proven and found.ceiling == value
    assert found.review is not None
    selected = hits = reviewed = caught = 0
    for score, level, label, weight in rows:
        blocked = score >= found.thresholds[level]
        reach = score >= found.review[level]
        assert reach or not blocked
        selected, hits = selected + weight * blocked, hits + weight * label * blocked
        between = weight * (reach and not blocked)
        reviewed, caught = reviewed + between, caught + label * between
    assert found.counts == (selected, hits, 0, reviewed, caught)


TARGETS = {
    "least review": st.fixed_dictionaries({"precision": BOUNDS, "recall": BOUNDS}),
    "most within a capacity": st.builds(
        lambda bounded, bound, capacity: {bounded: bound, "review_capacity": str(capacity)},
        *(st.sampled_from(["precision", "recall"]), BOUNDS, st.integers(0, 6)),
    ),
    "least cost": st.builds(
        lambda alarm, miss, review: {
            "minimize": f"cost:{alarm},{miss}",
            "review_cost": str(review),
        },
        *(st.integers(1, 5), st.integers(1, 9), st.integers(0, 5)),
    ),
}


@pytest.mark.parametrize("name", TARGETS)
@settings(max_examples=60)
@given(rows=ROWS, data=st.data())
def test_the_best_pair_is_that_of_the_enumeration(
    name: str, rows: list[Row], data: st.DataObject
) -> None:
    if name == "least cost" or any(row[2] for row in rows):
        check(rows, read_target(data.draw(TARGETS[name])))


#: Of some thousand random problems those whose best pair only the search of nested prefixes finds.
HARD = (
    *(86, 169, 371, 383, 452, 471, 509, 579, 593, 776, 857, 872, 937, 971, 1025, 1039, 1046),
    *(1082, 1388, 1463, 1510, 1514, 1516, 1541, 1620, 1784, 1814, 1859, 1892, 2021, 2132, 2315),
    *(2387, 2412, 2487, 2558, 2792, 2944, 3025, 3071, 3271, 3335, 3341, 3392, 3558, 3593, 3599),
)


def hard(seed: int) -> tuple[list[Row], Target]:
    draw = np.random.default_rng(seed)
    size = int(draw.integers(6, 12))
    table = draw.integers((0, 0, 0, 1), (8, 3, 2, 4), (size, 4)).tolist()
    bounds = draw.choice(["0.2", "0.5", "0.7", "0.9", "1"], 2).tolist()
    given = dict(zip(("precision", "recall"), bounds, strict=True))
    if seed % 3:
        given = {("precision", "recall")[seed % 3 - 1]: bounds[0]}
        given["review_capacity"] = str(draw.integers(0, 7))
    return [(a, b, c, d) for a, b, c, d in table], read_target(given)


@pytest.mark.few(24)
@pytest.mark.parametrize("seed", HARD)
def test_pairs_that_relaxations_miss(seed: int) -> None:
    check(*hard(seed))


@pytest.mark.parametrize(("seed", "pairs"), [(2412, 40), (2487, 60), (1025, 40), (1784, 30)])
def test_few_pairs_are_enough(seed: int, pairs: int) -> None:
    goal, tally = goal_and_tally(*hard(seed))
    assert three_way.solve(tally.points(every=True), goal, pairs).proven


@pytest.mark.parametrize("bound", ["0.0001", "0.9999"])
def test_slack_of_large_counts_does_not_wrap_around(bound: str) -> None:
    goal = MostRowsAtPrecision(decimal_bound(bound), Totals(10**16, 10**16))
    used = goal.compared(np.array([[10**15, 10**15], [10**15, 1]]))[:, 0]
    assert used[0] < used[1]


def test_what_counts_are_worth_at_prices() -> None:
    goal = goal_of(read_target({"precision": "0.5", "recall": "0.5"}), Totals(100, 40))
    assert isinstance(goal, ThreeWay)
    counts = 20.0, 15.0, 0.0, 10.0, 4.0  # blocked rows and positives, reviewed ones
    # 15 - 0.5 x 20 = 5, and what is caught at the price of review: 19 / 0.25 - 10 = 66.
    assert goal.priced((0.5, 0.25, 0.25), counts) == pytest.approx((5 + 0.25 * 66) / 100)
    assert goal.priced((0.5, 0.75, 0.25), counts) == pytest.approx(5 / 100)


@pytest.mark.more
def test_a_search_cut_short_keeps_a_bound() -> None:
    """Prefixes that do not nest, and no room to search: a pair within the bounds, and a bound."""
    random, target = np.random.default_rng(3), read_target({"precision": "0.6", "recall": "0.6"})
    short = 0
    for _ in range(400):
        table = random.integers((0, 0, 0, 1), (8, 3, 2, 4), (10, 4))
        if not table[:, 2].any():
            continue
        goal, tally = goal_and_tally([(a, b, c, d) for a, b, c, d in table.tolist()], target)
        points = tally.points(every=True)
        pair, optimum = (three_way.solve(points, goal, cap) for cap in (0, 10**6))
        (selected, hits), (reach, caught) = points.totals(pair.block), points.totals(pair.review)
        assert goal.met(selected, hits, 0, reach - selected, caught - hits)
        assert pair.ceiling <= optimum.ceiling <= (reach - selected) / goal.totals.rows
        short += not pair.proven
    assert short
