"""``calibkit export``: files, checks that hold and that do not, what cannot be exported."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from types import ModuleType

import polars as pl
import pytest

from calibkit.exports import export as exporting
from tests.cli.score_files import simulate, write
from tests.conftest import Invoke


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    return write(simulate(200), tmp_path / "rows.parquet")


@pytest.mark.parametrize(
    ("to", "name", "what"),
    [
        ("sql", "b.sql", "SQL"),
        ("polars", "b.py", "polars code"),
        ("python", "b.py", "Python code"),
    ],
)
def test_a_checked_export_is_a_file(
    invoke: Invoke, model: Path, rows: Path, tmp_path: Path, to: str, name: str, what: str
) -> None:
    output = tmp_path / name
    said = invoke("export", model, "--to", to, "--check", rows, "-o", output)
    assert (said.code, said.stdout) == (0, b"")
    assert "200 rows and " in said.stderr and "no difference" in said.stderr
    assert f"Boundary as {what} written to {output}." in said.stderr
    text = output.read_text()
    assert "SELECT *" in text if to == "sql" else "def apply(" in text
    printed = invoke("export", model, "--to", to)
    assert (printed.code, printed.stdout.decode()) == (0, text)
    again = invoke("export", model, "--to", to, "-o", "-", "-q")
    assert (again.stdout.decode(), again.stderr) == (text, "")


def test_json_says_what_was_compared(
    invoke: Invoke, model: Path, rows: Path, tmp_path: Path
) -> None:
    output = tmp_path / "b.sql"
    said = invoke("export", model, "--to", "sql", "--check", rows, "--json", "-q", "-o", output)
    found = json.loads(said.stdout)
    checked = found.pop("checked")
    assert found == {"kind": "boundary", "to": "sql", "output": str(output), "text": None}
    assert (checked["rows"], checked["different"]) == (200, 0)
    assert checked["made_rows"] > 0 and checked["largest_difference"] <= 1e-12
    alone = json.loads(invoke("export", model, "--to", "python", "--json", "-q").stdout)
    assert alone["checked"] is None and "def apply(" in alone["text"]


@pytest.mark.parametrize("to", ["sql", "polars", "python"])
def test_a_column_that_is_read_and_added_is_replaced(
    invoke: Invoke, tmp_path: Path, to: str
) -> None:
    rows = write(simulate(200).rename({"score": "calibrated"}), tmp_path / "own.parquet")
    fitted = tmp_path / "own.json"
    assert invoke("calibrate", rows, "--score", "calibrated", "-o", fitted).code == 0
    line = ("export", fitted, "--to", to, "--check", rows, "-o", tmp_path / "c.txt")
    assert "no difference" in invoke(*line).stderr


@pytest.mark.parametrize("to", ["sql", "polars", "python"])
def test_segments_may_be_what_an_earlier_part_adds(
    invoke: Invoke, rows: Path, tmp_path: Path, to: str
) -> None:
    tree, cut, both = (tmp_path / f"{name}.json" for name in ("tree", "cut", "both"))
    seen = tmp_path / "seen.parquet"
    features = ("--features", "uncertainty", "--max-depth", "1", "--min-leaf", "20")
    assert invoke("hetcal", rows, *features, "-o", tree).code == 0
    assert invoke("apply", tree, rows, "-o", seen).code == 0
    fit = ("boundary", seen, "--score", "calibrated", "--uncertainty-bins", "1", "--by", "leaf")
    assert invoke(*fit, "--method", "st", "--recall", "0.8", "-o", cut).code == 0
    assert invoke("bundle", tree, f"go={cut}", "-o", both).code == 0
    line = ("export", both, "--to", to, "--check", rows, "-o", tmp_path / "x.txt")
    assert "no difference" in invoke(*line).stderr


def test_an_export_that_differs_is_not_written(
    invoke: Invoke, model: Path, rows: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = exporting.run

    def dishonest(language: str, text: str, frame: pl.DataFrame) -> pl.DataFrame:
        return honest(language, text, frame).with_columns(decision=1 - pl.col("decision"))

    monkeypatch.setattr(exporting, "run", dishonest)
    output = tmp_path / "b.py"
    line = ["export", model, "--to", "polars", "--check", rows, "-o", output]
    said = invoke(*line)
    assert said.code == 1
    assert said.stderr.startswith(f"Error: {rows}: the export is not the model: 200 rows and ")
    assert "row 1, decision: " in said.stderr
    assert not output.exists()
    error = json.loads(invoke(*line, "--json").stdout)["error"]
    assert error["code"] == 1


def test_sql_is_checked_in_duckdb_or_not_at_all(
    invoke: Invoke, model: Path, rows: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = invoke("export", model, "--to", "sql", "--dialect", "postgres", "--check", rows)
    assert said.code == 2 and "--dialect duckdb" in said.stderr

    def absent(name: str) -> ModuleType:
        if name == "duckdb":
            raise ModuleNotFoundError(name)
        return honest(name)

    honest = importlib.import_module
    monkeypatch.setattr(importlib, "import_module", absent)
    said = invoke("export", model, "--to", "sql", "--check", rows)
    assert said.code == 2 and "pip install duckdb" in said.stderr


def test_what_makes_no_sense_is_refused(invoke: Invoke, model: Path, rows: Path) -> None:
    refused = {
        "go with --to sql": ["--to", "python", "--table", "x"],
        "go with --to sql.": ["--to", "polars", "--dialect", "duckdb"],
        "leave --key": ["--to", "sql", "--key", "id"],
        "one model is one file": ["--to", "sql", "-o", "folder/"],
        "FILE.sql": ["--to", "sql", "-o", "b.csv"],
        "does not close": ["--to", "sql", "--table", '"a'],
        "no column": ["--to", "sql", "--score", "zcore", "--check", rows],
    }
    for words, options in refused.items():
        said = invoke("export", model, *options)
        assert said.code == 2 and words in said.stderr, (options, said)


def test_csv_is_checked_as_it_is_applied(invoke: Invoke, model: Path, tmp_path: Path) -> None:
    path = write(simulate(50), tmp_path / "rows.csv")
    for to in ("sql", "polars", "python"):
        assert invoke("export", model, "--to", to, "--check", path).code == 0
