"""Methods by name: their definitions on rows, and which goes with which objective."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from itertools import accumulate
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.isotonic import IsotonicRegression

import calibkit as ck
from calibkit.columns.weights import AS_THEY_ARE
from calibkit.methods.boundary.problem.bounded import GOALS
from calibkit.methods.boundary.problem.goals import tally_totals
from calibkit.methods.boundary.solvers.methods import METHODS, Found
from calibkit.methods.boundary.solvers.prefixes import Blocks, level_sets
from calibkit.methods.boundary.solvers.summary import summarise
from calibkit.numerics.bounds import decimal_bound
from calibkit.options.boundary import BoundaryOptions
from calibkit.summaries.tally import Tally
from tests.cli.score_files import simulate
from tests.library.samples import BOUNDS, score_rows, tables
from tests.library.test_boundary_exact import tally_of
from tests.naive import boundaries as naive

LEVELS = 3
bounds, either = st.sampled_from(BOUNDS), st.sampled_from(["precision", "recall"])
Group = tuple[float, int, int]


def find(name: str, tally: Tally, bounded: str, bound: str, **options: Any) -> Found:
    goal = GOALS[bounded](decimal_bound(bound), tally_totals(tally))
    found = METHODS[name].find(tally, goal, **options)
    if not options:
        assert tally.selected(found.thresholds) == (found.selected, found.true_positives)
    return found


def groups_of(tally: Tally, level: int | None = None) -> list[Group]:
    """Return score, rows and positives by falling score, of one level or of all together."""
    own = np.full(tally.score.size, True) if level is None else tally.level == level
    groups = []
    for score in np.unique(tally.score[own])[::-1]:
        here = own & (tally.score == score)
        groups.append((float(score), int(tally.count[here].sum()), int(tally.positive[here].sum())))
    return groups


WHOLE = tables(kinds=(None, "whole"), most=14)


def best_of(groups: list[Group], bounded: str, bound: Fraction) -> float:
    """Return the threshold of the best prefix that meets a bound; NaN where none does."""
    scores, rows, hits = zip(*groups, strict=True) if groups else ((), (), ())
    prefixes = list(zip(accumulate(rows), accumulate(hits), scores, strict=True))
    return naive.best_threshold(prefixes, bounded, bound, sum(hits))


@given(WHOLE, bounds, either)
def test_one_threshold(table: dict[str, list[Any]], bound: str, bounded: str) -> None:
    tally = tally_of(table, LEVELS)
    found = find("st", tally, bounded, bound)
    best = best_of(groups_of(tally), bounded, Fraction(bound))
    assert np.array_equal(found.thresholds, [best] * LEVELS, equal_nan=True)


@given(WHOLE, bounds, either)
def test_greedy_takes_each_level_on_its_own(
    table: dict[str, list[Any]], bound: str, bounded: str
) -> None:
    tally = tally_of(table, LEVELS)
    found = find("gmt", tally, bounded, bound)
    if bounded == "recall":
        assert found.true_positives >= Fraction(bound) * int(tally.positive.sum())
    for level, threshold in enumerate(found.thresholds):
        best = best_of(groups_of(tally, level), bounded, Fraction(bound))
        assert np.array_equal(threshold, best, equal_nan=True)


def naive_mist(tally: Tally, bounded: str, bound: Fraction) -> list[float]:
    """Return the thresholds of MIST by scikit-learn's regression, counted again on raw labels."""
    fitted = []
    for level in range(LEVELS):
        groups = groups_of(tally, level)
        if groups:
            _, weight, hits = np.array(groups).T
            regression = IsotonicRegression(increasing=False)
            values = regression.fit_transform(
                np.arange(len(groups)), hits / weight, sample_weight=weight
            )
            fitted += [(v, level, *group) for v, group in zip(values, groups, strict=True)]
    thresholds = [np.nan] * LEVELS
    rows = hits = 0
    left = sorted(fitted, key=lambda f: -f[0])
    while left and left[0][0] > 1e-12:
        block = [f for f in left if f[0] >= left[0][0] - 1e-9]
        rows += sum(f[3] for f in block)
        hits += sum(f[4] for f in block)
        if bounded == "precision" and hits < bound * rows:
            break
        for _, level, score, _, _ in block:
            thresholds[level] = np.fmin(thresholds[level], score)
        left = left[len(block) :]
        if bounded == "recall" and hits >= bound * int(tally.positive.sum()):
            break
    return thresholds


