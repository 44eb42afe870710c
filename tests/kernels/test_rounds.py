"""Sums of trees that grow in rounds: against enumeration, and whatever the blocks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibkit_kernels import rounds as kernels
from tests.naive import rounds as naive

ROWS = st.lists(
    st.tuples(st.floats(-4.0, 4.0), st.integers(0, 1), st.sampled_from([0.0, 0.3, 1.0, 2.0])),
    min_size=1,
    max_size=20,
)


@st.composite
def trees(draw: Any) -> tuple[Any, ...]:
    """Draw rows of two features (the second a category), and nodes that fork in several ways."""
    size = draw(st.integers(1, 12))
    numbers = draw(
        st.lists(st.sampled_from([-1.0, 0.0, 2.0, np.nan]), min_size=size, max_size=size)
    )
    texts = draw(st.lists(st.sampled_from([0.0, 1.0, 2.0, np.nan]), min_size=size, max_size=size))
    part = draw(st.lists(st.integers(0, 1), min_size=size, max_size=size))
    nodes = [[-1, 1 + i % 4, i // 2] for i in range(draw(st.integers(1, 4)))]
    forks: list[list[int]] = []
    cuts, sides = [], []
    for _ in range(draw(st.integers(0, 5))):
        place = draw(st.integers(0, len(nodes) - 1))
        children = []
        for _ in range(2):
            needed = draw(st.booleans())
            children.append(len(nodes) if needed else -1)
            if needed:
                nodes.append([-1, 0, 0])
        feature = draw(st.integers(0, 1))
        start = len(sides) if feature else -1
        sides += draw(st.lists(st.integers(0, 1), min_size=3, max_size=3))
        forks.append([feature, *children, draw(st.integers(0, 1)), start, nodes[place][0]])
        cuts.append(draw(st.sampled_from([-1.0, 0.5])))
        nodes[place][0] = len(forks) - 1
    return [numbers, texts], part, nodes, forks, cuts, sides


def arrays(drawn: tuple[Any, ...]) -> tuple[np.ndarray, ...]:
    values, part, nodes, forks, cuts, sides = drawn
    return (
        np.array(values, np.float64), np.array(part, np.uint8), np.array(nodes, np.int64),
        np.array(forks, np.int64).reshape(-1, kernels.FORK_WIDTH), np.array(cuts, np.float64),
        np.array(sides, np.uint8),
    )  # fmt: skip


@given(trees())
def test_rows_come_through_the_nodes_that_enumeration_finds(drawn: tuple[Any, ...]) -> None:
    spans = np.empty((len(drawn[2]), 2), np.int64)
    rows = kernels.visit_rows(*arrays(drawn), spans)
    found = [sorted(rows[low:high].tolist()) for low, high in spans.tolist()]
    assert found == naive.visit_rows(*drawn)


@given(trees(), st.booleans())
def test_rows_part_in_place_or_elsewhere(drawn: tuple[Any, ...], in_place: bool) -> None:
    values, part, _, forks, cuts, sides = drawn
    for fork, cut in zip(forks, cuts, strict=True):
        rows = np.arange(len(part), dtype=np.int32)
        out, spare = rows if in_place else np.empty_like(rows), np.empty_like(rows)
        own, expected = np.array(values[fork[0]]), np.array(fork, np.int64)
        left = kernels.part_rows(own, rows, expected, cut, np.array(sides, np.uint8), out, spare)
        found = [out[:left].tolist(), out[left:].tolist()]
        assert found == naive.parted_rows(values[fork[0]], range(len(part)), fork, cut, sides)


@given(st.integers(0, 4), st.integers(-1, 3), st.integers(0, 3))
def test_rows_begin_in_nodes_as_defined(begins: int, about: int, part: int) -> None:
    node = [-1, begins, about]
    assert kernels.begins_in(np.array(node, np.int64), part) == naive.begins_in(node, part)


@given(st.integers(0, 9), st.integers(0, 9), st.data())
def test_room_is_made_behind_the_rows_in_use(size: int, more: int, data: Any) -> None:
    rows, used = np.arange(size, dtype=np.int32), data.draw(st.integers(0, size))
    found = kernels.with_room(rows, used, more)
    assert found.size >= naive.with_room(range(size), used, more)
    assert found[:used].tolist() == rows[:used].tolist()


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 1), st.integers(0, 3)), min_size=1),
    st.data(),
)
def test_bins_count_the_rows_of_nodes(table: list[tuple[int, int, int]], data: Any) -> None:
    codes = np.array([[a for a, _, _ in table], [b for _, b, _ in table]], np.uint16)
    payload = np.array([[w, w // 2] for _, _, w in table], np.int64)
    rows = data.draw(st.lists(st.integers(0, len(table) - 1)))
    spans = np.array([[0, len(rows) // 2], [len(rows) // 2, len(rows)]], np.int64)
    hist = np.zeros((2, 5, 2), np.int64)
    kernels.count_bins(
        codes, payload, np.array(rows, np.int32), spans, np.array([0, 3], np.int64), hist
    )
    for node, (low, high) in enumerate(spans.tolist()):
        expected = naive.counted_bins(codes.tolist(), payload.tolist(), rows[low:high])
        found = {
            (feature, place): hist[node, first + place].tolist()
            for feature, first, size in ((0, 0, 3), (1, 3, 2))
            for place in range(size)
            if (feature, place) in expected
        }
        assert found == expected
        assert hist[node, :, 0].sum() == 2 * sum(int(payload[row, 0]) for row in rows[low:high])


@given(st.floats(-1e6, 1e6), st.integers(-20, 30))
def test_units_are_whole(value: float, bits: int) -> None:
    found = kernels.in_units(value, 2.0**bits)
    assert abs(found - naive.whole_units(value, 2.0**bits)) <= (abs(value) * 2.0**bits > 2.0**51)


LINE = [0.7, -0.3, 0.5, 0.4, 0.9, 0.1]


def summed(rows: list[tuple[float, int, float]], parts: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the sums of a line over rows that come in several blocks."""
    line = np.array([[*LINE, *[2.0**40] * kernels.SUMS]])
    sums = np.zeros((1, kernels.SUMS), np.int64)
    ranges = np.array([[np.inf, -np.inf]])
    for start in range(parts):
        own = rows[start::parts]
        kernels.sum_lines(
            *columns(own), np.arange(len(own), dtype=np.int32), np.array([[0, len(own)]]), line, sums,
            ranges,
        )  # fmt: skip
    return sums, ranges


