"""Engines: the same result here and on Dask, whatever becomes of workers; failures have names."""

from __future__ import annotations

import importlib
import multiprocessing
import os
import pickle
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import distributed
import numpy as np
import polars as pl
import pytest

from calibkit.columns.rows import NothingLeft, OffendingRows, Remark
from calibkit.engines import dask as engine_module
from calibkit.engines.dask import DaskEngine
from calibkit.engines.dask import _of_one_version as of_one_version
from calibkit.engines.work import Opening, Shard, StateTask, Stretch, shards_of, state_of_all
from calibkit.errors import (
    CalibkitError,
    CheckError,
    DataError,
    InfeasibleError,
    ModelError,
    ResourceError,
    UsageError,
)
from calibkit.files.sources import open_source
from calibkit.methods.calibrators import run
from calibkit.methods.vad.rows import read_vad_rows
from calibkit.methods.vad.run import finish as finish_vad
from calibkit.methods.vad.run import fit_vad
from calibkit.methods.vad.run import state as vad_state
from calibkit.numerics.row_hash import data_hash
from calibkit.options.calibrate import CalibrateOptions
from calibkit.options.vad import VadOptions
from calibkit.runtime.memory import Memory
from calibkit.summaries.score_states import rows_of_state
from calibkit.summaries.states import State, join_states
from tests.local_engine import LocalEngine

OPTIONS = VadOptions(by="country")
TASK = StateTask(partial(vad_state, OPTIONS), Opening(None, "float64", Memory(1)))


@pytest.fixture(scope="module")
def cluster() -> Iterator[distributed.LocalCluster]:
    """Threads as workers: a scheduler of its own, without processes to start."""
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0"
    ) as found:
        yield found


@pytest.fixture
def files(tmp_path: Path) -> Path:
    random = np.random.default_rng(1)
    truth = random.normal(0.0, 1.5, 700)
    noisy = truth + random.normal(0.0, 0.4, (3, 700))
    columns: dict[str, Any] = {f"score_{k}": 1 / (1 + np.exp(-row)) for k, row in enumerate(noisy)}
    frame = pl.DataFrame({**columns, "country": random.choice(list("abc"), 700)})
    folder = tmp_path / "parts"
    folder.mkdir()
    for place, (start, end) in enumerate(
        pairwise([0, 1, 90, 200, 333, 444, 555, 600, 650, 670, 700])
    ):
        frame[start:end].write_parquet(folder / f"part-{place}.parquet")
    return folder


def whole(files: Path) -> bytes:
    rows = read_vad_rows(open_source([str(files)]), OPTIONS)
    return fit_vad(*rows, OPTIONS).model.to_json()


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_the_same_bytes_with_any_number_of_workers(
    files: Path, cluster: distributed.LocalCluster, workers: int
) -> None:
    shards, told = shards_of([str(files)]), list[tuple[int, int]]()
    alone = state_of_all(LocalEngine(), TASK, shards)
    cluster.scale(workers)
    with DaskEngine(cluster.scheduler_address) as engine:
        state = state_of_all(engine, TASK, shards, lambda *told_: told.append(told_))
        each = list(engine.map(TASK, shards))
    assert state.to_bytes() == alone.to_bytes()
    assert finish_vad(state, Memory(1), 1).model.to_json() == whole(files)
    assert [done.to_bytes() for done in each] == [TASK(shard).to_bytes() for shard in shards]
    assert told[-1] == (700, 700) and len(told) == len(shards)


def test_files_with_equal_rows_count_each(files: Path, cluster: distributed.LocalCluster) -> None:
    first = files / "part-1.parquet"
    (files / "copy.parquet").write_bytes(first.read_bytes())
    with DaskEngine(cluster.scheduler_address) as engine:
        state = state_of_all(engine, TASK, shards_of([str(files)]))
    assert finish_vad(state, Memory(1), 1).model.to_json() == whole(files)


def test_errors_of_processes_arrive_as_they_were(files: Path) -> None:
    bad = files / "part-4.parquet"
    holes = pl.DataFrame({"score_0": [0.1, None], "score_1": 0.1, "score_2": 0.2, "country": "a"})
    holes.write_parquet(bad)
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, context) as executor, pytest.raises(DataError) as caught:
        list(executor.map(TASK, shards_of([str(files)])))
    assert (caught.value.column, caught.value.first_rows) == ("score_0", [2])
    assert caught.value.file == str(bad)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (UsageError("no", file="f", column="c"), UsageError),
        (ModelError("no", file="f"), ModelError),
        (NothingLeft("f", 3, [Remark("", "row", "dropped", 3)]), DataError),
        (OffendingRows("f", "c", "odd", "7", "mend it", 9, [1, 2]), DataError),
        (InfeasibleError("no"), InfeasibleError),
        (ResourceError("no"), ResourceError),
        (CheckError("no"), CheckError),
    ],
)
def test_errors_keep_what_they_know_on_their_way(
    error: CalibkitError, kind: type[CalibkitError]
) -> None:
    found = pickle.loads(pickle.dumps(error))
    assert type(found) is kind and found.as_dict() == error.as_dict()
    assert str(found) == str(error)


