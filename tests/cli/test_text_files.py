"""CSV as people have it gives the model of the clean Parquet file."""

from __future__ import annotations

import csv
import re
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from tests.compat.fits import FITS, rows, words
from tests.conftest import Invoke, Outcome, make

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


def model(invoke: Invoke, path: str, folder: Path) -> dict[str, Any]:
    line = ["boundary", path, "--precision 0.6 --method st --weight weight --by country"]
    found: dict[str, Any] = invoke(*line, "--on-missing drop -o", folder / "model.json").result()
    found["provenance"].pop("text", None)
    return found


@pytest.mark.few(2)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
@pytest.mark.parametrize("decimal", [".", ","])
def test_every_mix_gives_the_clean_model(
    encoding: str, decimal: str, clean: pl.DataFrame, tmp_path: Path, invoke: Invoke
) -> None:
    clean.write_parquet(tmp_path / "clean.parquet")
    expected = model(invoke, str(tmp_path / "clean.parquet"), tmp_path)
    for delimiter, null in product([",", ";", "\t", "|"], ["NA", "n/a", ""]):
        path = put(clean, tmp_path / "x.csv", delimiter, decimal, null, encoding)
        found = model(invoke, path, tmp_path)
        assert found == expected, (delimiter, null)
    for other in ("utf-8-sig", "latin-1"):
        path = put(clean, tmp_path / "x.csv", ";", decimal, "NULL", other)
        assert model(invoke, path, tmp_path) == expected, other


def test_what_was_told_is_said_once_and_can_be_said(clean: pl.DataFrame, invoke: Invoke) -> None:
    path = put(clean, Path("x.csv"), ";", ",", "-999", "latin-1")
    options = ["--delimiter", ";", "--decimal", ",", "--encoding", "latin-1", "--null-values"]
    fit = ["boundary", path, "--precision 0.6 --on-missing drop", *options, "-999"]
    done = invoke(*fit, "-o m.json")
    done.succeeded("semicolons between fields", "decimal commas in 'score'")
    assert done.stderr.count("Read ") == 1
    applied = ["apply", "m.json", "--on-missing", "null"]
    for command, output in ((applied, "out.csv"), (["validate"], "out.json")):
        for more in ([], ["-o", "-"], ["--json", "-o", Path(output)]):
            done = invoke(*command, path, "--null-values", "-999", *more)
            assert done.stderr.count("Read ") == 1, (command, more, done.stderr)


def test_a_clean_file_is_read_without_a_word(invoke: Invoke) -> None:
    path = Path("x.csv")
    path.write_text("score,label\n" + "".join(f"0.{k:03},{k % 2}\n" for k in range(50)))
    done = invoke("boundary", path, "--precision", "0.4", "-o m.json")
    done.succeeded()
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
    text: str, decimal: str | None, expected: float | None, invoke: Invoke
) -> None:
    Path("x.csv").write_text(f"score;other;label\n{text};1\n{text};0\n")
    more = [] if decimal is None else ["--decimal", decimal]
    done = invoke("bin", "x.csv", "--scale raw -o g.parquet", *more)
    if expected is None:
        done.refused(3, "--decimal")
        return
    assert done.result()["mean_score"].drop_nulls().to_list() == [expected]


def test_names_without_regard_to_case(invoke: Invoke) -> None:
    rows = "".join(f"0.{k:03},{k % 2}\n" for k in range(50))
    path = Path("x.csv")
    path.write_text("Score, Label \n" + rows)
    line = ["boundary", path, "--precision", "0.4", "-o m.json"]
    done = invoke(*line)
    done.succeeded()
    assert done.stderr.count("Column 'Score' is read as 'score'.") == 1
    applied = invoke("apply", "m.json", path, "-o out.csv").result()
    assert applied.columns[:2] == ["Score", " Label "]
    done = invoke("evaluate", path, "--score", "Score", "--boundary m.json")
    done.succeeded()
    assert "Column 'score'" not in done.stderr
    invoke(*line, "--score", "Score", "--groups", "score").succeeded()
    path.write_text("Score,SCORE,label\n0.1,0.2,1\n")
    invoke(*line).refused(2, "'Score' and 'SCORE'")
    path.write_text("score,is_fraud,n\n0.1,1,5\n0.2,0,6\n")  # offered, never guessed
    invoke(*line).refused(2, "columns of 0 and 1: 'is_fraud' (use --label is_fraud)")


def test_segments_with_decimal_commas_are_called_as_with_points(invoke: Invoke) -> None:
    rows = "".join(f"0.{k:03};{k % 2};{k % 3}.5\n" for k in range(1, 400))
    found = []
    for text in (rows, rows.replace(".", ",")):
        Path("x.csv").write_text("score;label;part\n" + text)
        line = ("calibrate", "x.csv", "--method platt --by part -o m.json")
        found.append(invoke(*line).result()["groups"])
    assert found[0] == found[1]
    assert set(found[0]) == {"0.5", "1.5", "2.5"}


def test_missing_values_are_text_where_text_counts(invoke: Invoke) -> None:
    rows = "".join(f"0.{k:03},{['1', '0', 'NA'][k % 3]},{['1', 'NA'][k % 2]}\n" for k in range(60))
    path = Path("x.csv")
    path.write_text("score,label,part\n" + rows)
    invoke("bin", path, "-o g.csv").refused(3, "no label in 20 rows")
    done = invoke("evaluate", path, "--positive 1 --by part --json")
    assert done.result()["rows"] == 60
    assert b'NA"' in done.stdout
    invoke("boundary", path, "--positive 1 --precision 0.2 -o m.json").succeeded()
    applied = invoke("apply", "m.json", path, "-o out.csv").result()
    assert "NA" in applied["part"].to_list()


