"""Excel workbooks in and out; passed over where the extra is not installed."""

from __future__ import annotations

import sys
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from tests.cli.test_formats import Command
from tests.conftest import Invoke, Outcome


@pytest.fixture
def rows() -> pl.DataFrame:
    random = np.random.default_rng(3)
    score = random.random(300).round(6)
    return pl.DataFrame(
        {
            "score": score,
            "label": (random.random(300) < score).astype(int),
            "note": ["=1+1", "https://example.org"] * 150,
            "day": [datetime(2024, 1, 1) + timedelta(days=k % 40) for k in range(300)],
        }
    )


@pytest.mark.parametrize(("way", "package"), [("in", "fastexcel"), ("out", "xlsxwriter")])
def test_without_the_extra(
    way: str, package: str, rows: pl.DataFrame, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    Path("book.xlsx").write_bytes(b"PK\x03\x04")
    rows.write_parquet("rows.parquet")
    names = ("book.xlsx", "x.csv") if way == "in" else ("rows.parquet", "new.xlsx")
    done = invoke("bin", Path(names[0]), "-o", Path(names[1]))
    done.refused(2, f"{package}; install it by: pip install 'calibkit[excel]'")


@pytest.fixture
def writer() -> Any:
    pytest.importorskip("fastexcel")
    return pytest.importorskip("xlsxwriter")


def test_a_workbook_is_a_table(rows: pl.DataFrame, invoke: Invoke, writer: Any) -> None:
    path, book = Path("rows.parquet"), Path("first.xlsx")
    rows.write_parquet(path)
    fit = ["boundary", "--precision 0.6 --method st --time day -o one.json"]
    model = invoke(*fit, path).result()
    line = ["apply", "one.json", path, "--keep", "*", "-o"]
    for output in (book, Path("again.xlsx")):
        invoke(*line, output).succeeded()
    assert book.read_bytes() == Path("again.xlsx").read_bytes()
    written = pl.read_excel(book, infer_schema_length=None)
    expected = invoke(*line, "same.parquet").result()
    assert written.columns == expected.columns
    for name in ("score", "note"):
        assert written[name].to_list() == expected[name].to_list()
    assert invoke(*fit, book).result() == model


def test_nothing_is_logged_of_a_workbook(command: Command, writer: Any) -> None:
    rows = pl.DataFrame({"score": [0.5, 0.2], "label": [1, 0], "none": ["", ""]})
    rows.write_excel(Path("book.xlsx"))
    done = command("bin", "book.xlsx", "-q", "-o grid.csv")
    assert (done.returncode, done.stderr) == (0, b"")


def test_numbers_as_text_and_bad_workbooks(invoke: Invoke, writer: Any) -> None:
    path, out = Path("book.xlsx"), Path("grid.csv")

    def binned(*lines: list[Any], more: str = "") -> Outcome:
        with writer.Workbook(path) as made:
            sheet = made.add_worksheet()
            for place, line in enumerate(lines):
                sheet.write_row(place, 0, line)
        return invoke("bin", path, *more.split(), "-o", out)

    names: list[Any] = ["score", "label"]
    mixed = [names, *([[0.5, 1], ["NA", 0], [0.25, 0]] * 5)]
    binned(*mixed).refused(3, "no value")
    binned(*mixed, more="--on-missing drop").succeeded()
    grid = out.read_bytes()
    binned(names, *([["0,5", 1], ["0,25", 0]] * 5)).succeeded()
    assert out.read_bytes() == grid
    binned(["score", None, None, "label"], *([[0.5, 7, 8, 1]] * 5)).succeeded()
    binned(["score", "score"], [0.5, 1]).refused(3, "2 times")
    binned(names, [0.5, 1], [], [1.5, 0], []).refused(3, "first: row 2")
    binned(names, [0.5, 1], [], [1.5, 0], more="--on-missing drop").refused(3, "first: row 3")
    binned(names).refused(3)
    path.write_bytes(b"PK\x03\x04 no workbook")
    bad = invoke("bin", path, "-o", out)
    bad.refused(3, "save it again")
    assert bad.stderr.count("\n") == 1
