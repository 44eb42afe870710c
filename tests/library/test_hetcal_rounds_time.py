"""Folds that go forward in time, in rounds: the very parts of the fit in memory, and its result."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any

import msgspec
import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calibkit.errors import ModelError, UsageError
from calibkit.files.sources import Source
from calibkit.fitted import Fitted
from calibkit.hetcal.rounds import steps, times
from calibkit.hetcal.rounds.reading import known_of
from calibkit.hetcal.rounds.sought import Times
from calibkit.hetcal.rounds.tables import Numbers, together
from calibkit.hetcal.rounds.times import Draw, TimeCounter, kind_of, parts_of, time_keys
from calibkit.hetcal.run import fit_source
from calibkit.hetcal.states import HetcalProblem
from calibkit.rounds.answers import answer_shard
from calibkit.rounds.protocol import Sums
from calibkit.rows.rows import RowFinder
from calibkit.rows.splits import time_parts
from tests.library.test_hetcal_rounds import (
    FEATURES,
    TINY,
    assert_like,
    in_rounds,
    plain,
    problem_of,
    rows_of,
    trees_of,
)


def in_memory(
    frame: pl.DataFrame, problem: HetcalProblem, train: pl.DataFrame | None = None
) -> Fitted[Any]:
    """Fit in memory as a command does: the folds are those of the rounds."""
    other = None if train is None else Source.from_frame(train)
    run = fit_source(
        Source.from_frame(frame), other, problem.columns, FEATURES, problem.spec, tags=problem.tags
    )
    return Fitted(run.fitted.model, run.warnings)


def timed(count: int, seed: int) -> pl.DataFrame:
    """Return rows with times: days of which one is common, and moments."""
    random = np.random.default_rng(seed)
    day = random.integers(0, 60, count)
    day[day < 10] = 25
    return rows_of(count, seed).with_columns(
        day=pl.lit(date(2026, 1, 1)) + pl.duration(days=pl.Series(day)),
        moment=pl.lit(datetime(2026, 1, 1))
        + pl.duration(microseconds=pl.Series(random.permutation(count))),
    )


@pytest.mark.parametrize(
    ("columns", "options"),
    [
        ({}, {"time": "day"}),
        ({"weight": "w"}, {"time": "moment", "criterion": "entropy", "max_depth": 2}),
        ({"weight": "real"}, {"time": "g", "max_depth": 2, "min_leaf": 40, "shrinkage": 10.0}),
        (
            {"weight": "real", "weight_kind": "sampling"},
            {"time": "day", "max_bins": 20, "max_depth": 2},
        ),
        ({}, {"time": "day", "max_depth": 1, "map": "isotonic", "precalibrate": "none"}),
    ],
)
def test_folds_that_go_forward_give_what_memory_gives(
    columns: dict[str, str], options: dict[str, Any]
) -> None:
    frame, problem = timed(900, 5), problem_of(columns, **options)
    found, _ = in_rounds([frame[:500], frame[500:]], problem)
    expected = in_memory(frame, problem)
    assert_like(plain(found), plain(expected))
    assert found.warnings == expected.warnings
    checked = plain(found)["fit"]["cross_validated"]
    assert checked["folds"] == 5 and "dealt" not in checked


@pytest.mark.parametrize(
    "options", [{"max_depth": 3}, {"max_depth": 2, "min_leaf": 40, "shrinkage": 5.0}]
)
def test_trees_of_other_rows_are_judged_forward_in_time(options: dict[str, Any]) -> None:
    frame, train = timed(900, 5), rows_of(1200, 6).drop("g")
    problem = problem_of({"weight": "w"}, time="moment", **options)
    expected = in_memory(frame, problem, train)
    untimed = problem_of({"weight": "w"}, **options)
    for more in (
        {"train": lambda: Source.from_frame(train)},
        {"trees": trees_of([train], untimed)},
    ):
        found, _ = in_rounds([frame[:300], frame[300:]], problem, **more)
        assert_like(plain(found), plain(expected))
        assert found.warnings == expected.warnings


def test_shards_and_how_many_times_are_drawn_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    frame, problem = timed(500, 2), problem_of({}, time="moment", max_depth=1, min_leaf=60)
    whole, plans = in_rounds([frame], problem)
    monkeypatch.setattr(times, "_DRAWN", 10)
    monkeypatch.setattr(steps, "rows_at_a_time", lambda _: 100)
    found, more = in_rounds([frame[450:], frame[:80], frame[80:450]], problem)
    assert found.model.to_json() == whole.model.to_json()
    assert len(more) > len(plans)


def test_few_times_are_not_cross_validated() -> None:
    frame = timed(300, 4).with_columns(day=pl.int_range(300) % 3)
    for few in (frame, frame[:9]):
        problem = problem_of({}, time="day", max_depth=3, min_leaf=2)
        found, _ = in_rounds([few], problem)
        expected = in_memory(few, problem)
        assert_like(plain(found), plain(expected))
        assert found.warnings == expected.warnings and "too few for 5 folds" in found.warnings[-1]


columns = st.one_of(
    st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(-2, 2), min_size=1),
    st.lists(st.floats(allow_nan=False) | st.integers(-2, 2).map(float), min_size=1),
    st.lists(st.text(max_size=4) | st.sampled_from(["", "a", "a\0"]), min_size=1),
    st.lists(st.dates() | st.just(date(2026, 1, 1)), min_size=1),
    st.lists(st.datetimes(), min_size=1),
    st.lists(st.times(), min_size=1),
    st.lists(st.booleans(), min_size=1),
    st.lists(st.decimals(-9, 9, places=2), min_size=1),
)


@settings(max_examples=200)
@given(columns, st.integers(1, 6), st.sampled_from([1, 3, 50]))
def test_parts_are_those_of_memory(values: list[Any], folds: int, drawn: int) -> None:
    column = pl.Series("t", values)
    assert _parts(column, folds, drawn) == _in_memory(column, folds)


@pytest.mark.parametrize(
    "column",
    [
        pl.Series([2**64 - 1, 0, 2**63, 5, 2**63 - 1] * 3, dtype=pl.UInt64),
        pl.Series([-(2**100), 2**100, 0, 7] * 3, dtype=pl.Int128),
        pl.Series(["b", "a", "c", "a"] * 3, dtype=pl.Categorical),
        pl.Series(["b", "a", "c", "a"] * 3, dtype=pl.Enum(["c", "b", "a"])),
        pl.Series([0.0, -0.0, 1.5, -1.5] * 3, dtype=pl.Float32),
    ],
)
def test_times_of_any_type_have_an_order(column: pl.Series) -> None:
    assert _parts(column.alias("t"), 4, 2) == _in_memory(column, 4)


def _in_memory(column: pl.Series, folds: int) -> list[int]:
    return time_parts(column, folds + 1, RowFinder(Source.from_frame(column.to_frame()))).tolist()


def _parts(column: pl.Series, folds: int, drawn: int) -> list[int]:
    """Return the parts of rows in two shards, by rounds."""
    known = Times(kind_of("t", column.dtype))
    keys = time_keys(column, known.kind)
    shards = [keys.gather_every(2), keys.gather_every(2, 1)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(times, "_DRAWN", drawn)
        draws = []
        for shard in shards:
            draw = times.first_draw()
            draw.add(shard)
            draws.append({"times": [draw.keys()]})
        times.begin(known, {"times": times.merged_draws(draws)}, len(keys), folds)
        while known.gaps:
            told = []
            for shard in shards:
                counter, numbers = TimeCounter(known, 0), Numbers()
                counter.add(shard)
                told.append((counter.tell(numbers), numbers.table()))
            payload = {"times": times.merged_draws([payload for payload, _ in told])}
            table = together([table for _, table in told])
            times.learn(known, Sums(payload, table), len(keys), 0)
    return parts_of(known, keys).tolist()


def test_times_without_an_order_are_refused() -> None:
    frame = timed(300, 1).with_columns(day=pl.concat_list("x", "x"))
    with pytest.raises(UsageError, match="--time day is List"):
        in_rounds([frame], problem_of({}, time="day", max_depth=1, min_leaf=30))


def test_a_draw_is_the_same_whatever_the_order() -> None:
    keys = pl.Series(np.random.default_rng(0).integers(0, 1000, 5000))
    whole, parts = Draw(20), Draw(20)
    whole.add(keys)
    for start in range(0, 5000, 700):
        own = Draw(20)
        own.add(keys[start : start + 700])
        parts.add(pl.Series(own.keys()))
    assert whole.keys() == parts.keys() and len(whole.keys()) == 20


def test_damaged_times_are_refused() -> None:
    frame, problem = timed(400, 1), problem_of({}, time="moment", max_depth=1, min_leaf=30)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(times, "_DRAWN", 10)
        _, plans = in_rounds([frame], problem)
    plan = next(plan for plan in plans if plan.ask["step"] == "refine")
    own, source = plan.ask["times"], Source.from_frame(frame)
    gap = own["gaps"][0]
    for changed in (
        {"kind": "rhyme"},
        {"kind": "text"},
        {"ends": [None]},
        {"ends": [3, 2, None, None, None]},
        {"gaps": [{**gap, "drawn": gap["drawn"][::-1]}]},
        {"gaps": [{**gap, "drawn": ["a"]}]},
        {"gaps": [{**gap, "after": -(2**63) - 1}]},
        {"gaps": [{**gap, "below": 2**63 - 1}]},
    ):
        with pytest.raises(ModelError, match="damaged plan"):
            known_of({**plan.ask, "times": {**own, **changed}})
    last = plans[-1].ask
    with pytest.raises(ModelError, match="damaged plan"):
        known_of({**last, "times": {**last["times"], "ends": [None] * 5}})
    with pytest.raises(ModelError, match="do not fit"):
        known_of({**last, "times": None})
    without = msgspec.structs.replace(plan, ask={**plan.ask, "times": None})
    with pytest.raises(ModelError, match="not those of its options"):
        answer_shard(without, source, TINY)
    answer = answer_shard(plan, source, TINY)
    for payload in ({"times": [["a"], 3]}, {"times": [[1.5]]}, {"times": [[2**63]]}):
        with pytest.raises(ModelError, match="what times there are"):
            steps.check_sums(Sums(payload, answer.table))
    with pytest.raises(ModelError, match="fewer rows"):
        steps.advance(plan, Sums({"times": [[]]}, answer.table.clear()))
    first = answer_shard(plans[0], source, TINY)
    with pytest.raises(ModelError, match="what times there are"):
        steps.advance(plans[0], Sums({**first.header.payload, "times": []}, first.table))
