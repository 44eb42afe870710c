"""Condensed rows: a function of the set of rows, whatever the order, the parts and the grouping."""

from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from calibkit.errors import ResourceError
from calibkit.summaries.coarse import coarser
from calibkit.summaries.condense import COUNT, Condensed, Condenser, NoRoomError, merge
from calibkit.summaries.interleave import interleaved
from calibkit.summaries.ladder import LADDER, SCORE, SPREAD, Role

ROLES = (Role("score", SCORE, True), Role("spread", SPREAD), Role("label"), Role("by"))
#: Rows that are packed before anything else is tried: beside floats they have bytes alone.
FAST = ROLES[:3]

rows = st.lists(
    st.tuples(
        st.floats(0.0, 1.0) | st.sampled_from([0.25, 0.5, 0.75]),
        st.floats(-9.0, 9.0) | st.sampled_from([1.0, 2.0]),
        st.integers(0, 1),
        st.sampled_from(["a", "b", "c"]),
    ),
    min_size=1,
    max_size=60,
)
Rows = list[tuple[float, float, int, str]]


def frame_of(data: Rows) -> pl.DataFrame:
    schema = {"score": pl.Float64, "spread": pl.Float64, "label": pl.UInt8, "by": pl.String}
    frame = pl.DataFrame(data, schema=schema, orient="row")
    return frame.with_columns(pl.col("score", "spread") + 0.0)


def condensed(
    frames: list[pl.DataFrame], most: int, roles: tuple[Role, ...] = ROLES, **more: bool
) -> Condensed:
    condenser = Condenser(roles, most, **more)
    for frame in frames:
        condenser.add(frame)
    return condenser.finish()


def naive(frame: pl.DataFrame, rung: int) -> dict[tuple[object, ...], int]:
    """Return how often each row occurs at a step of the ladder."""
    counts: dict[tuple[object, ...], int] = {}
    bits = LADDER[rung]
    score = coarser(frame["score"].to_numpy(), bits[SCORE], probability=True).tolist()
    spread = coarser(frame["spread"].to_numpy(), bits[SPREAD], probability=False).tolist()
    fixed = [frame[name].to_list() for name in frame.columns[2:]]
    for one in zip(score, spread, *fixed, strict=True):
        counts[one] = counts.get(one, 0) + 1
    return counts


@pytest.mark.parametrize("roles", [ROLES, FAST])
@given(rows, st.integers(24, 60), st.randoms(use_true_random=False))
def test_the_whole_and_its_parts_condense_alike(
    roles: tuple[Role, ...], data: Rows, most: int, random: object
) -> None:
    frame = frame_of(data).select(role.name for role in roles)
    try:
        whole = condensed([frame], most, roles)
    except ResourceError:  # powers of two stay apart at every step
        reject()
    places = np.array([random.randrange(3) for _ in data])  # type: ignore[attr-defined]
    order = np.random.default_rng(most).permutation(len(data))
    parts = [frame[order][np.flatnonzero(places[order] == own)] for own in range(3)]
    parts = [part for part in parts if part.height]
    alone = [condensed([part[:2], part[2:]], most, roles) for part in parts]
    merged = merge([merge(alone[:2]), *alone[2:]]) if len(alone) > 2 else merge(alone[::-1])
    for found in (condensed(parts, most, roles), merged):
        assert found.rung == whole.rung
        assert found.frame.equals(whole.frame)
    assert whole.frame.height <= most
    assert whole.rows == len(data)
    found = {tuple(row[:-1]): row[-1] for row in whole.frame.iter_rows()}
    assert found == naive(frame, whole.rung)
    assert whole.exact == (len(naive(frame, 0)) <= most)
    if not whole.exact and whole.rung > 1:  # no finer step would have had room
        assert len(naive(frame, whole.rung - 1)) > most


def test_rows_that_must_stay_as_they_are_have_room_or_not() -> None:
    frame = frame_of([(place / 100, 1.0, 0, "a") for place in range(40)])
    assert condensed([frame], 40, exactly=True).exact
    with pytest.raises(NoRoomError):
        condensed([frame], 39, exactly=True)
    twice = [pl.concat([frame, frame])]
    for roles in (ROLES, FAST):
        assert condensed(twice, 40, roles).exact and not condensed(twice, 39, roles).exact


def test_too_many_values_of_a_column_that_cannot_be_coarse() -> None:
    frame = frame_of([(0.5, 1.0, 0, f"user {place}") for place in range(40)])
    with pytest.raises(ResourceError, match=r"by, which cannot be made coarser; raise --memory"):
        condensed([frame], 20)


def test_long_runs_of_rows_are_condensed_as_they_come() -> None:
    random = np.random.default_rng(1)
    score = random.random(5000)
    frame = pl.DataFrame(
        {
            "score": score,
            "spread": random.random(5000),
            "label": (random.random(5000) < score).astype(np.uint8),
            "by": np.array(["a", "b"])[random.integers(0, 2, 5000)],
        }
    )
    batches = list(frame.iter_slices(150))
    found = condensed(batches, 400)
    assert found.frame.equals(condensed([frame], 400).frame)
    assert int(found.frame[COUNT].sum()) == 5000


#: Further columns of frames that are condensed step by step; the last one, of bytes, is packed fast.
FIXED = {"by": (Role("by"),), "weight": (Role("weight"), Role("by")), "label": (Role("label"),)}


