"""Kernels over tallies against dictionaries: ties, empty levels, infinities, both float types."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from calibkit.summaries.edges import (
    falling_quantiles,
    level_edges,
    quantile_places,
    quantile_ranks,
)
from calibkit.summaries.tally import Tally, count_rows
from calibkit_kernels import sorting
from calibkit_kernels import tally as kernels
from tests.naive import boundaries as naive
from tests.naive import gains
from tests.naive.boundaries import Entry

LEVELS = 3
score = st.integers(-2, 3).map(float) | st.sampled_from([math.inf, -math.inf, 0.1, -0.1])
count_types = pytest.mark.parametrize("counts", [np.uint8, np.int32, np.int64])
float_types = pytest.mark.parametrize("floats", [np.float32, np.float64], ids=["f32", "f64"])

#: Score (exact in float32), level, label, weight, part of a row.
row = st.tuples(
    score.map(lambda s: float(np.float32(s))),
    st.integers(0, LEVELS - 1),
    st.integers(0, 1),
    st.integers(0, 4),
    st.integers(0, 2),
)
rows = st.lists(row, min_size=1, max_size=12)
Row = tuple[float, int, int, int, int]


def columns(data: list[Row]) -> list[list]:
    return [list(column) for column in zip(*data, strict=True)] if data else [[] for _ in range(5)]


def arrays(
    entries: list[Entry], floats: type = np.float64, counts: type = np.int64
) -> tuple[np.ndarray, ...]:
    """Return score, level, count, positive, part."""
    score, level, part, count, positive = columns(entries)
    return (
        np.array(score, floats),
        np.array(level, np.uint16),
        np.array(count, counts),
        np.array(positive, counts),
        np.array(part, np.uint8),
    )


def undealt(data: list[Row]) -> list[Entry]:
    score, level, label, _, _ = columns(data)
    return naive.tally(score, level, label)


def dealt(data: list[Row]) -> list[Entry]:
    score, level, label, _, part = columns(data)
    return naive.tally(score, level, label, part=part)


@given(st.lists(score, max_size=10), st.lists(score, min_size=1, max_size=24), st.booleans())
@float_types
def test_levels_count_the_edges_at_or_below(
    floats: type, values: list[float], fit: list[float], few: bool
) -> None:
    fit = sorted(fit[:5] if few else [*fit, *fit])  # more than 16 edges are searched by halving
    minimum, edges = fit[0], fit[1:]
    array = np.array(values, floats)
    out = np.empty(array.size, np.uint16)
    kernels.assign_levels(array, minimum, np.array(edges, np.float64), out)
    assert out.tolist() == naive.assign_levels(array.astype(np.float64).tolist(), minimum, edges)


def sorted_rows(data: list[Row], floats: type) -> tuple[list[int], list[int], np.uint64]:
    """Return falling-order keys less the smallest, tags, both as sorted, and that smallest key."""
    score, level, label, _, _ = columns(data)
    keys = np.empty(len(score), np.uint64)
    unsigned = np.uint32 if floats is np.float32 else np.uint64
    sorting.falling_keys(np.array(score, floats).view(unsigned), keys)
    smallest = keys.min()
    tags = [2 * own + positive for own, positive in zip(level, label, strict=True)]
    pairs = sorted(zip((keys - smallest).tolist(), tags, strict=True))
    return [key for key, _ in pairs], [tag for _, tag in pairs], smallest


@given(rows, st.sampled_from([1, 90]), st.integers(1, 3))
@count_types
@float_types
def test_entries_side_by_side_are_joined(
    floats: type, counts: type, data: list[Row], copies: int, width: int
) -> None:
    score, level, label, _, _ = columns(data * copies)
    coarser = [own // width for own in level]
    narrow = naive.tally(score, level, label)
    wanted = naive.tally(score, coarser, label)
    entries = np.array([(s, own // width, *rest) for s, own, _, *rest in narrow]).T
    given_ = [own.astype(k) for own, k in zip(entries, (floats, np.uint16, int, int), strict=True)]
    room = [np.empty(len(narrow), kind) for kind in (floats, np.uint16, counts, counts)]
    size = kernels.join_entries(*given_, *room)
    if max(entry[3] for entry in wanted) > np.iinfo(counts).max:
        assert size == -1
        return
    found = zip(*(own[:size].tolist() for own in room), strict=True)
    assert list(found) == [(s, own, *rest) for s, own, _, *rest in wanted]


@given(rows, st.sampled_from([1, 1, 90]))
@count_types
@float_types
def test_sorted_rows_are_grouped(floats: type, counts: type, data: list[Row], copies: int) -> None:
    data = data * copies
    score, level, label, _, _ = columns(data)
    keys, tags, smallest = sorted_rows(data, floats)
    expected = naive.tally(score, level, label)
    most = max(entry[3] for entry in expected)

    def check(group: Callable[..., int]) -> None:
        unsigned = np.uint32 if floats is np.float32 else np.uint64
        room = [np.empty(len(data), kind) for kind in (unsigned, np.uint16, counts, counts)]
        size = group(smallest, *room)
        if most > np.iinfo(counts).max:
            assert size == -1
            return
        found = [room[0].view(floats), room[1], np.zeros(len(data), int), *room[2:]]
        lines = zip(*(array[:size].tolist() for array in found), strict=True)
        assert list(lines) == expected

    apart = np.array(keys, np.uint64), np.array(tags, np.uint32), np.uint64(0)
    check(partial(kernels.group_words, *apart))
    if keys[-1] < 2**61:
        words = [key * 8 + tag for key, tag in zip(keys, tags, strict=True)]
        together = np.array(words, np.uint64), np.empty(0, np.uint32), np.uint64(3)
        check(partial(kernels.group_words, *together))


@given(rows, st.booleans())
@float_types
def test_weighted_rows_are_grouped(floats: type, data: list[Row], with_part: bool) -> None:
    score, level, label, weight, part = columns(data)
    used = part if with_part else [0] * len(part)
    assume(any(weight))
    gain = [3 * i % 7 - 3 for i in range(len(score))]
    found = count_rows(
        np.array(score, floats),
        np.array(level, np.uint16),
        np.array(label, np.uint8),
        LEVELS,
        weight=np.array(weight, np.float64),
        part=np.array(part, np.uint8) if with_part else None,
        gain=np.array(gain),
    )
    expected = naive.tally(score, level, label, weight, part if with_part else None)
    counted = found.score, found.level, found.count, found.positive
    for array, kept in zip(counted, arrays(expected)[:4], strict=True):
        assert array.tolist() == kept.tolist()
    assert found.part.tolist() == ([entry[2] for entry in expected] if with_part else [])
    assert found.gain.tolist() == gains.group_gains(score, level, weight, used, gain)


@given(rows, st.sampled_from([-1, 0, 1]), st.booleans(), st.booleans())
@count_types
@float_types
def test_prefixes_end_in_scores_with_a_positive(
    floats: type, counts: type, data: list[Row], excluded: int, together: bool, every: bool
) -> None:
    entries = dealt(data)
    score, level, count, positive, part = arrays(entries, floats, counts)
    sizes = [total[0] for total in naive.level_totals(entries, LEVELS)]
    if every:
        sizes = np.bincount(level, minlength=LEVELS).tolist()
    offsets = np.array([0, *np.cumsum(sizes)])
    if together:
        offsets = offsets[[0, -1]]
    gain = np.arange(score.size) % 7 - 3
    selected, hits, entry, worth, ends = kernels.prefix_points(
        score, level, count, positive, part, gain, excluded, offsets
    )
    found = [
        [(int(selected[i]), int(hits[i]), float(score[entry[i]])) for i in range(start, end)]
        for start, end in zip(offsets, ends, strict=False)
    ]
    expected = naive.prefix_points(entries, LEVELS, excluded, together=together, every=every)
    assert found == expected
    cuts = [[cut for _, _, cut in points] for points in found]
    own = [(*entry[:3], value) for entry, value in zip(entries, gain.tolist(), strict=True)]
    worths = [worth[a:b].tolist() for a, b in zip(offsets, ends, strict=False)]
    assert worths == gains.prefix_gains(own, cuts, excluded, together=together)
    without = kernels.prefix_points(
        score, level, count, positive, part, gain[:0], excluded, offsets
    )
    assert without[3].size == 0
    assert without[4].tolist() == ends.tolist()


thresholds = st.lists(score | st.just(math.nan), min_size=LEVELS, max_size=LEVELS)


@given(rows, thresholds, st.sampled_from([-1, 0, 1]))
@float_types
def test_selected_rows_are_counted(
    floats: type, data: list[Row], cuts: list[float], wanted: int
) -> None:
    entries = dealt(data)
    score, level, count, positive, part = arrays(entries, floats)
    tally = Tally(score, level, count, positive, LEVELS, part=part)
    found = tally.selected(np.array(cuts), part=wanted)
    assert found == naive.count_selected(entries, cuts, wanted)


@given(rows, st.data(), st.integers(1, 5))
@float_types
def test_margins_fall_into_bins(
    floats: type, data: list[Row], more: st.DataObject, reach: int
) -> None:
    entries = dealt(data)
    score, level, count, positive, part = arrays(entries, floats)
    number = st.floats(-4, 4, width=16) | st.sampled_from([-math.inf, math.nan])
    tables = [
        more.draw(st.lists(st.lists(own, min_size=LEVELS, max_size=LEVELS), min_size=3, max_size=3))
        for own in (number, number, st.sampled_from([0.0, 0.5, 1.0, 3.0]))
    ]
    regressor = np.clip(score.astype(np.float64), -5.0, 5.0)
    bins, held = kernels.margin_bins(
        score, regressor, level, part, count, positive, np.array(tables), reach
    )
    wanted, counts = naive.margin_bins(entries, regressor.tolist(), *tables, reach)
    assert bins.tolist() == wanted
    places = range(-reach - 1, reach)
    assert held.tolist() == [[[own[k] for k in places] for own in one] for one in counts]


@given(rows, st.integers(1, 9))
@count_types
@float_types
def test_quantiles_of_a_tally(floats: type, counts: type, data: list[Row], bins: int) -> None:
    entries = undealt(data)
    score, _, count, _, _ = arrays(entries, floats, counts)
    below = quantile_ranks(len(data), bins).tolist()
    found = falling_quantiles(score, count, bins)
    assert found.tolist() == naive.quantile_places(entries, below)
    rising = quantile_places(count[::-1].copy(), bins)
    assert score[::-1][rising].astype(float).tolist() == found.tolist()


@given(rows, st.integers(1, 5), st.sampled_from([1, 3, 2**40 + 1]))
@float_types
def test_grids_have_quantile_edges_and_exact_counts(
    floats: type, data: list[Row], bins: int, scale: int
) -> None:
    entries = undealt(data)
    score, level, count, positive, _ = arrays(entries, floats)
    sums = kernels.level_totals(level, count, positive, LEVELS)
    assert sums.tolist() == naive.level_totals(entries, LEVELS)
    totals = sums[:, 1].copy()
    # Multiplying every count alike moves no edge: rank j s N / bins, rounded down, is in the copies
    # of rank j N / bins.
    edges = level_edges(score, level, count * scale, totals * scale, bins)
    expected = np.array(naive.grid_edges(entries, LEVELS, bins)).reshape(edges.shape)
    assert np.array_equal(edges, expected, equal_nan=True)

    filled = kernels.fill_grid(score, level, count * scale, positive * scale, edges)
    cells = naive.fill_grid(entries, edges.tolist())
    for array, exact in zip(filled[:2], cells[:2], strict=True):
        assert array.tolist() == [[value * scale for value in line] for line in exact]
    if np.isfinite(score).all():
        wanted = np.array(cells[2], np.float64) * scale
        assert np.allclose(filled[2], wanted, rtol=1e-13, atol=1e-12 * scale)


@pytest.mark.parametrize("rows", [255, 256])
def test_counts_of_one_byte_hold_255_rows(rows: int) -> None:
    words, tags = np.zeros(rows, np.uint64), np.ones(rows, np.uint32)
    bits, level = np.empty(rows, np.uint64), np.empty(rows, np.uint16)
    count, positive = np.empty(rows, np.uint8), np.empty(rows, np.uint8)
    packed, none = words * np.uint64(2) + np.uint64(1), tags[:0]
    fits, room = rows == 255, (np.uint64(0), bits, level, count, positive)
    for sorted_ in ((words, tags, np.uint64(0)), (packed, none, np.uint64(1))):
        count[0] = positive[0] = 0
        assert kernels.group_words(*sorted_, *room) == (1 if fits else -1)
        assert not fits or (count[0], positive[0]) == (255, 255)