@pytest.mark.parametrize("room", [0, 700])
def test_rows_are_merged_here_or_there(
    files: Path, cluster: distributed.LocalCluster, room: int
) -> None:
    options = CalibrateOptions(score="score_0", min_rows=10, provenance="names")
    make = partial(run.state, options)
    for path in files.iterdir():
        frame = pl.read_parquet(path)
        frame.with_columns(label=(pl.col("score_1") > 0.5).cast(pl.Int8)).write_parquet(path)
    task = StateTask(make, Opening(None, "float64", Memory(1)))
    shards = shards_of([str(files)])
    with DaskEngine(cluster.scheduler_address) as engine:
        found = engine.reduce(join_states, engine.map(task, shards), room)
    whole = calibrator_rows(found)
    one = join_states([make(open_source([str(files)], memory=Memory(1)))])
    assert found.to_bytes() == replace(one, path=found.path).to_bytes()
    used = {"score": whole.score, "label": whole.label}
    assert whole.fingerprint(used) == data_hash(used) and whole.rows == 700
    assert whole.only(np.arange(5)).fingerprint({"score": whole.score[:5]}) == data_hash(
        {"score": whole.score[:5]}
    )


def calibrator_rows(state: State) -> Any:
    return rows_of_state(state, Memory(1))


def test_a_bad_shard_is_named(files: Path, cluster: distributed.LocalCluster) -> None:
    bad = files / "part-4.parquet"
    bad.write_bytes(bad.read_bytes()[:900])
    with DaskEngine(cluster.scheduler_address) as there:
        for engine in (LocalEngine(), there):
            with pytest.raises(DataError, match=r"part-4\.parquet: .*truncated") as caught:
                state_of_all(engine, TASK, shards_of([str(files)]))
            assert caught.value.file == str(bad)
    holes = pl.DataFrame({"score_0": [0.1, None], "score_1": 0.1, "score_2": 0.2, "country": "a"})
    holes.write_parquet(bad)
    with DaskEngine(cluster.scheduler_address) as found, pytest.raises(DataError) as caught:
        state_of_all(found, TASK, shards_of([str(files)]))
    assert (caught.value.column, caught.value.first_rows) == ("score_0", [2])


def dies_once(marker: str, shard: Shard) -> State:
    """Kill the worker the first time that a certain shard comes."""
    if shard.name.endswith("part-3.parquet"):
        try:
            Path(marker).touch(exist_ok=False)
        except FileExistsError:
            return TASK(shard)
        os.kill(os.getpid(), signal.SIGKILL)
    return TASK(shard)


def dies(shard: Shard) -> State:
    """Kill every worker that takes a certain shard."""
    if shard.name.endswith("part-3.parquet"):
        os.kill(os.getpid(), signal.SIGKILL)
    return TASK(shard)


def test_a_worker_that_dies_loses_nothing(files: Path, tmp_path: Path) -> None:
    marker = tmp_path / "killed"
    shards = shards_of([str(files)])
    parts = [replace(shards[3], stretch=Stretch(*rows, 133)) for rows in ((0, 60), (60, 73))]
    work = [*parts, *shards[:3], *shards[4:]]
    with DaskEngine("local", 2) as engine:
        assert engine.at_once == 2
        done = engine.reduce(join_states, engine.map(partial(dies_once, str(marker)), work))
        assert marker.exists()
        alone = LocalEngine()
        beside = alone.reduce(join_states, alone.map(TASK, shards))
        assert done.to_bytes() == beside.to_bytes()
        assert done.rows == beside.rows == 700
        engine._cluster.scheduler.allowed_failures = 0  # neighbours of the culprit may be named
        with pytest.raises(
            ResourceError, match=r"part-\d\.parquet: every worker that took it died"
        ):
            engine.reduce(join_states, engine.map(dies, work))


def slow(shard: Shard) -> State:
    time.sleep(0.5)
    return TASK(shard)


def test_a_scheduler_that_goes_away_is_said(files: Path) -> None:
    own = distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0"
    )
    gone = threading.Timer(0.7, lambda: own.loop.add_callback(own.scheduler.close))
    with DaskEngine(own.scheduler_address) as engine:
        gone.start()
        with pytest.raises(ResourceError, match="was lost while it worked"):
            engine.reduce(join_states, engine.map(slow, shards_of([str(files)])))
    with suppress(TimeoutError):  # it waits for the scheduler that is gone
        own.close(timeout=1)
    own.status = distributed.core.Status.closed  # as closed as it will be


def test_where_no_scheduler_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_module, "_CONNECT", 0.2)
    with pytest.raises(ResourceError, match="no Dask scheduler answers"):
        DaskEngine("tcp://127.0.0.1:9").__enter__()


def test_without_distributed(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", refuse)
    with pytest.raises(UsageError, match=r"calibkit\[dask\]"):
        DaskEngine("local")


def test_another_version_is_refused(
    files: Path, cluster: distributed.LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    with DaskEngine(cluster.scheduler_address) as engine:
        monkeypatch.setattr(engine_module, "_of_one_version", asked_by_another)
        with pytest.raises(UsageError, match="install the same version everywhere"):
            state_of_all(engine, TASK, shards_of([str(files)]))


def asked_by_another(function: Any, _: str, part: Any) -> Any:
    return of_one_version(function, "0.0", part)


def test_standard_input_stays_here() -> None:
    with pytest.raises(UsageError, match="standard input"):
        shards_of(["-"])
