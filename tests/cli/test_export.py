"""``calibkit export``: files, checks that hold and that do not, what cannot be exported."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import polars as pl
import pytest

from calibkit.exports import export as exporting
from tests.cli.score_files import simulate, write
from tests.conftest import Invoke


@pytest.fixture
def rows() -> Path:
    return write(simulate(200), "rows.parquet")


@pytest.mark.parametrize(
    ("to", "name", "what"),
    [
        ("sql", "b.sql", "SQL"),
        ("polars", "b.py", "polars code"),
        ("python", "b.py", "Python code"),
    ],
)
def test_a_checked_export_is_a_file(
    invoke: Invoke, model: Path, to: str, name: str, what: str
) -> None:
    # As it is applied, to CSV: its types are not those of the fit.
    rows, output = write(simulate(200), "rows.csv"), Path(name)
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


def test_json_says_what_was_compared(invoke: Invoke, model: Path, rows: Path) -> None:
    output = Path("b.sql")
    said = invoke("export", model, "--to", "sql", "--check", rows, "--json", "-q", "-o", output)
    found = json.loads(said.stdout)
    checked = found.pop("checked")
    assert found == {"kind": "boundary", "to": "sql", "output": str(output), "text": None}
    assert (checked["rows"], checked["different"]) == (200, 0)
    assert checked["made_rows"] > 0 and checked["largest_difference"] <= 1e-12
    alone = json.loads(invoke("export", model, "--to", "python", "--json", "-q").stdout)
    assert alone["checked"] is None and "def apply(" in alone["text"]


def test_columns_that_are_read_and_added(invoke: Invoke, rows: Path) -> None:
    # A column of the file that is read and replaced.
    named, own = Path("named.parquet"), Path("own.json")
    pl.read_parquet(rows).rename({"score": "calibrated"}).write_parquet(named)
    assert invoke("calibrate", named, "--score calibrated -o", own).code == 0
    # Segments that an earlier part of a bundle adds.
    tree, seen, cut, both = (Path(name) for name in ("tree.json", "seen.parquet", "c", "b"))
    options = "--features uncertainty --max-depth 1 --min-leaf 20 -o"
    assert invoke("hetcal", rows, options, tree).code == 0
    assert invoke("apply", tree, rows, "-o", seen).code == 0
    options = "--score calibrated --uncertainty-bins 1 --by leaf --method st --recall 0.8 -o"
    assert invoke("boundary", seen, options, cut).code == 0
    assert invoke("bundle", tree, f"go={cut}", "-o", both).code == 0
    for fitted, table in ((own, named), (both, rows)):
        for to in ("sql", "polars", "python"):
            line = ("--to", to, "--check", table, "-o", Path("x.txt"))
            assert "no difference" in invoke("export", fitted, *line).stderr


def test_lengths_of_time_are_not_segments_of_databases(invoke: Invoke) -> None:
    hours = pl.duration(hours=pl.int_range(pl.len()) % 2 + 1)
    rows, model = write(simulate(200).with_columns(shift=hours), "rows.parquet"), Path("m.json")
    line = "--recall 0.5 --method st --folds 0 --by shift --min-group-positives 5 -q -o"
    assert invoke("boundary", rows, line, model).code == 0
    said = invoke("export", model, "--to sql --check", rows, "-o m.sql")
    said.refused(2, "rows.parquet: column 'shift' holds lengths of time", "give numbers")
    assert not Path("m.sql").exists()
    assert invoke("export", model, "--to polars --check", rows, "-o m.py").code == 0


def test_an_export_that_differs_is_not_written(
    invoke: Invoke, model: Path, rows: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = exporting.run

    def dishonest(language: str, text: str, frame: pl.DataFrame) -> pl.DataFrame:
        return honest(language, text, frame).with_columns(decision=1 - pl.col("decision"))

    monkeypatch.setattr(exporting, "run", dishonest)
    output = Path("b.py")
    line = ["export", model, "--to", "polars", "--check", rows, "-o", output]
    said = invoke(*line)
    assert said.code == 1
    assert said.stderr.startswith(f"Error: {rows}: the export is not the model: 200 rows and ")
    assert "row 1, decision: " in said.stderr
    assert not output.exists()
    invoke(*line, "--json").refused(1)


def test_what_makes_no_sense_is_refused(
    invoke: Invoke, model: Path, rows: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    refused: dict[str, list[object]] = {
        "go with --to sql": ["--to", "python", "--table", "x"],
        "go with --to sql.": ["--to", "polars", "--dialect", "duckdb"],
        "leave --key": ["--to", "sql", "--key", "id"],
        "uses no probs column": ["--to", "sql", "--probs", "prob_*"],
        "one model is one file": ["--to", "sql", "-o", "folder/"],
        "FILE.sql": ["--to", "sql", "-o", "b.csv"],
        "does not close": ["--to", "sql", "--table", '"a'],
        "no column": ["--to", "sql", "--score", "zcore", "--check", rows],
        "--dialect duckdb": ["--to", "sql", "--dialect", "postgres", "--check", rows],
        "pip install duckdb": ["--to", "sql", "--check", rows],
    }
    for words, options in refused.items():
        invoke("export", model, *options).refused(2, words)
