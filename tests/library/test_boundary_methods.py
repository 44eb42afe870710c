"""Methods by name: their definitions on rows, and which goes with which objective."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from sklearn.isotonic import IsotonicRegression

import calibkit as ck
from calibkit.methods.boundary.problem.bounded import GOALS
from calibkit.methods.boundary.problem.goals import Totals
from calibkit.methods.boundary.solvers.methods import METHODS, Found
from calibkit.methods.boundary.solvers.prefixes import Blocks, level_sets
from calibkit.numerics.bounds import decimal_bound
from calibkit.summaries.tally import Tally
from tests.cli.score_files import simulate
from tests.library.samples import BOUNDS, tables
from tests.library.test_boundary_exact import tally_of

LEVELS = 3
bounds, either = st.sampled_from(BOUNDS), st.sampled_from(["precision", "recall"])
Group = tuple[float, int, int]


def find(name: str, tally: Tally, bounded: str, bound: str, **options: Any) -> Found:
    _, rows, positives = tally.level_totals.sum(axis=0).tolist()
    goal = GOALS[bounded](decimal_bound(bound), Totals(rows, positives))
    return METHODS[name].find(tally, goal, **options)


def groups_of(tally: Tally, level: int | None = None) -> list[Group]:
    """Return score, rows and positives by falling score, of one level or of all together."""
    own = np.full(tally.score.size, True) if level is None else tally.level == level
    return [
        (
            float(score),
            int(tally.count[own & (tally.score == score)].sum()),
            int(tally.positive[own & (tally.score == score)].sum()),
        )
        for score in np.unique(tally.score[own])[::-1]
    ]


def prefixes(groups: list[Group]) -> list[tuple[int, int, float]]:
    """Return rows, positives and lowest score of each prefix."""
    return [
        (sum(g[1] for g in groups[:k]), sum(g[2] for g in groups[:k]), groups[k - 1][0])
        for k in range(1, len(groups) + 1)
    ]


def check_counts(tally: Tally, found: Found) -> None:
    assert tally.selected(found.thresholds) == (found.selected, found.true_positives)


WHOLE = tables(kinds=(None, "whole"), most=14)


def best_of(prefixes: list[tuple[int, int, float]], bounded: str, bound: Fraction) -> Any:
    """Return the best prefix that meets a bound: what counts first, then what breaks ties, its score.

    Under a bound on precision that is the most positives, under one on recall the best precision.
    """
    if bounded == "precision":
        able = [(t, -m, s) for m, t, s in prefixes if t >= bound * m and t]
    else:
        positives = max((t for _, t, _ in prefixes), default=0)
        able = [(Fraction(t, m), t, s) for m, t, s in prefixes if t and t >= bound * positives]
    return max(able, default=None)


@given(WHOLE, bounds, either)
def test_one_threshold(table: dict[str, list[Any]], bound: str, bounded: str) -> None:
    tally = tally_of(table, LEVELS)
    found = find("st", tally, bounded, bound)
    check_counts(tally, found)
    best = best_of(prefixes(groups_of(tally)), bounded, Fraction(bound))
    if best is None:
        assert found.selected == 0 and np.isnan(found.thresholds).all()
        return
    rows, hits = found.selected, found.true_positives
    assert best[:2] == ((hits, -rows) if bounded == "precision" else (Fraction(hits, rows), hits))
    assert found.thresholds.tolist() == [best[2]] * LEVELS


@given(WHOLE, bounds, either)
def test_greedy_takes_each_level_on_its_own(
    table: dict[str, list[Any]], bound: str, bounded: str
) -> None:
    tally = tally_of(table, LEVELS)
    found = find("gmt", tally, bounded, bound)
    check_counts(tally, found)
    if bounded == "recall":
        assert found.true_positives >= Fraction(bound) * int(tally.positive.sum())
    for level, threshold in enumerate(found.thresholds):
        best = best_of(prefixes(groups_of(tally, level)), bounded, Fraction(bound))
        assert np.isnan(threshold) if best is None else threshold == best[2]


def naive_mist(tally: Tally, bound: Fraction, least: Fraction | None = None) -> list[float]:
    """Return the thresholds of MIST by scikit-learn's regression, counted again on raw labels.

    `least` is a number of positives to reach; the precision is bound without.
    """
    fitted = []
    for level in range(LEVELS):
        groups = groups_of(tally, level)
        if groups:
            rates = [t / m for _, m, t in groups]
            regression = IsotonicRegression(increasing=False)
            values = regression.fit_transform(
                np.arange(len(groups)), rates, sample_weight=[m for _, m, _ in groups]
            )
            fitted += [(v, level, *group) for v, group in zip(values, groups, strict=True)]
    thresholds = [np.nan] * LEVELS
    rows = hits = 0
    left = sorted(fitted, key=lambda f: -f[0])
    while left and left[0][0] > 1e-12:
        block = [f for f in left if f[0] >= left[0][0] - 1e-9]
        rows += sum(f[3] for f in block)
        hits += sum(f[4] for f in block)
        if least is None and hits < bound * rows:
            break
        for _, level, score, _, _ in block:
            thresholds[level] = np.fmin(thresholds[level], score)
        left = left[len(block) :]
        if least is not None and hits >= least:
            break
    return thresholds


@given(WHOLE, bounds)
def test_isotonic_blocks_enter_by_falling_rate(table: dict[str, list[Any]], bound: str) -> None:
    tally = tally_of(table, LEVELS)
    found = find("mist", tally, "precision", bound)
    check_counts(tally, found)
    expected = naive_mist(tally, Fraction(bound))
    assert np.array_equal(found.thresholds, expected, equal_nan=True)


@given(WHOLE, bounds)
def test_isotonic_blocks_enter_until_the_recall_is_reached(
    table: dict[str, list[Any]], bound: str
) -> None:
    tally = tally_of(table, LEVELS)
    found = find("mist", tally, "recall", bound)
    check_counts(tally, found)
    wanted = Fraction(bound) * int(tally.positive.sum())
    assert found.true_positives >= wanted
    expected = naive_mist(tally, Fraction(0), wanted)
    assert np.array_equal(found.thresholds, expected, equal_nan=True)
    best = find("exact", tally, "recall", bound)
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
    kept = dealt.part != excluded
    others = Tally(
        dealt.score[kept], dealt.level[kept], dealt.count[kept], dealt.positive[kept], LEVELS
    )
    if not others.positive.any():
        return
    goal = GOALS["precision"](
        decimal_bound(bound), Totals(int(others.count.sum()), int(others.positive.sum()))
    )
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
