"""Excel workbooks in and out; passed over where the extra is not installed."""

from __future__ import annotations

import json
import sys
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tests.cli.test_formats import Command
from tests.conftest import Invoke


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
    way: str,
    package: str,
    rows: pl.DataFrame,
    tmp_path: Path,
    invoke: Invoke,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    (tmp_path / "book.xlsx").write_bytes(b"PK\x03\x04")
    rows.write_parquet(tmp_path / "rows.parquet")
    names = ("book.xlsx", "x.csv") if way == "in" else ("rows.parquet", "new.xlsx")
    done = invoke("bin", tmp_path / names[0], "-o", tmp_path / names[1])
    done.refused(2, f"{package}; install it by: pip install 'calibkit[excel]'")
    assert not (tmp_path / "new.xlsx").exists()


def test_a_workbook_is_a_table(rows: pl.DataFrame, tmp_path: Path, invoke: Invoke) -> None:
    pytest.importorskip("fastexcel")
    pytest.importorskip("xlsxwriter")
    rows.write_parquet(tmp_path / "rows.parquet")
    fit = ["boundary", "--precision", "0.6", "--method", "st", "--time", "day"]
    assert invoke(*fit, tmp_path / "rows.parquet", "-o", tmp_path / "one.json").code == 0
    apply = ["apply", tmp_path / "one.json", tmp_path / "rows.parquet", "--keep", "*", "-o"]
    for name in ("first.xlsx", "again.xlsx"):
        assert invoke(*apply, tmp_path / name).code == 0
    assert (tmp_path / "first.xlsx").read_bytes() == (tmp_path / "again.xlsx").read_bytes()
    invoke(*apply, tmp_path / "same.parquet")
    written = pl.read_excel(tmp_path / "first.xlsx", infer_schema_length=None)
    expected = pl.read_parquet(tmp_path / "same.parquet")
    assert written.columns == expected.columns
    assert written["score"].to_list() == expected["score"].to_list()
    assert written["note"].to_list() == expected["note"].to_list()
    done = invoke(*fit, tmp_path / "first.xlsx", "-o", tmp_path / "two.json")
    assert done.code == 0, done.stderr
    one, two = (json.loads((tmp_path / f"{name}.json").read_text()) for name in ("one", "two"))
    assert one == two


def test_nothing_is_logged_of_a_workbook(tmp_path: Path, command: Command) -> None:
    pytest.importorskip("fastexcel")
    pytest.importorskip("xlsxwriter")
    rows = pl.DataFrame({"score": [0.5, 0.2], "label": [1, 0], "none": ["", ""]})
    rows.write_excel(tmp_path / "book.xlsx")
    done = command("bin", tmp_path / "book.xlsx", "-q", "-o", tmp_path / "grid.csv")
    assert (done.returncode, done.stderr) == (0, b"")


def test_numbers_as_text_and_bad_workbooks(tmp_path: Path, invoke: Invoke) -> None:
    pytest.importorskip("fastexcel")
    writer = pytest.importorskip("xlsxwriter")

    def book(name: str, *lines: list[object]) -> Path:
        with writer.Workbook(tmp_path / name) as made:
            sheet = made.add_worksheet()
            for place, line in enumerate(lines):
                sheet.write_row(place, 0, line)
        return tmp_path / name

    mixed = book("mixed.xlsx", ["score", "label"], *([[0.5, 1], ["NA", 0], [0.25, 0]] * 5))
    invoke("bin", mixed, "-o", tmp_path / "grid.csv").refused(3, "no value")
    done = invoke("bin", mixed, "--on-missing", "drop", "-o", tmp_path / "grid.csv")
    assert done.code == 0, done.stderr
    commas = book("commas.xlsx", ["score", "label"], *([["0,5", 1], ["0,25", 0]] * 5))
    done = invoke("bin", commas, "-o", tmp_path / "other.csv")
    assert done.code == 0, done.stderr
    assert (tmp_path / "other.csv").read_bytes() == (tmp_path / "grid.csv").read_bytes()
    twice = invoke("bin", book("twice.xlsx", ["score", "score"], [0.5, 1]), "-o", "x.csv")
    twice.refused(3, "2 times")
    unnamed = book("unnamed.xlsx", ["score", None, None, "label"], *([[0.5, 7, 8, 1]] * 5))
    assert invoke("bin", unnamed, "-o", tmp_path / "other.csv").code == 0
    assert invoke("bin", book("empty.xlsx", ["score", "label"]), "-o", "x.csv").code == 3
    (tmp_path / "bad.xlsx").write_bytes(b"PK\x03\x04 no workbook")
    bad = invoke("bin", tmp_path / "bad.xlsx", "-o", "x.csv")
    bad.refused(3, "save it again")
    assert bad.stderr.count("\n") == 1
