"""Files in parts: where they are cut and for how many workers; the state of the parts is the file's."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from calibkit.engines.work import (
    Shard,
    ShardOpening,
    StateTask,
    Stretch,
    cuts,
    shards_of,
    size_to_cut,
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


KEPT = {"weight": "weight", "by": "site", "on_missing": "drop", "provenance": "names"}
SCORES = CalibrateOptions(unlabelled="drop", **KEPT)  # type: ignore[arg-type]
MEMBERS = VadOptions(members=("score", "score_1"), **KEPT)  # type: ignore[arg-type]
#: What makes states: of rows that are counted, and of sums.
TASKS = {
    "calibrate": StateTask(partial(run.state, SCORES), OPENING),
    "vad": StateTask(partial(vad_state, MEMBERS), OPENING),
}


def in_parts(shard: Shard, places: Sequence[int]) -> list[Shard]:
    """Return a file cut at some places."""
    found = [Stretch(a, b - a, ROWS) for a, b in pairwise(sorted({0, *places, ROWS}))]
    return [replace(shard, stretch=one) for one in found]


@pytest.mark.parametrize("name", TASKS)
@FEWER
@given(places=st.lists(st.integers(1, ROWS - 1), max_size=6))
def test_the_state_of_parts_is_that_of_the_file(file: Path, name: str, places: list[int]) -> None:
    (shard,), task, engine = shards_of([str(file)]), TASKS[name], LocalEngine()
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


def test_a_part_of_a_file_that_changed_is_refused(file: Path) -> None:
    (shard,) = shards_of([str(file)])
    with pytest.raises(DataError, match="121 rows instead of 120"):
        OPENING.open(replace(shard, stretch=Stretch(0, 50, ROWS + 1)))


@given(st.lists(st.integers(1, 50), min_size=1, max_size=30), st.integers(1, 12))
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
    others = [(file, None), (large, "csv"), (gone, None), (large.with_suffix(".csv"), None)]
    assert [size_to_cut(str(path), said) for path, said in others] == [0, 0, 0, 0]
