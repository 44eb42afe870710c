"""CSV as people have it gives the model of the clean Parquet file."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from tests.conftest import Outcome

Invoke = Callable[..., Outcome]

ROWS = 400


@pytest.fixture(scope="module")
def clean() -> pl.DataFrame:
    """Rows with a missing score, fractions, and words that look like missing values."""
    random = np.random.default_rng(7)
    score = random.random(ROWS)
    return pl.DataFrame(
        {
            "score": [None, *score[1:]],
            "label": (random.random(ROWS) < score).astype(int),
            "weight": np.round(random.random(ROWS) * 900, 2) + 0.25,
            "country": random.choice(["DE", "NA", "-"], ROWS),
            "name": ["Müller"] * ROWS,
        }
    )


def put(
    frame: pl.DataFrame, path: Path, delimiter: str, decimal: str, null: str, encoding: str
) -> str:
    def text(value: Any) -> str:
        if value is None:
            return null
        return str(value).replace(".", decimal) if isinstance(value, float) else str(value)

    with path.open("w", encoding=encoding, newline="") as file:
        writer = csv.writer(file, delimiter=delimiter)
        writer.writerow(frame.columns)
        writer.writerows([text(value) for value in row] for row in frame.iter_rows())
    return str(path)


def model(invoke: Invoke, path: str, folder: Path, *more: str) -> dict[str, Any]:
    out = folder / "model.json"
    line = ["boundary", path, "--precision", "0.6", "--method", "st", "--weight", "weight"]
    done = invoke(*line, "--on-missing", "drop", "-o", str(out), *more)
    assert done.code == 0, done.stderr
    found: dict[str, Any] = json.loads(out.read_text())
    del found["provenance"]
    return found


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "latin-1"])
@pytest.mark.parametrize("decimal", [".", ","])
def test_every_mix_gives_the_clean_model(
    encoding: str, decimal: str, clean: pl.DataFrame, tmp_path: Path, invoke: Invoke
) -> None:
    clean.write_parquet(tmp_path / "clean.parquet")
    expected = model(invoke, str(tmp_path / "clean.parquet"), tmp_path, "--by", "country")
    for delimiter, null in product([",", ";", "\t", "|"], ["NA", "n/a", ""]):
        path = put(clean, tmp_path / "x.csv", delimiter, decimal, null, encoding)
        found = model(invoke, path, tmp_path, "--by", "country")
        assert found == expected, (delimiter, null)


def test_what_was_told_is_said_once_and_can_be_said(
    clean: pl.DataFrame, tmp_path: Path, invoke: Invoke
) -> None:
    path = put(clean, tmp_path / "x.csv", ";", ",", "-999", "latin-1")
    options = ["--delimiter", ";", "--decimal", ",", "--encoding", "latin-1", "--null-values"]
    done = invoke(
        "boundary", path, "--precision", "0.6", "--on-missing", "drop", *options, "-999", "-o",
        str(tmp_path / "m.json"),
    )  # fmt: skip
    assert done.code == 0, done.stderr
    assert done.stderr.count("Read ") == 1
    assert "semicolons between fields" in done.stderr
    assert "decimal commas in 'score'" in done.stderr


def test_a_clean_file_is_read_without_a_word(tmp_path: Path, invoke: Invoke) -> None:
    rows = "".join(f"0.{k:03},{k % 2}\n" for k in range(50))
    (tmp_path / "x.csv").write_text("score,label\n" + rows)
    done = invoke("boundary", tmp_path / "x.csv", "--precision", "0.4", "-o", tmp_path / "m.json")
    assert done.code == 0
    assert "Read " not in done.stderr


@pytest.mark.parametrize(
    ("text", "decimal", "expected"),
    [
        ("1.234,5;1", None, 1234.5),
        ('"1,234,567";1', None, 1234567.0),
        ("1.234.567;1", None, 1234567.0),
        ("1.234;1", None, 1.234),
        ("1,234;1", ",", 1.234),
        ("1,234;1", ".", 1234.0),
        ("1,234;0,5", None, 1.234),
        ("1,234;1", None, None),
        ("1.234;0,5", None, None),
        ("1,234;0.5", None, None),
    ],
)
def test_marks_that_two_readings_allow_are_refused(
    text: str, decimal: str | None, expected: float | None, tmp_path: Path, invoke: Invoke
) -> None:
    (tmp_path / "x.csv").write_text(f"score;other;label\n{text};1\n{text};0\n")
    more = [] if decimal is None else ["--decimal", decimal]
    line = ["bin", tmp_path / "x.csv", "--scale", "raw", "-o", tmp_path / "grid.csv", *more]
    done = invoke(*line)
    if expected is None:
        assert done.code == 3
        assert "--decimal" in done.stderr
        return
    assert done.code == 0, done.stderr
    assert pl.read_csv(tmp_path / "grid.csv")["mean_score"].drop_nulls().cast(
        pl.Float64
    ).to_list() == [expected]


def test_names_without_regard_to_case(tmp_path: Path, invoke: Invoke) -> None:
    rows = "".join(f"0.{k:03},{k % 2}\n" for k in range(50))
    path = tmp_path / "x.csv"
    path.write_text("Score, Label \n" + rows)
    line = ["boundary", path, "--precision", "0.4", "-o", tmp_path / "m.json"]
    done = invoke(*line)
    assert done.code == 0, done.stderr
    assert done.stderr.count("Column 'Score' is read as 'score'.") == 1
    applied = invoke("apply", tmp_path / "m.json", path, "-o", tmp_path / "out.csv")
    assert applied.code == 0, applied.stderr
    assert pl.read_csv(tmp_path / "out.csv").columns[:2] == ["Score", " Label "]
    path.write_text("Score,SCORE,label\n0.1,0.2,1\n")
    twice = invoke(*line)
    assert twice.code == 2
    assert "'Score' and 'SCORE'" in twice.stderr


def test_labels_are_offered_never_guessed(tmp_path: Path, invoke: Invoke) -> None:
    (tmp_path / "x.csv").write_text("score,is_fraud,n\n0.1,1,5\n0.2,0,6\n")
    done = invoke("boundary", tmp_path / "x.csv", "--precision", "0.4")
    assert done.code == 2
    assert "'is_fraud'" in done.stderr.split("of 0 and 1 are")[1]


def test_missing_values_are_text_where_text_counts(tmp_path: Path, invoke: Invoke) -> None:
    rows = "".join(f"0.{k:03},{['1', '0', 'NA'][k % 3]},{['1', 'NA'][k % 2]}\n" for k in range(60))
    path = tmp_path / "x.csv"
    path.write_text("score,label,part\n" + rows)
    refused = invoke("bin", path, "-o", tmp_path / "g.csv")
    assert refused.code == 3
    assert "no label in 20 rows" in refused.stderr
    done = invoke("evaluate", path, "--positive", "1", "--by", "part", "--json")
    assert done.code == 0, done.stderr
    assert b'NA"' in done.stdout
    assert json.loads(done.stdout)["rows"] == 60
    invoke("boundary", path, "--positive", "1", "--precision", "0.2", "-o", tmp_path / "m.json")
    invoke("apply", tmp_path / "m.json", path, "-o", tmp_path / "out.csv")
    assert "NA" in pl.read_csv(tmp_path / "out.csv", infer_schema=False)["part"].to_list()
