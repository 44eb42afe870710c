"""``apply`` in batches: the same file for any budget, format by format, from files and pipes."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from calibkit.apply import apply as applying
from calibkit.files import sinks
from tests.cli.score_files import simulate, write
from tests.conftest import Invoke

FRAME = simulate(5000)


@pytest.fixture
def model(tmp_path: Path, invoke: Invoke) -> Path:
    path, output = write(FRAME, tmp_path / "fit.parquet"), tmp_path / "model.json"
    done = invoke("boundary", path, "--precision", "0.75", "--method", "exact", "--folds", 0,
                  "-q", "-o", output)  # fmt: skip
    assert done.code == 0, done.stderr
    return output


@pytest.fixture(autouse=True)
def _small_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sinks, "_GROUP_ROWS", 2000)
    monkeypatch.setattr(applying, "_FEWEST_ROWS", 300)


@pytest.mark.parametrize("suffix", ["parquet", "csv", "csv.gz", "ndjson", "arrow"])
def test_the_same_file_for_any_budget(
    tmp_path: Path, invoke: Invoke, model: Path, suffix: str
) -> None:
    rows, output = write(FRAME, tmp_path / f"rows.{suffix}"), tmp_path / f"out.{suffix}"
    written = []
    for options in ([], ["--memory", "1MB"], ["--memory", "1MB", "--threads", 1]):
        done = invoke("apply", model, rows, *options, "-q", "-o", output)
        assert (done.code, done.stdout, done.stderr) == (0, b"", "")
        written.append(output.read_bytes())
    assert written[0] == written[1] == written[2]
    assert [path for path in tmp_path.iterdir() if path.name.endswith(".tmp")] == []


def test_the_same_rows_to_a_pipe(tmp_path: Path, invoke: Invoke, model: Path) -> None:
    rows = write(FRAME, tmp_path / "rows.csv")
    whole = invoke("apply", model, rows)
    assert whole.code == 0 and whole.stdout.count(b"\n") == 5001
    assert invoke("apply", model, rows, "--memory", "1MB").stdout == whole.stdout


def test_nothing_is_left_where_a_late_row_is_bad(
    tmp_path: Path, invoke: Invoke, model: Path
) -> None:
    bad = FRAME.with_columns(
        score=pl.when(pl.col("id") >= 4990).then(None).otherwise(pl.col("score"))
    )
    rows, output = write(bad, tmp_path / "rows.parquet"), tmp_path / "out.parquet"
    done = invoke("apply", model, rows, "--memory", "1MB", "-o", output)
    assert done.code == 3 and "in 10 rows (first: rows 4991, 4992" in done.stderr
    done = invoke("apply", model, rows, "--memory", "1MB", "-o", output, "--on-missing", "null",
                  "--max-missing", "0.001")  # fmt: skip
    assert done.code == 3 and "10 of 5000 rows lack a value" in done.stderr
    done = invoke("apply", model, rows, "--memory", "1MB", "-o", output, "--on-missing", "null",
                  "--warnings", "error")  # fmt: skip
    assert done.code == 3 and not output.exists()
    assert [path for path in tmp_path.iterdir() if path.name.endswith(".tmp")] == []
