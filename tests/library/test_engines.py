"""Engines: the same result here and on Dask, whatever becomes of workers; failures have names."""

from __future__ import annotations

import os
import pickle
import signal
import threading
import time
from contextlib import suppress
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import distributed
import numpy as np
import polars as pl
import pytest
from msgspec.structs import replace

from calibkit.columns.rows import NothingLeft, OffendingRows, Remark
from calibkit.engines import dask as engine_module
from calibkit.engines.dask import DaskEngine
from calibkit.engines.dask import _of_one_version as of_one_version
from calibkit.engines.work import Shard, ShardOpening, StateTask, Stretch, shards_of, state_of_all
from calibkit.errors import (
    CalibkitError,
    CheckError,
    DataError,
    InfeasibleError,
    ModelError,
    ResourceError,
    UsageError,
)
from calibkit.methods.vad.run import state as vad_state
from calibkit.options.vad import VadOptions
from calibkit.runtime.memory import Memory
from calibkit.summaries.states import State, join_states
from tests.local_engine import LocalEngine

OPTIONS = VadOptions(by="country")
TASK = StateTask(partial(vad_state, OPTIONS), ShardOpening(Memory(1)))


def threads(workers: int) -> distributed.LocalCluster:
    """Return threads as workers: a scheduler of its own, without processes to start."""
    return distributed.LocalCluster(
        n_workers=workers, threads_per_worker=1, processes=False, dashboard_address=":0"
    )


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


def dies(marker: str | None, shard: Shard) -> State:
    """Kill every worker that takes a certain shard, or with a marker the first one only."""
    if shard.name.endswith("part-3.parquet") and not (marker and Path(marker).exists()):
        if marker:
            Path(marker).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return TASK(shard)


def test_workers_find_files_from_any_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "rows.csv").touch()
    monkeypatch.chdir(tmp_path)
    (shard,) = shards_of(["rows.csv"])
    assert (shard.name, shard.file) == ("rows.csv", str(tmp_path / "rows.csv"))
    (tmp_path / "rows.csv").unlink()
    with pytest.raises(CalibkitError, match=r"^rows\.csv: "):
        ShardOpening(Memory(1000)).open(shard)


def test_workers_of_this_machine_share_its_memory() -> None:
    opening = ShardOpening(Memory(1000))
    assert opening.of_worker("local", 4).memory.bytes == 250
    assert opening.of_worker("tcp://there:8786", 4).memory.bytes == 1000


def test_a_worker_that_dies_loses_nothing(files: Path, tmp_path: Path) -> None:
    marker = tmp_path / "killed"
    shards = shards_of([str(files)])
    parts = [replace(shards[3], stretch=Stretch(*rows, 133)) for rows in ((0, 60), (60, 73))]
    work = [*parts, *shards[:3], *shards[4:]]
    with DaskEngine("local", 2) as engine:
        assert engine.at_once == 2
        done = engine.reduce(join_states, engine.map(partial(dies, str(marker)), work))
        assert marker.exists()
        alone = LocalEngine()
        beside = alone.reduce(join_states, alone.map(TASK, shards))
        assert done.to_bytes() == beside.to_bytes()
        assert done.rows == beside.rows == 700
        engine._cluster.scheduler.allowed_failures = 0  # neighbours of the culprit may be named
        said = r"part-\d\.parquet: every worker that took it died"
        with pytest.raises(ResourceError, match=said):
            engine.reduce(join_states, engine.map(partial(dies, None), work))


def slow(shard: Shard) -> State:
    time.sleep(0.5)
    return TASK(shard)


def test_a_scheduler_that_goes_away_is_said(files: Path) -> None:
    own = threads(1)
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


def asked_by_another(function: Any, _: str, part: Any) -> Any:
    return of_one_version(function, "0.0", part)


def test_another_version_is_refused(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with threads(2) as cluster, DaskEngine(cluster.scheduler_address) as engine:
        monkeypatch.setattr(engine_module, "_of_one_version", asked_by_another)
        with pytest.raises(UsageError, match="install the same version everywhere"):
            state_of_all(engine, TASK, shards_of([str(files)]))