def expected_rung(frame: pl.DataFrame, roles: tuple[Role, ...], most: int) -> int:
    """Return the first step at which a row is a word, and there is room for the distinct ones."""
    for rung in range(len(LADDER)):
        bits = [
            role.bits(rung)
            if role.coarse
            else max(1, (frame[role.name].n_unique() - 1).bit_length())
            for role in roles
        ]
        if len(naive(frame, rung)) <= most and (rung == 0 or sum(bits) <= 64):
            return rung
    raise AssertionError("no room")


@pytest.mark.parametrize("fixed", FIXED)
@settings(max_examples=12)
@given(st.integers(0, 2**32), st.integers(300, 1500), st.integers(1, 9), st.booleans())
def test_rows_are_condensed_by_as_many_steps_as_it_takes(
    fixed: str, seed: int, most: int, values: int, near: bool
) -> None:
    random, size, roles = np.random.default_rng(seed), 1800, (*ROLES[:2], *FIXED[fixed])
    spread = random.uniform(1.0, 9.0, size)
    if near:  # the first step has room, if a word has
        spread = random.integers(1, 4, size) + spread * 2.0**-40
    texts = [None, *random.permutation(list("abcdefgh"))][-values:]
    come = np.sort(random.integers(0, values, size))  # new values come late, and not in order
    frame = pl.DataFrame(
        {
            "score": random.uniform(0.1, 0.9, size).round(1 if near else 4),
            "spread": spread,
            "weight": np.array([2.5, 1.0, 4.0, 0.5])[come % 4],
            "by": pl.Series([texts[k] for k in come], dtype=pl.String),
            "label": come.astype(np.uint8),
        }
    ).select(role.name for role in roles)
    found = condensed(list(frame.iter_slices(110)), most, roles)
    assert found.rung == expected_rung(frame, roles, most) > 0
    names = [role.name for role in roles]
    assert found.frame.equals(found.frame.sort(names, nulls_last=True))
    assert {row[:-1]: row[-1] for row in found.frame.iter_rows()} == naive(frame, found.rung)
    whole = condensed([frame.sample(fraction=1.0, shuffle=True, seed=seed)], most, roles)
    assert whole.frame.equals(found.frame) and whole.rung == found.rung
    halves = [condensed([frame[::2]], most, roles), condensed([frame[1::2]], most, roles)]
    assert merge(halves).frame.equals(found.frame)
    roomy = [condensed([frame[::2]], 4 * most, roles), halves[1]]  # the least room counts
    assert merge(roomy).frame.equals(found.frame) and merge(roomy[::-1]).most == most


numbers = st.lists(
    st.lists(
        st.tuples(
            st.sampled_from([-math.inf, -1.5, 0.0, 1e-40, 0.25, 3.0, math.inf]),
            st.integers(-2, 2),
            st.integers(0, 1),
        ),
        min_size=1,
        max_size=12,
    ),
    min_size=1,
    max_size=4,
)
NUMERIC = {"score": pl.Float32, "spread": pl.Int16, "label": pl.UInt8}


@given(numbers)
def test_sorted_frames_are_interleaved(found: list[list[tuple[float, int, int]]]) -> None:
    frames = [pl.DataFrame(sorted(rows), schema=NUMERIC, orient="row") for rows in found]
    expected = pl.concat(frames).sort(list(NUMERIC))
    made = interleaved(frames, list(NUMERIC))
    assert made is not None and made.equals(expected)
    wide = [frame.with_columns(pl.col("score").cast(pl.Float64)) for frame in frames]
    made = interleaved(wide, list(NUMERIC))
    assert made is not None and made.equals(expected.cast({"score": pl.Float64}))


@given(numbers)
def test_merging_is_the_same_with_and_without_room_to_spare(
    found: list[list[tuple[float, int, int]]],
) -> None:
    roles = (Role("score", SCORE), Role("spread"), Role("label"))
    frames = [pl.DataFrame(rows, schema=NUMERIC, orient="row") for rows in found]

    def parts(most: int) -> list[Condensed]:
        made = [Condenser(roles, most) for _ in frames]
        for condenser, frame in zip(made, frames, strict=True):
            condenser.add(frame)
        return [condenser.finish() for condenser in made]

    distinct = pl.concat(frames).n_unique()
    spare, tight = merge(parts(1000)), merge(parts(distinct))
    assert spare.exact and tight.exact
    assert spare.frame.equals(tight.frame) and spare.frame.height == distinct


@pytest.mark.parametrize("odd", [[2.0, 1.0], [1.0, None], [1.0, math.nan], [-0.0, 1.0], ["a", "b"]])
def test_what_cannot_be_interleaved(odd: list[object]) -> None:
    one = pl.DataFrame({"x": odd[:1]})
    assert interleaved([pl.DataFrame({"x": odd}), one], ["x"]) is None


@pytest.mark.parametrize("kinds", [0, 1, 3, 40])
@given(st.integers(0, 2**32), st.integers(0, 12))
@settings(max_examples=15)
def test_rows_that_repeat_are_counted_kind_by_kind(kinds: int, seed: int, most: int) -> None:
    """Few scores, whatever stands beside them: nothing, labels, labels and weights, many kinds."""
    random = np.random.default_rng(seed)
    size = 200 + most
    columns = {"score": random.integers(0, 9, size) / 8.0}
    if kinds:
        columns |= {"label": random.integers(0, 2, size), "weight": random.integers(0, kinds, size)}
    frame = pl.DataFrame(columns)
    roles = (Role("score", SCORE), *(Role(name) for name in frame.columns[1:]))
    found = condensed(list(frame.iter_slices(37)), 100 + 7 * kinds, roles)
    expected = frame.group_by(pl.all()).len(COUNT).sort(frame.columns)
    assert found.frame.equals(expected.cast({COUNT: pl.Int64}))
    assert found.exact
