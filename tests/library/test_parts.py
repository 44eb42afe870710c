"""Files in parts: where they are cut and for how many workers; the state of the parts is the file's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from calibkit.engines.work import (
    Look,
    Shard,
    ShardOpening,
    StateTask,
    Stretch,
    cuts,
    divided,
    shards_of,
    size_to_cut,
    state_of_all,
    stretches,
)
from calibkit.errors import DataError, ModelError
from calibkit.files.streams import scratched
from calibkit.methods.calibrators import run
from calibkit.methods.vad.run import state as vad_state
from calibkit.options.calibrate import CalibrateOptions
from calibkit.options.vad import VadOptions
from calibkit.registry.states import state_of
from calibkit.runtime.memory import Memory
from calibkit.summaries.states import join_states, merge_states
from tests.library.samples import FEWER
from tests.local_engine import LocalEngine

ROWS = 120
OPENING = ShardOpening(Memory(1))


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
    """Return what makes states: of rows that are counted, and of sums."""
    scores = CalibrateOptions(
        weight="weight", unlabelled="drop", on_missing="drop", by="site", provenance="names"
    )
    members = VadOptions(
        members=("score", "score_1"),
        weight="weight",
        by="site",
        on_missing="drop",
        provenance="names",
    )
    makers: dict[str, Callable[..., Any]] = {
        "calibrate": partial(run.state, scores),
        "vad": partial(vad_state, members),
    }
    return {name: StateTask(maker, OPENING) for name, maker in makers.items()}


def in_parts(shard: Shard, places: Sequence[int]) -> list[Shard]:
    """Return a file cut at some places."""
    found = [Stretch(a, b - a, ROWS) for a, b in pairwise(sorted({0, *places, ROWS}))]
    return [replace(shard, stretch=one) for one in found]


@pytest.mark.parametrize("name", ["calibrate", "vad"])
@FEWER
@given(places=st.lists(st.integers(1, ROWS - 1), max_size=6))
def test_the_state_of_parts_is_that_of_the_file(file: Path, name: str, places: list[int]) -> None:
    (shard,), task, engine = shards_of([str(file)]), tasks()[name], LocalEngine()
    whole = task(shard)
    parts = in_parts(shard, places)
    try:
        found = engine.reduce(join_states, engine.map(task, parts))
    except DataError:  # then the whole file is read
        return
    state = state_of(scratched([found.to_bytes()]), "state")
    assert state.to_bytes() == whole.to_bytes()
    assert len(state.header.shards) == 1 and state.header.shards[0].files == (str(file),)
    with pytest.raises(ModelError, match="the same shard"):
        merge_states([state, state_of(scratched([whole.to_bytes()]), "other")])


@pytest.mark.parametrize("name", ["calibrate", "vad"])
def test_where_parts_fail_the_whole_file_is_read(
    file: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (shard,), task = shards_of([str(file)]), tasks()[name]
    old = replace(shard, stretch=Stretch(0, 50, ROWS + 1))
    lacking = {"calibrate": (70, 80), "vad": (40, 60)}[name]  # where nothing is left
    seen: list[list[Shard]] = []
    for parts in (in_parts(shard, lacking), [old, replace(shard, stretch=Stretch(50, 70, ROWS))]):
        monkeypatch.setattr("calibkit.engines.work.divided", lambda *_, own=parts: own)

        class Engine(LocalEngine):
            def map(self, function: Any, parts: Any, *more: Any) -> Any:
                seen.append(list(parts))
                return super().map(function, parts, *more)

        state = state_of_all(Engine(), task, [shard])
        assert state.to_bytes() == task(shard).to_bytes()
        assert seen[-2:] == [parts, [shard]]
    with pytest.raises(DataError, match="121 rows instead of 120"):
        OPENING.open(old)


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
    assert size_to_cut(str(large), None) == size_to_cut(str(large), "parquet") == 2**22
    assert size_to_cut("s3://bucket/rows.parquet", None) == np.inf
    for path, said in (
        (file, None),
        (large, "csv"),
        (gone, None),
        (large.with_suffix(".csv"), None),
    ):
        assert size_to_cut(str(path), said) == 0


class Workers(LocalEngine):
    """An engine that knows how many rows files have, by their names."""

    def __init__(self, count: int) -> None:
        super().__init__(count)

    def map(self, function: Any, parts: Sequence[Any], *_: Any) -> Any:
        rows = [int(item.name.split("-")[0]) for item in parts]
        return [Look(many, (*range(1000, many, 1000), many)) for many in rows]


@pytest.mark.parametrize(
    ("workers", "rows", "parts"),
    [
        (1, [2000_000], [1]),
        (2, [2000_000], [2]),
        (8, [1000_000], [4]),  # a part is worth its task
        (3, [3000_000, 3000_000], [2, 2]),
        (2, [3000_000, 3000_000], [1, 1]),
        (2, [9000_000, 300_000, 300_000], [2, 1, 1]),
        (2, [300_000], [1]),
        (4, [1000_000] * 40, [1] * 40),
        (4, [0, 4000_000], [1, 4]),  # one that cannot be read
    ],
)
def test_parts_are_as_few_as_keep_workers_busy(
    workers: int, rows: list[int], parts: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("calibkit.engines.work.size_to_cut", lambda path, _: int(path) or 1)
    shards = [Shard(f"{many}-{place}", str(many), "path") for place, many in enumerate(rows)]
    work = divided(Workers(workers), shards, OPENING)
    assert [sum(part.name == shard.name for part in work) for shard in shards] == parts
    for part in work:
        assert part.stretch is None or part.stretch.rows < int(part.name.split("-")[0])


def test_what_is_looked_at(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("calibkit.engines.work._SMALL_BYTES", 1)
    monkeypatch.setattr("calibkit.engines.work._FEWEST_ROWS", 10)
    broken = tmp_path / "broken.parquet"
    broken.write_bytes(file.read_bytes()[:500])
    work = divided(LocalEngine(at_once=2), shards_of([str(file), str(broken)]), OPENING)
    assert [part.stretch for part in work] == [
        Stretch(0, 60, ROWS),
        Stretch(60, 60, ROWS),
        None,
    ]
