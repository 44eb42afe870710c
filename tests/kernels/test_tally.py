"""Tallies against dictionaries: ties, empty levels, infinities, both float types."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from calibkit.numerics import sums
from calibkit.summaries.edges import (
    falling_quantiles,
    level_edges,
    quantile_places,
    quantile_ranks,
)
from calibkit.summaries.tally import Tally, count_rows
from calibkit_kernels import tally as kernels
from tests.conftest import INTERPRETED
from tests.naive import boundaries as naive
from tests.naive import gains
from tests.naive.boundaries import Entry

LEVELS = 4
near = st.integers(-3, 3).map(float) | st.sampled_from([math.inf, -math.inf, 0.1, -0.1])
score = st.one_of(
    near,
    st.sampled_from([1e-300, 1e300, -1e-300, 5e-324]),
    st.floats(allow_nan=False).map(lambda value: value + 0.0),
)
count_types = pytest.mark.parametrize("counts", [np.uint8, np.int32, np.int64])
float_types = pytest.mark.parametrize("floats", [np.float32, np.float64], ids=["f32", "f64"])


def rows_of(score: st.SearchStrategy[float]) -> st.SearchStrategy[Any]:
    """Return rows: score, level, label, weight, part."""
    level, label = st.integers(0, LEVELS - 1), st.integers(0, 1)
    row = st.tuples(score, level, label, st.integers(0, 4), st.integers(0, 2))
    return st.lists(row, min_size=1, max_size=14)


rows = rows_of(near) | rows_of(score)
Row = tuple[float, int, int, int, int]


def columns(data: list[Row], floats: type = np.float64) -> dict[str, Any]:
    """Return the columns of rows as `count_rows` takes them."""
    score, level, label, weight, part = zip(*data, strict=True)
    with np.errstate(over="ignore", under="ignore"):
        return {
            "score": np.array(score).astype(floats) + floats(0),
            "level": np.array(level, np.uint16),
            "label": np.array(label, np.uint8),
            "weight": np.array(weight, np.float64),
            "part": np.array(part, np.uint8),
        }


def counted(data: list[Row], floats: type = np.float64, *more: str, **options: Any) -> Tally:
    """Return the tally of rows; with more columns than score, level and label where they are named."""
    given_ = columns(data, floats)
    names = ("score", "level", "label", *more)
    return count_rows(**{name: given_[name] for name in names}, levels=LEVELS, **options)


def entries(found: Tally) -> list[Entry]:
    part = found.part if found.part.size else np.zeros(found.score.size, np.uint8)
    arrays = (found.score, found.level, part, found.count, found.positive)
    return list(zip(*(array.tolist() for array in arrays), strict=True))


def expected(data: list[Row], floats: type, *more: str) -> list[Entry]:
    given_ = {name: own.tolist() for name, own in columns(data, floats).items()}
    weight = list(map(int, given_["weight"])) if "weight" in more else None
    part = given_["part"] if "part" in more else None
    return naive.tally(given_["score"], given_["level"], given_["label"], weight, part)


# Counting ------------------------------------------------------------------------------------


@pytest.mark.parametrize("more", [(), ("part",), ("weight",), ("weight", "part")])
@float_types
@given(data=rows, size=st.integers(1, 9), gaining=st.booleans())
def test_rows_are_counted(
    floats: type, more: tuple[str, ...], data: list[Row], size: int, gaining: bool
) -> None:
    """Block by block, on threads."""
    if "weight" in more:
        data = [(*data[0][:3], 1, data[0][4]), *data[1:]]
    gain = np.arange(len(data)) * 3 % 7 - 3
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sums, "BLOCK", size)
        found = counted(data, floats, *more, gain=gain if gaining else None, threads=2)
    assert found.score.dtype == floats
    assert entries(found) == expected(data, floats, *more)
    assert found.level_totals.tolist() == naive.level_totals(entries(found), LEVELS)
    if "part" in more:
        assert found.part_totals(3).tolist() == naive.part_totals(entries(found), 3)
    if gaining:
        given_ = {name: own.tolist() for name, own in columns(data, floats).items()}
        weight = given_["weight"] if "weight" in more else [1] * len(data)
        part = given_["part"] if "part" in more else [0] * len(data)
        worths = gains.group_gains(given_["score"], given_["level"], weight, part, gain.tolist())
        assert found.gain.tolist() == worths


@pytest.mark.skipif(INTERPRETED, reason="threads start at 131,072 rows")
@pytest.mark.parametrize("floats", [np.float32, np.float64])
@pytest.mark.parametrize("wide", [False, True])
def test_threads_change_nothing(floats: type, wide: bool) -> None:
    rng = np.random.default_rng(3)
    size = 200_000
    score = rng.normal(0, 1, size) * (10.0 ** rng.integers(-30, 30, size) if wide else 1)
    plain = {
        "score": np.round(score, 3).astype(floats) + floats(0),
        "level": rng.integers(0, LEVELS, size).astype(np.uint16),
        "label": rng.integers(0, 2, size).astype(np.uint8),
    }
    weighted = {**plain, "weight": rng.integers(0, 3, size).astype(float)}
    dealt = {**weighted, "part": rng.integers(0, 5, size).astype(np.uint8)}
    for given_ in (plain, weighted, dealt):
        first = count_rows(**given_, levels=LEVELS)
        for threads in (2, 3):
            other = count_rows(**given_, levels=LEVELS, threads=threads)
            for name in ("score", "level", "count", "positive", "part"):
                assert np.array_equal(getattr(first, name), getattr(other, name)), name
    assert int(first.count.sum()) == int(weighted["weight"].sum())


@pytest.mark.parametrize("copies", [255, 256, 70_000])
def test_more_than_a_byte_of_equal_rows(copies: int) -> None:
    found = counted([(0.5, 0, 1, 1, 0)] * copies)
    assert entries(found) == [(0.5, 0, 0, copies, copies)]
    assert found.deal(5, 1).part_totals(5).sum(axis=0).tolist() == [copies, copies]


@pytest.mark.parametrize("levels", [2, 256, 65_535])
def test_scores_from_end_to_end_leave_no_room_for_the_level(levels: int) -> None:
    # All 64 bits of the key differ: keys and tags are sorted in two arrays.
    score = np.array([np.inf, -np.inf, 0.5, 0.5, np.inf, 0.5])
    level = np.array([levels - 1, 0, levels - 1, 0, 0, levels - 1], np.uint16)
    label = np.array([1, 0, 1, 0, 1, 1], np.uint8)
    found = count_rows(score, level, label, levels)
    assert entries(found) == naive.tally(score.tolist(), level.tolist(), label.tolist())


@given(rows_of(near), st.integers(1, 3), st.sampled_from([1, 90]))
def test_entries_of_coarser_levels_are_those_counted_over_them(
    data: list[Row], width: int, copies: int
) -> None:
    data = data * copies
    places = (np.arange(LEVELS) // width).astype(np.uint16)
    coarse = [(score, int(places[level]), *rest) for score, level, *rest in data]
    gain, weight = np.arange(len(data)) % 5 - 2, np.arange(1.0, len(data) + 1)
    for more in ({}, {"gain": gain}, {"weight": weight, "sampled": True}):
        found = counted(data, **more).coarser(places, LEVELS).merged()
        wanted = counted(coarse, **more)
        assert entries(found) == entries(wanted)
        for name in ("gain", "worth", "squares"):
            assert getattr(found, name).tolist() == getattr(wanted, name).tolist()


@given(rows)
def test_positive_rows_are_parted_from_the_negative_ones_below_them(data: list[Row]) -> None:
    found = counted(data).parted()
    wanted: dict[tuple[float, int, int], int] = {}  # by falling score, positive rows first
    for score, level, label, *_ in data:
        key = (-score, -label, level)
        wanted[key] = wanted.get(key, 0) + 1
    ordered = sorted(wanted.items())
    assert (np.diff(found.score) <= 0).all()
    assert found.level.tolist() == [level for (_, _, level), _ in ordered]
    assert found.count.tolist() == [times for _, times in ordered]
    hits = [-sign * times for (_, sign, _), times in ordered]
    assert found.positive.tolist() == hits
    steps = [one[0][:2] != two[0][:2] for one, two in itertools.pairwise(ordered)]
    assert (np.diff(found.score) < 0).tolist() == steps


@given(rows, st.integers(2, 5), st.integers(1, 6), st.integers(0, 2**64 - 1))
def test_dealing_keeps_every_row(data: list[Row], parts: int, kept: int, seed: int) -> None:
    whole = counted(data)
    dealt = whole.deal(parts, seed)
    together: dict[tuple[float, int], np.ndarray] = {}
    for score, level, _, count, positive in entries(dealt):
        assert count > 0
        together.setdefault((score, level), np.zeros(2, int))[:] += (count, positive)
    assert [(*key, 0, *counts) for key, counts in together.items()] == entries(whole)
    sizes = dealt.part_totals(parts)[:, 0]
    assert sizes.sum() == len(data) and sizes.max() - sizes.min() <= 1
    assert np.array_equal(dealt.level_totals[:, 1:], whole.level_totals[:, 1:])
    first = [entry for entry in entries(dealt) if entry[2] == 0]
    assert entries(whole.sample(parts, seed)) == first
    some = [entry for entry in entries(dealt) if entry[2] < kept]
    assert entries(whole.deal(parts, seed, kept=kept)) == some


# Using what was counted ----------------------------------------------------------------------


@given(st.lists(score, max_size=10), st.lists(score, min_size=1, max_size=24), st.booleans())
@float_types
def test_levels_count_the_edges_at_or_below(
    floats: type, values: list[float], fit: list[float], few: bool
) -> None:
    fit = sorted(fit[:5] if few else [*fit, *fit])  # more than 16 edges are searched by halving
    minimum, edges = fit[0], fit[1:]
    with np.errstate(over="ignore", under="ignore"):
        array = np.array(values, floats)
    out = np.empty(array.size, np.uint16)
    kernels.assign_levels(array, minimum, np.array(edges, np.float64), out)
    assert out.tolist() == naive.assign_levels(array.astype(np.float64).tolist(), minimum, edges)


def dealt(data: list[Row], floats: type, counts: type = np.int64) -> Tally:
    """Return the tally of rows by their parts, without weights; counts of a type."""
    found = counted(data, floats, "part")
    given_ = found.count.astype(counts), found.positive.astype(counts)
    return Tally(found.score, found.level, *given_, LEVELS, part=found.part)


@given(rows, st.sampled_from([-1, 0, 1]), st.booleans(), st.booleans())
@count_types
@float_types
def test_prefixes_end_in_scores_with_a_positive(
    floats: type, counts: type, data: list[Row], excluded: int, together: bool, every: bool
) -> None:
    whole = dealt(data, floats, counts)
    choice: dict[str, Any] = {"excluded": excluded, "together": together, "every": every}
    without = whole.points(**choice)
    assert without.gain.size == 0
    gain = np.arange(whole.score.size) % 7 - 3
    points = replace(whole, gain=gain).points(**choice)
    assert points.ends.tolist() == without.ends.tolist()
    spans = [range(a, b) for a, b in zip(points.offsets, points.ends, strict=False)]
    columns = points.selected, points.true_positives, points.entry
    found = [
        [(m, t, float(whole.score[e])) for m, t, e in zip(*(c[own] for c in columns), strict=True)]
        for own in spans
    ]
    assert found == naive.prefix_points(entries(whole), LEVELS, **choice)
    cuts = [[cut for _, _, cut in own] for own in found]
    worths = [
        (*entry[:3], value) for entry, value in zip(entries(whole), gain.tolist(), strict=True)
    ]
    expected = gains.prefix_gains(worths, cuts, excluded, together=together)
    assert [points.gain[own].tolist() for own in spans] == expected
    last = [own[-1] for own in found if own]
    totals = points.totals(np.array([own[-1] if own else -1 for own in spans]))
    assert totals == (sum(m for m, _, _ in last), sum(t for _, t, _ in last))


thresholds = st.lists(score | st.just(math.nan), min_size=LEVELS, max_size=LEVELS)


@given(rows, thresholds, st.sampled_from([-1, 0, 1]))
@float_types
def test_selected_rows_are_counted(
    floats: type, data: list[Row], cuts: list[float], wanted: int
) -> None:
    whole = dealt(data, floats)
    found = whole.selected(np.array(cuts), part=wanted)
    assert found == naive.count_selected(entries(whole), cuts, wanted)


@given(rows, st.data(), st.integers(1, 5))
@float_types
def test_margins_fall_into_bins(
    floats: type, data: list[Row], more: st.DataObject, reach: int
) -> None:
    whole = dealt(data, floats)
    number = st.floats(-4, 4, width=16) | st.sampled_from([-math.inf, math.nan])
    tables = [
        more.draw(st.lists(st.lists(own, min_size=LEVELS, max_size=LEVELS), min_size=3, max_size=3))
        for own in (number, number, st.sampled_from([0.0, 0.5, 1.0, 3.0]))
    ]
    regressor = np.clip(whole.score.astype(np.float64), -5.0, 5.0)
    counts = whole.level, whole.part, whole.count, whole.positive
    bins, held = kernels.margin_bins(whole.score, regressor, *counts, np.array(tables), reach)
    wanted, sums = naive.margin_bins(entries(whole), regressor.tolist(), *tables, reach)
    assert bins.tolist() == wanted
    places = range(-reach - 1, reach)
    assert held.tolist() == [[[own[k] for k in places] for own in one] for one in sums]


@given(rows, st.integers(1, 9))
@count_types
@float_types
def test_quantiles_of_a_tally(floats: type, counts: type, data: list[Row], bins: int) -> None:
    whole = counted(data, floats)
    score, count = whole.score, whole.count.astype(counts)
    below = quantile_ranks(len(data), bins).tolist()
    found = falling_quantiles(score, count, bins)
    assert found.tolist() == naive.quantile_places(entries(whole), below)
    rising = quantile_places(count[::-1].copy(), bins)
    assert score[::-1][rising].astype(float).tolist() == found.tolist()


@given(rows_of(near), st.integers(1, 5), st.sampled_from([1, 3, 2**40 + 1]))
@float_types
def test_grids_have_quantile_edges_and_exact_counts(
    floats: type, data: list[Row], bins: int, scale: int
) -> None:
    whole = counted(data, floats)
    score, level = whole.score, whole.level
    count, positive = whole.count.astype(np.int64), whole.positive.astype(np.int64)
    totals = whole.level_totals[:, 1].copy()
    # Multiplying every count alike moves no edge: rank j s N / bins, rounded down, is in the copies
    # of rank j N / bins.
    edges = level_edges(score, level, count * scale, totals * scale, bins)
    expected = np.array(naive.grid_edges(entries(whole), LEVELS, bins)).reshape(edges.shape)
    assert np.array_equal(edges, expected, equal_nan=True)

    filled = kernels.fill_grid(score, level, count * scale, positive * scale, edges)
    cells = naive.fill_grid(entries(whole), edges.tolist())
    for array, exact in zip(filled[:2], cells[:2], strict=True):
        assert array.tolist() == [[value * scale for value in line] for line in exact]
    if np.isfinite(score).all():
        wanted = np.array(cells[2], np.float64) * scale
        assert np.allclose(filled[2], wanted, rtol=1e-13, atol=1e-12 * scale)
