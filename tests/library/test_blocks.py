"""Sums of what comes of blocks of rows: exact, and the same whatever the version of Python."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from calibkit.numerics.sums import BLOCK, added, cut

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
