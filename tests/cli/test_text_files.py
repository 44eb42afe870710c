"""CSV as people have it gives the model of the clean Parquet file."""

from __future__ import annotations

import csv
import json
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from tests.compat.fits import FITS, rows, words
from tests.conftest import Invoke, Outcome

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
    found["provenance"].pop("text", None)
    return found


@pytest.mark.few(2)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
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
    for other in ("utf-8-sig", "latin-1"):
        path = put(clean, tmp_path / "x.csv", ";", decimal, "NULL", other)
        assert model(invoke, path, tmp_path, "--by", "country") == expected, other


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
    applied = ["apply", tmp_path / "m.json", "--on-missing", "null"]
    for command, output in ((applied, "out.csv"), (["validate"], "out.json")):
        for more in ([], ["-o", "-"], ["--json", "-o", tmp_path / output]):
            done = invoke(*command, path, "--null-values", "-999", *more)
            assert done.stderr.count("Read ") == 1, (command, more, done.stderr)


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
        done.refused(3, "--decimal")
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
    done = invoke("evaluate", path, "--score", "Score", "--boundary", tmp_path / "m.json")
    assert done.code == 0, done.stderr
    assert "Column 'score'" not in done.stderr
    assert invoke(*line, "--score", "Score", "--groups", "score").code == 0
    path.write_text("Score,SCORE,label\n0.1,0.2,1\n")
    invoke(*line).refused(2, "'Score' and 'SCORE'")


def test_labels_are_offered_never_guessed(tmp_path: Path, invoke: Invoke) -> None:
    (tmp_path / "x.csv").write_text("score,is_fraud,n\n0.1,1,5\n0.2,0,6\n")
    done = invoke("boundary", tmp_path / "x.csv", "--precision", "0.4")
    assert done.code == 2
    assert "columns of 0 and 1: 'is_fraud' (use --label is_fraud)" in done.stderr


def test_segments_with_decimal_commas_are_called_as_with_points(
    tmp_path: Path, invoke: Invoke
) -> None:
    rows = "".join(f"0.{k:03};{k % 2};{k % 3}.5\n" for k in range(1, 400))
    found = []
    for name, text in {"points": rows, "commas": rows.replace(".", ",")}.items():
        path, out = tmp_path / f"{name}.csv", tmp_path / f"{name}.json"
        path.write_text("score;label;part\n" + text)
        done = invoke("calibrate", path, "--method", "platt", "--by", "part", "-o", out)
        assert done.code == 0, done.stderr
        found.append(json.loads(out.read_text())["groups"])
    assert found[0] == found[1]
    assert set(found[0]) == {"0.5", "1.5", "2.5"}


def test_missing_values_are_text_where_text_counts(tmp_path: Path, invoke: Invoke) -> None:
    rows = "".join(f"0.{k:03},{['1', '0', 'NA'][k % 3]},{['1', 'NA'][k % 2]}\n" for k in range(60))
    path = tmp_path / "x.csv"
    path.write_text("score,label,part\n" + rows)
    invoke("bin", path, "-o", tmp_path / "g.csv").refused(3, "no label in 20 rows")
    done = invoke("evaluate", path, "--positive", "1", "--by", "part", "--json")
    assert done.code == 0, done.stderr
    assert b'NA"' in done.stdout
    assert json.loads(done.stdout)["rows"] == 60
    invoke("boundary", path, "--positive", "1", "--precision", "0.2", "-o", tmp_path / "m.json")
    invoke("apply", tmp_path / "m.json", path, "-o", tmp_path / "out.csv")
    assert "NA" in pl.read_csv(tmp_path / "out.csv", infer_schema=False)["part"].to_list()


#: Scores whose decimal mark is open, beside those that tell it, and what settles them.
OPEN, POINTS, COMMAS = "1.234;1\n2.345;0\n", "0.5;1\n0.25;0\n", "0,93;1\n0,21;0\n"


def shards_of(folder: Path, *texts: str) -> list[str]:
    paths = [folder / f"{place}.csv" for place in range(len(texts))]
    for path, text in zip(paths, texts, strict=True):
        path.write_text("score;label;p\n" + text.replace("\n", ";01\n"))
    return [str(path) for path in paths]


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "line",
    [
        ["bin", "--scale", "raw"],
        ["boundary", "--scale", "raw", "--recall", "0.5", "--method", "st"],
        ["vad", "--members", "score,label", "--scale", "raw", "--link", "identity"],
        ["hetcal", "--features", "score", "--score", "p"],
    ],
    ids=lambda line: line[0],
)
def test_states_that_were_read_otherwise_do_not_merge(
    line: list[str], tmp_path: Path, invoke: Invoke
) -> None:
    def merged(*texts: str, more: tuple[str, ...] = ()) -> Outcome:
        states = []
        for path in shards_of(tmp_path, *texts):
            states.append(f"{path}.state")
            made = invoke(line[0], path, *line[1:], *more, "--partial", "-o", states[-1])
            assert made.code == 0, made.stderr
        return invoke("merge", *states, "-o", tmp_path / "whole.state")

    for texts in ([OPEN, COMMAS], [COMMAS, OPEN], [POINTS, OPEN, COMMAS]):
        refused = merged(*texts)
        assert refused.code == 3, refused.stderr
        assert "--decimal" in refused.stderr
    for texts in ([OPEN, POINTS], [POINTS, COMMAS]):
        assert merged(*texts).code == 0
    assert merged(OPEN.replace(".", ","), COMMAS, more=("--decimal", ",")).code == 0