def columns(rows: list[tuple[float, int, float]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return (
        np.array([row[0] for row in rows], np.float64),
        np.array([row[1] for row in rows], np.uint8),
        np.array([row[2] for row in rows], np.float64),
    )


@given(ROWS, st.integers(2, 4))
def test_lines_sum_as_defined_in_any_blocks(
    rows: list[tuple[float, int, float]], parts: int
) -> None:
    sums, ranges = summed(rows, 1)
    assert (sums[0] / 2.0**40).tolist() == pytest.approx(naive.sum_lines(rows, LINE), abs=1e-9)
    used = [score for score, _, weight in rows if weight]
    assert ranges.tolist() == [[min(used, default=np.inf), max(used, default=-np.inf)]]
    again, same = summed(rows, parts)
    assert again.tolist() == sums.tolist() and same.tolist() == ranges.tolist()


@given(st.floats(-30.0, 30.0), st.floats(0.0, 1.0))
def test_losses_and_their_derivatives_are_as_defined(z: float, target: float) -> None:
    found = kernels.loss_terms(z, target)
    assert found == pytest.approx(naive.loss_terms(z, target), abs=1e-12)


@given(
    st.lists(
        st.tuples(*[st.floats(-3.0, 3.0)] * 2, st.integers(0, 1), st.sampled_from([0.0, 0.3, 2.0]))
    ),
    st.integers(1, 3),
)
def test_curves_sum_as_defined_in_any_blocks(
    rows: list[tuple[float, float, int, float]], parts: int
) -> None:
    curve = [0.7, 0.2, -0.3, 0.5, -0.1, 0.4, 1.5, 0.9, 0.1]
    sums = np.zeros((1, kernels.CURVE_SUMS), np.int64)
    for start in range(parts):
        own = rows[start::parts]
        kernels.sum_curves(
            np.array([[row[j] for row in own] for j in range(2)], np.float64),
            np.array([row[2] for row in own], np.uint8), np.array([row[3] for row in own], np.float64),
            np.arange(len(own), dtype=np.int32), np.array([[0, len(own)]]),
            np.array([[*curve, *[2.0**40] * kernels.CURVE_SUMS]]), sums,
        )  # fmt: skip
    found = (sums[0] / 2.0**40).tolist()
    assert found == pytest.approx(naive.sum_curves(rows, curve), abs=1e-9)


@given(ROWS)
def test_gains_are_falls_of_the_loss(rows: list[tuple[float, int, float]]) -> None:
    score, label, mass = columns(rows)
    squares = 0.5 * mass
    lines = [[1.0, 0.0], [0.5, 0.2], [2.0, -1.0]]
    sums = np.zeros((1, 3, 2), np.int64)
    kernels.sum_gains(
        score, label, np.stack([mass, squares]), np.arange(len(rows), dtype=np.int32),
        np.array([[0, len(rows)]]), np.array([lines]), np.full((1, 2), 2.0**40), sums,
    )  # fmt: skip
    expected = naive.sum_gains(rows, squares.tolist(), lines)
    assert (sums[0] / 2.0**40).reshape(-1).tolist() == pytest.approx(
        [number for pair in expected for number in pair], abs=1e-9
    )
