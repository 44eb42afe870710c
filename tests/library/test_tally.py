"""The tally of rows: what is counted, and what does not matter to it."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibkit.numerics import sums
from calibkit.summaries.edges import falling_quantiles
from calibkit.summaries.tally import Tally, count_rows
from tests.conftest import INTERPRETED
from tests.library.samples import WEIGHTS
from tests.naive import boundaries as naive
from tests.naive.boundaries import Entry

LEVELS = 4
score = st.one_of(
    st.integers(-3, 3).map(float),
    st.sampled_from([np.inf, -np.inf, 1e-300, 1e300, -1e-300, 5e-324]),
    st.floats(allow_nan=False).map(lambda value: value + 0.0),
)
row = st.tuples(score, st.integers(0, LEVELS - 1), st.integers(0, 1), WEIGHTS["whole"])
rows = st.lists(row, min_size=1, max_size=14)
float_types = pytest.mark.parametrize("floats", [np.float32, np.float64])


def columns(data: list[tuple], floats: type) -> dict[str, np.ndarray]:
    score, level, label, weight = zip(*data, strict=True)
    with np.errstate(over="ignore", under="ignore"):
        return {
            "score": np.array(score).astype(floats) + floats(0),
            "level": np.array(level, np.uint16),
            "label": np.array(label, np.uint8),
            "weight": np.array(weight, np.float64),
        }


def tally(data: dict[str, np.ndarray], *, weighted: bool = False, **options: Any) -> Tally:
    if weighted:
        options["weight"] = data["weight"]
    return count_rows(data["score"], data["level"], data["label"], LEVELS, **options)


def entries(found: Tally) -> list[Entry]:
    part = found.part if found.part.size else np.zeros(found.score.size, np.uint8)
    arrays = (found.score, found.level, part, found.count, found.positive)
    return list(zip(*(array.tolist() for array in arrays), strict=True))


def expected(data: dict[str, np.ndarray], part: np.ndarray | None = None, **given: Any) -> Any:
    weight = data["weight"].astype(int).tolist() if given.get("weighted") else None
    names = [data[name].tolist() for name in ("score", "level", "label")]
    return naive.tally(*names, weight, None if part is None else part.tolist())


@float_types
@given(data=rows, split=st.booleans(), seed=st.integers(0, 99))
def test_weighted_and_split_rows_are_counted(
    floats: type, data: list[tuple], split: bool, seed: int
) -> None:
    given_ = columns(data, floats)
    if not given_["weight"].any():
        given_["weight"][0] = 1
    part = None
    if split:
        part = np.random.default_rng(seed).integers(0, 3, len(data)).astype(np.uint8)
    found = tally(given_, weighted=True, part=part)
    assert entries(found) == expected(given_, part, weighted=True)
    if split:
        plain = tally(given_, part=part)
        assert entries(plain) == expected(given_, part)
        assert plain.part_totals(3).tolist() == naive.part_totals(entries(plain), 3)


@float_types
@given(data=rows, size=st.integers(1, 9))
def test_rows_are_counted_block_by_block(floats: type, data: list[tuple], size: int) -> None:
    given_ = columns(data, floats)
    part = (np.arange(len(data)) % 3).astype(np.uint8)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sums, "BLOCK", size)
        found = tally(given_, threads=2)
        assert found.score.dtype == floats
        assert entries(found) == expected(given_)
        assert found.level_totals.tolist() == naive.level_totals(entries(found), LEVELS)
        assert entries(tally(given_, part=part, threads=2)) == expected(given_, part)


@given(rows, st.integers(2, 5), st.integers(1, 6), st.integers(0, 2**64 - 1))
def test_dealing_keeps_every_row(data: list[tuple], parts: int, kept: int, seed: int) -> None:
    whole = tally(columns(data, np.float64))
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


@given(rows, st.integers(1, 3), st.sampled_from([1, 90]))
def test_entries_of_coarser_levels_are_those_counted_over_them(
    data: list[tuple], width: int, copies: int
) -> None:
    fine = columns(data * copies, np.float64)
    del fine["weight"]
    places = (np.arange(LEVELS) // width).astype(np.uint16)
    coarse, levels = fine | {"level": places[fine["level"]]}, int(places[-1]) + 1
    gain = np.arange(len(data) * copies) % 5 - 2
    weight = np.arange(1.0, gain.size + 1)
    for more in ({}, {"gain": gain}, {"weight": weight, "sampled": True}):
        found = count_rows(**fine, levels=LEVELS, **more).coarser(places, levels).merged()
        wanted = count_rows(**coarse, levels=levels, **more)
        assert entries(found) == entries(wanted)
        for name in ("gain", "worth", "squares"):
            assert getattr(found, name).tolist() == getattr(wanted, name).tolist()


@given(rows, st.integers(1, 6))
def test_quantiles_of_all_levels_together(data: list[tuple], bins: int) -> None:
    counted = tally(columns(data, np.float64))
    found = falling_quantiles(counted.score, counted.count, bins)
    ordered = sorted(row[0] for row in data)
    assert found.tolist() == [ordered[j * len(data) // bins] for j in range(bins)]


@given(rows, st.booleans(), st.sampled_from([-1, 0]))
def test_points_and_their_totals(data: list[tuple], together: bool, excluded: int) -> None:
    whole = tally(columns(data, np.float64)).deal(2, 0)
    points = whole.points(excluded=excluded, together=together)
    wanted = naive.prefix_points(entries(whole), LEVELS, excluded, together=together)
    assert points.levels == len(wanted)
    choice = np.array(
        [
            end - 1 if end > start else -1
            for start, end in zip(points.offsets, points.ends, strict=False)
        ]
    )
    last = [level[-1] for level in wanted if level]
    assert points.totals(choice) == (sum(m for m, _, _ in last), sum(t for _, t, _ in last))
    thresholds = np.array([level[-1][2] if level else np.nan for level in wanted])
    if excluded < 0:
        spread = np.broadcast_to(thresholds, LEVELS).copy()
        assert whole.selected(spread) == points.totals(choice)


@pytest.mark.skipif(INTERPRETED, reason="threads start at 131,072 rows")
@pytest.mark.parametrize("floats", [np.float32, np.float64])
@pytest.mark.parametrize("wide", [False, True])
def test_threads_change_nothing(floats: type, wide: bool) -> None:
    rng = np.random.default_rng(3)
    size = 200_000
    score = rng.normal(0, 1, size) * (10.0 ** rng.integers(-30, 30, size) if wide else 1)
    given_ = {
        "score": np.round(score, 3).astype(floats) + floats(0),
        "level": rng.integers(0, LEVELS, size).astype(np.uint16),
        "label": rng.integers(0, 2, size).astype(np.uint8),
        "weight": rng.integers(0, 3, size).astype(float),
    }
    part = rng.integers(0, 5, size).astype(np.uint8)
    for options in ({}, {"weighted": True}, {"weighted": True, "part": part}):
        first = tally(given_, **options)
        for threads in (2, 3):
            other = tally(given_, threads=threads, **options)
            for name in ("score", "level", "count", "positive", "part"):
                assert np.array_equal(getattr(first, name), getattr(other, name)), name
    assert int(first.count.sum()) == int(given_["weight"].sum())


def test_more_than_a_byte_of_equal_rows() -> None:
    for copies in (255, 256, 70_000):
        found = count_rows(
            np.full(copies, 0.5),
            np.zeros(copies, np.uint16),
            np.ones(copies, np.uint8),
            1,
        )
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


@given(rows)
def test_positive_rows_are_parted_from_the_negative_ones_below_them(data: list[tuple]) -> None:
    found = tally(columns(data, np.float64)).parted()
    wanted: dict[tuple[float, int, int], int] = {}  # by falling score, positive rows first
    for score, level, label, _ in data:
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
