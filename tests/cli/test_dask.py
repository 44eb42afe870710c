"""``--dask``: the same bytes as without it; what cannot be done there is refused by name."""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import calibkit as ck
from calibkit_cli.console import Console
from tests.cli.score_files import simulate
from tests.conftest import Invoke


@pytest.fixture
def shards() -> str:
    random = np.random.default_rng(3)
    frame = simulate(1500).with_columns(
        site=pl.Series(random.choice(["x", "y"], 1500)),
        score_b=(pl.col("score") + pl.Series(random.normal(0, 0.02, 1500))).clip(0, 1),
    )
    for place, (start, end) in enumerate(pairwise([0, 10, 500, 501, 900, 1500])):
        folder = Path("rows") / f"day={place}"
        folder.mkdir(parents=True)
        frame[start:end].write_parquet(folder / "rows.parquet")
    return "rows"


@pytest.mark.parametrize(
    ("line", "output"),
    [
        # What no fit of test_one_program.py on a cluster asks for.
        ("bin rows --score-bins 20", "grid.parquet"),
        ("calibrate rows --by site --provenance names", "cal.json"),
        ("vad rows --members score,score_b --by day --min-rows 2", "vad.json"),
        # A model beside the rows is found by workers.
        ("evaluate rows --boundary model.json --no-intervals", "metrics.json"),
    ],
)
def test_the_same_bytes(shards: str, invoke: Invoke, address: str, line: str, output: str) -> None:
    ck.fit_boundary(shards, precision=0.7, folds=0).save("model.json")
    alone = invoke(*line.split(), "-o", output)
    alone.succeeded()
    expected = Path(output).read_bytes()
    there = invoke(*line.split(), "--dask", address, "-o", output)
    there.succeeded()
    assert Path(output).read_bytes() == expected
    first, other = (done.stderr.splitlines()[-1].split()[0] for done in (alone, there))
    assert first == other


def test_a_bad_shard_has_its_exit_code(shards: str, invoke: Invoke, address: str) -> None:
    bad = Path(shards) / "day=3" / "rows.parquet"
    bad.write_bytes(bad.read_bytes()[:1000])
    done = invoke("evaluate", shards, "--dask", address, "-o", "metrics.json")
    done.refused(3, f"{bad}: the file is truncated")


def test_what_is_refused(
    shards: str, invoke: Invoke, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for options in ("--partial -o x.state", "-o models/", "--test rows/day=1/rows.parquet"):
        done = invoke("boundary", shards, "--precision 0.7 --dask", address, options)
        done.refused(2, "--dask")
    invoke("vad", "-", "--dask", address).refused(2, "standard input")
    invoke("vad", "missing/", "--dask", address).refused(2, "missing")
    monkeypatch.setitem(sys.modules, "distributed", None)
    invoke("vad", shards, "--members score,score_b --dask local").refused(2, "calibkit[dask]")


def test_processes_of_this_machine(shards: str, command: Callable[..., Any]) -> None:
    line = ["vad", shards, "--members", "score,score_b", "-q"]
    assert command(*line, "-o", "alone.json").returncode == 0
    done = command(*line, "--dask", "local", "--threads", 1, "-o", "there.json")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert Path("there.json").read_bytes() == Path("alone.json").read_bytes()


def test_apply_writes_a_file_for_each(
    shards: str, invoke: Invoke, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ck.fit_boundary(shards, precision=0.7, folds=0).save("model.json")
    invoke("apply", "model.json", shards, "-q", "-o", "alone/").succeeded()
    lines: list[bool] = []
    monkeypatch.setattr(Console, "show_progress", lambda console: lines.append(console.quiet))
    done = invoke("apply", "model.json", shards, "--dask", address, "-o", "there/")
    named = ", ".join(f"there/day={day}/rows.parquet" for day in range(3))
    told = f"1,500 rows in 5 files written to there/: {named} and 2 more.\n"
    assert (done.code, done.stderr) == (0, told)
    assert lines == [False]
    written = {path.relative_to("there"): path.read_bytes() for path in Path("there").rglob("*.*")}
    assert len(written) == 5
    for name, content in written.items():
        assert content == (Path("alone") / name).read_bytes()
    assert invoke("apply", "model.json", shards, "--dask", address, "-o", "a.csv").code == 2


def test_apply_writes_all_or_nothing(shards: str, invoke: Invoke, address: str) -> None:
    ck.fit_calibrator(shards).save("model.json")
    bad = Path(shards) / "day=3" / "rows.parquet"
    pl.read_parquet(bad).with_columns(score=pl.lit(7.0)).write_parquet(bad)
    done = invoke("apply", "model.json", shards, "--dask", address, "-o", "there/")
    done.refused(3, f"{bad}: column 'score': not in [0, 1] in 399 rows")
    assert [path for path in Path("there").rglob("*") if path.is_file()] == []
