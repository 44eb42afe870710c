"""Rows counted by node and range of scores, and what is had from these counts."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibkit_kernels import leaves as kernels
from tests.naive import trees as naive

#: A tree: the root, a leaf at its left, and two leaves below its right.
CHILDREN = np.array([[1, 2], [-1, -1], [3, 4], [-1, -1], [-1, -1]], np.int32)
PARENTS = np.array([-1, 0, 0, 2, 2], np.int32)
BELOW = [{1, 3, 4}, {1}, {3, 4}, {3}, {4}]
SCORES = np.array([-1.5, -0.25, 0.5, 2.0])

rows = st.lists(
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
    kernels.rows_by_leaf(np.array(end, np.int32), spans, order)
    codes = [
        kernels.NEITHER if side is None else 4 * place + 2 * side + y
        for place, side, y in zip(cell, held, label, strict=True)
    ]
    places = np.empty((5, 2), np.int64)
    cells, sums = np.empty(4 * len(table), np.int32), np.empty((4 * len(table), width))
    kernels.count_cells(
        order, spans, CHILDREN, np.array(codes, np.uint16), np.array(mass), places, cells, sums
    )
    return places, cells, sums


@given(rows)
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


@given(rows)
def test_lines_are_those_of_the_known_rows(table: list[Any]) -> None:
    places, cells, sums = counted(table)
    lines = np.empty((5, 4))
    kernels.fit_cell_lines(SCORES, places, cells, sums, PARENTS, lines)
    for node, ends in enumerate(BELOW):
        own = [row for row in table if row[0] in ends and row[3] == 0]
        spans, order = np.array([[0, len(own)]]), np.arange(len(own), dtype=np.int32)
        label = np.array([row[2] for row in own], np.uint8)
        expected, room = np.empty((1, 4)), np.empty((3, len(own)))
        kernels.fit_leaf_lines(
            SCORES[[row[1] for row in own]], label, np.array([row[4] for row in own]), order, spans,
            np.full((1, 2), math.nan), room, expected,
        )  # fmt: skip
        assert lines[node, 2:].tolist() == expected[0, 2:].tolist()
        for score in SCORES[[row[1] for row in own]]:
            found, known = (line[0] * score + line[1] for line in (lines[node], expected[0]))
            assert naive.probability(found) == pytest.approx(naive.probability(known), abs=1e-9)


@given(rows, st.lists(st.sampled_from([0.0, 1.0, 100.0]), min_size=1, max_size=3))
def test_gains_are_those_of_the_held_out_rows(table: list[Any], shrinkages: list[float]) -> None:
    places, cells, sums = counted(table)
    lines = np.array([[1.0, 0.25, 9.0, 4.0], [0.5, -1.0, 3.0, 1.0], [2.0, 0.0, 6.0, 3.0],
                      [-1.0, 1.0, 2.0, 1.0], [math.nan, math.nan, 0.0, 0.0]])  # fmt: skip
    found = np.empty((5, len(shrinkages), 2))
    kernels.cell_gains(SCORES, places, cells, sums, lines, np.array(shrinkages), found)
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
    kernels.add_probabilities(
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
