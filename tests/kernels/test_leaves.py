"""Maps of leaves, steps of boosting, and counts by node and range of scores, by their definitions."""

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


def by_leaf(leaf: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return where the rows of each leaf stand in an order, and that order."""
    spans, order = np.empty((LEAVES, 2), np.int64), np.empty(leaf.size, np.int32)
    leaves.rows_by_leaf(leaf, spans, order)
    return spans, order


def leaf_lines(table: list[Any], start: float) -> np.ndarray:
    score, label, leaf = arrays(table)
    spans, order = by_leaf(leaf)
    out, starts, room = np.empty((LEAVES, 4)), np.full((LEAVES, 2), start), np.empty((3, leaf.size))
    leaves.fit_leaf_lines(score, label, np.ones(score.size), order, spans, starts, room, out)
    return out


@given(rows)
def test_rows_of_a_leaf_keep_their_order(table: list[Any]) -> None:
    leaf = arrays(table)[2] - 1  # some rows take no part
    spans, order = by_leaf(leaf)
    found = [order[low:high].tolist() for low, high in spans]
    assert found == naive.rows_by_leaf(leaf.tolist(), LEAVES)


@given(rows, st.just(math.nan) | st.floats(-2.0, 2.0))
def test_the_map_of_a_leaf_is_platts(table: list[Any], start: float) -> None:
    """Wherever its search starts."""
    lines = leaf_lines(table, start)
    for leaf in range(LEAVES):
        own = [(score, label) for score, label, place in table if place == leaf]
        if not own:
            assert np.isnan(lines[leaf, :2]).all()
            continue
        a, b = naive.fit_platt(*map(list, zip(*own, strict=True)))
        for score, _ in own:
            expected = naive.probability(a * score + b)
            found = naive.probability(lines[leaf, 0] * score + lines[leaf, 1])
            assert found == pytest.approx(expected, abs=1e-7)
        assert lines[leaf, 2:].tolist() == [len(own), sum(label for _, label in own)]


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
def test_scores_move_by_the_map_of_their_leaf(table: list[Any]) -> None:
    """And so do their losses."""
    score, label, leaf = arrays(table)
    lines = np.array([[1.0, 0.0], [0.5, 1.0], [-2.0, 0.25], [300.0, 1.0]])
    expected = naive.move_scores(score.tolist(), leaf.tolist(), lines.tolist())
    moved, out = score.copy(), np.empty(score.size)
    leaves.move_scores(moved, leaf, lines)
    assert moved.tolist() == expected
    weight = (leaf % 3).astype(np.int64)
    leaves.score_losses(moved, label, weight.astype(np.float64), out)
    losses = naive.score_losses(expected, label.tolist(), weight.tolist())
    np.testing.assert_allclose(out, losses, rtol=1e-12, atol=1e-12)
    assert leaves.sum_in_order(out) == pytest.approx(naive.sum_in_order(out.tolist()))
    loss = naive.total_loss(expected, label.tolist(), weight.tolist())
    assert leaves.total_loss(moved, label, weight) == pytest.approx(loss, rel=1e-12)


@given(st.lists(st.tuples(st.floats(0, 1), st.integers(0, 1), st.integers(0, 3)), min_size=1))
def test_losses_of_probabilities_are_finite(table: list[Any]) -> None:
    p, y, weight = (list(column) for column in zip(*table, strict=True))
    out = np.empty(len(p))
    leaves.probability_losses(np.array(p), np.array(y, np.uint8), np.array(weight, np.float64), out)
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
        np.array(leaf, np.int32), np.arange(5) / 5, cells,
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


#: A tree: the root, a leaf at its left, and two leaves below its right.
CHILDREN = np.array([[1, 2], [-1, -1], [3, 4], [-1, -1], [-1, -1]], np.int32)
PARENTS = np.array([-1, 0, 0, 2, 2], np.int32)
BELOW = [{1, 3, 4}, {1}, {3, 4}, {3}, {4}]
SCORES = np.array([-1.5, -0.25, 0.5, 2.0])

cell_rows = st.lists(
    st.tuples(
        st.sampled_from([1, 3, 4]),
        st.integers(0, 3),
        st.integers(0, 1),
        st.sampled_from([0, 0, 1, None]),
        st.sampled_from([1.0, 2.0, 0.5]),
    ),
    min_size=1,
    max_size=40,
).map(lambda table: sorted(table, key=lambda row: row[1]))


def counted(table: list[Any], width: int = 6) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    end, cell, label, held, mass = zip(*table, strict=True)
    spans, order = np.empty((5, 2), np.int64), np.empty(len(table), np.int32)
    leaves.rows_by_leaf(np.array(end, np.int32), spans, order)
    codes = [
        leaves.NEITHER if side is None else 4 * place + 2 * side + y
        for place, side, y in zip(cell, held, label, strict=True)
    ]
    places = np.empty((5, 2), np.int64)
    cells, sums = np.empty(4 * len(table), np.int32), np.empty((4 * len(table), width))
    leaves.count_cells(
        order, spans, CHILDREN, np.array(codes, np.uint16), np.array(mass), places, cells, sums
    )
    return places, cells, sums


@given(cell_rows)
def test_nodes_hold_the_sums_of_their_rows(table: list[Any]) -> None:
    places, cells, sums = counted(table)
    found = [
        dict(zip(cells[low:high].tolist(), sums[low:high].tolist(), strict=True))
        for low, high in places
    ]
    assert found == naive.count_cells(table, BELOW)
    assert all(list(own) == sorted(own) for own in found)
    narrow = counted(table, 4)
    assert narrow[2][: narrow[0].max()].tolist() == sums[: places.max(), :4].tolist()


@given(cell_rows)
def test_lines_are_those_of_the_known_rows(table: list[Any]) -> None:
    places, cells, sums = counted(table)
    lines = np.empty((5, 4))
    leaves.fit_cell_lines(SCORES, places, cells, sums, PARENTS, lines)
    for node, ends in enumerate(BELOW):
        own = [row for row in table if row[0] in ends and row[3] == 0]
        spans, order = np.array([[0, len(own)]]), np.arange(len(own), dtype=np.int32)
        score = SCORES[[row[1] for row in own]]
        label = np.array([row[2] for row in own], np.uint8)
        expected, room = np.empty((1, 4)), np.empty((3, len(own)))
        leaves.fit_leaf_lines(
            score, label, np.array([row[4] for row in own]), order, spans,
            np.full((1, 2), math.nan), room, expected,
        )  # fmt: skip
        assert lines[node, 2:].tolist() == expected[0, 2:].tolist()
        for own_score in score:
            found, known = (line[0] * own_score + line[1] for line in (lines[node], expected[0]))
            assert naive.probability(found) == pytest.approx(naive.probability(known), abs=1e-9)


@given(cell_rows, st.lists(st.sampled_from([0.0, 1.0, 100.0]), min_size=1, max_size=3))
def test_gains_are_those_of_the_held_out_rows(table: list[Any], shrinkages: list[float]) -> None:
    places, cells, sums = counted(table)
    lines = np.array([[1.0, 0.25, 9.0, 4.0], [0.5, -1.0, 3.0, 1.0], [2.0, 0.0, 6.0, 3.0],
                      [-1.0, 1.0, 2.0, 1.0], [math.nan, math.nan, 0.0, 0.0]])  # fmt: skip
    found = np.empty((5, len(shrinkages), 2))
    leaves.cell_gains(SCORES, places, cells, sums, lines, np.array(shrinkages), found)
    for node, own in enumerate(naive.count_cells(table, BELOW)):
        entries = [(float(SCORES[cell]), sums) for cell, sums in own.items()]
        for place, shrinkage in enumerate(shrinkages):
            line, pooled = tuple(lines[node, :3].tolist()), tuple(lines[0, :2].tolist())
            expected = naive.cell_gains(entries, line, pooled, shrinkage)
            assert found[node, place].tolist() == pytest.approx(expected, rel=1e-9, abs=1e-12)


@given(
    st.lists(
        st.tuples(st.integers(-8, 8), st.sampled_from([0, 1, -1]), st.sampled_from([1, 3, 4])),
        min_size=1,
        max_size=10,
    ),
    st.sampled_from([0.0, 30.0]),
)
def test_forests_add_the_probability_at_every_depth(table: list[Any], shrinkage: float) -> None:
    score, part, ends = (np.array(column) for column in zip(*table, strict=True))
    above = np.array([[0, 0, 0, 0, 0], [0, 1, 2, 2, 2], [0, 1, 2, 3, 4]], np.int32)
    random = np.random.default_rng(0)
    lines = random.normal(size=(2, 5, 4))
    lines[..., 2] = [50.0, 20.0, 30.0, 0.0, 30.0]
    out = np.zeros((3, 1, score.size))
    leaves.add_probabilities(
        score / 4, part.astype(np.int32), ends.astype(np.int32), above, lines,
        np.array([shrinkage]), out,
    )  # fmt: skip
    for i, (number, place, end) in enumerate(table):
        expected = [0.0] * 3
        if place >= 0:
            own = [tuple(line[:3]) for line in lines[place].tolist()]
            nodes = above[:, end].tolist()
            expected = naive.add_probabilities(own, nodes, number / 4, shrinkage)
        assert out[:, 0, i].tolist() == pytest.approx(expected, rel=1e-12)
