"""A fitted model, and commands that must fail."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.cli.score_files import simulate, write
from tests.conftest import Invoke, make

ERROR_KEYS = ["code", "message", "file", "column", "rows", "first_rows"]
COMMANDS = {
    "bin": ["bin", "--score-bins", "5"],
    "boundary": ["boundary", "--precision", "0.5"],
    "apply": ["apply"],
}


@pytest.fixture(scope="session")
def _fitted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    good = write(simulate(200), folder / "good.parquet")
    return make(folder / "boundary.json", "boundary", good, "--precision 0.6 --method exact")


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Return where the scheduler of a cluster of two workers is, threads of this process."""
    import distributed

    with distributed.LocalCluster(  # type: ignore[no-untyped-call]
        n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0"
    ) as cluster:
        yield cluster.scheduler_address


@pytest.fixture
def model(tmp_path: Path, _fitted: Path) -> Path:
    """Return a fitted boundary, a copy that a test may damage."""
    (tmp_path / "models").mkdir()
    return Path(shutil.copy(_fitted, tmp_path / "models"))


@pytest.fixture
def applied(tmp_path: Path, invoke: Invoke) -> Callable[..., pl.DataFrame]:
    """Apply a model to rows, and return what comes out."""

    def call(model: Path, frame: pl.DataFrame, *options: object) -> pl.DataFrame:
        path = write(frame, tmp_path / "rows.parquet")
        done = invoke("apply", model, path, *options, "-q", "-o", tmp_path / "applied.parquet")
        assert done.stdout == b""
        found: pl.DataFrame = done.result()
        return found

    return call


@pytest.fixture
def refuse(tmp_path: Path, invoke: Invoke, model: Path) -> Callable[..., dict[str, Any]]:
    """Run a command that must fail, as text and with --json; return the error object."""

    def call(name: str, path: Path | str, *more: object, code: int = 3) -> dict[str, Any]:
        out = tmp_path / "out"
        out.mkdir(exist_ok=True)
        command, *given = COMMANDS[name]
        start = [command, *([model] if name == "apply" else []), path, *given, *more]
        output = out / ("b.json" if name == "boundary" else "rows.parquet")
        said = invoke(*start, "-o", output)
        assert (said.code, said.stdout) == (code, b""), said
        assert said.stderr.splitlines()[-1].startswith("Error: ")
        assert "Traceback" not in said.stderr
        assert "panicked" not in said.stderr
        as_json = invoke(*start, "-o", output, "--json")
        assert as_json.code == code
        assert "Error:" not in as_json.stderr
        error: dict[str, Any] = json.loads(as_json.stdout)["error"]
        assert list(error) == ERROR_KEYS
        assert error["code"] == code
        assert error["message"] in said.stderr
        assert list(out.iterdir()) == []
        return error

    return call