@pytest.mark.parametrize(
    ("texts", "means"),
    [
        ([OPEN.replace(".", ","), COMMAS], [0.93, 1.234, 0.21, 2.345]),
        ([OPEN, POINTS], [0.5, 1.234, 0.25, 2.345]),
        ([OPEN, COMMAS], None),
        ([OPEN, POINTS, COMMAS], None),
    ],
)
def test_a_cluster_reads_all_inputs_alike(
    texts: list[str], means: list[float] | None, tmp_path: Path, invoke: Invoke, address: str
) -> None:
    paths = shards_of(tmp_path, *texts)
    found = []
    for more in ([], ["--dask", address]):
        line = ["bin", *paths, "--scale", "raw", "--score-bins", 2, *more]
        done = invoke(*line, "-o", tmp_path / "grid.parquet")
        assert done.code == (3 if means is None else 0), done.stderr
        assert means is not None or "--decimal" in done.stderr
        read = [line for line in done.stderr.splitlines() if line.startswith("Read ")]
        found.append([(tmp_path / "grid.parquet").read_bytes(), read] if means else [])
    assert found[0] == found[1]
    if means is not None:
        grid = pl.read_parquet(tmp_path / "grid.parquet")
        total = (grid["mean_score"] * grid["count"]).sum()
        assert total == pytest.approx(sum(means))


def test_a_cluster_applies_to_all_inputs_alike(
    tmp_path: Path, invoke: Invoke, address: str
) -> None:
    commas = shards_of(tmp_path, OPEN.replace(".", ","), COMMAS)
    fit = ["boundary", *commas, "--scale", "raw", "--recall", "0.5", "--method", "st"]
    assert invoke(*fit, "-o", tmp_path / "model.json").code == 0
    found = []
    for more in ([], ["--dask", address]):
        line = ["apply", tmp_path / "model.json", *commas, *more, "-o", f"{tmp_path}/out/"]
        done = invoke(*line)
        assert done.code == 0, done.stderr
        assert done.stderr.count(f"Read {commas[0]} and 1 more with semicolons between") == 1
        found.append([path.read_bytes() for path in sorted((tmp_path / "out").iterdir())])
    assert found[0] == found[1]
    line = ["apply", tmp_path / "model.json", *shards_of(tmp_path, POINTS), "--dask", address]
    assert invoke(*line, "-o", f"{tmp_path}/out/").code == 0
    assert ",01," in (tmp_path / "out" / "0.csv").read_text()
    commas = shards_of(tmp_path, OPEN, COMMAS)
    for more in ([], ["--dask", address]):
        refused = invoke("apply", tmp_path / "model.json", *commas, *more, "-o", f"{tmp_path}/no/")
        refused.refused(3, "--decimal")


@pytest.mark.few(5)
@pytest.mark.parametrize(
    "line",
    [
        ["bin"],
        ["evaluate", "--no-intervals"],
        ["drift", "model.json"],
        ["watch", "model.json", "--precision", "0.5"],
        *(FITS[name].split() for name in ("exact", "beta", "vad", "tree", "alpha")),
        FITS["classes, temperature"].split(),
    ],
    ids=lambda line: " ".join(line[:2]),
)
def test_states_with_other_missing_values_do_not_merge(
    line: list[str], tmp_path: Path, invoke: Invoke
) -> None:
    model, states, all_rows = tmp_path / "model.json", list[Path](), rows()
    all_rows.write_csv(tmp_path / "all.csv")
    assert invoke(*words(FITS["exact"], tmp_path, tmp_path / "all.csv"), "-o", model).code == 0
    named = [str(model) if word == "model.json" else word for word in line]
    for absent, part in (("-999", all_rows[:150]), ("NA", all_rows[150:])):
        path, state = tmp_path / f"{absent}.csv", tmp_path / f"{absent}.state"
        part.write_csv(path)
        place = 2 if named[0] in ("drift", "watch") else 1
        more = ["--partial", "-o", state] if named[0] != "watch" else ["--state", state, "-q"]
        done = invoke(*named[:place], path, *named[place:], "--null-values", absent, *more)
        assert done.code == 0, done.stderr
        states.append(state)
    merged = invoke("merge", *states, "-o", tmp_path / "merged.json")
    merged.refused(3, "-999 in some, NA in others", "--null-values")
    if line[0] == "watch":  # nor does a night join those of a state
        later = invoke(*named[:2], path, *named[2:], "--state", states[0])
        later.refused(3, "--null-values")


