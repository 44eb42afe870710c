"""Rows counted by cells against a dictionary."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from calibkit_kernels import tally as kernels
from tests.naive import cells as naive

BITS = {1: 3, 2: 5}
keys = st.integers(0, 4 * 2**52 - 1) | st.sampled_from([0, 2**52 - 1, 2**52, 3 * 2**52])
rows = st.lists(st.tuples(keys, st.integers(0, 2), st.integers(1, 9), st.integers(0, 99)))


@given(rows, st.booleans(), st.booleans())
def test_every_row_is_counted_in_its_cell(
    found: list[tuple[int, int, int, int]], counted: bool, weighted: bool
) -> None:
    key, kind, times, units = ([row[place] for row in found] for place in range(4))
    times = times if counted else [1] * len(found)
    drops = np.array([52 - BITS.get(power, 0) for power in range(4)], np.uint64)
    sizes = [2 ** BITS.get(power, 0) for power in range(4)]
    starts = np.cumsum([0, *sizes])
    table = np.zeros((starts[-1], 3), np.int64)
    sums = np.zeros(table.shape if weighted else (0, 0), np.int64)
    kernels.count_cells(
        np.array(key, np.uint64),
        np.array(kind, np.uint32),
        np.array(times if counted else [], np.int64),
        np.array(units if weighted else [], np.int64),
        starts,
        drops,
        table,
        sums,
    )
    for counts, amounts in ((table, times), (sums, units)):
        expected = np.zeros(counts.shape, np.int64)
        if counts.size:
            for (power, behind, own), amount in naive.count_cells(key, kind, amounts, BITS).items():
                expected[starts[power] + behind, own] += amount
        assert counts.tolist() == expected.tolist()
