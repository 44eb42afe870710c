"""Maps of leaves and steps of boosting, against their definitions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from calibkit.methods.hetcal.maps import shrunk
from calibkit_kernels import leaves, maps
from tests.naive import trees as naive

scores = st.integers(-40, 40).map(lambda k: k / 8)
rows = st.lists(st.tuples(scores, st.integers(0, 1), st.integers(0, 3)), min_size=1, max_size=40)
LEAVES = 4


def arrays(table: list[Any]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    score, label, leaf = zip(*table, strict=True)
    return np.array(score), np.array(label, np.uint8), np.array(leaf, np.int32)


def leaf_lines(
    table: list[Any], weight: np.ndarray | None = None, start: float = math.nan
) -> np.ndarray:
    score, label, leaf = arrays(table)
    spans, order = np.empty((LEAVES, 2), np.int64), np.empty(leaf.size, np.int32)
    leaves.rows_by_leaf(leaf, spans, order)
    out = np.empty((LEAVES, 4))
    mass = np.ones(score.size) if weight is None else weight
    starts, room = np.full((LEAVES, 2), start), np.empty((3, leaf.size))
    leaves.fit_leaf_lines(score, label, mass, order, spans, starts, room, out)
    return out


@given(rows)
def test_rows_of_a_leaf_keep_their_order(table: list[Any]) -> None:
    _, _, leaf = arrays(table)
    leaf = leaf - 1  # some rows take no part
    spans, order = np.empty((LEAVES, 2), np.int64), np.empty(leaf.size, np.int32)
    leaves.rows_by_leaf(leaf, spans, order)
    found = [order[low:high].tolist() for low, high in spans]
    assert found == naive.rows_by_leaf(leaf.tolist(), LEAVES)


@given(rows)
def test_the_map_of_a_leaf_is_platts(table: list[Any]) -> None:
    lines = leaf_lines(table)
    for leaf in range(LEAVES):
        own = [(score, label) for score, label, place in table if place == leaf]
        if not own:
            assert math.isnan(lines[leaf, 0])
            assert math.isnan(lines[leaf, 1])
            continue
        a, b = naive.fit_platt(*map(list, zip(*own, strict=True)))
        for score, _ in own:
            expected = naive.probability(a * score + b)
            found = naive.probability(lines[leaf, 0] * score + lines[leaf, 1])
            assert found == pytest.approx(expected, abs=1e-7)
        assert lines[leaf, 2:].tolist() == [len(own), sum(label for _, label in own)]


@given(rows, st.floats(-2.0, 2.0))
def test_a_line_does_not_depend_on_where_its_search_starts(table: list[Any], start: float) -> None:
    table = sorted(table)
    found, again = leaf_lines(table), leaf_lines(table, start=start)
    for leaf in range(LEAVES):
        own = [score for score, _, place in table if place == leaf]
        lines = [
            [naive.probability(line[0] * score + line[1]) for score in own]
            for line in (found[leaf], again[leaf])
        ]
        assert lines[1] == pytest.approx(lines[0], abs=1e-9)


lines_of = st.lists(
    st.tuples(scores, scores, st.integers(0, 30).map(float)), min_size=1, max_size=6
)


@given(lines_of, scores, scores, st.sampled_from([0.0, 1.0, 100.0]))
def test_shrinkage_averages_with_the_pooled_map(
    lines: list[Any], a: float, b: float, shrinkage: float
) -> None:
    given_lines = np.array([[*line, 0.0] for line in lines])
    out = shrunk(given_lines, np.array([a, b]), shrinkage)
    expected = naive.shrunk_lines(lines, (a, b), shrinkage)
    np.testing.assert_allclose(out, np.array(expected), rtol=1e-12, atol=1e-12)


@given(rows)
def test_losses_and_probabilities_are_those_of_the_leafs_map(table: list[Any]) -> None:
    score, label, leaf = arrays(table)
    lines = np.array([[1.0, 0.0], [0.5, 1.0], [-2.0, 0.25], [300.0, 1.0]])
    moved = naive.move_scores(score.tolist(), leaf.tolist(), lines.tolist())
    out = np.empty(score.size)
    leaves.score_losses(np.array(moved), label, np.ones(score.size), out)
    expected = naive.score_losses(moved, label.tolist(), [1.0] * score.size)
    np.testing.assert_allclose(out, expected, rtol=1e-12, atol=1e-12)
    assert leaves.sum_in_order(out) == pytest.approx(naive.sum_in_order(out.tolist()))
    leaves.leaf_probabilities(score, leaf, lines, out)
    assert out == pytest.approx([naive.probability(z) for z in moved], rel=1e-12)


@given(st.lists(st.tuples(st.floats(0, 1), st.integers(0, 1), st.integers(0, 3)), min_size=1))
def test_losses_of_probabilities_are_finite(table: list[Any]) -> None:
    p, y, weight = (list(column) for column in zip(*table, strict=True))
    out = np.empty(len(p))
    leaves.probability_losses(
        np.array(p), np.array(y, np.uint8), np.array(weight, np.float64), 1e-15, out
    )
    assert out.tolist() == pytest.approx(naive.probability_losses(p, y, weight, 1e-15), rel=1e-3)


@given(scores, st.lists(st.integers(-40, 40), min_size=1, max_size=6, unique=True))
def test_steps_take_the_greatest_knot_below(score: float, places: list[int]) -> None:
    knots = sorted(place / 8 for place in places)
    values = [k / 10 for k in range(len(knots))]
    out = np.empty(1)
    starts, leaf = np.array([0, 0, len(knots)]), np.array([1], np.int32)
    leaves.leaf_steps(np.array([score]), leaf, starts, np.array(knots), np.array(values), out)
    assert out[0] == naive.leaf_steps(score, knots, values)


@example(table=[(1.0, 1, 2, 1), (0.0, 0, 3, 1)])
@given(
    st.lists(
        st.tuples(
            st.floats(0, 1) | st.sampled_from([0.2, 0.4, 0.6, 0.8]),
            st.integers(0, 1),
            st.integers(0, 3),
            st.integers(0, 3),
        ),
        min_size=1,
        max_size=40,
    ).filter(lambda table: any(row[3] for row in table)),
)
def test_cells_are_compared_with_their_positive_rates(table: list[Any]) -> None:
    p, y, leaf, weight = (list(column) for column in zip(*table, strict=True))
    cells = np.zeros((LEAVES * 5, 4))
    found = leaves.cell_gaps(
        np.array(p), np.array(y, np.uint8), np.array(weight, np.float64),
        np.array(leaf, np.int32), 5, cells,
    )  # fmt: skip
    expected = naive.cell_gaps(p, y, weight, leaf, 5)
    assert found[2] == expected[2]
    assert found[:2] == pytest.approx(expected[:2], abs=1e-12)
    assert cells.sum(axis=0)[[0, 3]].tolist() == [sum(weight), sum(own * own for own in weight)]


@given(rows)
def test_gradients_are_whole_units_of_their_definition(table: list[Any]) -> None:
    score, label, weight = arrays(table)
    out = np.empty((score.size, 3), np.int64)
    leaves.newton_rows(score, label, weight.astype(np.int64), out, 2.0**20)
    expected = naive.newton_rows(score.tolist(), label.tolist(), weight.tolist(), 2.0**20)
    assert np.abs(out - np.array(expected)).max() <= 1


@given(rows)
def test_steps_move_scores_leaf_by_leaf(table: list[Any]) -> None:
    score, label, leaf = arrays(table)
    steps = np.array([[1.0, 0.5], [1.0, -0.25], [0.5, 0.0], [2.0, 1.0]])
    expected = naive.move_scores(score.tolist(), leaf.tolist(), steps.tolist())
    moved = score.copy()
    leaves.move_scores(moved, leaf, steps)
    assert moved.tolist() == expected
    weight = (leaf % 3).astype(np.int64)
    loss = naive.total_loss(expected, label.tolist(), weight.tolist())
    assert leaves.total_loss(moved, label, weight) == pytest.approx(loss, rel=1e-12)


@pytest.mark.parametrize("score", [-800.0, -30.0, 0.0, 30.0, 800.0])
def test_nothing_overflows_far_out(score: float) -> None:
    assert maps.expit_of(score) == pytest.approx(naive.probability(score))
    for positive in (True, False):
        loss = leaves.label_loss(score, positive)
        assert loss == pytest.approx(naive.label_loss(score, positive), rel=1e-9)
        assert math.isfinite(loss)


@given(st.integers(0, 2**32), st.floats(-4.0, 4.0))
def test_a_line_ends_where_the_gradient_is_zero(seed: int, shift: float) -> None:
    """From points that are not centred, whose two steps depend on each other."""
    random = np.random.default_rng(seed)
    x = random.normal(shift, 1.0, 30)
    positive, negative = random.uniform(0.1, 1.0, (2, 30))
    line = np.array([0.0, 0.0, 0.0, 1.0])
    total = math.fsum(positive) + math.fsum(negative)
    leaves.newton_line(x, positive, negative, total, line)
    p = 1 / (1 + np.exp(-(line[0] * x + line[1])))
    rest = (positive + negative) * p - positive
    assert abs(math.fsum(rest)) < 1e-12 * total
    assert abs(math.fsum(rest * x)) < 1e-12 * total * (1 + abs(shift))


def test_a_slope_without_a_step_stays_where_it_was() -> None:
    """Where none lowers the loss, as here where sums of squares have no float."""
    x = np.array([-1e200, 1e200, 3e199])
    line = np.array([0.0, 0.25, 0.0, 1.0])
    leaves.newton_line(x, np.ones(3), np.array([1.0, 2.0, 3.0]), 9.0, line)
    assert line.tolist() == pytest.approx([0.0, math.log(3 / 6), 0.0, 1.0], rel=1e-15)