def test_models_say_what_is_unusual_however_they_are_made(tmp_path: Path, invoke: Invoke) -> None:
    def text(*line: object) -> Any:
        done = invoke(*line, "-o", tmp_path / "model.json")
        assert done.code == 0, done.stderr
        return json.loads((tmp_path / "model.json").read_text())["provenance"].get("text")

    fit = ["calibrate", "--method", "none"]
    assert text(*fit, *shards_of(tmp_path, POINTS, POINTS.replace("5", "4"))) is None
    paths = shards_of(tmp_path, POINTS, COMMAS)
    for path in paths:
        assert invoke(*fit, path, "--partial", "-o", f"{path}.state").code == 0
    expected = {"marks": [",", "."]}
    assert text(*fit, *paths) == text("merge", *(f"{path}.state" for path in paths)) == expected
    assert text(*fit, paths[1], "--null-values", "NA")["null_values"] == ["NA"]
    assert text(*fit, paths[0], "--null-values", "NA") == {"null_values": ["NA"]}


def test_a_folder_says_which_files_it_got(tmp_path: Path, invoke: Invoke) -> None:
    (path,) = shards_of(tmp_path, POINTS * 20)
    for line in (
        ["calibrate", "--method", "platt"],
        ["bin"],
        ["evaluate"],
        ["vad", "--members", "score,p", "--partial"],
    ):
        done = invoke(line[0], path, *line[1:], "-o", f"{tmp_path}/{line[0]}/")
        assert done.code == 0, done.stderr
        (written,) = sorted((tmp_path / line[0]).iterdir(), key=lambda one: one.stat().st_mtime_ns)[
            -1:
        ]
        assert f" written to {written}.\n" in done.stderr


def test_a_european_grid_is_read(tmp_path: Path, invoke: Invoke) -> None:
    rows = "".join(f"0.{k:03};{k % 2};1\n" for k in range(60))
    (tmp_path / "x.csv").write_text("score;label;p\n" + rows)
    done = invoke("bin", tmp_path / "x.csv", "--score-bins", 5, "-o", tmp_path / "grid.csv")
    assert done.code == 0, done.stderr
    text = (tmp_path / "grid.csv").read_text()
    (tmp_path / "european.csv").write_text(text.replace(",", ";").replace(".", ","))
    found = []
    for name in ("grid.csv", "european.csv"):
        line = ["evaluate", tmp_path / "x.csv", "--grid", tmp_path / name, "--json"]
        done = invoke(*line, "--no-intervals")
        assert done.code == 0, done.stderr
        found.append(json.loads(done.stdout)["metrics"])
    assert found[0] == found[1]


@pytest.mark.parametrize(("delimiter", "decimal"), [(",", "."), (";", ",")])
def test_names_with_quotation_marks_are_kept(
    delimiter: str, decimal: str, tmp_path: Path, invoke: Invoke
) -> None:
    rows = [(0.5, 1, 'a "b"'), (0.4, 0, "c"), (0.7, 1, "d"), (0.2, 0, "e")]
    frame = pl.DataFrame(rows, schema=['the "score"', "label", '"'], orient="row")
    path, model, out = tmp_path / "x.csv", tmp_path / "b.json", tmp_path / "out.csv"
    put(frame, path, delimiter, decimal, "", "utf-8")
    line = ["--score", 'the "score"', "--precision", 0.5, "--method", "st", "--folds", 0]
    done = invoke("boundary", path, *line, "-o", model)
    assert done.code == 0, done.stderr
    done = invoke("apply", model, path, "-o", out)
    assert done.code == 0, done.stderr
    with out.open(newline="", encoding="utf-8") as file:
        header, first, *_ = csv.reader(file)
    assert header == ['the "score"', "label", '"', "decision", "margin"]
    assert first[:4] == ["0.5", "1", 'a "b"', "1"]


def test_numbers_that_are_named_as_missing_are_missing(tmp_path: Path, invoke: Invoke) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("score,label,w\n0.5,1,1\n-999,0,2\n0.25,0,-999\n0.7,1,1\n0.1,0,2.5\n")
    given = ("--method platt --weight w --null-values=-999 --on-missing drop",)
    assert (
        invoke("calibrate", path, *given, "-o", tmp_path / "m.json").result()["fit"]["rows"] == 4.5
    )
