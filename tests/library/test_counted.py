"""Counted rows: a function of the set of rows, whatever the order, the parts and the grouping."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import example, given, reject
from hypothesis import strategies as st

from calibkit.columns.weights import Unit
from calibkit.errors import ResourceError
from calibkit.runtime.memory import Memory
from calibkit.summaries.counted import (
    COUNT,
    FEW_CELLS,
    MOST_CELLS,
    SCORE,
    SPREAD,
    Counted,
    Counter,
    NoRoomError,
    Role,
    Room,
    Scale,
    UnitError,
    finest_scale,
    keys_of,
    least_of,
    spread_bits,
)
from calibkit.summaries.passes import merge_all

#: Rows that are cut, and rows that are counted in a table.
CUT = (Role("score", SCORE, True), Role("spread", SPREAD), Role("label"), Role("by"))
DENSE = (Role("score", SCORE, True), Role("uncertainty"), Role("label"), Role("weight"))
TYPES = {
    "score": pl.Float64,
    "spread": pl.Float64,
    "uncertainty": pl.UInt16,
    "label": pl.UInt8,
    "weight": pl.Float64,
    "by": pl.String,
}
score = st.floats(0.0, 1.0) | st.sampled_from([0.25, 0.5, 0.75, 1.0, 2**-30, 1 - 2**-30])
label = st.integers(0, 1)
cut_row = st.tuples(
    score, st.floats(-9.0, 9.0) | st.sampled_from([1.0, 2.0]), label, st.sampled_from("abc")
)
dense_row = st.tuples(score, st.integers(0, 2), label, st.integers(0, 8).map(lambda n: n / 4))
samples = st.one_of(
    st.tuples(st.just(CUT), st.lists(cut_row, min_size=1, max_size=60)),
    st.tuples(st.just(DENSE), st.lists(dense_row, min_size=1, max_size=60)),
)
Sample = tuple[tuple[Role, ...], list[tuple[Any, ...]]]


def frame_of(roles: tuple[Role, ...], data: list[tuple[Any, ...]]) -> pl.DataFrame:
    names = [role.name for role in roles]
    frame = pl.DataFrame(data, schema={name: TYPES[name] for name in names}, orient="row")
    return frame.with_columns(pl.col(pl.Float64) + 0.0)


def counted(frames: list[pl.DataFrame], roles: tuple[Role, ...], most: int, **more: Any) -> Counted:
    counter = Counter(roles, Room(most, 3 * 2**12), 3, **more)
    for frame in frames:
        counter.add(frame)
    return counter.finish()


def cut(values: pl.Series, bits: int, *, probability: bool) -> list[float]:
    """Return values rounded down to so many bits after the exponent of their keys."""
    size = 2 ** (52 - bits)
    keys = [
        key // size * size for key in keys_of(values.to_numpy(), probability=probability).tolist()
    ]
    return least_of(np.array(keys, np.uint64), np.float64, probability=probability).tolist()


def naive(roles: tuple[Role, ...], frame: pl.DataFrame, bits: int | None) -> dict[Any, Any]:
    """Return how often each row occurs with some bits, and in a table what it weighs."""
    columns = {name: frame[name].to_list() for name in frame.columns}
    weights = [0.0] * frame.height
    if bits is not None and roles == CUT:
        columns["score"] = cut(frame["score"], bits, probability=True)
        columns["spread"] = cut(frame["spread"], spread_bits(bits), probability=False)
    elif bits is not None:
        fine, rough = (cut(frame["score"], own, probability=True) for own in (bits, 0))
        middle = [2**-25 <= own < 1 - 2**-25 for own in columns["score"]]
        columns["score"] = [a if m else b for a, b, m in zip(fine, rough, middle, strict=True)]
        weights = columns.pop("weight")
    found: dict[Any, Any] = {}
    for row, weight in zip(zip(*columns.values(), strict=True), weights, strict=True):
        times, total = found.get(row, (0, 0.0))
        found[row] = (times + 1, total + weight)
    return found


@given(samples, st.integers(24, 60), st.randoms(use_true_random=False))
@example((DENSE, [(place / 32, place % 3, 1, 0.25) for place in range(32)]), 24, np.random)
def test_the_whole_and_its_parts_are_counted_alike(sample: Sample, most: int, random: Any) -> None:
    roles, data = sample
    frame = frame_of(roles, data)
    try:
        whole = counted([frame], roles, most)
    except ResourceError:  # powers of two stay apart with no bits too
        reject()
    places = np.array([int(random.random() * 3) for _ in data])
    order = np.random.default_rng(most).permutation(len(data))
    parts = [frame[order][np.flatnonzero(places[order] == own)] for own in range(3)]
    parts = [part for part in parts if part.height]
    alone = [counted([part[:2], part[2:]], roles, most) for part in parts]
    merged = merge_all([merge_all(alone[:2]), *alone[2:]])
    travelled = merge_all(map(pickle.loads, map(pickle.dumps, alone[::-1])))
    for found in (counted(parts, roles, most), merged, travelled):
        assert found.bits == whole.bits
        assert found.frame.equals(whole.frame)
        assert sum(frame.height for frame in found.frames) <= max(most, found.frame.height)
    names = [role.name for role in roles]
    if whole.exact:
        assert merged.written().sort(names).equals(frame.sort(names))
    names = [name for name in names if name != "weight"]
    assert whole.frame.equals(whole.frame.sort(names))
    assert whole.rows == len(data)
    expected = naive(roles, frame, whole.bits)
    names += ["weight"] if roles == DENSE and whole.exact else []
    rows = list(whole.frame.select(names).iter_rows())
    assert dict(zip(rows, whole.frame[COUNT], strict=True)) == {
        row: times for row, (times, _) in expected.items()
    }
    if roles == DENSE and not whole.exact:
        assert dict(zip(rows, whole.weights, strict=True)) == {
            row: weight for row, (_, weight) in expected.items()
        }
    assert whole.exact == (len(naive(roles, frame, None)) <= most)
    if roles == CUT and whole.bits is not None and whole.bits < 20:  # more would have no room
        assert len(expected) <= most < len(naive(roles, frame, whole.bits + 1))


values = st.floats(allow_nan=False, allow_infinity=True).map(lambda value: value + 0.0)


@given(
    st.lists(values, min_size=1), st.booleans(), st.integers(0, 18), st.sampled_from(["f4", "f8"])
)
def test_cells_rise_with_their_values(
    sample: list[float], probability: bool, bits: int, kind: str
) -> None:
    with np.errstate(over="ignore"):
        data = np.sort(np.array(sample).astype(kind)) + np.array(0, kind)  # no -0.0
    if probability:
        data = np.sort(1 / (1 + np.abs(data)))
    scale = Scale(probability, bits)
    assert scale.starts.size == scale.drops.size + 1
    counter = Counter((Role("score", SCORE, probability),), Room(1, scale.size))
    counter.coarsen(bits)
    counter.add(pl.DataFrame({"score": data}))
    frame = counter.finish().frame
    least, times = frame["score"].to_numpy(), frame[COUNT].to_numpy()
    assert least.dtype == data.dtype
    assert (least[1:] > least[:-1]).all() and times.sum() == data.size
    found = np.repeat(least, times)
    assert (found <= data).all()  # and no value reaches the next cell
    ends = np.repeat(np.append(least[1:], np.inf), times)
    assert ((data < ends) | (data == np.inf)).all()
    usual = (np.abs(data) >= 2.0**-24) & (np.abs(data) < (1 - 2.0**-24 if probability else 2.0**32))
    apart = np.minimum(data, 1 - data) if probability else np.abs(data)
    moved = data[usual].astype(np.float64) - found[usual]
    assert (moved <= 2 * apart[usual] * 2.0**-bits).all()


def test_the_finest_scale_that_has_room() -> None:
    assert finest_scale(MOST_CELLS, 24, probability=True).bits == 14
    assert finest_scale(MOST_CELLS, 1, probability=True).bits == 18
    assert finest_scale(FEW_CELLS, 1, probability=True).bits == 14
    assert finest_scale(MOST_CELLS, 1, probability=False).size <= MOST_CELLS
    with pytest.raises(ResourceError, match="60,000 uncertainty levels are too many"):
        finest_scale(FEW_CELLS, 60_000, probability=True)
    assert Room.of(Memory(10**9)).cells == MOST_CELLS
    assert Room.of(Memory(10**8)).cells == FEW_CELLS


def test_rows_that_must_stay_as_they_are_have_room_or_not() -> None:
    frame = frame_of(CUT, [(place / 100, 1.0, 0, f"user {place}") for place in range(40)])
    assert counted([frame], CUT, 40, exactly=True).exact
    with pytest.raises(NoRoomError):
        counted([frame], CUT, 39, exactly=True)
    assert counted([pl.concat([frame, frame])], CUT, 40).exact
    with pytest.raises(ResourceError, match=r"by, which cannot be made coarser; raise --memory"):
        counted([frame], CUT, 20)


def test_rows_that_just_fit_with_some_bits_keep_them() -> None:
    scores = [0.5 + place / 64 for place in range(8)]
    frame = frame_of(CUT, [(own + more, 1.0, 0, "a") for own in scores for more in (0.0, 2.0**-20)])
    found = counted([frame], CUT, 8)
    assert found.frame["score"].to_list() == scores and found.frame[COUNT].to_list() == [2] * 8
    assert found.bits is not None and len(naive(CUT, frame, found.bits + 1)) == 16


@pytest.mark.parametrize(("weight", "size"), [(0.1, 2.0**-24), (2.0**43, 2.0**20)])
def test_weights_that_a_table_has_no_unit_for(weight: float, size: float) -> None:
    frame = frame_of(DENSE, [(place / 100, 1, 0, weight) for place in range(40)])
    with pytest.raises(UnitError):
        counted([frame], DENSE, 20)
    exact = counted([frame], DENSE, 40)
    with pytest.raises(UnitError):
        exact.merge(counted([frame[:10].with_columns(score=1.0)], DENSE, 10))
    found = counted([frame], DENSE, 20, unit=Unit(size, exact=False))
    assert found.weights.tolist() == pytest.approx([weight] * 40, rel=1e-6)


def test_parts_with_less_room_decide() -> None:
    rows = [(place / 64 + 2.0**-12, 1, 0, 1.0) for place in range(64)]
    frame = frame_of(DENSE, rows)
    wide = Counter(DENSE, Room(20, 3 * 2**16), 3)
    wide.add(frame)
    narrow = counted([frame], DENSE, 30)
    found = wide.finish().merge(narrow)
    assert (found.room, found.bits) == (Room(20, 3 * 2**12), narrow.bits)
    assert found.frame["score"].equals(narrow.frame["score"])
    assert found.frame[COUNT].equals(narrow.frame[COUNT] * 2)
