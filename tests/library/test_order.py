"""The order of rows and sums of what they hold: exact, and those of the long way."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from calibkit.numerics.sums import BLOCK, added, cut
from calibkit.summaries.edges import few_values, unit_sums
from calibkit.summaries.tally import falling_places

rows = st.lists(st.tuples(st.integers(-3, 3), st.integers(0, 3)), min_size=1, max_size=30)


@given(rows, st.booleans(), st.sampled_from([np.float32, np.float64]))
def test_places_fall_by_score_and_rise_by_the_second(
    pairs: list[tuple[int, int]], rise: bool, kind: type
) -> None:
    pairs = sorted(pairs) if rise else pairs
    score = np.array([score for score, _ in pairs], kind) / kind(2)
    second = np.array([second for _, second in pairs], np.uint16)
    places = falling_places(score, second, 1)
    assert sorted(places.tolist()) == list(range(len(pairs)))
    found = [(-score[place], second[place]) for place in places]
    assert found == sorted(found)


def test_sums_of_few_values() -> None:
    random = np.random.default_rng(4)
    for kind in (np.float32, np.float64):
        values = random.integers(-3, 9, 5000).astype(kind) / kind(3)
        for most in (5, 2**50):
            units = random.integers(0, most, 5000)
            distinct, sums = few_values(values, units)
            assert distinct.tolist() == np.unique(values).tolist()
            assert sums.tolist() == [int(units[values == own].sum()) for own in distinct]
            place = np.searchsorted(distinct, values).astype(np.uint16)
            assert unit_sums(place, units, 12).tolist() == sums.tolist()


def test_many_values_stay_as_they_are() -> None:
    values, units = np.arange(5000.0), np.ones(5000, np.int64)
    for column in (values, np.where(values == 4321, 0.5, 0.0), values[:9]):
        found, counts = few_values(column, units[: column.size])
        assert found is column
        assert counts.size == column.size


units = st.integers(0, 2**62)
amounts = st.floats(0, 1e9)


@given(st.lists(st.tuples(units, amounts, units | amounts), min_size=1, max_size=8))
def test_sums_are_exact(rows: list[tuple[int, float, float]]) -> None:
    whole, parts, mixed = added(rows)
    assert whole == sum(row[0] for row in rows)
    assert parts == float(sum(Fraction(row[1]) for row in rows))
    if all(isinstance(row[2], int) for row in rows):
        assert mixed == sum(row[2] for row in rows)
    else:  # a fold that selects nothing counts 0, the others parts of rows
        assert mixed == float(sum(Fraction(float(row[2])) for row in rows))


def test_integers_of_numpy_do_not_overflow() -> None:
    assert added([(np.int64(2**62),)] * 4) == (2**64,)
    assert added([(0,), (0.1,), (0.2,)]) == (math.fsum([0.1, 0.2]),)


def test_blocks_end_at_multiples_of_their_size() -> None:
    low, high = BLOCK - 3, 3 * BLOCK + 7
    edges = [low, BLOCK, 2 * BLOCK, 3 * BLOCK, high]
    assert cut(low, high) == [slice(*pair) for pair in itertools.pairwise(edges)]
    assert cut(0, BLOCK) == [slice(0, BLOCK)]
    assert cut(5, 5) == []
