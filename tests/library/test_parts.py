"""Files in parts: where they are cut and for how many workers; the state of the parts is the file's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calibkit.calibrators.spec import CalibratorSpec
from calibkit.calibrators.states import CalibratorProblem, calibrator_state
from calibkit.engines.parts import divided
from calibkit.engines.protocol import Divided, Done, parts_of
from calibkit.engines.serial import SerialEngine
from calibkit.engines.shards import Opening, Shard, StateTask, merge_done, shards_of
from calibkit.errors import DataError, ModelError
from calibkit.files.sources import open_source
from calibkit.files.stretches import Stretch, cuts, may_be_cut, stretches
from calibkit.memory import Memory
from calibkit.rows.columns import ColumnOptions
from calibkit.summaries.states import merge_states, state_of
from calibkit.vad.rows import MemberOptions
from calibkit.vad.spec import VadSpec
from calibkit.vad.states import vad_state

ROWS = 120
OPENING = Opening(None, "float64", Memory(1))


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a file in groups of ten rows, some of which lack all values."""
    random = np.random.default_rng(4)
    place = pl.int_range(pl.len())
    frame = pl.DataFrame({"score": random.random(ROWS).round(2)}).with_columns(
        label=pl.when(place // 10 == 7).then(None).otherwise(place % 3 // 2),
        weight=(place % 4).cast(pl.Float64),
        score_1=pl.when(place // 20 == 2).then(float("nan")).otherwise(pl.col("score").sqrt()),
        site=pl.Series(random.choice(["x", "y"], ROWS)),
    )
    found = tmp_path_factory.mktemp("parts") / "rows.parquet"
    frame.write_parquet(found, row_group_size=10)
    return found


def tasks() -> dict[str, StateTask]:
    """Return what makes states: of rows that are condensed, and of sums."""
    columns = ColumnOptions(weight="weight", unlabelled="drop", on_missing="drop")
    problem = CalibratorProblem(spec=CalibratorSpec(by="site"), provenance="names")
    members = MemberOptions(
        members=("score", "score_1"), weight="weight", by="site", on_missing="drop"
    )
    makers: dict[str, Callable[..., Any]] = {
        "calibrate": partial(calibrator_state, columns=columns, problem=problem, memory=Memory(1)),
        "vad": partial(vad_state, columns=members, spec=VadSpec(), provenance="names"),
    }
    return {name: StateTask(maker, OPENING) for name, maker in makers.items()}


def in_parts(shard: Shard, places: Sequence[int]) -> Divided[Shard]:
    """Return a file cut at some places."""
    found = [Stretch(a, b - a, ROWS) for a, b in pairwise(sorted({0, *places, ROWS}))]
    return Divided(shard, tuple(replace(shard, stretch=one) for one in found))


@pytest.mark.parametrize("name", ["calibrate", "vad"])
@settings(max_examples=25)
@given(places=st.lists(st.integers(1, ROWS - 1), max_size=6))
def test_the_state_of_parts_is_that_of_the_file(file: Path, name: str, places: list[int]) -> None:
    (shard,), task = shards_of([str(file)]), tasks()[name]
    whole = task(shard)
    found = SerialEngine().fold(task, merge_done, [in_parts(shard, places)])
    assert found == whole
    state = state_of(found.data, "state")
    assert len(state.header.shards) == 1 and state.header.shards[0].files == (str(file),)
    with pytest.raises(ModelError, match="the same shard"):
        merge_states([state, state_of(whole.data, "other")])


def test_rows_of_a_part_have_the_numbers_of_the_file(file: Path) -> None:
    source = open_source([str(file)])
    part = source.stretch(40, 25)
    assert (part.rows, part.whole) == (25, False)
    assert part.read().equals(source.read()[40:65])
    assert part.locate([0, 24]) == (str(file), [41, 65])
    assert [window.locate([1])[1] for window in part.windows(rows=10)] == [[42], [52], [62]]


def test_a_file_that_changed_is_read_as_a_whole(file: Path) -> None:
    (shard,), task = shards_of([str(file)]), tasks()["vad"]
    old = replace(shard, stretch=Stretch(0, 50, ROWS + 1))
    assert task(old) == Done(50)
    divided_before = Divided(shard, (old, replace(shard, stretch=Stretch(50, 70, ROWS))))
    assert SerialEngine().fold(task, merge_done, [divided_before]) == task(shard)
    with pytest.raises(DataError, match="121 rows instead of 120"):
        OPENING.open(old)


def test_parts_that_do_not_agree_are_no_result(file: Path) -> None:
    (shard,), one, other = shards_of([str(file)]), tasks()["vad"], tasks()["calibrate"]

    def task(part: Shard) -> Done:
        return (one if part.stretch is None or part.stretch.first else other)(part)

    found = SerialEngine().fold(task, merge_done, [in_parts(shard, [60])])
    assert found == one(shard)


@given(
    sizes=st.lists(st.integers(1, 50), min_size=1, max_size=30),
    count=st.integers(1, 12),
)
def test_stretches_are_all_rows_in_equal_parts(sizes: list[int], count: int) -> None:
    ends = np.cumsum(sizes).tolist()
    found = stretches(ends, count)
    assert 1 <= len(found) <= count
    assert [one.first for one in found] == [0, *(one.first + one.rows for one in found[:-1])]
    assert {one.first + one.rows for one in found} <= set(ends)
    assert {one.of for one in found} == {ends[-1]} == {found[-1].first + found[-1].rows}
    assert max(one.rows for one in found) <= ends[-1] / count + max(sizes)


def test_where_files_may_be_cut(file: Path, tmp_path: Path) -> None:
    assert cuts(str(file), ROWS) == tuple(range(10, ROWS + 1, 10))
    assert cuts("https://host/rows.parquet", 2**21 + 5) == (2**20, 2**21, 2**21 + 5)
    large, gone = tmp_path / "large.parquet", tmp_path / "gone.parquet"
    large.write_bytes(bytes(2**22))
    assert may_be_cut(str(large), None) and may_be_cut(str(large), "parquet")
    assert may_be_cut("s3://bucket/rows.parquet", None)
    for path, said in (
        (file, None),
        (large, "csv"),
        (gone, None),
        (large.with_suffix(".csv"), None),
    ):
        assert not may_be_cut(str(path), said)


class Workers(SerialEngine):
    """An engine that knows how many rows files have, by their names."""

    def __init__(self, count: int) -> None:
        self.at_once = count

    def each(self, task: Any, items: Sequence[Any], *_: Any) -> list[Done]:
        rows = [int(item.name.split("-")[0]) for item in items]
        return [Done(many, told=(*range(1000, many, 1000), many)) for many in rows]


@pytest.mark.parametrize(
    ("workers", "rows", "parts"),
    [
        (1, [2000_000], [1]),
        (2, [2000_000], [2]),
        (8, [1000_000], [3]),  # a part is worth its task
        (4, [3000_000, 3000_000, 3000_000], [4, 4, 4]),
        (2, [3000_000, 3000_000], [1, 1]),
        (2, [9000_000, 300_000, 300_000], [2, 1, 1]),
        (2, [500_000], [1]),
        (4, [1000_000] * 40, [1] * 40),
        (4, [0, 4000_000], [1, 4]),  # one that cannot be read
    ],
)
def test_parts_are_as_few_as_keep_workers_busy(
    workers: int, rows: list[int], parts: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("calibkit.engines.parts.may_be_cut", lambda *_: True)
    shards = [Shard(f"{many}-{place}", "path", "path") for place, many in enumerate(rows)]
    work = divided(Workers(workers), shards, OPENING)
    assert [len(parts_of(item)) for item in work] == parts


def test_what_is_looked_at(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("calibkit.files.stretches._SMALL_BYTES", 1)
    monkeypatch.setattr("calibkit.engines.parts._FEWEST_ROWS", 10)
    broken = tmp_path / "broken.parquet"
    broken.write_bytes(file.read_bytes()[:500])

    class Two(SerialEngine):
        at_once = 2

    work = divided(Two(), shards_of([str(file), str(broken)]), OPENING)
    assert [len(parts_of(item)) for item in work] == [2, 1]
    assert [part.stretch for part in parts_of(work[0])] == [
        Stretch(0, 60, ROWS),
        Stretch(60, 60, ROWS),
    ]