#: Scores whose decimal mark is open, beside those that tell it, and what settles them.
OPEN, POINTS, COMMAS = "1.234;1\n2.345;0\n", "0.5;1\n0.25;0\n", "0,93;1\n0,21;0\n"


def shards_of(folder: Path, *texts: str) -> list[str]:
    folder.mkdir(exist_ok=True)
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
            invoke(line[0], path, *line[1:], *more, "--partial", "-o", states[-1]).succeeded()
        return invoke("merge", *states, "-o", tmp_path / "whole.state")

    for texts in ([OPEN, COMMAS], [COMMAS, OPEN], [POINTS, OPEN, COMMAS]):
        merged(*texts).refused(3, "--decimal")
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
    paths, grid, out = shards_of(tmp_path, *texts), tmp_path / "grid.parquet", tmp_path / "out"
    given = "--scale raw --recall 0.5 --method st -o"
    model = make(tmp_path / "model.json", "boundary", *shards_of(tmp_path / "own", POINTS), given)
    found = []
    for more in ([], ["--dask", address]):
        binned = invoke("bin", *paths, "--scale raw --score-bins 2", *more, "-o", grid)
        applied = invoke("apply", model, *paths, *more, "-o", f"{out}/")
        if means is None:
            binned.refused(3, "--decimal")
            applied.refused(3, "--decimal")
            continue
        sums = binned.result().select(pl.col("mean_score") * pl.col("count")).sum().item()
        assert sums == pytest.approx(sum(means))
        applied.succeeded()
        said = [re.findall("(?m)^Read .*", one.stderr) for one in (binned, applied)]
        assert said[0] == said[1] and len(said[0]) == 1
        assert ",01," in (out / "0.csv").read_text()
        files = [grid, *sorted(out.iterdir())]
        found.append([said, *(path.read_bytes() for path in files)])
    assert found[:1] == found[1:]


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
        invoke(*named[:place], path, *named[place:], "--null-values", absent, *more).succeeded()
        states.append(state)
    merged = invoke("merge", *states, "-o", tmp_path / "merged.json")
    merged.refused(3, "-999 in some, NA in others", "--null-values")
    if line[0] == "watch":  # nor does a night join those of a state
        invoke(*named[:2], path, *named[2:], "--state", states[0]).refused(3, "--null-values")


def test_models_say_what_is_unusual_however_they_are_made(tmp_path: Path, invoke: Invoke) -> None:
    def text(*line: object) -> Any:
        return invoke(*line, "-o", tmp_path / "model.json").result()["provenance"].get("text")

    fit = ["calibrate", "--method", "none"]
    assert text(*fit, *shards_of(tmp_path, POINTS, POINTS.replace("5", "4"))) is None
    paths = shards_of(tmp_path, POINTS, COMMAS)
    for path in paths:
        assert invoke(*fit, path, "--partial", "-o", f"{path}.state").code == 0
    expected = {"marks": [",", "."]}
    assert text(*fit, *paths) == text("merge", *(f"{path}.state" for path in paths)) == expected
    assert text(*fit, paths[1], "--null-values", "NA")["null_values"] == ["NA"]
    assert text(*fit, paths[0], "--null-values", "NA") == {"null_values": ["NA"]}


@pytest.mark.parametrize(
    "line",
    ["calibrate --method platt", "bin", "evaluate", "vad --members score,p --partial"],
)
def test_a_folder_says_which_files_it_got(line: str, tmp_path: Path, invoke: Invoke) -> None:
    (path,) = shards_of(tmp_path, POINTS * 20)
    done = invoke(*line.split(), path, "-o", f"{tmp_path}/out/")
    (written,) = (tmp_path / "out").iterdir()
    done.succeeded(f" written to {written}.\n")


def test_a_european_grid_is_read(invoke: Invoke) -> None:
    rows, grid = Path("x.csv"), Path("grid.csv")
    rows.write_text("score;label\n" + "".join(f"0.{k:03};{k % 2}\n" for k in range(60)))
    invoke("bin", rows, "--score-bins 5 -o", grid).succeeded()
    line = ["evaluate", rows, "--grid", grid, "--json --no-intervals"]
    found = invoke(*line).result()["metrics"]
    grid.write_text(grid.read_text().replace(",", ";").replace(".", ","))
    assert invoke(*line).result()["metrics"] == found


@pytest.mark.parametrize(("delimiter", "decimal"), [(",", "."), (";", ",")])
def test_names_with_quotation_marks_are_kept(delimiter: str, decimal: str, invoke: Invoke) -> None:
    rows = [(0.5, 1, 'a "b"'), (0.4, 0, "c"), (0.7, 1, "d"), (0.2, 0, "e")]
    frame = pl.DataFrame(rows, schema=['the "score"', "label", '"'], orient="row")
    path, out = Path("x.csv"), Path("out.csv")
    put(frame, path, delimiter, decimal, "", "utf-8")
    line = ["--score", 'the "score"', "--precision 0.5 --method st --folds 0"]
    invoke("boundary", path, *line, "-o b.json").succeeded()
    invoke("apply", "b.json", path, "-o", out).succeeded()
    with out.open(newline="", encoding="utf-8") as file:
        header, first, *_ = csv.reader(file)
    assert header == ['the "score"', "label", '"', "decision", "margin"]
    assert first[:4] == ["0.5", "1", 'a "b"', "1"]


def test_numbers_that_are_named_as_missing_are_missing(invoke: Invoke) -> None:
    path = Path("rows.csv")
    path.write_text("score,label,w\n0.5,1,1\n-999,0,2\n0.25,0,-999\n0.7,1,1\n0.1,0,2.5\n")
    line = ("calibrate", path, "--method platt --weight w --null-values=-999 --on-missing drop")
    assert invoke(*line).result()["fit"]["rows"] == 4.5