@given(WHOLE, bounds, either)
def test_isotonic_blocks_enter_by_falling_rate(
    table: dict[str, list[Any]], bound: str, bounded: str
) -> None:
    tally = tally_of(table, LEVELS)
    found = find("mist", tally, bounded, bound)
    expected = naive_mist(tally, bounded, Fraction(bound))
    assert np.array_equal(found.thresholds, expected, equal_nan=True)
    if bounded == "recall":
        assert found.true_positives >= Fraction(bound) * int(tally.positive.sum())
        best = find("exact", tally, bounded, bound)
        assert best.true_positives * found.selected >= found.true_positives * best.selected


def test_rates_that_floats_confuse_enter_apart() -> None:
    near = 2**60
    blocks = Blocks(
        np.array([near, near, 2, 4]),
        np.array([near // 2, near // 2 + 1, 1, 2]),
        np.array([0, 1, 2, 0]),
        np.array([0, 1, 2, 3]),
    )
    ordered, ends = level_sets(blocks)
    assert ordered.point.tolist() == [1, 0, 2, 3]  # just above one half, then one half three times
    assert ends.tolist() == [0, 3]


@given(WHOLE, bounds, st.sampled_from([0, 1]), st.sampled_from(["exact", "st", "gmt", "mist"]))
def test_a_part_left_out_takes_no_part(
    table: dict[str, list[Any]], bound: str, excluded: int, name: str
) -> None:
    """A fit without a part is the fit on the rows of the others alone."""
    dealt = tally_of(table, LEVELS).deal(2, 7)
    others = dealt.where(dealt.part != excluded)
    if not others.positive.any():
        return
    goal = GOALS["precision"](decimal_bound(bound), tally_totals(others))
    found = METHODS[name].find(dealt, goal, excluded=excluded)
    alone = METHODS[name].find(others, goal)
    assert (found.selected, found.true_positives) == (alone.selected, alone.true_positives)
    assert np.array_equal(found.thresholds, alone.thresholds, equal_nan=True)


def test_a_single_threshold_on_a_grid_is_shown_by_as_many_levels_as_on_rows() -> None:
    frame = simulate(600, seed=3)
    options = {"precision": 0.7, "method": "st", "uncertainty_bins": 3, "folds": 0}
    on_rows = ck.fit_boundary(frame, **options)
    on_grid = ck.fit_boundary(frame, score_bins=6, **options)
    assert on_grid.uncertainty_edges == on_rows.uncertainty_edges
    assert len(set(on_grid.score_thresholds)) == 1 and len(on_grid.score_thresholds) == 3
    assert on_rows.fit.reference.rows_per_level == [200, 200, 200]
    assert on_grid.fit.reference.rows_per_level == [200, 200, 200]
    alone = ck.fit_boundary(frame, **options | {"uncertainty_bins": 1})
    assert (alone.uncertainty_min, alone.uncertainty_edges) == (None, [])


@pytest.mark.parametrize("order", ["uncertainty-score", "score-uncertainty"])
@pytest.mark.parametrize("strategy", ["equal-mass", "equal-width"])
def test_rows_dealt_one_by_one_add_up_to_the_cells(order: str, strategy: str) -> None:
    random = np.random.default_rng(1)
    score = np.round(random.random(400), 2)
    label = (random.random(400) < score).astype(np.uint8)
    # Eighths, some of them odd: exact, and still not rows that could be dealt as counts.
    weights = (1 + random.integers(0, 16, 400)) / 8
    rows = score_rows(score, label, np.round(random.random(400), 1), weights)
    bins = {"uncertainty_bins": 3, "score_bins": 8, "order": order, "strategy": strategy}
    problem = summarise(rows, BoundaryOptions(precision="0.5", method="exact", folds=4, **bins))
    dealt = problem.deal(AS_THEY_ARE)
    assert set(dealt.part.tolist()) == {0, 1, 2, 3}
    found, expected = Counter[Any](), Counter[Any]()
    for tally, cells in ((dealt, found), (problem.tally, expected)):
        for k, cell in enumerate(zip(tally.score.tolist(), tally.level.tolist(), strict=True)):
            cells[cell, "rows"] += tally.count[k] * tally.unit.size
            cells[cell, "positives"] += tally.positive[k] * tally.unit.size
    assert +found == +expected
