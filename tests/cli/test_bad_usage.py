"""Names, outputs, values and pairs of options, bounds and models: what works, and what is refused."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from typer.models import OptionInfo

from calibkit_cli.declare import number_of
from tests.cli.conftest import COMMANDS
from tests.cli.score_files import scores, write
from tests.conftest import ROOT, Invoke
from tests.test_architecture import loaded_by

Refuse = Callable[..., dict[str, Any]]

# Names, outputs and pairs of options: exit 2 -------------------------------------------------


NEAR = {"--score": "scor", "--uncertainty": "uncertanty", "--label": "labl"}
PAIRS = [(name, option) for name in COMMANDS for option in NEAR]


def start(name: str, model: Path, path: Path) -> list[Any]:
    """Return the command line of a command, without an output."""
    command, *given = COMMANDS[name]
    return [command, *([model] if name == "apply" else []), path, *given]


@pytest.mark.parametrize(("name", "option"), [one for one in PAIRS if one != ("apply", "--label")])
def test_a_missing_column_and_the_nearest_names(name: str, option: str, refuse: Refuse) -> None:
    path, near = write(scores(), "a.csv"), NEAR[option]
    error = refuse(name, path, option, near, code=2)
    assert (error["file"], error["column"]) == (str(path), near)
    assert f"did you mean {option[2:]!r}" in error["message"]
    assert "'weight'" in error["message"]


@pytest.mark.parametrize("name", COMMANDS)
def test_a_missing_file_and_the_nearest_names(name: str, refuse: Refuse) -> None:
    write(scores(), "calib.csv")
    error = refuse(name, Path("calb.csv"), code=2)
    assert error["file"] == str(Path("calb.csv"))
    assert "did you mean 'calib.csv'" in error["message"]
    assert "no file matches" in refuse(name, Path("*.nothing"), code=2)["message"]
    Path("loop.csv").symlink_to("loop.csv")
    assert "is a symbolic link to loop.csv" in refuse(name, Path("loop.csv"), code=2)["message"]


@pytest.mark.parametrize("name", COMMANDS)
def test_outputs_that_cannot_be_written(name: str, invoke: Invoke, model: Path) -> None:
    path = write(scores(), "a.csv")
    line, file = start(name, model, path), "b.json" if name == "boundary" else "rows.parquet"
    invoke(*line, "-o", Path("nowhere") / file).refused(2, "no such folder")
    invoke(*line, "-o", f"{path}/").refused(2, "is a file")
    invoke(*line, "-o", f"s3://nowhere/{file}").refused(2, "not written there")
    if name != "boundary":
        invoke(*line, "-o rows.txt").refused(2, "--output-format")
    else:
        Path("model.json").mkdir()
        invoke(*line, "--json", "-o model.json").refused(2, "-o DIR/")


@pytest.mark.skipif(os.getuid() == 0, reason="root may write everywhere")
def test_a_folder_that_may_not_be_written(refuse: Refuse) -> None:
    Path("out").mkdir(mode=0o500)
    assert "not writable" in refuse("bin", write(scores(), "a.csv"), code=2)["message"]


@pytest.mark.parametrize("name", COMMANDS)
def test_json_and_the_result_cannot_share_standard_output(
    name: str, invoke: Invoke, model: Path
) -> None:
    path = write(scores(), "a.csv")
    line = [*start(name, model, path), "--json"]
    done = invoke(*line, "-o", "-")
    done.refused(2, "-o")
    assert done.stderr == ""
    alone = invoke(*line, "-q")
    assert alone.code == (0 if name == "boundary" else 2)
    assert json.loads(alone.stdout).get("kind") == ("boundary" if name == "boundary" else None)


@pytest.mark.parametrize(
    ("name", "option", "value"),
    [
        ("boundary", "--tag", "a=\udce9"),
        ("boundary", "--null-values", "NA,\udce9"),
        ("apply", "--column", "decision=\udce9"),
    ],
)
def test_values_that_are_no_utf8_are_refused(
    name: str, option: str, value: str, refuse: Refuse
) -> None:
    message = refuse(name, write(scores(), "a.csv"), option, value, code=2)["message"]
    assert message.startswith(f"{option} {value!r} is not UTF-8")


def test_files_may_have_names_that_are_no_utf8(invoke: Invoke, model: Path) -> None:
    out = Path("\udce9.csv")
    assert invoke("apply", model, write(scores(), "a.csv"), "-o", out, "-q").code == 0
    assert out.stat().st_size


def test_levels_without_uncertainties_are_impossible(refuse: Refuse) -> None:
    path = write(scores().drop("uncertainty"), "a.csv")
    for name in ("bin", "boundary"):
        error = refuse(name, path, "--uncertainty-bins", "2", code=2)
        assert "--uncertainty" in error["message"]


# Infeasible bounds: exit 4 -------------------------------------------------------------------


@pytest.mark.parametrize("method", ["exact", "st", "gmt", "mist"])
@pytest.mark.parametrize("more", [[], ["--score-bins", "5"]])
def test_an_infeasible_bound_writes_nothing(method: str, more: list[str], invoke: Invoke) -> None:
    label = pl.Series("label", [0, 1, 0, 0] * 10)
    frame = scores().with_columns(label, score=pl.lit(0.5))
    path, out = write(frame, "a.csv"), Path("b.json")
    out.write_text("the model of yesterday")
    line = ["boundary", path, "--precision", "0.9", "--method", method, *more, "-o", out]
    invoke(*line, "--uncertainty-bins", "1").refused(4, "precision >= 0.9", "0.25")
    invoke(*line, "--json").refused(4)
    assert out.read_text() == "the model of yesterday"
    assert {entry.name for entry in Path().iterdir()} == {"a.csv", "b.json"}


# Models --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"kind": "bondary"}, ["'bondary'", "did you mean 'boundary'"]),
        ({"version": 99}, ["99", "update calibkit"]),
        ({"surprise": 1}, ["surprise"]),
    ],
)
def test_models_of_another_kind_newer_or_damaged(
    fields: dict[str, Any], words: list[str], invoke: Invoke, model: Path
) -> None:
    bad = model.with_name("changed.json")
    bad.write_text(json.dumps({**json.loads(model.read_text()), **fields}))
    path, out = write(scores(), "a.csv"), Path("out.csv")
    for line in (["apply", bad, path, "-o", out], ["show", bad]):
        done = invoke(*line)
        done.refused(3, str(bad), *words)
        assert (done.stdout, out.exists()) == (b"", False)
        assert invoke(*line, "--json").refused(3)["file"] == str(bad)


def test_a_model_that_is_not_there(invoke: Invoke) -> None:
    for line in (["apply", "boundry.json", "a.csv"], ["show", "nothing.json"]):
        invoke(*line).refused(2)


def test_a_name_clash_with_the_added_columns(refuse: Refuse) -> None:
    path = write(scores().rename({"id": "margin"}), "a.csv")
    error = refuse("apply", path, code=2)
    assert error["column"] == "margin"
    for word in ("--keep", "--overwrite-columns"):  # --column renames the first one that is added
        assert word in error["message"]


# Values that options check, without typer's validator ----------------------------------------


@pytest.mark.parametrize(
    ("text", "kind", "found"),
    [
        ("-12", int, -12),
        ("5.0", int, 5),
        ("5.00", int, 5),
        (" 5", int, 5),
        (".0", float, 0.0),
        ("1e3", float, 1e3),
    ],
)
def test_texts_that_are_numbers_become_what_typer_makes_of_them(
    text: str, kind: Any, found: Any
) -> None:
    from typer._adapters import build_adapter

    taken = number_of(text, kind)
    assert (taken, type(taken)) == (found, type(found))
    assert taken == build_adapter(kind, OptionInfo()).validate_python(text)


@pytest.mark.parametrize(
    ("value", "kind"), [("1e3", int), ("x", float), ("", int), ("5", str), (0.5, float)]
)
def test_other_values_are_left_to_their_option(value: Any, kind: Any) -> None:
    assert number_of(value, kind) is value


def test_a_flag_of_the_environment_is_yes_or_no(
    invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CALIBKIT_QUIET", "maybe")
    said = "got 'maybe' (from the environment variable CALIBKIT_QUIET)"
    invoke("boundary", "rows.csv --precision 0.5").refused(2, said)


def test_a_small_run_loads_no_validator() -> None:
    rows = str(ROOT / "sample_data" / "calib.parquet")
    command = ("boundary", rows, "--precision", "0.7", "--folds", "0", "--dry-run", "-q")
    assert "pydantic" not in loaded_by(*command)
