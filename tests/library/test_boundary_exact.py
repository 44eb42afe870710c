"""The exact search against every boundary there is, and what must not change its answer."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from calibkit.methods.boundary.problem.bounded import GOALS, RecallAtPrecision
from calibkit.methods.boundary.problem.goals import Goal, Totals
from calibkit.methods.boundary.solvers.prefixes import Solution, isotonic_blocks, solve
from calibkit.numerics.bounds import decimal_bound
from calibkit.summaries.tally import Points, Tally, count_rows
from tests.library.samples import BOUNDS, example, fit, score_rows, tables
from tests.naive import boundaries as naive

THOROUGH = settings(max_examples=50)
bounded_figures = pytest.mark.parametrize("bounded", ["precision", "recall"])
bounds = st.sampled_from(BOUNDS) | st.integers(0, 10**9).map(lambda k: f"{k / 10**9:.9f}")


def tally_of(table: dict[str, list[Any]], levels: int) -> Tally:
    """Return the tally of a table whose uncertainty column holds the levels."""
    level = np.minimum(np.array(table["uncertainty"]), levels - 1).astype(np.uint16)
    weight = table.get("weight")
    return count_rows(
        np.array(table["score"]),
        level,
        np.array(table["label"], np.uint8),
        levels,
        weight=None if weight is None else np.array(weight),
    )


def goal_of(tally: Tally, bounded: str, bound: str) -> Goal:
    totals = tally.level_totals.sum(axis=0)
    return GOALS[bounded](
        decimal_bound(bound), Totals(int(totals[1]), int(totals[2]), tally.unit.exact)
    )


def every_boundary(tally: Tally) -> list[tuple[int, int]]:
    """Return rows and positives (in units) of every boundary, all distinct scores tried."""
    levels = []
    for level in range(tally.levels):
        own = tally.level == level
        rows, hits = np.cumsum(tally.count[own]), np.cumsum(tally.positive[own])
        levels.append(list(zip(rows.tolist(), hits.tolist(), strict=True)))
    return list(naive.every_choice(levels).values())


def solved(tally: Tally, goal: Goal, **options: Any) -> tuple[Points, Solution]:
    points = tally.points()
    solution = solve(points, goal, **options)
    assert points.totals(solution.choice) == (solution.selected, solution.true_positives)
    for level, point in enumerate(solution.choice):
        assert point == -1 or points.offsets[level] <= point < points.ends[level]
    return points, solution


@bounded_figures
@THOROUGH
@given(table=tables(), levels=st.integers(1, 4), bound=bounds)
def test_the_optimum_is_that_of_enumeration(
    bounded: str, table: dict[str, list[Any]], levels: int, bound: str
) -> None:
    tally = tally_of(table, levels)
    goal = goal_of(tally, bounded, bound)
    _, solution = solved(tally, goal)
    every, positives = every_boundary(tally), goal.totals.positives
    assert solution.proven
    if tally.unit.exact:
        best = naive.best_totals(every, bounded, Fraction(bound), positives)
        assert (solution.selected, solution.true_positives) == best
    else:
        assert_nearly_best(solution, goal, every, Fraction(bound))
    if solution.selected:
        assert goal.met(solution.selected, solution.true_positives)
        assert solution.ceiling == goal.value(solution.selected, solution.true_positives)


def assert_nearly_best(
    solution: Solution, goal: Goal, every: list[tuple[int, int]], bound: Fraction
) -> None:
    """Rounded weights: at the bound with a margin of 1e-12, at least as good as with twice that."""
    positives = goal.totals.positives
    found = (solution.selected, solution.true_positives)
    strict = min(bound * (1 + Fraction(3, 10**12)), Fraction(1))
    best = naive.best_totals(every, goal.bounded, strict, positives)
    if goal.bounded == "precision":
        assert found == (0, 0) or Fraction(found[1], found[0]) >= bound
        assert found[1] >= best[1]
    else:
        assert found[1] >= bound * positives
        assert Fraction(found[1], found[0]) >= Fraction(best[1], best[0] or 1)


@bounded_figures
@given(table=tables(kinds=[None], most=14), levels=st.integers(1, 3), data=st.data())
def test_bounds_met_with_equality_are_met(
    bounded: str, table: dict[str, list[Any]], levels: int, data: st.DataObject
) -> None:
    tally = tally_of(table, levels)
    every = [pair for pair in every_boundary(tally) if pair[1]]
    positives = int(tally.level_totals[:, 2].sum())
    rows, hits = data.draw(st.sampled_from(every))
    bound = Fraction(hits, rows) if bounded == "precision" else Fraction(hits, positives)
    assume(10**9 % bound.denominator == 0)  # a decimal of nine digits
    for text in (f"{float(bound):.9f}", f"{float(bound) + 1e-9:.9f}"):
        if Fraction(text) > 1:
            continue
        _, solution = solved(tally, goal_of(tally, bounded, text))
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
    _, solution = solved(tally, goal)
    best = naive.best_totals(every_boundary(tally), bounded, Fraction(bound), goal.totals.positives)
    assert (solution.selected, solution.true_positives) == best and solution.proven


@bounded_figures
@given(seed=st.integers(0, 10**6), bound=bounds, cap=st.integers(0, 30))
def test_a_search_cut_short_says_so_and_bounds_the_optimum(
    bounded: str, seed: int, bound: str, cap: int
) -> None:
    table = example(24, seed=seed, distinct=9)
    table["uncertainty"] = np.arange(24) % 3
    if not table["label"].any():
        table["label"][0] = 1
    tally = tally_of(table, 3)
    goal = goal_of(tally, bounded, bound)
    _, solution = solved(tally, goal, cap=cap)
    best = naive.best_totals(every_boundary(tally), bounded, Fraction(bound), goal.totals.positives)
    value = goal.value(solution.selected, solution.true_positives)
    optimum = goal.value(*best)
    assert goal.met(solution.selected, solution.true_positives)
    if bounded == "recall":
        assert solution.selected > 0
        assert value is not None and optimum is not None
    if solution.proven:
        assert (solution.selected, solution.true_positives) == best
    else:
        assert (value or 0.0) <= (optimum or 0.0) <= solution.ceiling + 1e-12
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
    size, levels = 90, 3
    rate = np.sort(rng.random(size))[::-1]
    count = rng.integers(1, 1 + spread, size)
    tally = Tally(
        np.arange(size, 0, -1, dtype=np.float64),
        rng.integers(0, levels, size).astype(np.uint16),
        count,
        rng.binomial(count, rate),
        levels,
    )
    goal = goal_of(tally, bounded, bound)
    rows, hits = np.zeros(1, np.int64), np.zeros(1, np.int64)
    for level in range(levels):
        own = tally.level == level
        more = (
            np.append(0, np.cumsum(tally.count[own])),
            np.append(0, np.cumsum(tally.positive[own])),
        )
        rows, hits = np.add.outer(rows, more[0]).ravel(), np.add.outer(hits, more[1]).ravel()
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
    _, solution = solved(tally, goal)
    assert solution.proven
    assert (solution.true_positives, solution.selected) == (best[0], abs(best[1]))


def test_many_rows_against_the_table_over_selected_rows() -> None:
    """Too many boundaries to enumerate: the published dynamic programme has the same optimum."""
    table = example(3000, seed=8)
    rows = score_rows(**table)
    for bound in ("0.5", "0.71", "0.9"):
        exact = fit(rows, precision=bound, score_bins=40, folds=0).model.fit.in_sample
        table_ = fit(rows, precision=bound, score_bins=40, folds=0, method="vw-dpmt")
        other = table_.model.fit.in_sample
        assert (exact.selected, exact.true_positives) == (other.selected, other.true_positives)


@given(tables(kinds=[None, "whole"]))
def test_blocks_are_isotonic_regressions_in_falling_order(table: dict[str, list[Any]]) -> None:
    tally = tally_of(table, 3)
    points = tally.points()
    blocks = isotonic_blocks(points)
    rates = blocks.true_positives / blocks.selected
    assert (np.diff(rates) <= 0).all()
    everything = blocks.choice(len(rates), 3)
    assert points.totals(everything)[1] == int(tally.positive.sum())
    for level in range(3):
        mine = blocks.level == level
        exact = [
            Fraction(int(t), int(m))
            for t, m in zip(blocks.true_positives[mine], blocks.selected[mine], strict=True)
        ]
        assert exact == sorted(set(exact), reverse=True)
