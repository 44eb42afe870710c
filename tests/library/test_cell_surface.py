"""The logistic surface over cells of several uncertainties: an obvious fit, and an exact count."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from sklearn.linear_model import LogisticRegression

from calibkit.methods.boundary.problem.bounded import RecallAtPrecision
from calibkit.methods.boundary.problem.goals import Totals, tally_totals
from calibkit.methods.boundary.solvers.cells import (
    _natural_breaks,
    best_cut,
    fit_cells,
    leaves_of,
)
from calibkit.numerics.bounds import decimal_bound
from calibkit.summaries.tally import Tally, count_rows

SHAPE = (3, 4)


def draw(rows: int, seed: int, slope: float = 1.0) -> Drawn:
    """Return a tally over cells, and score, cell and label of the rows."""
    random = np.random.default_rng(seed)
    cell = random.integers(0, 12, rows).astype(np.uint16)
    a, b = (cell // 4 + 0.5) / 3, (cell % 4 + 0.5) / 4
    z = random.normal(-0.5, 1.2, rows).round(1)
    odds = slope * (1.5 - a) * z + b - 2.0 * a * b - 0.3
    label = (random.random(rows) < 1.0 / (1.0 + np.exp(-odds))).astype(np.uint8)
    return count_rows(1.0 / (1.0 + np.exp(-z)), cell, label, 12), z, cell, label


def test_lines_are_those_of_a_regression_on_rows() -> None:
    tally, z, cell, label = draw(4000, 1)
    counts = np.bincount(cell, minlength=12).reshape(SHAPE)
    ranks = [(np.cumsum(own) - own / 2) / own.sum() for own in (counts.sum(1), counts.sum(0))]
    a, b = ranks[0][cell // 4], ranks[1][cell % 4]
    terms = np.column_stack((z, a, b, a * b, a * z, b * z))
    scaled = (terms - terms.mean(axis=0)) / terms.std(axis=0)
    oracle = LogisticRegression(C=1.0, tol=1e-10, max_iter=1000).fit(scaled, label)
    lines = fit_cells(tally, SHAPE)
    assert lines.shape == (12, 2)
    mine = lines[cell, 0] + lines[cell, 1] * z
    # The bins of the score hold a few of its values each.
    assert mine == pytest.approx(oracle.decision_function(scaled), abs=0.02)
    falling, *_ = draw(3000, 3, slope=-1.0)
    assert (fit_cells(falling, SHAPE) == [0.0, 1.0]).all()  # the score itself


@settings(max_examples=30)
@given(st.integers(0, 10**6), st.sampled_from(["0.4", "0.6", "0.8"]))
def test_the_cut_is_the_best_of_all_cuts(seed: int, precision: str) -> None:
    tally, z, cell, label = draw(150, seed)
    goal = RecallAtPrecision(decimal_bound(precision), Totals(150, int(label.sum())))
    found = best_cut(tally, goal, shape=SHAPE)
    lines = fit_cells(tally, SHAPE)
    values = (lines[cell, 0] + lines[cell, 1] * z).astype(np.float32)
    totals = [(int((values >= cut).sum()), int(label[values >= cut].sum())) for cut in values]
    assert found.true_positives == max((t for m, t in totals if goal.met(m, t)), default=0)
    taken = 1.0 / (1.0 + np.exp(-z)) >= found.thresholds[cell]
    assert (int(taken.sum()), int(label[taken].sum())) == (found.selected, found.true_positives)


def test_labels_that_judge_lines_say_nothing_to_them() -> None:
    tally, *_ = draw(3000, 2)
    dealt = tally.deal(3, 0)
    for part in range(3):
        turned = np.where(dealt.part == part, dealt.count - dealt.positive, dealt.positive)
        other = replace(dealt, positive=turned.astype(dealt.positive.dtype))
        lines = fit_cells(dealt, SHAPE, part)
        assert np.array_equal(lines, fit_cells(other, SHAPE, part))
        assert not np.array_equal(lines, fit_cells(dealt, SHAPE))


@given(
    st.lists(st.tuples(st.integers(0, 20), st.integers(1, 4)), min_size=1, max_size=7),
    st.integers(1, 4),
)
def test_breaks_are_those_of_least_variance(points: list[tuple[int, int]], groups: int) -> None:
    values, mass = (np.array(column, np.float64) for column in zip(*sorted(points), strict=True))

    def spread(group: np.ndarray) -> float:
        means = np.bincount(group, mass * values) / np.bincount(group, mass)
        return float(mass @ np.square(values - means[group]))

    found = _natural_breaks(values, mass, groups)
    size, taken = values.size, min(groups, values.size)
    assert found[0] == 0 and found[-1] == taken - 1 and set(np.diff(found).tolist()) <= {0, 1}
    every = combinations(range(1, size), taken - 1)
    least = min(spread(np.searchsorted(cuts, np.arange(size), "right")) for cuts in every)
    assert spread(found) == pytest.approx(least, abs=1e-9)


@pytest.mark.parametrize(
    ("constant", "slope", "order"),
    [
        ([0.9, -0.4, 0.2, -1.5], [1.9, 0.5, 1.2, 1.8], [0, 3, 1, 2]),
        ([-0.8, 0.2, -0.1, -0.1], [1.3, 1.9, 1.0, 0.4], [2, 0, 1, 3]),
    ],
)
def test_cells_are_in_the_order_of_their_thresholds(
    constant: list[float], slope: list[float], order: list[int]
) -> None:
    """Many rows on logistic lines: each cell's own threshold is where its line is at the margin."""
    score = np.linspace(-3.0, 3.0, 61)
    rates = 1.0 / (1.0 + np.exp(-(np.array(constant)[:, None] + np.outer(slope, score))))
    pooled = rates.mean(axis=0)
    precision = np.cumsum(pooled[::-1])[::-1] / np.arange(61, 0, -1)
    margin = pooled[np.argmax(precision >= 0.8)]
    thresholds = (np.log(margin / (1.0 - margin)) - constant) / slope
    assert np.argsort(np.argsort(thresholds)).tolist() == order
    hits = np.rint(10_000 * rates).ravel()
    cells = np.tile(np.repeat(np.arange(4), 61), 2).astype(np.uint16)
    labels = np.repeat([1, 0], hits.size).astype(np.uint8)
    weight = np.append(hits, 10_000 - hits)
    tally = count_rows(np.tile(score, 8), cells, labels, 4, weight=weight)
    goal = RecallAtPrecision(decimal_bound("0.8"), tally_totals(tally))
    assert leaves_of(tally, goal, 4).tolist() == order


Drawn = tuple[Tally, np.ndarray, np.ndarray, np.ndarray]
