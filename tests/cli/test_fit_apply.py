"""``--apply FILE`` of a fit: the model and its rows in one run, as by two commands, or neither."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import polars as pl
import pytest

from tests.cli.score_files import write
from tests.compat.fits import FITS, ROWS, rows, words
from tests.conftest import Invoke, make

#: A fit of each command, and those that read columns in a way of their own.
NAMES = [
    *("exact", "by", "time", "weights", "three-way", "beta", "map chosen in time", "map by"),
    *("votes, vector", "classes, matrix", "tree", "tree in time", "boosted", "vad", "tandem"),
    *("alpha", "alpha of features"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("rows")
    for name in (ROWS, "rows.csv", "rows.parquet"):
        write(rows(300), found / name)
    return found


@pytest.mark.few(9)
@pytest.mark.parametrize("suffix", ["csv", "parquet"])
@pytest.mark.parametrize("name", NAMES)
def test_the_bytes_are_those_of_two_commands(
    name: str, suffix: str, folder: Path, invoke: Invoke
) -> None:
    if name == "tandem" and not (folder / "beta.json").exists():
        make(folder / "beta.json", *words(FITS["beta"], folder, folder / "rows.csv"))
    line = words(FITS[name], folder, folder / f"rows.{suffix}")
    one = Path(f"one.{suffix}")
    invoke(*line, "--apply", one, "-o one.json").succeeded(f"300 rows written to {one}.")
    model = make("two.json", *line)
    null = ["--on-missing", "null"] if "drop" in line else []
    two = make(f"two.{suffix}", "apply", model, line[1], *null)
    assert Path("one.json").read_bytes() == model.read_bytes()
    assert one.read_bytes() == two.read_bytes()


@pytest.mark.parametrize("given", ["rows.csv", "-"])
@pytest.mark.parametrize(
    "line", ["calibrate --method platt -o m.json --apply", "bin --add-level -o"]
)
def test_text_that_is_not_read_stays_as_it_is_written(
    line: str, given: str, tmp_path: Path, command: Callable[..., CompletedProcess[bytes]]
) -> None:
    text = "id,Score,label,amount\n" + "007,0.8,1,1.50\n008,0.25,0,NA\n" * 20
    (tmp_path / "rows.csv").write_text(text)
    name, *more = line.split()
    done = command(name, given, *more, "out.csv", input=text.encode(), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    first, second = (tmp_path / "out.csv").read_text().splitlines()[1:3]
    assert first.startswith("007,0.8,1,1.50,") and second.startswith("008,0.25,0,NA,")


def test_rows_that_the_fit_left_out_have_null(invoke: Invoke) -> None:
    frame = rows(60).with_columns(score=pl.Series([None, *[0.1, 0.4, 0.8] * 20][:60]))
    source, out = write(frame, "rows.parquet"), Path("out.parquet")
    fit = ["calibrate", source, "--method platt -q --apply", out, "-o m.json"]
    invoke(*fit).refused(3)
    done = invoke(*fit, "--on-missing", "drop")
    done.succeeded("1 of 60 rows lack a value: null in the added columns")
    assert pl.read_parquet(out)["calibrated"].is_null().arg_true().to_list() == [0]


def test_rows_go_to_pipes_and_folders(
    folder: Path, invoke: Invoke, command: Callable[..., CompletedProcess[bytes]]
) -> None:
    fit, source = ("calibrate", "--method", "platt", "-q"), folder / "rows.csv"
    model = Path("m.json")
    piped = command(*fit, "-", "--apply", "-", "-o", model, input=source.read_bytes())
    assert piped.returncode == 0, piped.stderr
    applied = invoke("apply", model, source, "-o", "-")
    assert piped.stdout == applied.stdout
    two = (source, folder / "rows.parquet")
    shown = invoke(*fit, *two, "--apply", "out/", "--json")
    assert json.loads(shown.stdout)["kind"] == "calibrator"
    Path("again.json").write_bytes(shown.stdout)
    invoke("apply", "again.json", *two, "-q", "-o", "again/")
    for name in ("rows.csv", "rows.parquet"):
        assert (Path("out") / name).read_bytes() == (Path("again") / name).read_bytes()
    plan = invoke(*fit, source, "--apply x.csv", "--dry-run")
    assert "Would apply the model, and write the rows to" in plan.stdout.decode()
    assert not Path("x.csv").exists()


def test_a_boundary_that_draws_needs_a_key(folder: Path, invoke: Invoke) -> None:
    fit = ["boundary", folder / "rows.csv", "--precision", "0.6", "--apply", "x.csv"]
    invoke(*fit, "--method=stochastic").refused(2, "--key")
    invoke(*fit, "--compare").refused(2, "leave --apply out")


def test_a_column_that_is_there_is_not_replaced(invoke: Invoke) -> None:
    write(rows(60).with_columns(calibrated=0.5), "rows.csv")
    line = ("calibrate", "rows.csv", "--method platt --apply x.csv --score score_1 -o m.json")
    invoke(*line).refused(2, "options of `calibkit apply`")
