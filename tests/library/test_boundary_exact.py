"""The exact search against every boundary there is, and what must not change its answer."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from calibkit.methods.boundary.problem.bounded import GOALS, RecallAtPrecision
from calibkit.methods.boundary.problem.goals import Goal, Totals, tally_totals
from calibkit.methods.boundary.solvers.prefixes import Solution, solve
from calibkit.numerics.bounds import decimal_bound
from calibkit.summaries.tally import Tally
from tests.library.samples import BOUNDS, all_totals, counted, example, tables
from tests.naive import boundaries as naive

THOROUGH = settings(max_examples=50)
bounded_figures = pytest.mark.parametrize("bounded", ["precision", "recall"])
bounds = st.sampled_from(BOUNDS) | st.integers(0, 10**9).map(lambda k: f"{k / 10**9:.9f}")


def tally_of(table: dict[str, list[Any]], levels: int) -> Tally:
    """Return the tally of a table whose uncertainty column holds the levels."""
    level = np.minimum(table["uncertainty"], levels - 1)
    return counted(table["score"], level, table["label"], levels, table.get("weight"))


def goal_of(tally: Tally, bounded: str, bound: str) -> Goal:
    return GOALS[bounded](decimal_bound(bound), tally_totals(tally))


def solved(tally: Tally, goal: Goal, **options: Any) -> Solution:
    points = tally.points()
    solution = solve(points, goal, **options)
    assert points.totals(solution.choice) == (solution.selected, solution.true_positives)
    for level, point in enumerate(solution.choice):
        assert point == -1 or points.offsets[level] <= point < points.ends[level]
    return solution


@bounded_figures
@THOROUGH
@given(table=tables(), levels=st.integers(1, 4), bound=bounds)
def test_the_optimum_is_that_of_enumeration(
    bounded: str, table: dict[str, list[Any]], levels: int, bound: str
) -> None:
    tally = tally_of(table, levels)
    goal = goal_of(tally, bounded, bound)
    solution = solved(tally, goal)
    every, positives = all_totals(tally), goal.totals.positives
    found, limit = (solution.selected, solution.true_positives), Fraction(bound)
    assert solution.proven
    if tally.unit.exact:
        assert found == naive.best_totals(every, bounded, limit, positives)
    else:  # at the bound with a margin of 1e-12, at least as good as with twice that
        strict = min(limit * (1 + Fraction(3, 10**12)), Fraction(1))
        best = naive.best_totals(every, bounded, strict, positives)
        if bounded == "precision":
            assert found[1] >= limit * found[0] and found[1] >= best[1]
        else:
            assert found[1] >= limit * positives
            assert Fraction(found[1], found[0]) >= Fraction(best[1], best[0] or 1)
    if solution.selected:
        assert goal.met(*found)
        assert solution.ceiling == goal.value(*found)


@bounded_figures
@given(table=tables(kinds=[None], most=14), levels=st.integers(1, 3), data=st.data())
def test_bounds_met_with_equality_are_met(
    bounded: str, table: dict[str, list[Any]], levels: int, data: st.DataObject
) -> None:
    tally = tally_of(table, levels)
    every = [pair for pair in all_totals(tally) if pair[1]]
    positives = int(tally.level_totals[:, 2].sum())
    rows, hits = data.draw(st.sampled_from(every))
    bound = Fraction(hits, rows if bounded == "precision" else positives)
    assume(10**9 % bound.denominator == 0)  # a decimal of nine digits
    for text in (f"{float(bound):.9f}", f"{float(bound) + 1e-9:.9f}"):
        if Fraction(text) > 1:
            continue
        solution = solved(tally, goal_of(tally, bounded, text))
        best = naive.best_totals(every, bounded, Fraction(text), positives)
        assert (solution.selected, solution.true_positives) == best and solution.proven


@st.composite
def scaled_tallies(draw: st.DrawFn) -> Tally:
    """Tallies of few entries with counts up to 2^40, close to each other in rate."""
    size, levels = draw(st.integers(1, 8)), draw(st.integers(1, 3))
    scale = draw(st.sampled_from([1, 1000, 2**30, 2**40]))
    count = [draw(st.integers(1, 5)) * scale + draw(st.integers(0, 3)) for _ in range(size)]
    positive = [min(n, draw(st.integers(0, 5)) * n // 5 + draw(st.integers(0, 2))) for n in count]
    assume(any(positive))
    level = [draw(st.integers(0, levels - 1)) for _ in range(size)]
    return Tally(
        np.arange(size, 0, -1, dtype=np.float64),
        np.array(level, np.uint16),
        np.array(count, np.int64),
        np.array(positive, np.int64),
        levels,
    )


@bounded_figures
@THOROUGH
@given(tally=scaled_tallies(), bound=bounds)
def test_large_counts_are_compared_exactly(bounded: str, tally: Tally, bound: str) -> None:
    goal = goal_of(tally, bounded, bound)
    solution = solved(tally, goal)
    best = naive.best_totals(all_totals(tally), bounded, Fraction(bound), goal.totals.positives)
    assert (solution.selected, solution.true_positives) == best and solution.proven


@bounded_figures
@given(seed=st.integers(0, 10**6), bound=bounds, cap=st.integers(0, 30))
def test_a_search_cut_short_says_so_and_bounds_the_optimum(
    bounded: str, seed: int, bound: str, cap: int
) -> None:
    table = example(24, seed=seed, distinct=9)
    table["uncertainty"] = np.arange(24) % 3
    table["label"][0] |= not table["label"].any()
    tally = tally_of(table, 3)
    goal = goal_of(tally, bounded, bound)
    solution = solved(tally, goal, cap=cap)
    found = (solution.selected, solution.true_positives)
    best = naive.best_totals(all_totals(tally), bounded, Fraction(bound), goal.totals.positives)
    assert goal.met(*found)
    if bounded == "recall":
        assert solution.selected > 0
    if solution.proven:
        assert found == best
    else:
        assert (goal.value(*found) or 0.0) <= (goal.value(*best) or 0.0) <= solution.ceiling + 1e-12
        assert solution.ceiling <= 1.0


def test_no_ceiling_of_the_recall_lies_above_1() -> None:
    positives = 10**13  # so many that the margin for rounding is several rows
    goal = RecallAtPrecision(decimal_bound("0.5"), Totals(2 * positives, positives))
    assert goal.ceiling(float(positives), 0.0) == 1.0


@bounded_figures
@given(seed=st.integers(0, 10**6), bound=bounds, spread=st.sampled_from([1, 3, 50]))
def test_tens_of_thousands_of_boundaries(bounded: str, seed: int, bound: str, spread: int) -> None:
    """Levels of thirty scores each: wide enough for the band and the window to leave much out."""
    rng = np.random.default_rng(seed)
    rate, count = np.sort(rng.random(90))[::-1], rng.integers(1, 1 + spread, 90)
    level, positive = rng.integers(0, 3, 90).astype(np.uint16), rng.binomial(count, rate)
    tally = Tally(np.arange(90, 0, -1, dtype=np.float64), level, count, positive, 3)
    goal = goal_of(tally, bounded, bound)
    rows, hits = np.zeros((2, 1), np.int64)
    for own in range(3):
        here = level == own
        rows = np.add.outer(rows, np.append(0, np.cumsum(count[here]))).ravel()
        hits = np.add.outer(hits, np.append(0, np.cumsum(positive[here]))).ravel()
    limit = Fraction(bound)
    if bounded == "precision":
        kept = hits * limit.denominator >= limit.numerator * rows
        best = max(zip(hits[kept].tolist(), (-rows[kept]).tolist(), strict=True))
    else:
        kept = (hits * limit.denominator >= limit.numerator * goal.totals.positives) & (hits > 0)
        rate = hits[kept] / rows[kept]
        near = np.flatnonzero(rate >= rate.max() * (1 - 1e-12))
        pairs = [(int(hits[kept][i]), int(rows[kept][i])) for i in near]
        best = max(pairs, key=lambda pair: (Fraction(*pair), pair[0]))
    solution = solved(tally, goal)
    assert solution.proven
    assert (solution.true_positives, solution.selected) == (best[0], abs(best[1]))
