"""Worths of entries and prefixes against sums written out."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from calibkit_kernels import gains as kernels
from calibkit_kernels import tally as tallies
from tests.naive import gains as naive

LEVELS = 3
#: Score, level, label, weight, part, gain of a row.
rows = st.lists(
    st.tuples(
        st.integers(0, 6).map(float),
        st.integers(0, LEVELS - 1),
        st.integers(0, 1),
        st.integers(0, 3),
        st.integers(0, 2),
        st.integers(-9, 9),
    ),
    min_size=1,
    max_size=30,
)


@given(rows, st.booleans(), st.sampled_from([-1, 0, 1]), st.booleans())
def test_worths_of_entries_and_prefixes(
    data: list[tuple[float, int, int, int, int, int]],
    dealt: bool,
    excluded: int,
    together: bool,
) -> None:
    score, level, label, weight, part, gain = (list(column) for column in zip(*data, strict=True))
    if not dealt:
        part, excluded = [0] * len(score), -1
    order = sorted(range(len(score)), key=lambda i: (-score[i], level[i], part[i]))
    arrays = (
        np.array(order, np.uint32),
        np.array(score),
        np.array(level, np.uint16),
        np.array(weight, np.int64),
        np.array(part if dealt else [], np.uint8),
    )
    scores, levels, count, positive, parts = tallies.group_weighted(
        *arrays[:3], np.array(label, np.uint8), *arrays[3:]
    )
    found = kernels.group_gains(*arrays, np.array(gain, np.int64), scores.size)
    assert found.tolist() == naive.group_gains(score, level, weight, part, gain)
    sizes = [int(((levels == own) & (positive > 0)).sum()) for own in range(LEVELS)]
    offsets = np.array([0, *np.cumsum(sizes)])
    if together:
        offsets = offsets[[0, -1]]
    _, _, entry, ends = tallies.prefix_points(
        scores, levels, count, positive, parts, excluded, offsets
    )
    prefixes = kernels.prefix_gains(scores, levels, found, parts, excluded, entry, offsets, ends)
    cuts = [scores[entry[a:b]].tolist() for a, b in zip(offsets, ends, strict=False)]
    entries = list(
        zip(
            scores.tolist(),
            levels.tolist(),
            parts.tolist() if dealt else [0] * scores.size,
            found.tolist(),
            strict=True,
        )
    )
    expected = naive.prefix_gains(entries, cuts, excluded, together=together)
    assert [prefixes[a:b].tolist() for a, b in zip(offsets, ends, strict=False)] == expected
