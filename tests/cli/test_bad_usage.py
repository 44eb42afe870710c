"""Names, outputs, option pairs, bounds and models that cannot work: message and exit code."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.cli.conftest import COMMANDS
from tests.cli.score_files import scores, write
from tests.conftest import Invoke

Refuse = Callable[..., dict[str, Any]]

# Names, outputs and pairs of options: exit 2 -------------------------------------------------


@pytest.mark.parametrize(
    ("name", "option", "near"),
    [
        (name, option, near)
        for name in COMMANDS
        for option, near in (
            ("--score", "scor"),
            ("--uncertainty", "uncertanty"),
            ("--label", "labl"),
        )
        if (name, option) != ("apply", "--label")
    ],
)
def test_a_missing_column_and_the_nearest_names(
    name: str, option: str, near: str, tmp_path: Path, refuse: Refuse
) -> None:
    path = write(scores(), tmp_path / "a.csv")
    error = refuse(name, path, option, near, code=2)
    assert (error["file"], error["column"]) == (str(path), near)
    assert f"did you mean {option[2:]!r}" in error["message"]
    assert "'weight'" in error["message"]


@pytest.mark.parametrize("name", COMMANDS)
def test_a_missing_file_and_the_nearest_names(name: str, tmp_path: Path, refuse: Refuse) -> None:
    write(scores(), tmp_path / "calib.csv")
    error = refuse(name, tmp_path / "calb.csv", code=2)
    assert error["file"] == str(tmp_path / "calb.csv")
    assert "did you mean 'calib.csv'" in error["message"]
    assert "no file matches" in refuse(name, tmp_path / "*.nothing", code=2)["message"]


@pytest.mark.parametrize("name", COMMANDS)
def test_outputs_that_cannot_be_written(
    name: str, tmp_path: Path, invoke: Invoke, model: Path
) -> None:
    path = write(scores(), tmp_path / "a.csv")
    command, *given = COMMANDS[name]
    start = [command, *([model] if name == "apply" else []), path, *given]
    file = "b.json" if name == "boundary" else "rows.parquet"
    invoke(*start, "-o", tmp_path / "nowhere" / file).refused(2, "no such folder")
    invoke(*start, "-o", f"s3://nowhere/{file}").refused(2, "not written there")
    if name != "boundary":
        invoke(*start, "-o", tmp_path / "rows.txt").refused(2, "--output-format")
    else:
        (tmp_path / "model.json").mkdir()
        done = invoke(*start, "--json", "-o", tmp_path / "model.json")
        assert done.code == 2
        assert "-o DIR/" in json.loads(done.stdout)["error"]["message"]


@pytest.mark.skipif(os.getuid() == 0, reason="root may write everywhere")
def test_a_folder_that_may_not_be_written(tmp_path: Path, refuse: Refuse) -> None:
    (tmp_path / "out").mkdir(mode=0o500)
    assert "not writable" in refuse("bin", write(scores(), tmp_path / "a.csv"), code=2)["message"]


@pytest.mark.parametrize("name", COMMANDS)
def test_json_and_the_result_cannot_share_standard_output(
    name: str, tmp_path: Path, invoke: Invoke, model: Path
) -> None:
    path = write(scores(), tmp_path / "a.csv")
    command, *given = COMMANDS[name]
    start = [command, *([model] if name == "apply" else []), path, *given, "--json"]
    done = invoke(*start, "-o", "-")
    error = json.loads(done.stdout)["error"]
    assert (done.code, error["code"], done.stderr) == (2, 2, "")
    assert "-o" in error["message"]
    alone = invoke(*start, "-q")
    assert alone.code == (0 if name == "boundary" else 2)
    assert json.loads(alone.stdout).get("kind") == ("boundary" if name == "boundary" else None)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ([], ["--precision", "--recall", "none"]),
        (["--precision", "0.5", "--fpr", "0.5"], ["exactly one", "--precision and --fpr"]),
        (["--precision", "1.5"], ["--precision is 1.5", "0 to 1"]),
        (["--precision", "much"], ["'much'", "decimal"]),
        (["--capacity", "100/day"], ["--capacity is 100/day", "whole number of rows"]),
        (["--fpr", "0.5", "--method", "gmt"], ["--method gmt", "--recall", "exact", "st"]),
        (["--precision", "0.5", "--method", "exct"], ["'exct'", "did you mean 'exact'", "mist"]),
        (["--precision", "0.5", "--order", "score-uncertainty"], ["--score-bins"]),
        (["--precision", "0.5", "--folds", "1"], ["--folds is 1", "2 to 255"]),
        (["--precision", "0.5", "--folds", "-2"], ["--folds"]),
        (["--precision", "0.5", "--score-bins", "-1"], ["--score-bins"]),
        (["--precision", "0.5", "--uncertainty-bins", "0"], ["--uncertainty-bins"]),
        (["--precision", "0.5", "--uncertainty-bins", "70000"], ["70000", "at most"]),
        (["--precision", "0.5", "--tag", "owner"], ["KEY=VALUE", "'owner'"]),
        (["--precision", "0.5", "--tag", "a=1", "--tag", "a=2"], ["two values"]),
        (["--precision", "0.5", "--scale", "odds"], ["'odds'", "percent"]),
        (["--precision", "0.5", "--threads", "0"], ["--threads"]),
        (["--precision", "0.5", "--test", "no.csv"], ["no.csv", "no such file"]),
        (["--precision", "0.5", "--precison", "0.5"], ["--precison", "--precision"]),
    ],
)
def test_options_that_are_impossible(
    tmp_path: Path, given: list[str], words: list[str], invoke: Invoke
) -> None:
    path, out = write(scores(), tmp_path / "a.csv"), tmp_path / "b.json"
    done = invoke("boundary", path, *given, "-o", out, "-q")
    assert (done.code, done.stdout, out.exists()) == (2, b"", False)
    for word in words:
        assert word in done.stderr


def test_levels_without_uncertainties_are_impossible(tmp_path: Path, refuse: Refuse) -> None:
    path = write(scores().drop("uncertainty"), tmp_path / "a.csv")
    for name in ("bin", "boundary"):
        error = refuse(name, path, "--uncertainty-bins", "2", code=2)
        assert "--uncertainty" in error["message"]


# Infeasible bounds: exit 4 -------------------------------------------------------------------


@pytest.mark.parametrize("method", ["exact", "st", "gmt", "mist"])
@pytest.mark.parametrize("more", [[], ["--score-bins", "5"]])
def test_an_infeasible_bound_writes_nothing(
    tmp_path: Path, method: str, more: list[str], invoke: Invoke
) -> None:
    label = pl.Series("label", [0, 1, 0, 0] * 10)
    frame = scores().with_columns(label, score=pl.lit(0.5))
    path, out = write(frame, tmp_path / "a.csv"), tmp_path / "b.json"
    out.write_text("the model of yesterday")
    start = ["boundary", path, "--precision", "0.9", "--method", method, *more, "-o", out]
    invoke(*start, "--uncertainty-bins", "1").refused(4, "precision >= 0.9", "0.25")
    as_json = invoke(*start, "--json")
    error = json.loads(as_json.stdout)["error"]
    assert (as_json.code, error["code"]) == (4, 4)
    assert out.read_text() == "the model of yesterday"
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["a.csv", "b.json"]


# Models --------------------------------------------------------------------------------------


def change(model: Path, **fields: Any) -> Path:
    path = model.with_name("changed.json")
    path.write_text(json.dumps({**json.loads(model.read_text()), **fields}))
    return path


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"kind": "bondary"}, ["'bondary'", "did you mean 'boundary'"]),
        ({"version": 99}, ["99", "update calibkit"]),
        ({"surprise": 1}, ["surprise"]),
    ],
)
def test_models_of_another_kind_newer_or_damaged(
    tmp_path: Path, fields: dict[str, Any], words: list[str], invoke: Invoke, model: Path
) -> None:
    bad = change(model, **fields)
    path, out = write(scores(), tmp_path / "a.csv"), tmp_path / "out.csv"
    for line in (["apply", bad, path, "-o", out], ["show", bad]):
        done = invoke(*line)
        assert (done.code, done.stdout, out.exists()) == (3, b"", False)
        assert str(bad) in done.stderr
        for word in words:
            assert word in done.stderr
        as_json = invoke(*line, "--json")
        error = json.loads(as_json.stdout)["error"]
        assert (as_json.code, error["code"], error["file"]) == (3, 3, str(bad))


def test_a_model_that_is_not_there(tmp_path: Path, invoke: Invoke, model: Path) -> None:
    for line in (["apply", "boundry.json", "a.csv"], ["show", tmp_path / "nothing.json"]):
        done = invoke(*line)
        assert (done.code, done.stdout) == (2, b"")


def test_a_name_clash_with_the_added_columns(tmp_path: Path, refuse: Refuse) -> None:
    path = write(scores().rename({"id": "margin"}), tmp_path / "a.csv")
    error = refuse("apply", path, code=2)
    assert error["column"] == "margin"
    for word in ("--keep", "--overwrite-columns"):  # --column renames the first one that is added
        assert word in error["message"]
